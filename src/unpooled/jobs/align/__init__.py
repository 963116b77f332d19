"""The kind of job `align`."""
