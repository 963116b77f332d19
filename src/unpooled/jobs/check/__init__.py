"""The kind of job `check`."""
