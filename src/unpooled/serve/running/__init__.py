"""Runs of jobs: their processes, and the thread that starts, resumes and ends them."""
