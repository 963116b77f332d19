"""The kind of job `information`."""
