"""What parties could infer about each other from what passed between them."""
