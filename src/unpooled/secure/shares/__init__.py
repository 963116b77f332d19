"""The engine `shares`: products from masks that a coordinator deals."""
