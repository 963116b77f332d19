"""Completing a table: predicting or generating the cells that a party lacks."""
