"""Examples of jobs: files for the made-up tables, and commented files with every setting."""
