"""Logging a party's own side of a run where people compare runs: an MLflow tracking server or folder."""
