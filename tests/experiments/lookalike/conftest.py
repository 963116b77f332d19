"""Small made-up rows in place of the public data sets, and searches that take a second."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
import pytest

from unpooled.data import datasets
from unpooled.experiments.lookalike import dealing, networks, presets, searches
from unpooled.pu.settings import BaggingSettings, VfpuSettings

ROWS, TEST_ROWS = 1_200, 200


def made_up(name: str, part: str = "train") -> datasets.Dataset:
    """Columns as the set has them, four of them with a meaning, and about four in ten rows positive."""
    rows = TEST_ROWS if part == "test" else ROWS
    rng = np.random.default_rng([ord(letter) for letter in name + part])
    columns = [column for held in datasets.SPLIT[name].values() for column in held]
    numbers = rng.normal(size=(rows, len(columns))).round(2)
    kinds = datasets.TYPES[name]
    cells = {
        column: rng.integers(1, 4, rows) if column in kinds else numbers[:, place]
        for place, column in enumerate(columns)
    }
    split = len(datasets.SPLIT[name]["b"])
    score = sum(numbers[:, place] for place in (5, 6, split + 1, split + 2)) + 0.5 * rng.normal(size=rows)
    ids = [f"{part}-{number:05}" for number in range(1, rows + 1)]
    return datasets.Dataset(name, pl.DataFrame({"id": ids, **cells}), np.asarray(score > 0.5))


@pytest.fixture(scope="module")
def small() -> Iterator[pytest.MonkeyPatch]:
    """Few rows, few and small models."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load", made_up)
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        for name, paper in presets.TREES.items():
            patch.setitem(presets.TREES, name, {**paper, "trees": 2, "depth": 2})
        for name, paper in presets.LINEAR.items():
            patch.setitem(presets.LINEAR, name, {**paper, "epochs": 3, "insecure_batch": True})
        patch.setattr(searches, "_VFPU", VfpuSettings(iterations=2, bags=3))
        patch.setitem(searches.OTHERS, "bagging", BaggingSettings(bags=4))
        for name, value in {"steps": 40, "settings": {"hidden": (16,)}, "prior": 0.4}.items():
            patch.setitem(networks.CHANGES, name, value)
        dealing.deal.cache_clear()
        yield patch
    dealing.deal.cache_clear()
