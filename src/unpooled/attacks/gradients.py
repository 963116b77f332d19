"""Gradients of linear models: least squares finds the labels that explain what a party was shown.

A gradient is XᵀR / b, X the party's columns of a batch of b rows and R the residuals. What its own columns add to R the
party knows and takes off. What is left is, for each row, ½ less the label and a quarter of the others' scores: as if
that did not change, a batch gives as many linear equations as the party has columns. With enough of them the sign of
each row's unknown is its label. Where no gradients are shown, a party has its own weights at the end: its own columns
times these are its part of the model's scores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.attacks.record import Record
from unpooled.vertical.linear.descent import ShownGradient, order_of
from unpooled.vertical.linear.messages import BeginLinear, TakingPart

_STEPS, _ENOUGH = 200, 1e-9
_CURVATURE = 0.25
"""Of the logistic loss to second order; that of least squares is 1."""


@dataclass(frozen=True, eq=False)
class Equations:
    """What all gradients of one batch say: columns times the unknowns of these rows, on average over `steps`."""

    rows: Ints
    columns: Floats
    totals: Floats
    steps: int


def bags_shown(record: Record, rows: int) -> dict[str, Bools]:
    """By model the rows that take part in it, where that is shown."""
    shown = dict[str, Bools]()
    for begun, told in zip(record.of(BeginLinear), record.of(TakingPart), strict=False):
        for name, bits in zip(begun.names, told.rows, strict=True):
            shown[name.hex()] = np.unpackbits(bits, count=rows).view(bool)
    return shown


def by_gradients(
    columns: Floats, gradients: Iterable[ShownGradient], bags: Mapping[str, Bools], *, logistic: bool, output: int = 0
) -> Floats:
    """For each row the solution of least squares, the shortest one where there are too few equations."""
    return -_shortest(_equations(columns, gradients, bags, logistic=logistic, output=output), len(columns))


def by_weights(columns: Floats, weights: Floats) -> Floats:
    """The part of the scores that a party's own columns make up, by its own weights at the end."""
    found: Floats = columns @ weights
    return found


def _equations(
    columns: Floats, gradients: Iterable[ShownGradient], bags: Mapping[str, Bools], *, logistic: bool, output: int
) -> list[Equations]:
    """Gradients of the same rows together, since they are about the same unknowns."""
    curvature, every = _CURVATURE if logistic else 1.0, np.ones(len(columns), bool)
    batches, sums = dict[bytes, tuple[Ints, Floats]](), dict[bytes, tuple[Floats, int]]()
    orders = dict[int, Ints]()
    for step in gradients:
        taking_part = np.flatnonzero(bags.get(step.model, every))
        if len(taking_part) not in orders:
            orders[len(taking_part)] = order_of(len(taking_part))
        rows = taking_part[orders[len(taking_part)][step.batch]]
        key = rows.tobytes()
        if key not in batches:
            batches[key] = rows, columns[rows]
        own = batches[key][1]
        told = len(rows) * step.gradient[:, output] - own.T @ (own @ step.weights[:, output]) * curvature
        total, count = sums.get(key, (np.zeros(columns.shape[1]), 0))
        sums[key] = total + told, count + 1
    found = []
    for key, (rows, own) in batches.items():
        total, count = sums[key]
        found.append(Equations(rows, own, total / count, count))
    return [_without_intercept(each) for each in found]


def _without_intercept(each: Equations) -> Equations:
    """The active party's intercept moves all rows of a batch alike: take off the direction in which that shows."""
    shift = each.columns.sum(axis=0)
    if length := float(shift @ shift):
        off = np.eye(len(shift)) - np.outer(shift, shift) / length
        return Equations(each.rows, each.columns @ off, off @ each.totals, each.steps)
    return each


def _shortest(equations: Sequence[Equations], rows: int) -> Floats:
    """Conjugate gradients on the normal equations, begun at zero: they stay in the space of the equations."""

    def forward(unknown: Floats) -> list[Floats]:
        return [np.sqrt(each.steps) * (each.columns.T @ unknown[each.rows]) for each in equations]

    def back(values: Sequence[Floats]) -> Floats:
        total = np.zeros(rows)
        for each, value in zip(equations, values, strict=True):
            total[each.rows] += np.sqrt(each.steps) * (each.columns @ value)
        return total

    left = [np.sqrt(each.steps) * each.totals for each in equations]
    found, slope = np.zeros(rows), back(left)
    way, size = slope, float(slope @ slope)
    enough = _ENOUGH**2 * size
    for _ in range(_STEPS):
        if size <= enough:
            break
        moved = forward(way)
        length = size / sum(float(part @ part) for part in moved)
        found = found + length * way
        left = [part - length * move for part, move in zip(left, moved, strict=True)]
        slope = back(left)
        before, size = size, float(slope @ slope)
        way = slope + size / before * way
    return found
