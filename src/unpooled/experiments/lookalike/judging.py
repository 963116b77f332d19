"""How good a search is: on the unlabelled rows themselves, which is what the seeker uses, and on other rows."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.evaluate import metrics
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import VfpuSettings

NUMS = tuple(range(100, 2_401, 100))
"""Lengths of lists."""

RECALLS = tuple(round(0.05 * step, 2) for step in range(1, 21))
"""Where the precision-recall curve is kept."""

METRICS = ("accuracy", "precision", "recall", "f1", "auc")
FIGURES = (
    *("rows", "known_rows", "positives", "listed"),
    *METRICS,
    *("test_rows", *(f"test_{metric}" for metric in METRICS)),
    *("cpu_seconds", "wall_seconds", "megabytes", "difference"),
    *(f"hits_{num}" for num in NUMS),
    *(f"precision_at_recall_{round(100 * recall)}" for recall in RECALLS),
)
"""What is measured of a search; `difference` is the largest one of a metric between federated and pooled."""

Measured = dict[str, float]


def judged(ranking: Ranking, positive: Bools) -> Measured:
    """The unlabelled rows: those on the list count as predicted positive, and the AUC is by their order.

    The list is as long as what was promoted, or would be by VFPU with its defaults; it is what the seeker receives.
    """
    order = ranking.order
    truth, listed = positive[order], len(ranking.promoted) or default_length(len(order))
    said = np.arange(len(order)) < listed
    hits: Ints = np.cumsum(truth, dtype=np.int64)
    found = {
        "rows": float(len(order)),
        "known_rows": float(ranking.known.sum()),
        "positives": float(hits[-1]),
        "listed": float(listed),
        "accuracy": metrics.accuracy(truth, said),
        "precision": metrics.precision(truth, said),
        "recall": metrics.recall(truth, said),
        "f1": metrics.f1(truth, said),
        "auc": metrics.auc(truth, -np.arange(len(order))),
    }
    found |= {f"hits_{num}": float(hits[num - 1]) for num in NUMS if num <= len(order)}
    return found | precisions_at_recalls(hits)


def precisions_at_recalls(hits: Ints) -> Measured:
    """The precision of the shortest list with each recall."""
    found = {}
    for recall in RECALLS:
        length = int(np.searchsorted(hits, np.ceil(recall * hits[-1] - 1e-9))) + 1
        found[f"precision_at_recall_{round(100 * recall)}"] = float(hits[length - 1] / length)
    return found


def judged_on_test(scores: Floats, positive: Bools) -> Measured:
    """Other rows, if any, scored by the models made last; a score of one half or more counts as predicted positive."""
    found = metrics.summary_of_classes(positive.astype(np.int64), scores) if len(positive) else {}
    named = {f"test_{metric}": found[metric] for metric in METRICS if metric in found}
    return {"test_rows": float(len(positive))} | named


def default_length(unlabelled: int) -> int:
    """How many of so many rows VFPU promotes with its defaults."""
    settings, left = VfpuSettings(), unlabelled
    for _ in range(settings.iterations):
        left -= max(round(settings.fraction * left), 1)
    return unlabelled - left


def largest_difference(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    """The largest absolute difference of a metric, on unlabelled and on test rows."""
    names = [*METRICS, *(f"test_{metric}" for metric in METRICS)]
    return max(abs(one[name] - other[name]) for name in names if name in one and name in other)
