"""Learners for columns that different parties hold of the same rows."""
