"""The one secure operation: products of matrices that different parties hold."""
