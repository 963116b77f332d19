"""Rows divided into folds, each of which is left out of one model and judged by it; whoever draws keeps them to itself.

>>> classes = np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0])
>>> folded(classes, np.ones(6, bool), folds=2, names=("no", "yes"), rng=np.random.default_rng(1)).tolist()
[0, 1, 0, 1, 0, 1]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError

LEFT_OUT = -1


def folded(values: Floats, usable: Bools, folds: int, names: Sequence[str], rng: np.random.Generator) -> Ints:
    """For each usable row its fold, for others `LEFT_OUT`; each class is divided evenly, or numbers (no `names`)."""
    if reason := too_few(values, usable, folds, names):
        raise InputError(f"folds: {reason}")
    fold, given = np.full(len(values), LEFT_OUT), 0
    for rows in _by_class(values, usable, names):
        fold[rng.permutation(rows)] = (given + np.arange(len(rows))) % folds
        given += len(rows)
    return fold


def too_few(values: Floats, usable: Bools, folds: int, names: Sequence[str]) -> str:
    """Why the usable rows cannot be divided, a row of each class in every fold; empty if they can."""
    for name, rows in zip(names or ("",), _by_class(values, usable, names), strict=True):
        if len(rows) < folds:
            of = f" labelled {name!r}" if names else ""
            return f"{len(rows)} rows to learn from{of} are too few for {folds} folds"
    return ""


def _by_class(values: Floats, usable: Bools, names: Sequence[str]) -> list[Ints]:
    """The usable rows of each class, or of numbers all."""
    return [np.flatnonzero(usable & (values == number)) for number in range(len(names))] or [np.flatnonzero(usable)]
