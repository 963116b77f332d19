"""Neural networks on table rows: rows as units, layers, and the loop that trains them; needs JAX where it computes."""
