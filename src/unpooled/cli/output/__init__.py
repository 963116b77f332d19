"""What commands show: progress, dry runs, forecasts, and what is said at the end."""
