"""Completing a table: how much of what the missing rows are worth comes back, on bank, credit and census.

Columns are dealt to two parties at random in halves. A (the registry) has its half and the label for all rows, B (the
clinic) its half for a tenth of them. A quarter of the rows, with all columns, is for testing. The downstream model is
LightGBM (150 trees, rate 0.05, 31 leaves); figures are AUCs, and `gap_closed` is the fraction of the gap between
aligned rows only and the truth. Means of five seeds. Columns are pooled here, which gives the same predictions to the
bit as parties that keep them apart (`tests/complete/test_predicting.py`).

- `aligned only`: the downstream model sees the aligned rows alone; `A only`: all rows, but A's columns alone;
- `left missing`: all rows, B's missing cells stay missing; `truth`: all cells;
- `predicted`: the most likely value, from A's columns without the label;
- `one draw`: one draw of each missing cell, given A's columns and the label; `draws`: the mean of models on three;
- `completed`: what the library advises: the mean of a model on the table left missing and of those on three draws.

`confidence_rank` is Spearman's correlation of 1 - confidence with the error of predicted cells, the mean over columns;
`confidence_rank, paper` the same with the paper's formulas. `coverage` is the fraction of hidden numbers within their
intervals of 90 %. `strength_rank` says for each measure of screening how well it orders columns by how well their
hidden cells are in fact predicted: their `skill` (R², or McFadden's R² for classes), of which the mean is given too.

Cost, with three parties as threads and the engine `shares`: `screen_vs_plain` is the CPU of the secure rank
correlations of 15 + 15 columns and 30,000 rows over that of the same by numpy on pooled columns; `million_rows_gb` the
most memory of a process that runs all parties of a screening and of one predicted column at a million rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import lightgbm
import numpy as np
import polars as pl
from scipy.stats import spearmanr

from unpooled.arrays import Floats, Ints
from unpooled.complete.association import (
    Contingency,
    centred_ranks,
    correlations,
    help_spearman,
    spearman,
    squared_sums,
)
from unpooled.complete.column_model import paper_confidence
from unpooled.complete.federated import help_predict_columns, predict_columns
from unpooled.complete.screening import by_contingency, by_correlation, by_gain, gains_of
from unpooled.complete.self_training import Prediction, SelfTrainingSettings
from unpooled.complete.variables import Variable, binned, matrix_of, variable_of, variables_of
from unpooled.data import datasets
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters

SETS = ("census", "credit", "bank")
BARS = {"census": 0.60, "credit": 0.75, "bank": 0.78}
SEEDS = (1, 2, 3, 4, 5)
ALIGNED, TEST, DRAWS = 0.1, 0.25, 3
BESIDE = "beside: "
DOWNSTREAM: dict[str, Any] = {
    "n_estimators": 150,
    "learning_rate": 0.05,
    "num_leaves": 31,
    "verbose": -1,
    "n_jobs": 1,
}
BASES: dict[str, LearnerParameters] = {
    "rf": ForestParameters(trees=30, depth=8, hide_bags=False),
    "gbdt": GbdtParameters(trees=30, depth=3, learning_rate=0.2, hide_bags=False),
}


def columns_of(name: str) -> tuple[list[Variable], Floats]:
    """All columns of a set that have more than one value, and its label."""
    data = datasets.load(name)
    table = table_from_frame(data.frame, data.frame.columns[0], name)
    return [one for one in variables_of(table) if not one.constant], np.asarray(data.label, float)


def downstream(train: Floats, label: Floats, test: Floats) -> Floats:
    model = lightgbm.LGBMClassifier(**DOWNSTREAM).fit(train, label)
    found: Floats = model.predict_proba(test)[:, 1]
    return found


def hidden(variable: Variable, known: Ints, rows: int) -> Variable:
    """The column with cells in the first rows only."""
    values = np.full(rows, np.nan)
    values[: len(known)] = variable.values[known]
    return variable_of(variable.column, values)


def judged(predictions: Sequence[Prediction], truth: Floats) -> dict[str, float]:
    """How confidence and intervals fare on hidden cells, whose `truth` has a column for each prediction."""
    ranks: dict[str, list[float]] = {"confidence_rank": [], "confidence_rank, paper": []}
    covered = []
    for prediction, true in zip(predictions, truth.T, strict=True):
        cells = ~prediction.known & ~np.isnan(true)
        wrong, outputs = np.abs(prediction.values - true)[cells], prediction.outputs[cells]
        classes = prediction.column.classes
        errors = (wrong > 0).astype(float) if classes else wrong
        each = prediction.confidence[cells], paper_confidence(outputs, classes)
        for what, confidence in zip(ranks, each, strict=True):
            if np.ptp(errors) > 0:
                ranks[what].append(
                    float(spearmanr(1 - confidence, errors).statistic) if np.ptp(confidence) > 0 else 0.0
                )
        if prediction.errors is not None:
            low, high = prediction.column.interval(outputs, prediction.errors[cells])
            covered.append(float(((low <= true[cells]) & (true[cells] <= high)).mean()))
    return {what: statistics.mean(found) for what, found in ranks.items()} | {"coverage": statistics.mean(covered)}


def skills(predictions: Sequence[Prediction], truth: Floats) -> list[float]:
    """How much of the loss of the marginal distribution is saved on hidden cells."""
    found = []
    for prediction, true in zip(predictions, truth.T, strict=True):
        whole = replace(prediction.variable, values=np.where(prediction.known, np.nan, true))
        cells = whole.known & np.isin(true, prediction.column.codes) if prediction.column.classes else whole.known
        hidden_cells = replace(
            prediction,
            variable=whole,
            held_out=np.where(cells[:, np.newaxis], prediction.outputs, np.nan),
            rounds=np.zeros(len(true), np.int64),
        )
        found.append(float(gains_of([hidden_cells])[0][0]))
    return found


def strengths(own: Sequence[Variable], other: Sequence[Variable], gains: Floats, rows: int) -> dict[str, Floats]:
    """By measure the strength of each column of B, from the aligned rows of pooled columns."""
    left, right = (centred_ranks(matrix_of(each, rows)) for each in (own, other))
    matrix = correlations((left.T.astype(float) @ right).astype(object), squared_sums(left), squared_sums(right))
    counts = [binned(variable) for variable in other]
    tables = []
    for variable in own:
        codes, bins = binned(variable)
        each = [np.histogram2d(codes, theirs, [range(bins + 1), range(count + 1)])[0] for theirs, count in counts]
        tables.append(np.concatenate(each, axis=1).astype(np.int64))
    names = [variable.name for variable in other]
    found = {
        "mean": by_correlation(names, matrix, rows, "mean"),
        "max": by_correlation(names, matrix, rows, "max"),
        "cramer": by_contingency(names, Contingency(tuple(tables), tuple(count for _, count in counts)), rows),
    }
    by_name = {what: {one.column: one.strength for one in each.columns} for what, each in found.items()}
    return {what: np.array([each[name] for name in names]) for what, each in by_name.items()} | {"gain": gains}


def one_seed(name: str, seed: int, base: LearnerParameters, rounds: int) -> dict[str, float]:
    """All figures of one set and seed."""
    variables, label = columns_of(name)
    rng = np.random.default_rng(seed)
    places, order = rng.permutation(len(variables)), rng.permutation(len(label))
    own, other = places[: len(places) // 2], places[len(places) // 2 :]
    test, train = order[: int(TEST * len(order))], order[int(TEST * len(order)) :]
    aligned = train[: int(ALIGNED * len(train))]
    matrix = np.column_stack([variable.values for variable in variables])
    lacking = matrix[train].copy()
    lacking[len(aligned) :, other] = np.nan
    of_a, of_test = matrix[np.ix_(train, own)], label[test]
    settings = SelfTrainingSettings(rounds=rounds, folds=3)
    missing = [hidden(variables[place], aligned, len(train)) for place in other]
    missing = [variable for variable in missing if not variable.constant]
    where = [next(place for place in other if variables[place].name == one.name) for one in missing]
    began = time.process_time()
    names = tuple(variables[place].name for place in own)
    given = Columns(np.column_stack([of_a, label[train]]), (*names, "label"))
    with_label = predict_columns(alone(), base, given, missing, settings, seed).predictions
    without = predict_columns(alone(), base, Columns(of_a, names), missing, settings, seed).predictions
    seconds = time.process_time() - began
    gains, errors = gains_of(without)
    chosen = set(by_gain([one.name for one in missing], gains, errors, len(aligned)).chosen())
    tables = {"left missing": lacking, "truth": matrix[train]}
    for what, found, columns in (("predicted", without, chosen), ("all predicted", without, None)):
        tables[what] = lacking.copy()
        for place, prediction in zip(where, found, strict=True):
            if columns is None or prediction.variable.name in columns:
                tables[what][:, place] = prediction.values
    for number in range(DRAWS):
        tables[f"draw {number}"] = lacking.copy()
        for place, prediction in zip(where, with_label, strict=True):
            tables[f"draw {number}"][:, place] = prediction.drawn(np.random.default_rng([seed, number, int(place)]))
    scores = {what: downstream(table, label[train], matrix[test]) for what, table in tables.items()}
    scores["aligned only"] = downstream(matrix[aligned], label[aligned], matrix[test])
    scores["A only"] = downstream(of_a, label[train], matrix[np.ix_(test, own)])
    several = [scores.pop(f"draw {number}") for number in range(DRAWS)]
    scores |= {"one draw": several[0], "draws": np.mean(several, axis=0)}
    scores["completed"] = (scores["left missing"] + scores["draws"]) / 2
    truth = np.column_stack([variables[place].values[train] for place in where])
    first = [hidden(variables[place], aligned, len(aligned)) for place in (*own, *where)]
    by_measure = strengths(first[: len(own)], first[len(own) :], gains, len(aligned))
    skill = skills(without, truth)
    beside = judged(without, truth) | {
        "skill": statistics.mean(skill),
        "chosen": len(chosen) / len(missing),
        "cpu_s": seconds,
    }
    beside |= {f"strength_rank {what}": float(spearmanr(each, skill).statistic) for what, each in by_measure.items()}
    return {what: auc(of_test, found) for what, found in scores.items()} | {
        f"{BESIDE}{w}": v for w, v in beside.items()
    }


def together(active: Callable[[Team], Any], passive: Callable[[Team], Any]) -> None:
    """A clinic, a registry and a coordinator as threads of this process."""
    owners = ("clinic", "registry")

    def opened(session: Session) -> Engine:
        return open_engine(session, Rules("shares", questions=10**6), owners, "clinic", "coordinator")

    def owner(session: Session) -> None:
        team = Team("clinic", owners, opened(session), "rows")
        (active if session.party == "clinic" else passive)(team)
        finish(team.products)

    roles: dict[str, Any] = dict.fromkeys(owners, owner)
    simulate_roles(roles | {"coordinator": lambda session: serve(opened(session))}, timeout=3600)


def screening_cost(rows: int = 30_000, columns: int = 15) -> float:
    """CPU of the secure rank correlations over that of the pooled ones."""
    rng = np.random.default_rng(1)
    own, other = rng.normal(size=(rows, columns)), rng.normal(size=(rows, columns))

    def pooled() -> None:
        left, right = centred_ranks(own), centred_ranks(other)
        correlations(left.T.astype(float) @ right, squared_sums(left), squared_sums(right))

    seconds = []
    for work in (pooled, lambda: together(lambda team: spearman(team, own), lambda team: help_spearman(team, other))):
        best = []
        for _ in range(3):
            began = time.process_time()
            work()
            best.append(time.process_time() - began)
        seconds.append(min(best))
    return seconds[1] / seconds[0]


def million_rows() -> None:
    """Screening and one predicted column at a million rows; a tenth of them aligned."""
    rng = np.random.default_rng(1)
    rows, aligned = 1_000_000, 100_000
    registry = rng.normal(size=(rows, 15)).astype(np.float64)
    frame = pl.DataFrame({"id": range(aligned), "lab": registry[:aligned, 0] + rng.normal(size=aligned)})
    clinic = table_from_frame(frame, "id", "clinic")
    own = np.column_stack([clinic.frame["lab"].to_numpy(), rng.normal(size=(aligned, 14))])
    base, settings = GbdtParameters(trees=5, depth=3), SelfTrainingSettings(rounds=1, folds=2)
    names = tuple(f"c{place}" for place in range(15))

    def active(team: Team) -> None:
        spearman(team, own)
        none = Columns(np.empty((rows, 0)), ())
        predict_columns(team, base, none, variables_of(clinic, rows), settings, 1)

    def passive(team: Team) -> None:
        help_spearman(team, registry[:aligned])
        help_predict_columns(team, base, Columns(registry, names), settings)

    together(active, passive)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def cost_bars() -> list[dict[str, Any]]:
    ratio = round(screening_cost(), 1)
    print(f"screen_vs_plain {ratio}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--million"]
    memory = round(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout), 2)
    return [
        {"name": "screen_vs_plain", "value": ratio, "bar": 20, "holds": ratio <= 20},
        {"name": "million_rows_gb", "value": memory, "bar": 4, "holds": memory <= 4},
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    arguments.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    arguments.add_argument("--base", default="gbdt", choices=BASES)
    arguments.add_argument(
        "--rounds", type=int, default=1, help="rounds of self-training; 1: columns are predicted once"
    )
    arguments.add_argument("--without-cost", action="store_true", help="leave out screen_vs_plain and million_rows_gb")
    arguments.add_argument("--million", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.million:
        million_rows()
        return
    bars, results = [], {}
    for name in given.sets:
        runs = [one_seed(name, seed, BASES[given.base], given.rounds) for seed in given.seeds]
        mean = {what: statistics.mean(run[what] for run in runs) for what in runs[0]}
        low, high = mean["aligned only"], mean["truth"]
        beside = {what.removeprefix(BESIDE): round(mean.pop(what), 3) for what in list(mean) if what.startswith(BESIDE)}
        closed = {what: round((mean[what] - low) / (high - low), 3) for what in mean}
        results[name] = {"auc": {what: round(value, 4) for what, value in mean.items()}, "gap_closed": closed}
        results[name]["beside"] = beside
        print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
        bars.append({"name": f"gap_closed {name}", "value": closed["completed"], "bar": BARS[name]})
        bars[-1]["holds"] = closed["completed"] >= BARS[name]
        for other in ("left missing", "aligned only", "A only"):
            difference = round(mean["completed"] - mean[other], 4)
            what = f"beats_{other.replace(' ', '_').lower()} {name}"
            bars.append({"name": what, "value": difference, "bar": 0, "holds": difference > 0})
        rank = beside["confidence_rank"]
        bars.append({"name": f"confidence_rank {name}", "value": rank, "bar": 0.3, "holds": rank >= 0.3})
    bars += [] if given.without_cost else cost_bars()
    print(json.dumps({"results": results, "bars": bars}))


if __name__ == "__main__":
    main()
