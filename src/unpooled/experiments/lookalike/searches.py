"""Cells that the experiments of the VFPU paper share: each is one search, computed once for all of them.

A cell says which rows are searched (set, fraction trained on, fraction and labelling of known positives, a column left
out), by which method with which learner, and how: `run` is `pooled`, `library`, or parties as `threads` or `processes`
with an engine. A federated cell has the pooled search beside it. What the job hides by default is written into the
cell, so that cells computed with other defaults are other cells.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

import numpy as np

from unpooled.arrays import Floats
from unpooled.data import datasets
from unpooled.experiments.experiment import Cell, Figures, Value
from unpooled.experiments.lookalike.calibrating import Calibrated
from unpooled.experiments.lookalike.dealing import Dealt, deal
from unpooled.experiments.lookalike.judging import judged, judged_on_test, largest_difference
from unpooled.experiments.lookalike.libraries import classifier_of
from unpooled.experiments.lookalike.networks import by_network, estimator_of, search_by_network
from unpooled.experiments.lookalike.presets import Settings, model_of, same_as_default
from unpooled.experiments.lookalike.together import assert_same, search_together
from unpooled.pu.bags import Bag, Learn, folded_bags, outside_means
from unpooled.pu.estimates.elkan_noto import held_out
from unpooled.pu.methods import rank
from unpooled.pu.pooled.trees import Learner, PooledModels
from unpooled.pu.ranking import Ranking
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters

FILE = "lookalike"
FIRST_SEED = 21
"""Draws 1 to 10 chose the job's depth and order, so others are reported."""

KEYS: dict[str, type[Value]] = {
    "set": str,
    "train": float,
    "known": float,
    "labelling": str,
    "without": str,
    "search": str,
    "iterations": int,
    "bags": int,
    "theta": float,
    "negatives": str,
    "learner": str,
    "settings": str,
    "hide_bags": str,
    "hide_nodes": str,
    "lent_bins": int,
    "calibrated": str,
    "run": str,
    "seed": int,
}
PACKAGES = ("numpy", "scikit-learn", "lightgbm", "xgboost-cpu", "jax")
OTHERS: dict[str, AnyMethod] = {
    "bagging": BaggingSettings(),
    "naive": NaiveSettings(),
    "two-step, negatives": TwoStepSettings(),
    "two-step, positives": TwoStepSettings(first="positives"),
}
"""Methods of the job besides VFPU."""

BY_PROMOTION = "by promotion"
"""The line of a cell whose rows are in the paper's order; elsewhere the order is the job's."""

_YES = {True: "yes", False: "no"}
_VFPU = VfpuSettings()
_FOLDS = NaiveSettings().folds


def search_cell(name: str, seed: int, train: float, **changes: Value) -> Cell:
    """VFPU with the job's defaults on pooled columns, a tenth of the positives known, but for the changes."""
    usual: dict[str, Value] = {
        "set": name,
        "train": train,
        "known": 0.1,
        "labelling": "random",
        "without": "",
        "search": "vfpu",
        "iterations": _VFPU.iterations,
        "bags": _VFPU.bags,
        "theta": _VFPU.fraction,
        "negatives": _VFPU.negatives,
        "learner": "gbdt",
        "settings": "default",
        "hide_bags": "",
        "hide_nodes": "",
        "lent_bins": 0,
        "calibrated": "",
        "run": "pooled",
        "seed": seed,
    }
    found = usual | changes
    if found["search"] != "vfpu":
        found |= {"iterations": 0, "bags": 0, "theta": 0.0, "negatives": ""}
    if found["search"] == "random" or by_network(str(found["search"])):
        found |= {"learner": "", "settings": ""}
    elif found["settings"] == "default" and same_as_default(str(found["learner"]), "paper"):
        found["settings"] = "paper"  # one search stands for both
    if found.keys() != KEYS.keys():
        raise ValueError(f"a cell has no {', '.join(found.keys() - KEYS.keys())}")
    return found | _as_in_the_job(found)


def _as_in_the_job(cell: Cell) -> dict[str, Value]:
    """What a cell does not say of hiding, by the job's defaults; "" and 0 where its learner has no such setting."""
    if not cell["learner"]:
        return {}
    model = model_in(cell).model_dump()
    found: dict[str, Value] = {name: _YES[model[name]] for name in ("hide_bags", "hide_nodes") if name in model}
    return found | ({"lent_bins": model["lent_bins"] or model["bins"]} if "lent_bins" in model else {})


def compute(cell: Cell) -> Figures:
    """All figures of a cell."""
    dealt = deal(
        str(cell["set"]),
        int(cell["seed"]),
        train=float(cell["train"]),
        known=float(cell["known"]),
        labelling=cast(datasets.Labelling, cell["labelling"]),
        without=str(cell["without"]),
    )
    if cell["run"] in ("pooled", "library"):
        return _pooled(dealt, cell)
    return _federated(dealt, cell)


def model_in(cell: Cell) -> LearnerParameters:
    """The learner of a cell."""
    said: dict[str, bool | int] = {n: cell[n] == _YES[True] for n in ("hide_bags", "hide_nodes") if cell[n]}
    said |= {"lent_bins": int(cell["lent_bins"])} if cell["lent_bins"] else {}
    return model_of(str(cell["learner"]), cast(Settings, cell["settings"]), **said)


def method_in(cell: Cell) -> AnyMethod:
    """The method of a cell, if it is one of the job's."""
    if cell["search"] != "vfpu":
        return OTHERS[str(cell["search"])]
    names = {"iterations": "iterations", "bags": "bags", "fraction": "theta", "negatives": "negatives"}
    return VfpuSettings.model_validate({name: cell[key] for name, key in names.items()})


def _pooled(dealt: Dealt, cell: Cell) -> Figures:
    """The search; what VFPU gives is judged in the paper's order too."""
    begin, cpu = time.perf_counter(), time.process_time()
    run, seed, recorded = str(cell["run"]), int(cell["seed"]), None
    if cell["search"] == "random":
        ranking, scores = _random(dealt, seed)
    elif by_network(str(cell["search"])):
        of_rows, scores = search_by_network(dealt, str(cell["search"]), seed)
        ranking = _by_score(dealt, of_rows)
    else:
        learner = _learner(dealt, cell)
        recorded = Recorded(learner)
        ranking = _ranked(dealt, cell, recorded, seed)
        scores = learner.score(dealt.test) if len(dealt.test) else np.empty(0)
    rest = judged_on_test(scores, dealt.test_positive)
    rest |= {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - begin}
    found = {run: judged(ranking, dealt.positive) | rest}
    if recorded and cell["search"] == "vfpu":
        method = method_in(cell).model_copy(update={"order": "promotion"})
        again = rank(dealt.known, method, recorded.again(), seed)
        found[f"{run}, {BY_PROMOTION}"] = judged(again, dealt.positive) | rest
    return found


class Recorded:
    """A learner that remembers what it said, so that the same models can be ranked in another order."""

    def __init__(self, learn: Learn) -> None:
        self._learn = learn
        self._said: list[Floats] = []

    def __call__(self, bags: Sequence[Bag]) -> Sequence[Floats]:
        found = self._learn(bags)
        self._said += found
        return found

    def again(self) -> Learn:
        """The same answers to the same questions, without learning."""
        said = iter(self._said)
        return lambda bags: [next(said) for _ in bags]


def _learner(dealt: Dealt, cell: Cell) -> Learner:
    model = model_in(cell)
    if cell["run"] == "library":
        from unpooled.pu.pooled.classifiers import PooledClassifiers

        return PooledClassifiers(dealt.columns.matrix, classifier_of(model, dealt.columns))
    learner: Learner = PooledModels(dealt.columns, model)
    return Calibrated(learner) if cell["calibrated"] else learner


def _ranked(dealt: Dealt, cell: Cell, learn: Learn, seed: int) -> Ranking:
    known = dealt.known
    if cell["search"] == "elkan-noto":
        return _by_score(dealt, held_out(known, learn, seed).scores)
    if cell["search"] == "supervised":
        bags = folded_bags(np.zeros_like(known), dealt.positive, ~dealt.positive, _FOLDS, (seed, 1), balanced=True)
        return _by_score(dealt, outside_means(bags, learn(bags)))
    return rank(known, method_in(cell), learn, seed)


def _random(dealt: Dealt, seed: int) -> tuple[Ranking, Floats]:
    rng = np.random.default_rng([seed, 1])
    return _by_score(dealt, rng.random(len(dealt.known))), rng.random(len(dealt.test))


def _by_score(dealt: Dealt, scores: Floats) -> Ranking:
    return Ranking(dealt.known, np.where(dealt.known, np.nan, scores), np.zeros(len(scores), np.int64))


def _federated(dealt: Dealt, cell: Cell) -> Figures:
    """The federated search and the pooled one of the same draws; with trees they must be the same to the bit."""
    where, engine = str(cell["run"]).split(", ", 1)
    method, model = method_in(cell), model_in(cell)
    found = search_together(dealt, method, model, int(cell["seed"]), engine, processes=where == "processes")
    taken = {name: getattr(found, name) for name in ("cpu_seconds", "wall_seconds", "megabytes")}
    one = judged(found.ranking, dealt.positive) | judged_on_test(found.test_scores, dealt.test_positive) | taken
    begin, cpu = time.perf_counter(), time.process_time()
    learner = PooledModels(found.columns, model)
    ranking = rank(dealt.known, method, learner, found.seed)
    scores = learner.score(found.test)
    if cell["learner"] != "linear":
        assert_same(found.ranking, ranking, found.test_scores, scores)
    other = judged(ranking, dealt.positive) | judged_on_test(scores, dealt.test_positive)
    other |= {"cpu_seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - begin}
    return {"federated": one | {"difference": largest_difference(one, other)}, "pooled": other}


def check(wanted: Sequence[Cell]) -> None:
    """Refuse before anything is computed if a data set or a package is missing."""
    for name in dict.fromkeys(str(cell["set"]) for cell in wanted):
        datasets.load(name)
    for learner in dict.fromkeys(str(cell["learner"]) for cell in wanted if cell["run"] == "library"):
        classifier_of(model_of(learner, "paper"), Columns(np.empty((0, 1)), ("",), (1,)))
    for search in dict.fromkeys(str(cell["search"]) for cell in wanted if by_network(str(cell["search"]))):
        estimator_of(search, 0)


def one_core(cell: Cell) -> bool:
    """Whether a cell is computed in one process on one core; federated ones take several."""
    return cell["run"] in ("pooled", "library")
