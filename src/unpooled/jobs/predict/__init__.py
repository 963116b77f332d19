"""The kind of job `predict`."""
