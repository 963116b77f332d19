"""The figures that the VFPU paper reports, which of them cannot be right, and how ours compare.

`paper_figures.csv` has them as facts: experiment, set, method, federated or pooled, metric, length of the list, value.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from itertools import product
from math import sqrt

from unpooled.data.datasets import published
from unpooled.experiments.tables import Summary

KNOWN, TRAIN = 0.1, 0.6
"""The fraction of positives that is known, and the fraction of rows that fits the sizes which the paper names."""

REPRODUCED = 0.02
"""How far apart figures are at most that count as the same, if twice the spread of ours is not more."""

_UNLIKELY = 5.0
"""Standard deviations from what chance gives, beyond which a figure cannot be chance."""

_CLOSE = 0.05
"""Counts that differ by no more than this fraction may be the same."""


@dataclass(frozen=True)
class Told:
    """One figure of the paper; `half` is half a unit of its last digit."""

    experiment: str
    set: str
    method: str
    mode: str
    metric: str
    num: int
    value: float
    half: float

    @property
    def range(self) -> tuple[float, float]:
        """What the figure may have been before it was rounded."""
        return self.value - self.half, self.value + self.half


@lru_cache(maxsize=1)
def all_told() -> tuple[Told, ...]:
    """All figures of the paper, in its order."""
    text = files("unpooled.experiments.lookalike").joinpath("paper_figures.csv").read_text(encoding="utf-8")
    found = []
    for line in csv.DictReader(text.splitlines()):
        digits = len(line["value"].partition(".")[2])
        told_of = Told(
            experiment=line["experiment"],
            set=line["set"],
            method=line["method"],
            mode=line["mode"],
            metric=line["metric"],
            num=int(line["num"] or 0),
            value=float(line["value"]),
            half=0.5 * 10.0**-digits,
        )
        found.append(told_of)
    return tuple(found)


def told(experiment: str) -> list[Told]:
    """The figures of one experiment."""
    return [one for one in all_told() if one.experiment == experiment]


def beside(one: Told, metric: str) -> Told | None:
    """The figure of another metric for the same search."""
    same = (one.experiment, one.set, one.method, one.mode, one.num)
    found = [each for each in all_told() if (each.experiment, each.set, each.method, each.mode, each.num) == same]
    return next((each for each in found if each.metric == metric), None)


def unlabelled_positives(name: str, train: float = 1.0) -> tuple[int, int]:
    """How many unlabelled rows a set has, and how many of them are positive."""
    facts = published(name)
    rows, positives = round(train * facts.rows), round(train * facts.positives)
    known = round(KNOWN * positives)
    return rows - known, positives - known


def impossible(one: Told) -> str:
    """Why a figure cannot be right, or "" if nothing speaks against it."""
    if one.experiment == "table-3-1" and one.metric in ("acc", "recall", "precision"):
        return _no_confusion_matrix(one)
    if one.method == "random" and one.metric == "precision":
        return _below_chance(one)
    if one.experiment == "growth" and one.metric in ("recall", "F"):
        return _other_positives(one)
    return ""


def accuracies(recall: Sequence[float], precision: Sequence[float], positive: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest accuracy with such recalls, precisions and fractions of positives.

    With a fraction p of positives, p (1 - recall) are missed and p recall (1 / precision - 1) are false alarms.
    """
    found = [1 - p * (1 - r + r * (1 / q - 1)) for r, q, p in product(recall, precision, positive)]
    return min(found), max(found)


def _no_confusion_matrix(one: Told) -> str:
    acc, recall, precision = (beside(one, metric) for metric in ("acc", "recall", "precision"))
    if not (acc and recall and precision):
        return ""
    rows, positives = unlabelled_positives(one.set)
    fractions = positives / rows, published(one.set).positives / published(one.set).rows
    low, high = accuracies(recall.range, precision.range, fractions)
    if acc.range[0] <= high and acc.range[1] >= low:
        return ""
    return (
        f"recall {recall.value:g} and precision {precision.value:g} make an accuracy of {low:.3f} to {high:.3f}, not "
        f"{acc.value:g}, if {100 * fractions[0]:.1f} to {100 * fractions[1]:.1f} % of the rows are positive"
    )


def _below_chance(one: Told) -> str:
    rows, positives = unlabelled_positives(one.set, TRAIN)
    rate = positives / rows
    spread = sqrt(rate * (1 - rate) / one.num * (1 - one.num / rows))
    if abs(one.value - rate) <= _UNLIKELY * spread:
        return ""
    return (
        f"random choice finds the fraction of positives, {rate:.3f}, give or take {spread:.3f}; this is "
        f"{abs(one.value - rate) / spread:.0f} times that away"
    )


def _other_positives(one: Told) -> str:
    precision, recall = beside(one, "precision"), beside(one, "recall")
    if not (precision and recall):
        return ""
    implied = [one.num * p / r for p, r in zip(precision.range, reversed(recall.range), strict=True)]
    there = [unlabelled_positives(one.set, train)[1] for train in (TRAIN, 1.0)]
    if any((1 - _CLOSE) * implied[0] <= count <= (1 + _CLOSE) * implied[1] for count in there):
        return ""
    return (
        f"with that precision, a recall of {recall.value:g} means {one.num * precision.value / recall.value:,.0f} "
        f"unlabelled positives; there are {there[0]:,} if {TRAIN:g} of the rows are trained on, {there[1]:,} if all are"
    )


def verdict(one: Told, ours: Summary | None) -> str:
    """What a figure of the paper comes to beside ours: a lower runtime is better, of all else a higher value."""
    if reason := impossible(one):
        return f"cannot be right: {reason}"
    if ours is None:
        return "not measured"
    tolerance = REPRODUCED * one.value if one.metric == "runtime_s" else max(REPRODUCED, 2 * (ours.spread or 0.0))
    if abs(ours.mean - one.value) <= tolerance:
        return "reproduced"
    return "better" if (ours.mean > one.value) != (one.metric == "runtime_s") else "worse"


def mean_gap() -> float:
    """By how much the paper's pooled figures of table 3-1 exceed its federated ones, on average."""
    pooled = {(one.set, one.method, one.metric): one.value for one in told("table-3-1") if one.mode == "pooled"}
    gaps = [pooled[one.set, one.method, one.metric] - one.value for one in told("table-3-1") if one.mode == "federated"]
    return sum(gaps) / len(gaps)
