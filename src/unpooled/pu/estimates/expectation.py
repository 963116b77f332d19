"""What to expect of a list by its length: how many on it are positive, with a band, and a length to begin with.

Nobody knows how many of the unlabelled rows are positive. Scores give a bound only (`prior.best_bin`), which is reached
if the highest scores are those of positives alone. Where classes overlap they are not, and nothing in the data tells
how far the truth is below the bound (Blanchard, Lee and Scott, JMLR 2010). So the band is a statement about the top:
at least `TOP_LOW` of the rows there are positive, at most all, probably about `TOP_USUAL`. These fractions were chosen
on public data sets (`make bench-advice`). The upper end allows for chance as well (`prior.most`), and to both ends is
added the uncertainty of counts, which is large for short lists and few known rows.

A list is taken to be as good as the held-out scores are, by which it is judged; rankings of several bags are as a rule
a little better. All of this takes known rows for a random sample of the positives (`pu.estimates.scar`).

>>> rng = np.random.default_rng(1)
>>> known, unlabelled = rng.normal(3, 1, 500), np.append(rng.normal(3, 1, 600), rng.normal(0, 1, 2400))
>>> found = expected_of(known, unlabelled, [100, 1000])
>>> bool(found.fewest < 600 < found.most), bool(found.low[1] < 0.6 < found.high[1])
(True, True)
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.pu.estimates import prior
from unpooled.pu.estimates.calibration import chances

TOP_LOW, TOP_USUAL = 0.45, 2 / 3
_SPREAD = 1.28
"""Of counts: nine in ten are below so many standard deviations more than is expected."""
_FEWEST = 20
"""Known rows that a list must reach to be judged by itself: of a shorter one no more is said than of that one."""
_STEPS, _SHORTEST = 16, 20


@dataclass(frozen=True, eq=False)
class Expected:
    """Among `rows` unlabelled rows about `positives` are positive, at least `fewest` and at most `most`.

    Of the first `lengths` rows the fraction `precision` is expected to be positive, between `low` and `high`.
    """

    rows: int
    fewest: int
    positives: int
    most: int
    lengths: Ints
    precision: Floats
    low: Floats
    high: Floats

    @property
    def suggested(self) -> int:
        """As many as there probably are: a longer list mostly adds others, a shorter one misses more than it spares."""
        return self.positives


def expected_of(known: Floats, unlabelled: Floats, lengths: Collection[int] = ()) -> Expected:
    """From held-out scores of known and of unlabelled rows; `lengths` are added to those that are always there."""
    rows, bound = len(unlabelled), prior.best_bin(known, unlabelled)
    fractions = TOP_LOW * bound, TOP_USUAL * bound, max(prior.most(known, unlabelled), bound)
    fewest, usual, most = (prior.suggested(fraction, rows) for fraction in fractions)
    at = lengths_of(rows, {*lengths, usual})
    rising = np.sort(unlabelled)
    reached = 1.0 - np.searchsorted(np.sort(known), rising[::-1]) / len(known)
    judged = np.minimum(np.maximum(at, np.searchsorted(reached, min(_FEWEST / len(known), 0.5)) + 1), rows)
    part = np.maximum(reached[judged - 1], 1.0 / len(known))
    length = rows - np.searchsorted(rising, rising[rows - judged])  # with all others of the same score
    spread = _SPREAD * np.sqrt((1.0 - part) / (part * len(known)))
    low, precision = (_means(known, unlabelled, fraction)[length - 1] for fraction in fractions[:2])
    high = np.minimum.accumulate(fractions[2] * part * rows / length)
    return Expected(
        rows=rows,
        fewest=fewest,
        positives=usual,
        most=most,
        lengths=at,
        precision=precision,
        low=low * np.maximum(1.0 - spread, 0.0),
        high=np.clip(high * (1.0 + spread), precision, 1.0),
    )


def _means(known: Floats, unlabelled: Floats, fraction: float) -> Floats:
    """The mean chance of being positive of the first rows, for each number of them, if this fraction of all rows is.

    Where more rows would have to be positive than there are, a chance stays 1, and the rest goes to the others.
    """
    ranked = np.sort(chances(known, unlabelled, fraction))[::-1]
    room, missing = 1.0 - ranked, fraction * len(ranked) - ranked.sum()
    if missing > 0:
        ranked = ranked + room * missing / room.sum()
    means: Floats = np.minimum(np.cumsum(ranked) / np.arange(1, len(ranked) + 1), 1.0)
    return means


def lengths_of(rows: int, more: Collection[int] = ()) -> Ints:
    """Lengths of lists among so many rows, each larger than the one before by the same factor, and some more.

    >>> lengths_of(40_000).tolist()
    [20, 33, 55, 91, 150, 250, 420, 690, 1200, 1900, 3200, 5300, 8700, 15000, 24000, 40000]
    """
    steps = np.geomspace(min(_SHORTEST, rows), rows, _STEPS)
    rounded = {round(step, 1 - int(np.log10(step))) for step in steps.tolist()} | {rows}
    return np.array(sorted({min(max(int(length), 1), rows) for length in (*rounded, *more)}), np.int64)
