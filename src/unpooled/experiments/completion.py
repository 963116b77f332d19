"""The experiment `completion`: what a completed table is worth, and what the FedPSG-PUM paper's claims come to.

Data sets are dealt to two parties (`dealing`); a part of a cell is one of:

- `baselines`: the downstream model on the aligned rows only, on A's columns only, with cells left missing, on truth;
- `completers`: B's cells filled by completers, at B alone or, for comparison, as if A showed its columns;
- `prediction`: columns predicted once: the most likely value without the label, draws given the label, and both
  the table left missing and draws, as the library advises; confidence by the paper's formulas and calibrated;
- `measures`: screening by each measure at each threshold, and what predicting only the chosen columns gives;
- `self-training`: rounds, with the least confidence alpha and the fraction k of promotions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from pydantic import TypeAdapter

from unpooled.arrays import Floats
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.completers import settings_from
from unpooled.complete.completers.filling import complete, fit
from unpooled.complete.self_training import SelfTrainingSettings
from unpooled.data import datasets
from unpooled.data.coding import encode
from unpooled.evaluate.distribution import spearman
from unpooled.evaluate.metrics import auc
from unpooled.experiments import completion_page
from unpooled.experiments.dealing import (
    Dealt,
    Sample,
    classify,
    columns_of,
    confidence_ranks,
    deal,
    predict,
    quality,
    screenings,
    skills,
)
from unpooled.experiments.experiment import Cell, Experiment, Figures, Tier, Value
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import AnyParameters

SETS = ("census", "credit", "bank")
FRACTIONS = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9)
USUAL = 0.1
"""The aligned fraction of everything that is not measured at all of them."""

FIRST_SEED = 11
"""Seeds 1 to 5 chose the library's defaults (`make bench-complete`), so others are reported."""

DRAWS, FOLDS, ROUNDS = 3, 3, 10
BASE: LearnerParameters = TypeAdapter(AnyParameters).validate_python(
    {"learner": "gbdt", "trees": 30, "depth": 3, "learning_rate": 0.2, "hide_bags": False}
)
ONCE = SelfTrainingSettings(rounds=1, folds=FOLDS)
ONCE_FOR_DRAWS = SelfTrainingSettings(rounds=1, folds=FOLDS, confidence="paper")  # no models of errors, the same draws

THRESHOLDS = (0.3, 0.5, 0.7)
SELECTED_BY: dict[str, float | None] = {f"above {threshold}": threshold for threshold in THRESHOLDS}
SELECTED_BY["significant"] = None

# By name: the completer, whether A's columns are shown to it, whether the label is, and how many draws there are.
COMPLETERS: dict[str, tuple[Mapping[str, Any], bool, bool, int]] = {
    "median or mode": ({"completer": "median"}, False, False, 1),
    "hot deck at B alone": ({"completer": "hot-deck"}, False, False, DRAWS),
    "hot deck, A's columns shown": ({"completer": "hot-deck"}, True, True, DRAWS),
    "copula, A's columns shown": ({"completer": "copula"}, True, True, DRAWS),
}
SLOW_COMPLETERS: dict[str, tuple[Mapping[str, Any], bool, bool, int]] = {
    "iterative, A's columns shown": ({"completer": "iterative"}, True, False, 1),
    "knn, A's columns shown": ({"completer": "knn"}, True, False, 1),
}

ALPHAS, FRACTIONS_PROMOTED = (0.7, 0.8, 0.9), (0.05, 0.1, 0.2)
GRID = tuple((alpha, k) for alpha in ALPHAS for k in FRACTIONS_PROMOTED)
CORNERS: tuple[tuple[float, float], ...] = ((0.8, 0.1), (0.7, 0.05), (0.7, 0.2), (0.9, 0.05), (0.9, 0.2))
"""The paper's defaults, and the ends of the ranges that it names."""


def cells(tier: Tier, seed: int) -> list[Cell]:
    """The cells of a tier, beginning with this random seed; in an order in which an early stop leaves the most."""
    seeds = range(seed, seed + 5)
    if tier is Tier.quick:
        found = [
            *_curve(("census",), seed, 4_000, (USUAL, 0.5)),
            *_at_one_fraction(("census",), seed, 4_000, CORNERS[:1]),
        ]
    elif tier is Tier.standard:
        found = [cell for one in seeds for cell in _curve(SETS, one, 12_000, FRACTIONS)]
        found += [cell for one in seeds for cell in _at_one_fraction(SETS, one, 4_000, CORNERS, 12_000)]
    else:
        found = [cell for one in seeds for cell in _curve(SETS, one, 0, FRACTIONS, whole=True)]
        found += [cell for one in seeds for cell in _at_one_fraction(SETS, one, 0, GRID, whole=True)]
    return sorted(found, key=_stage)


def _stage(cell: Cell) -> tuple[float, ...]:
    """First one aligned fraction with the paper's α and k; then, seed by seed, the grid and the other fractions."""
    if cell["aligned"] != USUAL:
        return 1, int(cell["seed"]), 1 + FRACTIONS.index(float(cell["aligned"]))
    if cell["rounds"] == ROUNDS and (cell["alpha"], cell["k"]) != CORNERS[0]:
        return 1, int(cell["seed"]), 0
    return 0, float(cell["part"] == "self-training"), 0


def _cell(part: str, name: str, rows: int, aligned: float, seed: int, sample: str = "random", **more: Value) -> Cell:
    unused: dict[str, Value] = {"rounds": 0, "confidence": "", "alpha": 0.0, "k": 0.0}
    main: dict[str, Value] = {
        "part": part,
        "set": name,
        "rows": rows,
        "aligned": aligned,
        "sample": sample,
        "seed": seed,
    }
    return main | unused | more


def _curve(
    sets: Sequence[str], seed: int, rows: int, fractions: Sequence[float], *, whole: bool = False
) -> Iterator[Cell]:
    """What is measured at every aligned fraction; with `whole` also slow completers, and selected rows."""
    for name in sets:
        for aligned in fractions:
            for part in ("baselines", "completers", *(["slow completers"] if whole else []), "prediction"):
                yield _cell(part, name, rows, aligned, seed)
            if whole or aligned == USUAL:
                for part in ("baselines", "prediction"):
                    yield _cell(part, name, rows, aligned, seed, "selected")


def _at_one_fraction(
    sets: Sequence[str],
    seed: int,
    rows: int,
    grid: Sequence[tuple[float, float]],
    all_rows: int = 0,
    *,
    whole: bool = False,
) -> Iterator[Cell]:
    """Screening on `all_rows`, and rounds; with `whole` the grid also for calibrated confidence and selected rows."""
    for name in sets:
        yield _cell("measures", name, all_rows or rows, USUAL, seed)
        for confidence in ("paper", "calibrated"):
            for sample in ("random", "selected") if whole else ("random",):
                several = grid if sample == "random" and (confidence == "paper" or whole) else CORNERS[:1]
                settings: list[dict[str, Value]] = [{"rounds": 1}]
                settings += [{"rounds": ROUNDS, "alpha": alpha, "k": k} for alpha, k in several]
                for each in settings:
                    yield _cell("self-training", name, rows, USUAL, seed, sample, confidence=confidence, **each)


def check(wanted: Sequence[Cell]) -> None:
    """Refuse before anything is computed if a data set or a package is missing."""
    for name in dict.fromkeys(str(cell["set"]) for cell in wanted):
        datasets.load(name)
    classify(np.array([[0.0], [1.0]] * 30), np.array([0.0, 1.0] * 30), np.zeros((1, 1)))
    slow = [cell for cell in wanted if cell["part"] == "slow completers"]
    for settings, *_ in SLOW_COMPLETERS.values() if slow else ():
        fit(_completer(settings), columns_of(str(slow[0]["set"]))[0].take(np.arange(10)), np.random.default_rng(1))


def seconds(cell: Cell) -> float:
    """A guess: models of columns take most of the time, more with more known rows."""
    size = 1.0 if not cell["rows"] else 0.5
    models = size * (8.0 + 25.0 * float(cell["aligned"]))
    return {
        "baselines": 5.0 * size,
        "completers": 12.0 * size,
        "slow completers": 60.0 * size,
        "prediction": 8.0 * size + 1.7 * models,
        "measures": 10.0 * size + 0.7 * models,
        "self-training": 1.0 + models * float(cell["rounds"]) * (0.3 if cell["confidence"] == "paper" else 0.8),
    }[str(cell["part"])]


def compute(cell: Cell) -> Figures:
    """All figures of a cell."""
    dealt = deal(
        str(cell["set"]),
        int(cell["seed"]),
        float(cell["aligned"]),
        rows=int(cell["rows"]),
        sample=cast(Sample, cell["sample"]),
    )
    seed = int(cell["seed"])
    match cell["part"]:
        case "baselines":
            return baselines(dealt)
        case "completers":
            return completers(dealt, COMPLETERS, seed)
        case "slow completers":
            return completers(dealt, SLOW_COMPLETERS, seed)
        case "prediction":
            return prediction(dealt, seed)
        case "measures":
            return measures(dealt, seed)
        case _:
            return self_training(dealt, settings_of(cell), seed)


def settings_of(cell: Cell) -> SelfTrainingSettings:
    """How a cell of `self-training` predicts; with the paper's confidence there are no folds, as in the paper."""
    settings: dict[str, Any] = {"rounds": cell["rounds"], "confidence": cell["confidence"]}
    settings |= {"folds": 1 if cell["confidence"] == "paper" else FOLDS}
    settings |= {"alpha": cell["alpha"], "fraction": cell["k"]} if cell["alpha"] else {}
    return SelfTrainingSettings(**settings)


def baselines(dealt: Dealt) -> Figures:
    """What needs no method."""
    first = slice(dealt.aligned)
    tables = {
        "aligned only": (dealt.matrix[first], dealt.label[first], dealt.test),
        "A only": (dealt.matrix[:, dealt.own], dealt.label, dealt.test[:, dealt.own]),
        "left missing": (dealt.left_missing, dealt.label, dealt.test),
        "truth": (dealt.matrix, dealt.label, dealt.test),
    }
    return {name: {"auc": auc(dealt.test_label, classify(*table))} for name, table in tables.items()}


def _completer(settings: Mapping[str, Any]) -> CompleterSettings:
    return cast(CompleterSettings, settings_from({**settings, "held_out": 0.0}))


def completers(dealt: Dealt, which: Mapping[str, tuple[Mapping[str, Any], bool, bool, int]], seed: int) -> Figures:
    """B's cells filled by completers; the AUC is of the mean over models on each draw."""
    found = {}
    for name, (settings, shown, label, draws) in which.items():
        places = np.concatenate([dealt.own, dealt.other]) if shown else dealt.other
        names = [dealt.variables[place].name for place in places]
        kinds = {name: dealt.table.kinds[name] for name in names}
        frame = dealt.table.frame.select(*dealt.table.id, *names)
        if label:
            kinds["label"] = "number"
            frame = frame.with_columns(label=dealt.label)
        table = type(dealt.table)("clinic", dealt.table.origin, dealt.table.id, kinds, frame)
        mask = np.zeros((dealt.rows, len(kinds)), bool)
        mask[dealt.aligned :, len(dealt.own) if shown else 0 : len(places)] = True
        fitted = fit(_completer(settings), table, np.random.default_rng([seed, 1]), mask)
        done = complete(fitted, table, np.random.default_rng([seed, 2]), mask, draws=draws)
        cells = [
            {
                place: encode(dealt.variables[place].column, one.frame[dealt.variables[place].name])
                for place in dealt.other
            }
            for one in done.draws
        ]
        scores = [classify(dealt.filled(one), dealt.label, dealt.test) for one in cells]
        values = np.column_stack([cells[0][place] for place in dealt.other])
        found[name] = {"auc": auc(dealt.test_label, np.mean(scores, axis=0))} | quality(dealt, values)
    return found


def prediction(dealt: Dealt, seed: int) -> Figures:
    """Columns predicted once."""
    without = predict(dealt, BASE, ONCE, seed)
    given = predict(dealt, BASE, ONCE_FOR_DRAWS, seed, label=True)
    likely = {place: one.values for place, one in zip(dealt.other, without, strict=True)}
    draws = [
        {
            place: one.drawn(np.random.default_rng([seed, number, int(place)]))
            for place, one in zip(dealt.other, given, strict=True)
        }
        for number in range(DRAWS)
    ]

    def scored(table: Floats) -> Floats:
        return classify(table, dealt.label, dealt.test)

    of_draws = [scored(dealt.filled(draw)) for draw in draws]
    mean = np.mean(of_draws, axis=0)
    scores = {
        "most likely value": scored(dealt.filled(likely)),
        "one draw": of_draws[0],
        "draws": mean,
        "completed": (scored(dealt.left_missing) + mean) / 2,
    }
    found: dict[str, dict[str, float]] = {name: {"auc": auc(dealt.test_label, each)} for name, each in scores.items()}
    found["most likely value"] |= quality(dealt, np.column_stack(list(likely.values())))
    found["most likely value"]["skill"] = float(np.mean(skills(without, dealt.truth)))
    found["one draw"] |= quality(dealt, np.column_stack(list(draws[0].values())))
    for name, ranks in confidence_ranks(without, dealt.truth).items():
        found[f"confidence, {name}"] = ranks
    return found


def measures(dealt: Dealt, seed: int) -> Figures:
    """Screening by each measure: which columns it chooses, how well these are predicted, and what that is worth."""
    without = predict(dealt, BASE, ONCE_FOR_DRAWS, seed)
    skill = np.array(skills(without, dealt.truth))
    names = [one.variable.name for one in without]
    by_columns: dict[frozenset[str], float] = {}
    found: dict[str, dict[str, float]] = {}
    for measure, screening in screenings(dealt, without).items():
        strengths = {one.column: one.strength for one in screening.columns}
        ranked = spearman(np.array([strengths[name] for name in names]), skill)
        for how, threshold in SELECTED_BY.items():
            columns = frozenset(screening.chosen(threshold))
            if columns not in by_columns:
                each = zip(dealt.other, without, strict=True)
                table = dealt.filled({place: one.values for place, one in each if one.variable.name in columns})
                by_columns[columns] = auc(dealt.test_label, classify(table, dealt.label, dealt.test))
            inside = np.isin(names, list(columns))
            found[f"{measure}, {how}"] = {"auc": by_columns[columns], "chosen": float(inside.mean()), "rank": ranked}
            found[f"{measure}, {how}"] |= {"skill": float(skill[inside].mean())} if inside.any() else {}
    return found


def self_training(dealt: Dealt, settings: SelfTrainingSettings, seed: int) -> Figures:
    """All cells as the last models have them, and only those that became values."""
    predictions = predict(dealt, BASE, settings, seed)
    values = np.column_stack([one.values for one in predictions])
    promoted = np.column_stack([one.rounds > 0 for one in predictions])
    known = np.column_stack([one.known for one in predictions])
    everything = dict(zip(dealt.other, values.T, strict=True))
    partly = dict(zip(dealt.other, np.where(promoted | known, values, np.nan).T, strict=True))
    scores = {
        "all cells": classify(dealt.filled(everything), dealt.label, dealt.test),
        "promoted cells": classify(dealt.filled(partly), dealt.label, dealt.test),
    }
    found = {name: {"auc": auc(dealt.test_label, each)} for name, each in scores.items()}
    found["all cells"] |= quality(dealt, values)
    found["promoted cells"] |= quality(dealt, values, promoted)
    return found


COMPLETION = Experiment(
    name="completion",
    file="completion",
    about="completing tables: baselines, completers, prediction, self-training, screening; bank, credit, census",
    keys={
        "part": str,
        "set": str,
        "rows": int,
        "aligned": float,
        "sample": str,
        "seed": int,
        "rounds": int,
        "confidence": str,
        "alpha": float,
        "k": float,
    },
    figures=("auc", "r2", "rmse", "mae", "accuracy", "f1", "filled", "skill", "rank", "coverage", "chosen"),
    packages=("numpy", "lightgbm"),
    seed=FIRST_SEED,
    cells=cells,
    check=check,
    seconds=seconds,
    compute=compute,
    one_core=lambda _: False,
    section=completion_page.section,
    pictures=completion_page.pictures,
)
