"""What a party discloses about a table over all its runs: a book for each table, and limits."""
