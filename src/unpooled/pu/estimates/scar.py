"""Whether known positives look like a random sample of all positives, as every method here takes for granted.

Data alone cannot prove it, nor refute it: whatever the known rows have in common may be what makes a row positive.
One thing can be looked at, from held-out scores of known and unlabelled rows: among the rows with the highest scores,
where nearly all should be positive, a known one should score no higher than others (`unlike_the_top`). If they do,
known rows are of a special kind; or the top is not that pure, because the columns do not tell the classes apart. Which
of the two, it cannot say. Whoever knows from elsewhere that so many at least are positive can compare with
`prior.most`.

That does not see a bias towards rows for which scores are the same, say towards positives in one town if the town is
in nobody's columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt

import numpy as np

from unpooled.arrays import Floats
from unpooled.errors import InputError

_FEWEST = 20


@dataclass(frozen=True)
class Unlike:
    """How often a known row of the top scores higher than another one there, and the chance of that by luck."""

    auc: float
    p_value: float
    known: int
    unlabelled: int

    @property
    def warning(self) -> str | None:
        """A sentence if it is both too clear for luck and large enough to matter."""
        if self.p_value >= 0.01 or self.auc < 0.6:
            return None
        return (
            f"known positives score higher than the {self.unlabelled} rows that are most like them "
            f"(in {self.auc:.0%} of pairs): they may not be a random sample of all positives, or the columns do not "
            f"tell positives apart; either way, doubt estimates of how many there are and of how good a list is"
        )


def unlike_the_top(known: Floats, unlabelled: Floats, top: int) -> Unlike | None:
    """Known rows against the `top` highest unlabelled ones, both from the same score on; none if there are too few."""
    if not 0 < top <= len(unlabelled):
        raise InputError("scar: the top must have one row at least, and no more than are unlabelled")
    least = np.sort(unlabelled)[len(unlabelled) - top]
    ours, theirs = known[known >= least], unlabelled[unlabelled >= least]
    if min(len(ours), len(theirs)) < _FEWEST:
        return None
    together = np.concatenate([ours, theirs])
    _, places, counts = np.unique(together, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[places]
    pairs, total = float(len(ours)) * len(theirs), len(together)
    auc = (float(ranks[: len(ours)].sum()) - len(ours) * (len(ours) + 1) / 2.0) / pairs
    ties = float(np.sum(counts.astype(float) ** 3 - counts)) / (total * (total - 1.0))
    spread = sqrt(max((total + 1.0 - ties) / 12.0 / pairs, 0.0))
    p_value = 0.5 * erfc((auc - 0.5) / spread / sqrt(2.0)) if spread else 1.0
    return Unlike(auc, p_value, len(ours), len(theirs))
