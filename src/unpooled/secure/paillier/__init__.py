"""The engine `paillier`: products of encrypted numbers."""
