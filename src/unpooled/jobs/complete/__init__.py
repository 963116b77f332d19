"""The kind of job `complete`."""
