"""Weight of evidence and information value from counts, in whole numbers that are the same everywhere.

Of a column with bins i, of which pos_i positives and neg_i negatives among P and N in all:

    WoE_i = ln((pos_i + ½) / P) - ln((neg_i + ½) / N)        IV = Σ (pos_i / P - neg_i / N) · WoE_i

The half keeps bins without positives or negatives finite. Since the fractions of both classes add up to 1, what is the
same in every WoE_i, ln N - ln P, does not change the IV. So the IV is a sum of products of whole numbers: logarithms of
odd numbers 2c + 1, and one weight for each class.

>>> column = np.array([0, 0, 0, 0, 1, 1, 1, 1]), np.array([1, 1, 1, 0, 0, 0, 0, 1])
>>> iv = information_value(*counts_of(*column, 2))
>>> round(as_fraction(iv), 4), verdict(as_fraction(iv))
(0.8473, 'suspicious')
>>> weights_of_evidence(*counts_of(*column, 2), decimals=2).tolist()
[85, -85]
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints, Ring
from unpooled.errors import InputError
from unpooled.vertical.numbers import log

MOST_ROWS = 2**24 - 1
"""With so many rows no sum passes 2^63: fractions add up to 2 in absolute value, and no logarithm is beyond 17.4."""
LOG_BITS, WEIGHT_BITS = 19, 38
SHOWN_BITS = 14
CUT_BITS = LOG_BITS + WEIGHT_BITS - SHOWN_BITS
"""An information value is shown in steps of 2^-14, to the nearest. With all its bits, a column of two bins could have
its counts guessed."""
_LEAST = ((0.5, "suspicious"), (0.3, "strong"), (0.1, "medium"), (0.02, "weak"))


def log_table(bits: int) -> Ring:
    """2^19 · ln(2c + 1) for every count c below 2^bits."""
    return _fixed_logs(np.arange(2**bits)).view(np.uint64)


def counted_logs(table: Ring) -> Ring:
    """Each count times its logarithm."""
    return np.arange(len(table), dtype=np.uint64) * table


def coarse_table(bits: int, decimals: int) -> Ring:
    """ln(2c + 1) in so many decimals."""
    return _coarse_logs(np.arange(2**bits), decimals).view(np.uint64)


def class_weights(positives: int, negatives: int) -> tuple[int, int]:
    """2^38 / P and 2^38 / N: what a positive and a negative add to the difference of fractions."""
    if not 0 < positives + negatives <= MOST_ROWS or min(positives, negatives) < 1:
        raise InputError(f"information values need rows of both classes, and at most {MOST_ROWS:,} in all")
    return _nearest(2**WEIGHT_BITS, positives), _nearest(2**WEIGHT_BITS, negatives)


def rounding_of(positives: int, negatives: int) -> int:
    """What is to be added to a sum because the weights of the classes are rounded, so that fractions do not add up to
    1: by that much, ln N - ln P does matter.
    """
    per_positive, per_negative = class_weights(positives, negatives)
    both = log(np.array([negatives, positives], np.float64))
    same = round(float(both[0] - both[1]) * 2.0**LOG_BITS)
    return same * (per_positive * positives - per_negative * negatives)


def class_logs(positives: int, negatives: int, decimals: int) -> int:
    """ln N - ln P in so many decimals: what is the same in the WoE of every bin."""
    both = log(np.array([negatives, positives], np.float64))
    return round(float(both[0] - both[1]) * 10.0**decimals)


def by_chance(bins: int, positives: int, negatives: int) -> float:
    """About the information value that a column in so many bins has if it says nothing."""
    return (bins - 1) * (1 / positives + 1 / negatives)


def counts_of(bins: NDArray[np.integer], labels: Ints, size: int) -> tuple[Ints, Ints]:
    """How many positives and negatives are in each bin."""
    every, positive = np.bincount(bins, minlength=size), np.bincount(bins[labels == 1], minlength=size)
    return positive.astype(np.int64), (every - positive).astype(np.int64)


def information_value(positive: Ints, negative: Ints) -> int:
    """In steps of 2^-14, from the counts of each bin."""
    classes = int(positive.sum()), int(negative.sum())
    per_positive, per_negative = class_weights(*classes)
    logs = _fixed_logs(positive) - _fixed_logs(negative)
    total = int(((per_positive * positive - per_negative * negative) * logs).sum()) + rounding_of(*classes)
    return (total + (1 << CUT_BITS - 1)) >> CUT_BITS


def weights_of_evidence(positive: Ints, negative: Ints, decimals: int) -> Ints:
    """The WoE of each bin in units of its last decimal: right to one and a half of these."""
    same = class_logs(int(positive.sum()), int(negative.sum()), decimals)
    return _coarse_logs(positive, decimals) - _coarse_logs(negative, decimals) + same


def as_fraction(value: int) -> float:
    """An information value as it is usually written."""
    return value / (1 << SHOWN_BITS)


def verdict(value: float) -> str:
    """A word for an information value, as scorecard builders use it (Siddiqi, Credit Risk Scorecards, 2006)."""
    return next((word for least, word in _LEAST if value >= least), "none")


def _nearest(number: int, divisor: int) -> int:
    return (2 * number + divisor) // (2 * divisor)


def _fixed_logs(counts: Ints) -> Ints:
    return _logs(counts, 2.0**LOG_BITS)


def _coarse_logs(counts: Ints, decimals: int) -> Ints:
    return _logs(counts, 10.0**decimals)


def _logs(counts: Ints, scale: float) -> Ints:
    odd = 2.0 * counts.astype(np.float64) + 1.0
    return np.rint(log(odd) * scale).astype(np.int64)
