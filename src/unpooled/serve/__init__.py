"""A party's long-lived service: plans offered and approved, runs that start and resume by themselves, a console."""
