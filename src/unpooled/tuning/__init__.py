"""Settings of a learner chosen by trying: cross-validated search over candidates."""
