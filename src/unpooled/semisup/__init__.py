"""Semi-supervised networks on table rows: some rows have a label, most have none; needs JAX where it computes."""
