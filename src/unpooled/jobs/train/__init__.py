"""The kind of job `train`."""
