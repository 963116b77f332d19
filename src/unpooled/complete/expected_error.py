"""How wrong filled cells of a column are expected to be, by known cells that were hidden, with an interval.

>>> from unpooled.data.coding import Column
>>> dose = Column(name="dose", kind="number", low=0, high=9, whole=False, spread=1)
>>> truth = np.arange(50.0)
>>> r2, mae = expected_errors(dose, truth, truth + 1, np.random.default_rng(1))
>>> mae.value, mae.low, mae.high, mae.cells
(1.0, 1.0, 1.0, 50)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unpooled.arrays import Floats
from unpooled.data.coding import Column

_AGAIN = 200
_COVERED = 0.9


@dataclass(frozen=True)
class ExpectedError:
    """R² and mean absolute error of numbers and dates (in days), or the accuracy of classes.

    In nine of ten samples of as many `cells` the figure would lie between `low` and `high`.
    """

    measure: Literal["r2", "mae", "accuracy"]
    value: float
    low: float
    high: float
    cells: int


def expected_errors(column: Column, truth: Floats, filled: Floats, rng: np.random.Generator) -> list[ExpectedError]:
    """The figures of one column; none without any cell."""
    if not len(truth):
        return []
    if not column.is_number:
        return [_with_interval("accuracy", lambda a, b: float((a == b).mean()), truth, filled, rng)]
    return [
        _with_interval("r2", _explained, truth, filled, rng),
        _with_interval("mae", lambda a, b: float(np.abs(a - b).mean()), truth, filled, rng),
    ]


def _explained(truth: Floats, filled: Floats) -> float:
    """The fraction of the variance that is explained; 0 where there is none."""
    variance = float(truth.var())
    return 1 - float(((truth - filled) ** 2).mean()) / variance if variance else 0.0


def _with_interval(
    measure: Literal["r2", "mae", "accuracy"],
    figure: Callable[[Floats, Floats], float],
    truth: Floats,
    filled: Floats,
    rng: np.random.Generator,
) -> ExpectedError:
    """A figure and its interval by the bootstrap (Efron, 1979)."""
    count, found = len(truth), []
    for _ in range(_AGAIN):
        drawn = rng.integers(count, size=count)
        found.append(figure(truth[drawn], filled[drawn]))
    low, high = np.quantile(found, [(1 - _COVERED) / 2, (1 + _COVERED) / 2])
    return ExpectedError(measure, figure(truth, filled), float(low), float(high), count)
