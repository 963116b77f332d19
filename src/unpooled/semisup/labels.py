"""What labels say: -1 is unlabelled, the others are 0 and 1, or 1 alone; two values of any kind if all rows have one.

>>> labels_of(np.array([1, -1, -1])).positives_only
True
>>> found = labels_of(np.array(["no", "yes", "no"]))
>>> found.known.tolist(), found.classes.tolist()
([0, 1, 0], ['no', 'yes'])
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Ints

UNLABELLED = -1

Feeding = Literal["prior", "negatives"]
"""How a method learns where no negative is known.

`prior`: unlabelled rows stand for both classes in the proportion of a class prior. `negatives`: a random fraction of
the unlabelled rows counts as negative.
"""


@dataclass(frozen=True, eq=False)
class Labels:
    """1 and 0 for rows of either of two classes, -1 for unlabelled ones; `positives_only` if none is 0."""

    known: Ints
    classes: NDArray[Any]
    positives_only: bool

    @property
    def unlabelled(self) -> Bools:
        """The rows without a label."""
        found: Bools = self.known == UNLABELLED
        return found


def labels_of(y: NDArray[Any]) -> Labels:
    """What y says; ValueError if that is not enough to learn from."""
    numeric = y.dtype.kind in "iuf"
    labelled = y != UNLABELLED if numeric else np.ones(len(y), np.bool_)
    classes = np.unique(y[labelled])
    if len(classes) == 1 and classes[0] == 1 and not labelled.all():
        return Labels(np.where(labelled, 1, UNLABELLED), np.array([0, 1]), True)
    if len(classes) < 2:
        raise ValueError(
            f"y has {len(classes)} class besides -1 for unlabelled rows; it must have two, or 1 for known positives "
            "and -1 for all others"
        )
    if len(classes) > 2:
        raise ValueError(
            f"y has {len(classes)} classes besides -1 for unlabelled rows; it may have two. Only binary classification "
            "is supported."
        )
    return Labels(np.where(labelled, (y == classes[1]).astype(np.int64), UNLABELLED), classes, False)
