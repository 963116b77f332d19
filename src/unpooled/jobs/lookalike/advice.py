"""What the active party tells the seeker to expect of its list, if it has agreed to."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import AfterValidator

from unpooled.errors import ProtocolError
from unpooled.pu.estimates.expectation import Expected
from unpooled.wire import message

ADVICE_BYTES = 800


@message(
    discloses="how many of the people whom the seeker does not know are expected to be positive, and what fraction of "
    "lists of several lengths, each with a lower and an upper end; and whether the seeker's people seem to be special",
    to="the seeker",
)
class Advice:
    """About `positives` of `rows` people are positive, at least `fewest` and at most `most`.

    Of the first `lengths` on the list the fraction `precision` is expected to be, between `low` and `high`. It is
    `doubtful` if the seeker's people do not look like a random sample of all positives.
    """

    rows: int
    fewest: int
    positives: int
    most: int
    doubtful: bool
    lengths: tuple[int, ...]
    precision: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def suggested(self) -> int:
        """A length to begin with: as many as there probably are positives."""
        return self.positives


def advice_of(expected: Expected, *, doubtful: bool) -> Advice:
    """What is expected, as it is sent and kept."""
    curves = (tuple(values.tolist()) for values in (expected.precision, expected.low, expected.high))
    counts = expected.rows, expected.fewest, expected.positives, expected.most
    return Advice(*counts, doubtful, tuple(expected.lengths.tolist()), *curves)


def _possible(said: Advice) -> Advice:
    """Counts and fractions that can be; ValueError if they cannot."""
    if not 1 <= said.fewest <= said.positives <= said.most <= said.rows:
        raise ValueError("counts of positives must rise, and not be more than there are people")
    curves = said.low, said.precision, said.high
    if not said.lengths or any(len(curve) != len(said.lengths) for curve in curves):
        raise ValueError("there must be a fraction for each length")
    if said.lengths[0] < 1 or said.lengths[-1] > said.rows or any(a >= b for a, b in pairwise(said.lengths)):
        raise ValueError("lengths must rise, and not be more than there are people")
    if not all(0 <= low <= middle <= high <= 1 for low, middle, high in zip(*curves, strict=True)):
        raise ValueError("fractions must lie between 0 and 1, each within its band")
    return said


KeptAdvice = Annotated[Advice, AfterValidator(_possible)]
"""Advice as `result.json` has it."""


def checked_advice(said: Advice, sender: str, most: int) -> Advice:
    """Advice as it arrived, about no more than `most` people; ProtocolError if it cannot be."""
    try:
        _possible(said)
    except ValueError as error:
        raise ProtocolError(f"invalid Advice from {sender}: {error}") from None
    if said.rows > most:
        raise ProtocolError(f"invalid Advice from {sender}: it is about more people than there can be")
    return said


@dataclass(frozen=True)
class AtLength:
    """What is expected of a list of one length."""

    length: int
    precision: float
    low: float
    high: float

    @property
    def hits(self) -> int:
        return round(self.precision * self.length)

    @property
    def fewest_hits(self) -> int:
        return round(self.low * self.length)

    @property
    def most_hits(self) -> int:
        return round(self.high * self.length)


def at_length(advice: Advice, length: int) -> AtLength:
    """What to expect of a list of any length; between two that are known by a straight line.

    >>> at_length(Advice(100, 5, 10, 20, False, (10, 30), (0.5, 0.3), (0.2, 0.1), (1.0, 0.5)), 20)
    AtLength(length=20, precision=0.4, low=0.15, high=0.75)
    """
    curves = (advice.precision, advice.low, advice.high)
    return AtLength(length, *(round(float(np.interp(length, advice.lengths, curve)), 6) for curve in curves))
