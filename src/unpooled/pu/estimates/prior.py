"""How many of the unlabelled rows are positive, estimated without knowing any negative.

Both estimators start from scores by models that had not seen the row (`elkan_noto.held_out`, or known rows that were
hidden as spies), of known rows and of unlabelled ones. Both take it that known positives are a random sample of all
positives. If they are not, or if no score is reached by positives alone, the fraction comes out too large or too small,
and nothing in the data tells.

>>> rng = np.random.default_rng(1)
>>> known, unlabelled = rng.normal(3, 1, 500), np.append(rng.normal(3, 1, 600), rng.normal(0, 1, 2400))
>>> abs(best_bin(known, unlabelled) - 0.2) < 0.04
True
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.pu.estimates.elkan_noto import HeldOut

_WIDER = 0.01  # than the bound needs to be, as its authors have it


def elkan_noto(found: HeldOut) -> float:
    """The fraction by Elkan and Noto (2008): if a fraction c of all positives is known, so many more are there.

    Too large where classes overlap. It needs probabilities, from models that were not balanced.
    """
    known, unlabelled = len(found.of_known), len(found.of_unlabelled)
    return min((known / found.c - known) / unlabelled, 1.0)


def best_bin(known: Floats, unlabelled: Floats, chance_of_error: float = 0.1) -> float:
    """The fraction by best bin estimation (Garg, Wu, Smola, Balakrishnan and Lipton, NeurIPS 2021).

    If a fraction a of the unlabelled rows is positive, at least a times the fraction of known rows with a score of s or
    more must have such a score among the unlabelled. So a is at most the ratio of the two shares, for every s. The s is
    taken where an upper bound of the ratio is least, and the ratio there is the estimate. `chance_of_error` is that of
    the bound.
    """
    of_known, of_unlabelled = _shares_from(known, unlabelled)
    margin = np.sqrt(np.log(4.0 / chance_of_error) / 2.0) * (len(known) ** -0.5 + len(unlabelled) ** -0.5)
    reached = of_known > 0
    bounds = of_unlabelled[reached] / of_known[reached] + (1.0 + _WIDER) * margin / of_known[reached]
    best = int(np.argmin(bounds))
    return float(min(of_unlabelled[reached][best] / of_known[reached][best], 1.0))


def most(known: Floats, unlabelled: Floats, chance_of_error: float = 0.05) -> float:
    """An upper bound of the fraction, wrong with at most that chance if known rows are a random sample of the
    positives.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart for both samples, so it holds for all scores at once.
    """
    of_known, of_unlabelled = _shares_from(known, unlabelled)
    width = np.sqrt(np.log(2.0 / chance_of_error) / 2.0)  # one side of each sample, half the chance for either
    low = of_known - width / np.sqrt(len(known))
    high = of_unlabelled + width / np.sqrt(len(unlabelled))
    return float(min(np.min(high[low > 0] / low[low > 0], initial=1.0), 1.0))


def suggested(fraction: float, unlabelled: int) -> int:
    """How many look-alikes to ask for: as many as there are positives, one at least."""
    return min(max(round(fraction * unlabelled), 1), unlabelled)


def best_number(chances: Floats, fraction: float) -> int:
    """How many of the ranked rows to take for the greatest expected F, given each one's chance of being positive.

    F of the first k is 2 × (positives among them) / (k + all positives).
    """
    taken = np.arange(1, len(chances) + 1)
    return int(np.argmax(2.0 * np.cumsum(chances) / (taken + fraction * len(chances)))) + 1


def _shares_from(known: Floats, unlabelled: Floats) -> tuple[Floats, Floats]:
    """For each score that occurs the shares of known and of unlabelled rows that have at least that."""
    if not len(known) or not len(unlabelled):
        raise InputError("prior: scores of known and of unlabelled rows are needed")
    thresholds = np.unique(np.concatenate([known, unlabelled]))
    of_known = 1.0 - np.searchsorted(np.sort(known), thresholds) / len(known)
    of_unlabelled = 1.0 - np.searchsorted(np.sort(unlabelled), thresholds) / len(unlabelled)
    return of_known, of_unlabelled
