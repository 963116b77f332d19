"""Exchange of messages between services of different parties, over mutual TLS."""
