"""Finding the samples that parties have in common, without showing any other: private set intersection."""
