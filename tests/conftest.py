"""What all tests have in common."""

import os

from hypothesis import HealthCheck, settings

# Several tests run side by side, and OpenMP's threads burn time waiting for each other when there are fewer cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# A busy machine must not fail a test: examples have no time limit.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
