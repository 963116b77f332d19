"""The kind of job `lookalike`."""
