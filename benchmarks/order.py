"""In which order look-alikes should stand: precision of the first ranks by several orders, on bank, credit and census.

A random tenth of the positives is known, all other rows are unlabelled, and all rows take part. `vfpu` has its defaults
(M = 5, T = 10, θ = 0.02). The order was chosen on draws 1 to 5 of the known positives, with LightGBM's trees of 8
leaves as the base, which is fast. What is reported is of draws 6 to 10: the orders with the job's own default learner
(`gbdt` of depth 3, bags shown, columns pooled, which gives exactly the ranking of a federated search), and `bagging`
with 50 bags beside them. All orders of a draw come from the same models and the same promotions:

- `score`, the default: the mean over the models of all iterations, but for those that learned the row as a negative;
- `promotion`, the VFPU paper's: by iteration, then by the score in it;
- `unseen`: the mean over the models of all iterations whose bags the row was not in, neither drawn nor promoted;
- `promoted, unseen`: the same, promoted rows first;
- `log-odds`, `ranks`: like `score`, with the mean of log-odds, or of each model's ranks;
- `last`: like `score`, with the models of the last iteration alone;
- `first`: the mean over the models of the first iteration, which is bagging with 10 bags.

On the reporting draws `VfpuClassifier` is compared with itself on LightGBM's trees of 8 leaves: precision, and CPU
seconds on one thread each. `--draws` is how many draws of either kind are taken (5); `--sets` and `--stages` select.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from threadpoolctl import threadpool_limits

from quality import BASE, KNOWN_SHARE, known_of, prepared
from unpooled import workers
from unpooled.arrays import Bools, Floats, Ints
from unpooled.pu.bags import Bag, Learn, Means
from unpooled.pu.methods import rank
from unpooled.pu.pooled.classifiers import PooledClassifiers
from unpooled.pu.pooled.estimators import VfpuClassifier
from unpooled.pu.pooled.trees import PooledTrees
from unpooled.pu.ranking import likeliest
from unpooled.pu.settings import BaggingSettings, VfpuSettings
from unpooled.vertical.numbers import log

SETS = ("census", "bank", "credit")
CHOOSING, REPORTING = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)
FIRST = (100, 500, 1000, 2000)
BARS_AT = (100, 1000)
BELOW_BAGGING, BELOW_LIGHTGBM, CPU_RATIO = -0.01, -0.01, 1.5
SURE = 1e-9

Orders = dict[str, list[float]]
"""For each order the precision of the first ranks, by `FIRST`."""


class Run(NamedTuple):
    """One draw; everything random follows from the seed."""

    stage: str
    dataset: str
    seed: int


class Recorded:
    """A learner that remembers its bags, and what it said of every row."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self.bags: list[Bag] = []
        self.scores: list[Floats] = []

    def __call__(self, bags: Sequence[Bag]) -> Sequence[Floats]:
        found = self._learn(bags)
        self.bags += bags
        self.scores += found
        return found

    def again(self) -> Learn:
        """The same answers to the same questions, without learning."""
        scores = iter(self.scores)
        return lambda bags: [next(scores) for _ in bags]


def measured(run: Run) -> dict[str, Any]:
    with threadpool_limits(1):
        matrix, positive = prepared(run.dataset)
        known = known_of(positive, run.seed)
        return STAGES[run.stage](matrix, positive, known, run.seed)


def chosen(matrix: Floats, positive: Bools, known: Bools, seed: int) -> dict[str, Any]:
    return orders(PooledClassifiers(matrix, eight_leaves()), positive, known, seed)


def reported(matrix: Floats, positive: Bools, known: Bools, seed: int) -> dict[str, Any]:
    learn = PooledTrees(matrix, BASE.model_copy(update={"hide_bags": False}))
    by_bagging = rank(known, BaggingSettings(), learn, seed).order
    return orders(learn, positive, known, seed) | {"bagging": precisions(positive, by_bagging)}


def compared(matrix: Floats, positive: Bools, known: Bools, seed: int) -> dict[str, Any]:
    """The estimator with its default base and with LightGBM's; the last figure of each is CPU seconds."""
    found = {}
    for name, base in {"default": None, "lightgbm": eight_leaves()}.items():
        begin = time.process_time()
        order = VfpuClassifier(base, random_state=seed).fit(matrix, known).ranking_.order
        found[name] = [*precisions(positive, order), time.process_time() - begin]
    return found


STAGES: dict[str, Callable[[Floats, Bools, Bools, int], dict[str, Any]]] = {
    "chosen": chosen,
    "reported": reported,
    "compared": compared,
}


def eight_leaves() -> lightgbm.LGBMClassifier:
    return lightgbm.LGBMClassifier(num_leaves=8, n_jobs=1, verbose=-1)


def orders(learn: Learn, positive: Bools, known: Bools, seed: int) -> Orders:
    recorded = Recorded(learn)
    found = rank(known, VfpuSettings(), recorded, seed)
    promotion = rank(known, VfpuSettings(order="promotion"), recorded.again(), seed)
    unlabelled = np.flatnonzero(~known)
    bags, scores, last = recorded.bags, recorded.scores, VfpuSettings().bags
    fair = [~bag.negative for bag in bags]
    unseen = mean(scores, [bag.outside for bag in bags])
    others = {
        "unseen": unseen,
        "promoted, unseen": np.where(found.iterations > 0, 2.0, 0.0) + unseen,
        "log-odds": mean([log_odds(each) for each in scores], fair),
        "ranks": mean([places(each, unlabelled) for each in scores], fair),
        "last": mean(scores[-last:], fair[-last:]),
        "first": mean(scores[:last], [bag.outside for bag in bags[:last]]),
    }
    ranked = {"score": found.order, "promotion": promotion.order}
    ranked |= {name: likeliest(each, unlabelled) for name, each in others.items()}
    return {name: precisions(positive, order) for name, order in ranked.items()}


def mean(scores: Sequence[Floats], counts: Sequence[Bools]) -> Floats:
    means = Means(len(scores[0]))
    for each, count in zip(scores, counts, strict=True):
        means.add(each, count)
    return means.values


def log_odds(scores: Floats) -> Floats:
    sure = np.clip(scores, SURE, 1 - SURE)
    return log(sure) - log(1 - sure)


def places(scores: Floats, rows: Ints) -> Floats:
    found = np.zeros(len(scores))
    found[likeliest(scores, rows)[::-1]] = np.arange(len(rows))
    return found


def precisions(positive: Bools, order: Ints) -> list[float]:
    return [float(positive[order[:count]].mean()) for count in FIRST]


def means_of(each: Sequence[dict[str, list[float]]]) -> dict[str, list[float]]:
    return {
        name: [statistics.mean(one[name][place] for one in each) for place in range(len(each[0][name]))]
        for name in each[0]
    }


def bars_of(table: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    bars = []
    for name, by_order in table.get("reported", {}).items():
        ours = by_order["score"]
        for count in BARS_AT:
            place = FIRST.index(count)
            for other, bar in (("promotion", 0.0), ("bagging", BELOW_BAGGING)):
                bars.append(at_least(f"{name}_{count}_over_{other}", ours[place] - by_order[other][place], bar))
    for name, bases in table.get("compared", {}).items():
        for count in BARS_AT:
            gap = bases["default"][FIRST.index(count)] - bases["lightgbm"][FIRST.index(count)]
            bars.append(at_least(f"{name}_{count}_default_over_lightgbm", gap, BELOW_LIGHTGBM))
        ratio = bases["default"][-1] / bases["lightgbm"][-1]
        bars.append({"name": f"{name}_cpu", "value": round(ratio, 2), "bar": CPU_RATIO, "holds": ratio <= CPU_RATIO})
    return bars


def at_least(name: str, value: float, bar: float) -> dict[str, Any]:
    value = round(value, 4)
    return {"name": name, "value": value, "bar": bar, "holds": value >= bar}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=len(REPORTING), choices=range(1, len(REPORTING) + 1))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--stages", default=",".join(STAGES))
    options = parser.parse_args()
    draws = {stage: CHOOSING if stage == "chosen" else REPORTING for stage in options.stages.split(",")}
    runs = [
        Run(stage, name, seeds[draw])
        for draw in range(options.draws)
        for name in options.sets.split(",")
        for stage, seeds in draws.items()
    ]
    made: dict[str, dict[str, list[dict[str, list[float]]]]] = {}
    for run, one in zip(runs, workers.in_order(measured, runs), strict=True):
        made.setdefault(run.stage, {}).setdefault(run.dataset, []).append(one)
        print(f"{run.stage} {run.dataset} draw {run.seed}: {json.dumps(one)}", file=sys.stderr, flush=True)
    table = {stage: {name: means_of(each) for name, each in sets.items()} for stage, sets in made.items()}
    for stage, sets in table.items():
        for name, rows in sets.items():
            print(f"{stage}, {name}: precision of the first {FIRST}", file=sys.stderr)
            for order, figures in rows.items():
                print(f"  {order:17} " + "  ".join(f"{value:.3f}" for value in figures), file=sys.stderr)
    figures = {
        "benchmark": "order",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "known_fraction": KNOWN_SHARE,
        "first": FIRST,
        "draws": {stage: sorted({run.seed for run in runs if run.stage == stage}) for stage in draws},
        "each": made,
        "means": table,
    }
    print(json.dumps(figures | {"bars": bars_of(table)}))


if __name__ == "__main__":
    main()
