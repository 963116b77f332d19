"""The kind of job `deliver`."""
