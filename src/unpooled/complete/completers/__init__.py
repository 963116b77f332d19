"""Completers: filling a party's missing cells from its own table alone."""
