"""Experiments on public data: cells that are computed once and kept, and tables and figures from them."""
