"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test: examples and their drawing have no time limit.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
