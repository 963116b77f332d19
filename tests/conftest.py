"""What all tests have in common."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Several tests run side by side, and OpenMP's threads burn time waiting for each other when there are fewer cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Books of tables, also those of processes that tests start, are never in the user's own folders.
_STATE = tempfile.TemporaryDirectory(prefix="unpooled-tests-")
os.environ["UNPOOLED_BOOKS"] = str(Path(_STATE.name) / "books")
os.environ["UNPOOLED_ANCHORS"] = str(Path(_STATE.name) / "anchors")

# What JAX has compiled serves all processes of a session: compiling takes most of the time of tests with networks.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(Path(_STATE.name) / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# A busy machine must not fail a test: examples have no time limit.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files whose tests wait for processes and time limits, so that no worker ends alone with them."""
    waiting = ("tests/run/", "tests/transport/", "tests/cli/")
    items.sort(key=lambda item: not item.nodeid.startswith(waiting))
