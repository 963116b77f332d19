"""Ensembles: completers that combine what other completers fill."""
