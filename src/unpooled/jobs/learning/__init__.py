"""What jobs that learn or use models share."""
