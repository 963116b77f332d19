"""Adversarial imputers as completers: networks that learn to fill cells, not to draw whole rows."""
