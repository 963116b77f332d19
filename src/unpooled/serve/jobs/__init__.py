"""The life of a job: drafted, offered, approved by a person at each party, run, ended."""
