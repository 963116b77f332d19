"""What is to be learned: a class or a number for each row, and how much each row counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.vertical.numbers import exact_sum, mean_of

ROW_WEIGHTS = "row_weights"
SEEDS = 2**63
"""Seeds of draws are whole numbers below this."""


@dataclass(frozen=True, eq=False)
class Target:
    """For each row its class, as a number from 0, or its value; rows of weight zero take no part.

    `seed` is for draws of rows and columns. `row_weights` are how much each row counts in every model of a job: what a
    row counts in this one is the product of both.
    """

    values: Floats
    weights: Floats | None = None
    seed: int = 0
    row_weights: Floats | None = None


def inputs_of(targets: Sequence[Target]) -> dict[str, NDArray[Any]]:
    """All that is secret in targets of the same rows, models × rows; row weights, if there are any, are one for all."""
    weights = [np.ones(len(one.values)) if one.weights is None else one.weights for one in targets]
    row_weights = targets[0].row_weights
    return {
        "values": np.stack([one.values for one in targets]).astype(np.float64),
        "weights": np.stack(weights).astype(np.float64),
        "seeds": np.array([one.seed for one in targets], np.uint64),
        **({} if row_weights is None else {ROW_WEIGHTS: row_weights.astype(np.float64)}),
    }


def targets_from(inputs: Mapping[str, NDArray[Any]]) -> list[Target]:
    """The targets that `inputs_of` was given; InputError if it was given none."""
    try:
        values, weights, seeds = (inputs[name] for name in ("values", "weights", "seeds"))
        fits = values.shape == weights.shape == (*seeds.shape, values.shape[1]) and len(seeds) > 0
        kinds = values.dtype.kind + weights.dtype.kind + seeds.dtype.kind
    except (KeyError, IndexError):
        raise InputError("targets: labels, weights or seeds are missing") from None
    of_rows = inputs.get(ROW_WEIGHTS)
    if of_rows is not None:
        fits, kinds = fits and of_rows.shape == values.shape[1:], kinds + of_rows.dtype.kind
    if not fits or kinds not in ("ffu", "ffuf"):
        raise InputError("targets: labels, weights and seeds do not fit together")
    return [Target(*each, of_rows) for each in zip(values, weights, seeds.tolist(), strict=True)]


def checked_weights(target: Target, rows: int, classes: int, *, balanced: bool) -> Floats:
    """A target's weights, if it is one for so many rows and classes (0: numbers)."""
    values = target.values
    if values.shape != (rows,):
        raise InputError(f"target: {len(values)} values for {rows} rows")
    weights = np.ones(rows) if target.weights is None else np.asarray(target.weights, float)
    if target.row_weights is not None:
        if target.row_weights.shape != (rows,) or (target.row_weights < 0).any():
            raise InputError("weights: one for each row is needed, none negative and none missing")
        weights = weights * target.row_weights
    if weights.shape != (rows,) or not np.isfinite(weights).all() or (weights < 0).any():
        raise InputError("weights: one for each row is needed, none negative and none missing")
    taking_part = weights > 0
    if not taking_part.any():
        raise InputError("weights: every row has weight zero")
    if not np.isfinite(values[taking_part]).all():
        raise InputError("target: a value is missing or infinite")
    if classes == 0:
        return weights
    if classes == 1 or ((values != np.rint(values)) | (values < 0) | (values >= classes))[taking_part].any():
        raise InputError(f"target: classes are numbered from 0 to {classes - 1}, and there are two at least")
    absent = [number for number in range(classes) if not (taking_part & (values == number)).any()]
    if absent:
        raise InputError(
            f"target: {len(absent)} of {classes} classes have no row that takes part; nothing can be learned about them"
        )
    if not balanced:
        return weights
    total = exact_sum(weights)
    for number in range(classes):
        inside = values == number
        weights = np.where(inside, weights * (total / (classes * exact_sum(weights[inside]))), weights)
    return weights


def class_fractions(values: Floats, weights: Floats, classes: int) -> list[float]:
    """The fraction of each class by weight."""
    return [mean_of((values == number).astype(float), weights) for number in range(classes)]


def set_aside(weights: Floats, fraction: float, rng: np.random.Generator) -> Bools:
    """A random fraction of the rows that take part, one at least, and one is left at least."""
    rows = np.flatnonzero(weights > 0)
    count = min(max(round(fraction * len(rows)), 1), len(rows) - 1)
    if count < 1:
        raise InputError("patience: a single row cannot be set aside for validation")
    aside = np.zeros(len(weights), bool)
    aside[rng.choice(rows, count, replace=False)] = True
    return aside


def one_hot(values: Floats, classes: int) -> Floats:
    columns: Floats = (values[:, np.newaxis] == np.arange(classes)).astype(float)
    return columns


def counted(draws: Ints, rows: int) -> Floats:
    return np.bincount(draws, minlength=rows).astype(float)
