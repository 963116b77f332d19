"""The search for look-alikes on columns that different parties hold."""
