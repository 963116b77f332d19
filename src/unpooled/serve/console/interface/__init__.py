"""The JSON interface, for programs with a token."""
