"""Computing together on numbers that nobody shows."""
