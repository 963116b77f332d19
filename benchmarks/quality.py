"""How good look-alikes are: the fraction of true positives among the first ranks, on bank, credit and census.

A random tenth of the positives is known, all other rows are unlabelled, and all rows take part. Columns are pooled,
which gives exactly the ranking of a federated search. `vfpu` is Algorithm 3-1 of the VFPU paper with its defaults (M =
5, T = 10, θ = 0.02) and `gbdt` as its base: 50 trees of depth 3, because bags are small. The others have the same base:
`naive`, `bagging` (50 bags), both forms of `two-step`, and Elkan and Noto's method, which ranks by a naive model
without balancing. `random` is the fraction of positives among the unlabelled rows. Figures are means over five draws of
known positives.

Trees see only the rows of a bag (`hide_bags = false`), which is faster. By default rows outside a bag take part with
weight zero, and `min_rows` counts them: `--hidden` measures that. `--quick` takes one draw, `--sets` and `--methods`
select some, and `--beside` adds variants of VFPU: in the draws of negatives, in the order, or in the base.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from typing import Any, NamedTuple

import numpy as np

from unpooled import workers
from unpooled.arrays import Bools, Floats
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, clean, transform
from unpooled.data.prepare import fit as learn_preparation
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.pu.estimates.elkan_noto import held_out
from unpooled.pu.methods import rank
from unpooled.pu.pooled.trees import PooledTrees
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.vertical.trees.parameters import AnyTrees, GbdtParameters, LgbParameters

SEEDS = (1, 2, 3, 4, 5)
KNOWN_SHARE = 0.1
FIRST = {"census": 1000, "bank": 1500, "credit": 1000}
BARS = {"census": 0.97, "bank": 0.69, "credit": 0.70}
METHODS: dict[str, AnyMethod | None] = {
    "vfpu": VfpuSettings(),
    "bagging": BaggingSettings(),
    "naive": NaiveSettings(),
    "two-step, negatives": TwoStepSettings(),
    "two-step, positives": TwoStepSettings(first="positives"),
    "elkan-noto": None,
}
BESIDE: dict[str, AnyMethod | None] = {
    "vfpu, reliable negatives": VfpuSettings(negatives="reliable"),
    "vfpu, gamma 2": VfpuSettings(gamma=2.0),
    "vfpu, by promotion": VfpuSettings(order="promotion"),
    "vfpu, depth 6": VfpuSettings(),
    "vfpu, lgb with 8 leaves": VfpuSettings(),
    "vfpu, lgb as it is": VfpuSettings(),
}
BASE = GbdtParameters(depth=3)
BASES: dict[str, AnyTrees] = {
    "vfpu, depth 6": GbdtParameters(),
    "vfpu, lgb with 8 leaves": LgbParameters(leaves=8, top_fraction=1.0),
    "vfpu, lgb as it is": LgbParameters(),
}


class Run(NamedTuple):
    """One search; everything random follows from the seed."""

    dataset: str
    method: str
    seed: int
    hidden: bool


class Found(NamedTuple):
    """How good it was, and the CPU seconds that it took."""

    precision: float
    auc: float
    base_rate: float
    cpu_seconds: float


def prepared(name: str) -> tuple[Floats, Bools]:
    """All rows as numbers, standardised and one-hot, and who is positive."""
    data, settings = datasets.load(name), PrepareSettings()
    table = table_from_frame(data.frame, "id", name, datasets.TYPES[name], datasets.MISSING[name])
    table, _ = clean(table, settings)
    return transform(learn_preparation(table, settings), table).matrix, data.label


def known_of(positive: Bools, seed: int) -> Bools:
    """A random share of the positives."""
    rows = np.flatnonzero(positive)
    known = np.zeros(len(positive), bool)
    known[np.random.default_rng(seed).choice(rows, round(KNOWN_SHARE * len(rows)), replace=False)] = True
    return known


def searched(run: Run) -> Found:
    begin = time.process_time()
    matrix, positive = prepared(run.dataset)
    known = known_of(positive, run.seed)
    learn = PooledTrees(matrix, BASES.get(run.method, BASE).model_copy(update={"hide_bags": run.hidden}))
    settings = (METHODS | BESIDE)[run.method]
    if settings is None:
        scores = np.where(known, np.nan, held_out(known, learn, run.seed).scores)
        ranking = Ranking(known, scores, np.zeros(len(known), np.int64))
    else:
        ranking = rank(known, settings, learn, run.seed)
    order = ranking.order
    return Found(
        float(positive[order[: FIRST[run.dataset]]].mean()),
        auc(positive[order], -np.arange(len(order))),
        float(positive[order].mean()),
        time.process_time() - begin,
    )


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--hidden", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--sets", default=",".join(FIRST))
    parser.add_argument("--methods", default="", help="names, with ; between them")
    return parser.parse_args()


def main() -> None:
    options = asked()
    methods = [*METHODS, *(BESIDE if options.beside else [])]
    if options.methods:
        methods = [method for method in methods if method in options.methods.split(";")]
    seeds = SEEDS[:1] if options.quick else SEEDS
    runs = [
        Run(name, method, seed, options.hidden)
        for seed in seeds
        for name in options.sets.split(",")
        for method in methods
    ]
    found: dict[Run, Found] = {}
    for run, one in zip(runs, workers.in_order(searched, runs), strict=True):
        found[run] = one
        print(f"{run.dataset:7} {run.method:26} draw {run.seed}: {one.precision:.4f}", file=sys.stderr, flush=True)
    report(found)


def report(found: dict[Run, Found]) -> None:
    table: dict[str, dict[str, Any]] = {}
    for name in FIRST:
        of_set = {run: one for run, one in found.items() if run.dataset == name}
        for method in dict.fromkeys(run.method for run in of_set):
            made = [one for run, one in of_set.items() if run.method == method]
            values = [one.precision for one in made]
            table.setdefault(name, {})[method] = {
                "precision": round(statistics.mean(values), 4),
                "spread": round(statistics.pstdev(values), 4),
                "each": [round(value, 3) for value in values],
                "auc": round(statistics.mean(one.auc for one in made), 4),
                "cpu_seconds": round(statistics.mean(one.cpu_seconds for one in made), 1),
            }
        if of_set:
            table[name]["random"] = {"precision": round(statistics.mean(one.base_rate for one in of_set.values()), 4)}
    for name, methods in table.items():
        print(f"{name}: precision of the first {FIRST[name]}", file=sys.stderr)
        for method, figures in methods.items():
            print(f"  {method:26} {figures['precision']:.3f} ± {figures.get('spread', 0):.3f}", file=sys.stderr)
    values = {name: table[name]["vfpu"]["precision"] for name in table if "vfpu" in table[name]}
    bars = [
        {"name": f"{name}_precision_{FIRST[name]}", "value": value, "bar": BARS[name], "holds": value >= BARS[name]}
        for name, value in values.items()
    ]
    some = next(iter(found))
    figures = {
        "benchmark": "quality",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "known_fraction": KNOWN_SHARE,
        "seeds": sorted({run.seed for run in found}),
        "hide_bags": some.hidden,
        "sets": table,
    }
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
