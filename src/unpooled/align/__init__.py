"""Private set intersection: the ids that parties have in common, without showing any others."""
