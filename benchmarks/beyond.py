"""What can be estimated about look-alikes without the truth, and how accurate it is, on bank, credit and census.

A tenth of the positives is known: at random, or (`biased`) the more likely the higher their age or credit limit
(`data.datasets.known_positives`). A fifth of the known rows are spies. The base is
LightGBM (50 trees, depth 6), which is fast; our own trees are measured in `make bench-quality`. All figures are means
over three draws; the truth is used to evaluate, never to estimate. Rows stand in the VFPU paper's order. For each draw:

- the fraction of positives among the unlabelled rows: true, by Elkan and Noto, by best bin, and the upper bound;
- F of the list of the length that best bin suggests, of the best list by spies' probabilities, and of the best list;
- Brier score of VFPU's raw scores, of probabilities from spies, and of always predicting the fraction;
- precision of each promotion, true and estimated from spies, in ten iterations; when `StopWhenFalling` would have
  stopped, and the precision of all promotions up to there and to the end;
- precision, recall, F and AUC of the suggested list, corrected by the estimated fraction, beside the true ones;
- precision of the first rows, with a fifth of the known rows hidden as spies and without;
- whether known rows look unlike the top of the unlabelled ones.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Sequence
from typing import Any

import lightgbm
import numpy as np

from quality import FIRST, KNOWN_SHARE, known_of, prepared
from unpooled import workers
from unpooled.arrays import Bools, Floats, Ints
from unpooled.data import datasets
from unpooled.evaluate import metrics, pu
from unpooled.pu.bags import Bag
from unpooled.pu.estimates.elkan_noto import held_out
from unpooled.pu.estimates.prior import best_bin, best_number, elkan_noto, most, suggested
from unpooled.pu.estimates.scar import unlike_the_top
from unpooled.pu.estimates.spies import StopWhenFalling, hidden
from unpooled.pu.methods import rank
from unpooled.pu.ranking import Ranking, likeliest
from unpooled.pu.settings import VfpuSettings

SEEDS = (1, 2, 3)
SPIES = 0.2
PAPER = VfpuSettings(order="promotion")
TREES: dict[str, Any] = {
    "objective": "binary",
    "max_depth": 6,
    "num_leaves": 31,
    "learning_rate": 0.1,
    "max_bin": 32,
    "min_data_in_leaf": 10,
    "num_threads": 1,
    "verbose": -1,
}


class Trees:
    """LightGBM as a learner from bags."""

    def __init__(self, matrix: Floats) -> None:
        self._matrix = matrix

    def __call__(self, bags: Sequence[Bag]) -> list[Floats]:
        return [np.asarray(self._fitted(bag).predict(self._matrix)) for bag in bags]

    def _fitted(self, bag: Bag) -> lightgbm.Booster:
        rows = ~bag.outside
        settings = TREES | {"seed": bag.seed % 2**31}
        data = lightgbm.Dataset(self._matrix[rows], bag.labels[rows], weight=bag.weights[rows], params=settings)
        return lightgbm.train(settings, data, 50)


def biased_known(name: str, seed: int) -> Bools:
    data = datasets.load(name)
    known = np.zeros(len(data.label), bool)
    known[datasets.known_positives(data, KNOWN_SHARE, np.random.default_rng(seed), "biased")] = True
    return known


def measured(what: tuple[str, str, int]) -> dict[str, Any]:
    """One draw; everything random follows from the seed."""
    name, labels, seed = what
    matrix, positive = prepared(name)
    known = known_of(positive, seed) if labels == "random" else biased_known(name, seed)
    learn = Trees(matrix)
    found = held_out(known, learn, seed)
    share = best_bin(found.of_known, found.of_unlabelled)
    spies = hidden(known, SPIES, np.random.default_rng([seed, 1]))
    stop, so_far = StopWhenFalling(spies), list[bool]()
    ranking = rank(
        spies.known,
        PAPER.model_copy(update={"iterations": 10}),
        learn,
        seed,
        lambda ranking: so_far.append(stop(ranking)) or True,
    )
    judged = spies.ranked(ranking)
    chances, truth = judged.chances(share), positive[judged.order]
    number = suggested(share, int((~known).sum()))
    figures: dict[str, Any] = {
        "share": {
            "true": positive[~known].mean(),
            "elkan_noto": elkan_noto(found),
            "best_bin": share,
            "at_most": most(found.of_known, found.of_unlabelled),
        },
        "f1": {
            "suggested": f1_of(truth, number),
            "by_chances": f1_of(truth, best_number(chances, share)),
            "best": max(f1_of(truth, count) for count in range(50, len(truth), 50)),
        },
        "number": {"true": positive[~known].sum(), "suggested": number, "by_chances": best_number(chances, share)},
        "brier": {
            "scores": brier(truth, np.nan_to_num(ranking.scores[judged.order])),
            "chances": brier(truth, chances),
            "elkan_noto": brier(positive[~known], found.positive_if_unlabelled(found.of_unlabelled)),
            "share": brier(truth, np.full(len(truth), truth.mean())),
        },
        "first": {
            "with_spies": truth[: FIRST[name]].mean(),
            "without": positive[rank(known, PAPER, learn, seed).order[: FIRST[name]]].mean(),
        },
    }
    return (
        figures
        | promotions(ranking, positive, ~known, [min(share * lift, 1.0) for lift in stop.lifts], so_far)
        | corrected(found.scores, known, positive, share, number)
    )


def promotions(
    ranking: Ranking, positive: Bools, unlabelled: Bools, seen: Sequence[float], going: Sequence[bool]
) -> dict[str, Any]:
    each = [float(positive[unlabelled & (ranking.iterations == m + 1)].mean()) for m in range(len(seen))]
    stopped = going.index(False) + 1 if False in going else len(going)
    until = unlabelled & (ranking.iterations > 0) & (ranking.iterations <= stopped)
    return {
        "promotions": {
            "error": np.mean(np.abs(np.array(each) - seen)),
            "stopped_after": stopped,
            "precision_when_stopped": positive[until].mean(),
            "precision_at_the_end": positive[unlabelled & (ranking.iterations > 0)].mean(),
        },
        "promotions_true": {str(m + 1): value for m, value in enumerate(each)},
        "promotions_estimated": {str(m + 1): value for m, value in enumerate(seen)},
    }


def corrected(scores: Floats, known: Bools, positive: Bools, share: float, number: int) -> dict[str, Any]:
    """Metrics of the list of the highest held-out scores, with and without the truth; and the warning."""
    listed = likeliest(scores, np.flatnonzero(~known))[:number]
    said = scores >= scores[listed[-1]]
    truth, predicted = positive[~known].astype(int), said[~known].astype(int)
    without = pu.summary(said[known].astype(int), predicted, share)
    with_truth = {metric: getattr(metrics, metric)(truth, predicted) for metric in ("precision", "recall", "f1")}
    unlike = unlike_the_top(scores[known], scores[~known], max(number // 2, 1))
    return {
        "estimated": {metric: without[metric] for metric in with_truth}
        | {"auc": pu.auc(scores[known], scores[~known], share)},
        "true": with_truth | {"auc": metrics.auc(truth, scores[~known])},
        "unlike": {
            "auc": unlike.auc if unlike else 0.5,
            "p_value": unlike.p_value if unlike else 1.0,
            "warned": float(unlike is not None and unlike.warning is not None),
        },
    }


def f1_of(truth: Bools, number: int) -> float:
    return float(2.0 * truth[:number].sum() / (number + truth.sum()))


def brier(truth: Bools | Ints, chances: Floats) -> float:
    return float(np.mean((truth - chances) ** 2))


def mean_of(each: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        part: {key: round(statistics.mean(float(one[part][key]) for one in each), 4) for key in each[0][part]}
        for part in each[0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    seeds = SEEDS[:1] if parser.parse_args().quick else SEEDS
    items = [(name, labels, seed) for seed in seeds for name in FIRST for labels in ("random", "biased")]
    made: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for (name, labels, seed), figures in zip(items, workers.in_order(measured, items), strict=True):
        made.setdefault((name, labels), []).append(figures)
        print(f"{name} {labels} draw {seed}: {mean_of([figures])}", file=sys.stderr, flush=True)
    print(
        json.dumps(
            {
                "benchmark": "beyond",
                "cores": os.cpu_count(),
                "python": sys.version.split()[0],
                "seeds": list(seeds),
                "sets": {f"{name}, {labels}": mean_of(each) for (name, labels), each in made.items()},
                "bars": [],
            }
        )
    )


if __name__ == "__main__":
    main()
