"""What a service keeps: its database, the audit log in it, and archives of all of it."""
