"""Messages between services, over mutual TLS."""
