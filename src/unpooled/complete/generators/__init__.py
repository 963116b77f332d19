"""Generators: models that learn a table's distribution, draw whole rows, and fill cells given the known ones."""
