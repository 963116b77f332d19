"""The experiments of the VFPU paper: look-alike searches on public data, pooled and federated."""
