"""Boosted trees and forests on columns that different parties hold."""
