"""What the tests of attacks share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from attacked import searching

from unpooled.attacks.simulation import View, views_of
from unpooled.attacks.stage import Stage


@pytest.fixture(scope="package")
def search() -> Callable[..., tuple[Stage, View]]:
    """By settings of the trees a search, and what the telco saw of it; each is run once."""
    done: dict[str, tuple[Stage, View]] = {}

    def searched(**model: Any) -> tuple[Stage, View]:
        if str(model) not in done:
            stage = searching(**model)
            done[str(model)] = stage, views_of(stage)["telco"]
        return done[str(model)]

    return searched
