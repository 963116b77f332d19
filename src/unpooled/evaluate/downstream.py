"""Whether completing a table helps what comes after it: a classifier for a label that is known for all of A's rows.

Party A has columns for all rows, party B only for the aligned ones. The classifier is trained in five ways and scored,
by AUC, on test rows of which all columns are known:

=================  ======================================================
`aligned`          the aligned rows only
`a_only`           all rows, A's columns only
`left_missing`     all rows, NaN for the cells that B lacks
`completed`        all rows, with B's cells as completed
`truth`            all rows, with B's true cells: the ceiling
=================  ======================================================

The fraction of the gap that is closed is (completed - aligned) / (truth - aligned).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats
from unpooled.errors import InputError
from unpooled.evaluate.metrics import auc


class Classifier(Protocol):
    """What is asked of a classifier, as scikit-learn's have it; the second of two classes is class 1."""

    def fit(self, X: Floats, y: NDArray[Any], /) -> Any: ...  # noqa: N803
    def predict_proba(self, X: Floats, /) -> NDArray[Any]: ...  # noqa: N803


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows with their labels, 0 or 1, and the columns of both parties, B's true ones."""

    labels: NDArray[Any]
    a: Floats
    b: Floats

    def __post_init__(self) -> None:
        if not len(self.labels) == len(self.a) == len(self.b):
            raise InputError("downstream: labels and columns of both parties must have the same rows")


@dataclass(frozen=True)
class Downstream:
    """The AUC of each way; `gap_closed` is None where the truth is no better than the aligned rows."""

    aligned: float
    a_only: float
    left_missing: float
    completed: float
    truth: float

    @property
    def gap_closed(self) -> float | None:
        """How much of the gap between the aligned rows and the truth the completed table closes; 1: all of it."""
        gap = self.truth - self.aligned
        return (self.completed - self.aligned) / gap if gap > 0 else None


def downstream(
    train: Rows, test: Rows, aligned: Bools, completed: Sequence[Floats], classifier: Callable[[], Classifier]
) -> Downstream:
    """Compare the five ways; `completed` has B's columns of all training rows, once for each draw.

    With several draws the mean of the probabilities is scored. `classifier` makes a new one each time; it must accept
    NaN, and needs a random seed of its own if results are to be repeated.
    """
    if any(draw.shape != train.b.shape for draw in completed) or not completed:
        raise InputError("downstream: each draw of the completed table must have the shape of B's columns")
    if aligned.shape != train.labels.shape:
        raise InputError("downstream: the mask of aligned rows must have one value for each row")

    def scored(train_a: Floats, train_b: Floats, labels: NDArray[Any], test_b: Floats) -> Floats:
        made = classifier()
        made.fit(np.hstack([train_a, train_b]), labels)
        return np.asarray(made.predict_proba(np.hstack([test.a, test_b])), float)[:, 1]

    nothing, nothing_of_test = train.b[:, :0], test.b[:, :0]
    missing = np.where(aligned[:, np.newaxis], train.b, np.nan)
    scores = {
        "aligned": scored(train.a[aligned], train.b[aligned], train.labels[aligned], test.b),
        "a_only": scored(train.a, nothing, train.labels, nothing_of_test),
        "left_missing": scored(train.a, missing, train.labels, test.b),
        "completed": np.mean([scored(train.a, draw, train.labels, test.b) for draw in completed], axis=0),
        "truth": scored(train.a, train.b, train.labels, test.b),
    }
    return Downstream(**{name: auc(test.labels, score) for name, score in scores.items()})
