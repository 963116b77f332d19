"""Simulations that tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from every_kind import outcome_of, run_kind

from unpooled import Outcome


@pytest.fixture(scope="session")
def outcomes() -> Callable[[str], Outcome]:
    """A simulation of a kind of job without a folder."""
    return outcome_of


@pytest.fixture
def run() -> Callable[[str, Path], Outcome]:
    """Run a kind of job again, in a folder."""
    return lambda kind, folder: run_kind(kind, outcome_of, folder)
