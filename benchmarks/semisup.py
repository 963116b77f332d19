"""Semi-supervised networks on table rows beside the same network on labelled rows alone.

All with their default settings, five seeds; every method sees the same rows and labels as the network that it is
compared with. A method is better if the mean of the five differences is above its standard error. The network on
labelled rows alone learns both views of these, as methods do, or weak ones, whichever is better on average.

- `moons`: how many of the six methods are better in accuracy on other rows of two moons (1,000 rows, noise 0.1, five
  labels of either class).
- `small_labels`: how many are better in AUC on Census's own test file, with 40 labels (10 positive, as frequent as in
  the set) and all other rows unlabelled.
- `all_labels`: the largest mean loss of AUC of a method with all labels.
- `pu`: how many are better in the precision of the first 1,000 unlabelled rows of Census, a tenth of the positives
  known, than the naive network, for which all unlabelled rows are negative; that scores rows as it is fitted, or by
  three networks that had not seen the row as a negative, whichever is better on average.
- `epoch_vs_supervised`: the time of a step of FixMatch as a multiple of a step on labelled rows alone.

`--only` computes some of these, `feeding` (both ways to learn without negatives) or `networks` (dense layers beside
WRN-28-2, Adam beside SGD, on tables of few units, the first two seeds). Defaults were chosen on other seeds, 101 and
above: docs/semisup.md says which. Needs the public data sets.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold

from unpooled.arrays import Bools, Floats
from unpooled.data import datasets
from unpooled.evaluate.metrics import auc
from unpooled.semisup.estimators import ESTIMATORS

SEEDS = (1, 2, 3, 4, 5)
METHODS = tuple(name for name in ESTIMATORS if name != "supervised")
MOON_ROWS, NOISE = 1_000, 0.1
POSITIVE, NEGATIVE = 10, 30
FIRST = 1_000
FOLDS = 3
STEPS = 800
WRN_ROWS, WRN_SEEDS = 3_000, 2
BARS = {"moons": 6, "small_labels": 4, "all_labels": 0.01, "pu": 3, "epoch_vs_supervised": 12}

Found = tuple[dict[str, Any], list[dict[str, Any]]]
"""Figures by name, and bars."""

VIEWS = {"supervised": "both", "supervised, weak views": "weak"}

Measure = Callable[[str, int], float]
"""A figure, the higher the better, of a method and a seed."""


def measured(what: str, measure: Measure, names: Sequence[str], seeds: Sequence[int]) -> dict[str, list[float]]:
    """Figures of methods for all seeds."""
    found = {}
    for name in names:
        begin = time.perf_counter()
        found[name] = [measure(name, seed) for seed in seeds]
        taken = (time.perf_counter() - begin) / len(seeds)
        shown = " ".join(f"{each:.4f}" for each in found[name])
        print(f"{what}: {name}: {shown}; {taken:.1f} s each", file=sys.stderr, flush=True)
    return found


def difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """The mean of paired differences and its standard error."""
    each = [a - b for a, b in zip(one, other, strict=True)]
    return statistics.mean(each), statistics.stdev(each) / len(each) ** 0.5


def made(name: str, seed: int) -> Any:
    """A method with its default settings."""
    if name in VIEWS:
        return ESTIMATORS["supervised"](settings={"view": VIEWS[name]}, random_state=seed)
    return ESTIMATORS[name](random_state=seed)


def reference_in(found: dict[str, list[float]]) -> list[float]:
    """What labelled rows alone give."""
    return max((found[name] for name in VIEWS), key=statistics.mean)


def better(found: dict[str, list[float]], reference: Sequence[float]) -> list[str]:
    """The methods that are better than the reference."""
    pairs = {name: difference(each, reference) for name, each in found.items()}
    return [name for name, (mean, error) in pairs.items() if mean > error]


def figures_of(what: str, found: dict[str, list[float]], reference: Sequence[float]) -> dict[str, Any]:
    shown = {}
    for name, each in found.items():
        gain, error = difference(each, reference)
        shown[name] = {"mean": round(statistics.mean(each), 4), "gain": round(gain, 4), "error": round(error, 4)}
    return {what: shown}


def at_least(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "value": value, "bar": BARS[name], "holds": value >= BARS[name]}


def at_most(name: str, value: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 4), "bar": BARS[name], "holds": value <= BARS[name]}


def moons_accuracy(estimator: Any, seed: int) -> float:
    """On other rows of two moons, with ten labels."""
    matrix, truth = make_moons(MOON_ROWS, noise=NOISE, random_state=seed)
    others, wanted = make_moons(MOON_ROWS, noise=NOISE, random_state=seed + 1_000)
    y = few(truth.astype(bool), 5, 5, seed)
    return float((estimator.fit(matrix, y).predict(others) == wanted).mean())


def moons(seeds: Sequence[int]) -> Found:
    """Accuracy with ten labels."""

    def accuracy(name: str, seed: int) -> float:
        return moons_accuracy(made(name, seed), seed)

    found = measured("moons", accuracy, [*VIEWS, *METHODS], seeds)
    ahead = better({name: found[name] for name in METHODS}, reference_in(found))
    return figures_of("moons", found, reference_in(found)), [at_least("moons", len(ahead))]


@lru_cache(maxsize=2)
def census(part: str) -> tuple[pl.DataFrame, Bools]:
    data = datasets.load("census", part)
    missing = dict.fromkeys(datasets.MISSING["census"])
    return data.frame.drop("id").with_columns(pl.col(pl.String).replace(missing)), data.label


def few(truth: Bools, positive: int, negative: int, seed: int) -> Any:
    """Labels of so many rows of either class, -1 for the others."""
    rng, y = np.random.default_rng(seed), np.full(len(truth), -1)
    for value, count in ((True, positive), (False, negative)):
        y[rng.choice(np.flatnonzero(truth == value), count, replace=False)] = value
    return y


def test_auc(fitted: Any) -> float:
    frame, truth = census("test")
    return float(auc(truth, fitted.predict_proba(frame)[:, 1]))


def small_labels(seeds: Sequence[int]) -> Found:
    """AUC with 40 labels."""
    frame, truth = census("train")

    def of(name: str, seed: int) -> float:
        return test_auc(made(name, seed).fit(frame, few(truth, POSITIVE, NEGATIVE, seed)))

    found = measured("small_labels", of, [*VIEWS, *METHODS], seeds)
    ahead = better({name: found[name] for name in METHODS}, reference_in(found))
    return figures_of("small_labels", found, reference_in(found)), [at_least("small_labels", len(ahead))]


def all_labels(seeds: Sequence[int]) -> Found:
    """AUC with all labels."""
    frame, truth = census("train")

    def of(name: str, seed: int) -> float:
        return test_auc(made(name, seed).fit(frame, truth.astype(int)))

    found = measured("all_labels", of, [*VIEWS, *METHODS], seeds)
    worst = max(-difference(found[name], reference_in(found))[0] for name in METHODS)
    return figures_of("all_labels", found, reference_in(found)), [at_most("all_labels", worst)]


def known_tenth(seed: int) -> Any:
    """Labels of a tenth of the positives."""
    truth = census("train")[1]
    return few(truth, round(truth.sum() / 10), 0, seed)


def precision(scores: Floats, y: Any) -> float:
    """Of the first unlabelled rows by score."""
    truth, unlabelled = census("train")[1], y == -1
    order = np.argsort(-scores[unlabelled], kind="stable")[:FIRST]
    return float(truth[unlabelled][order].mean())


def by_feeding(name: str, seed: int, **more: Any) -> float:
    y, (frame, _) = known_tenth(seed), census("train")
    return precision(ESTIMATORS[name](random_state=seed, **more).fit(frame, y).predict_proba(frame)[:, 1], y)


def naive(seed: int, folds: int) -> float:
    """The network for which unlabelled rows are negative; with folds, rows are scored by networks that lacked them."""
    y, (frame, _) = known_tenth(seed), census("train")
    network = made("supervised", seed)
    negative = (y == 1).astype(int)
    if folds < 2:
        return precision(network.fit(frame, negative).predict_proba(frame)[:, 1], y)
    scores = np.empty(len(y))
    for inside, outside in StratifiedKFold(folds, shuffle=True, random_state=seed).split(negative, negative):
        scores[outside] = network.fit(frame[inside], negative[inside]).predict_proba(frame[outside])[:, 1]
    return precision(scores, y)


def pu(seeds: Sequence[int]) -> Found:
    """Precision of the first rows, where only positives are known."""
    references = measured(
        "pu",
        lambda name, seed: naive(seed, FOLDS if name == "naive in folds" else 1),
        ["naive", "naive in folds"],
        seeds,
    )
    reference = max(references.values(), key=statistics.mean)
    found = measured("pu", by_feeding, list(ESTIMATORS), seeds)
    ahead = better({name: found[name] for name in METHODS}, reference)
    return figures_of("pu", {**references, **found}, reference), [at_least("pu", len(ahead))]


def feeding(seeds: Sequence[int]) -> Found:
    """Precision of the first rows by either way of feeding, and with a tenth of the unlabelled rows as negatives."""
    ways: dict[str, dict[str, Any]] = {
        "prior": {"feeding": "prior"},
        "negatives, all": {"feeding": "negatives"},
        "negatives, a tenth": {"feeding": "negatives", "negative_fraction": 0.1},
    }
    shown: dict[str, Any] = {}
    for way, more in ways.items():
        found = measured(way, lambda name, seed, more=more: by_feeding(name, seed, **more), list(ESTIMATORS), seeds)
        shown[way] = {name: round(statistics.mean(each), 4) for name, each in found.items()}
    return {"feeding": shown}, []


def seconds_of_a_step(name: str) -> float:
    """The median over epochs, without the first two, which are compiled in."""
    frame, truth = census("train")
    times: list[float] = []
    network = ESTIMATORS[name](steps=STEPS, random_state=1, watch=lambda _: times.append(time.perf_counter()))
    network.fit(frame, few(truth, POSITIVE, NEGATIVE, 1))
    return statistics.median(np.diff(times)[1:].tolist()) * len(times) / STEPS


def cost(_: Sequence[int]) -> Found:
    """Seconds of steps; the least of three, as other processes only add to it."""
    found = {name: min(seconds_of_a_step(name) for _ in range(3)) for name in ("supervised", "fixmatch")}
    ratio = found["fixmatch"] / found["supervised"]
    shown = {name: round(1000 * each, 3) for name, each in found.items()}
    return {"milliseconds_of_a_step": shown}, [at_most("epoch_vs_supervised", ratio)]


def networks(seeds: Sequence[int]) -> Found:
    """Both networks and both optimisers, trained to the end on tables of few units, as WRN-28-2 takes long.

    Two moons as in `moons`; 40 labels as in `small_labels`, on labelled rows alone, with Census's six numbers only.
    """
    (frame, truth), (others, wanted) = census("train"), census("test")
    rng = np.random.default_rng(0)
    numbers = frame.select(cs.numeric())
    taken = np.sort(rng.choice(len(truth), WRN_ROWS, replace=False))

    def of_numbers(estimator: Any, seed: int) -> float:
        fitted = estimator.fit(numbers[taken], few(truth[taken], POSITIVE, NEGATIVE, seed))
        return float(auc(wanted, fitted.predict_proba(others.select(numbers.columns))[:, 1]))

    shown: dict[str, Any] = {}
    tried = ("moons", "supervised"), ("moons", "fixmatch"), ("census, numbers", "supervised")
    for (table, name), network, preset in itertools.product(tried, ("mlp", "wrn"), ("table", "seed")):
        figure, begin = moons_accuracy if table == "moons" else of_numbers, time.process_time()
        found = [
            figure(ESTIMATORS[name](preset=preset, network=network, random_state=seed), seed)
            for seed in seeds[:WRN_SEEDS]
        ]
        cpu = (time.process_time() - begin) / len(found)
        what = f"{table}, {name}, {network}, {preset}"
        shown[what] = {"mean": round(statistics.mean(found), 4), "cpu_s": round(cpu, 1)}
        print(f"networks: {what}: {found} {shown[what]}", file=sys.stderr, flush=True)
    return {"networks": shown}, []


PARTS: dict[str, Callable[[Sequence[int]], Found]] = {
    "moons": moons,
    "small_labels": small_labels,
    "all_labels": all_labels,
    "pu": pu,
    "epoch_vs_supervised": cost,
}
MORE: dict[str, Callable[[Sequence[int]], Found]] = {"feeding": feeding, "networks": networks}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=[*PARTS, *MORE], default=list(PARTS))
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    given = parser.parse_args()
    figures: dict[str, Any] = {}
    bars: list[dict[str, Any]] = []
    for name in given.only:
        found, held = {**PARTS, **MORE}[name](given.seeds)
        figures |= found
        bars += held
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
