"""Scores as whole numbers, and residuals that follow from them by a rule that every party can apply to its own part.

A loss whose derivative is a straight line lets each party compute its part of the residual from its part of the score:
- numbers: z - y
- two classes, labels y of 0 and 1: the logistic loss by Taylor to the second order, ¼ z + ½ - y
- several classes, softmax to the second order: (z_k - mean of z) / K + 1 / K - y_k; one-versus-rest: as two classes,
  for each class by itself

The active party adds the constant part, which holds the labels. Everything is exact: columns in steps of 2^-12, weights
in steps of 2^-20, residuals in steps of 2^-16.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.targets import one_hot

COLUMNS = FixedPoint(fraction_bits=12, largest=8.0)
WEIGHTS = FixedPoint(fraction_bits=20, largest=64.0)
RESIDUALS = FixedPoint(fraction_bits=16, largest=64.0)
FURTHEST = 32.0
MOST_COLUMNS = 2**53 // (COLUMNS.bound * WEIGHTS.bound) - 1


class Diverged(InputError):
    """The steps overshoot, each further than the one before; the others are told, since that says nothing of data."""

    shareable = True

    def __init__(self, party: str, what: str) -> None:
        super().__init__(f"{party}: the descent diverges: {what}; use a lower learning rate")


def encoded_columns(matrix: Floats, names: tuple[str, ...], limit: float, party: str) -> Ints:
    """A party's columns as whole numbers; values beyond the limit count as the limit."""
    if matrix.ndim != 2 or matrix.shape[1] != len(names):
        raise InputError(f"{party}: a table of {len(names)} columns is needed, and this has the shape {matrix.shape}")
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{party}: a linear model takes {MOST_COLUMNS} columns of a party at most, not {len(names)}")
    if not np.isfinite(matrix).all():
        row, column = np.argwhere(~np.isfinite(matrix))[0].tolist()
        raise InputError(
            f"{party}: column '{names[column]}', row {row + 1}: missing or infinite; a linear model needs a number"
        )
    return COLUMNS.encode(np.clip(matrix, -limit, limit), "columns")


def scores(columns: Ints, weights: Floats, party: str) -> Floats:
    """Xw, in steps of 2^-32, exactly: no sum passes 2^53, so the order of adding does not matter."""
    try:
        steps = WEIGHTS.encode(weights, "weights")
    except InputError:
        raise Diverged(party, f"a weight has grown beyond {WEIGHTS.largest:g}") from None
    product: Floats = columns.astype(float) @ steps.astype(float)
    return np.ldexp(product, -(COLUMNS.fraction_bits + WEIGHTS.fraction_bits))


def partial_residuals(parameters: LinearParameters, part: Floats, constant: Floats | None, party: str) -> Ints:
    """What one party's part of the scores adds to the residuals, as whole numbers."""
    if not parameters.classes:
        values = part
    elif parameters.classes == 2 or parameters.several == "one-versus-rest":
        values = part / 4
    else:
        mean = part[:, :1].copy()
        for k in range(1, part.shape[1]):
            mean += part[:, k : k + 1]
        values = (part - mean / parameters.classes) / parameters.classes
    if constant is not None:
        values = values + constant
    try:
        return RESIDUALS.encode(values, "residuals")
    except InputError:
        raise Diverged(party, f"a residual has grown beyond {RESIDUALS.largest:g}") from None


def constants(parameters: LinearParameters, values: Floats) -> Floats:
    """The residuals' constant part, which holds the target: rows × outputs."""
    if not parameters.classes:
        if np.abs(values).max(initial=0.0) > FURTHEST:
            raise InputError(
                f"target: a value lies more than {FURTHEST:g} standard deviations from the mean; take its logarithm?"
            )
        return -values[:, np.newaxis]
    if parameters.classes == 2:
        return 0.5 - values[:, np.newaxis]
    share = 0.5 if parameters.several == "one-versus-rest" else 1 / parameters.classes
    return share - one_hot(values, parameters.classes)


def curvature(parameters: LinearParameters) -> float:
    """What the sum of a row's squared residuals is multiplied by to give its loss, apart from a constant."""
    if not parameters.classes:
        return 0.5
    return 2.0 if parameters.classes == 2 or parameters.several == "one-versus-rest" else parameters.classes / 2
