"""The same methods on columns in one place."""
