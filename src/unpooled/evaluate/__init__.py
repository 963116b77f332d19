"""How good a result is."""
