"""A public data set dealt to two parties, with some of B's cells hidden; and how good what fills them is.

A (the registry) has half of the columns and the label for all training rows, B (the clinic) the other half for the
aligned ones. Columns are pooled here, which gives the same predictions to the bit as parties that keep them apart
(`tests/complete/test_predicting.py`). A quarter of the rows, with all columns, is for testing a downstream model.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.association import Contingency, centred_ranks, correlations, squared_sums
from unpooled.complete.column_model import paper_confidence
from unpooled.complete.federated import predict_columns
from unpooled.complete.screening import Measure, Screening, by_contingency, by_correlation, by_gain, gains_of
from unpooled.complete.self_training import Prediction, SelfTrainingSettings
from unpooled.complete.variables import Variable, binned, matrix_of, variable_of, variables_of
from unpooled.data import datasets
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.evaluate.distribution import macro_f1, spearman
from unpooled.evaluate.metrics import accuracy, summary_of_numbers
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.team import alone

TEST = 0.25
SELECTION = 1.5
"""With selected rows: how much more likely a row is aligned, as a power of e, per standard deviation of its score."""

DOWNSTREAM: Mapping[str, Any] = {
    "n_estimators": 150,
    "learning_rate": 0.05,
    "num_leaves": 31,
    "verbose": -1,
    "n_jobs": 1,
}

Sample = Literal["random", "selected"]


@dataclass(frozen=True, eq=False)
class Dealt:
    """Who has what. `own` are the places of A's columns, `other` those of B's that differ among the aligned rows.

    `matrix` has all columns of the training rows as numbers, the aligned rows first.
    """

    table: Table
    variables: tuple[Variable, ...]
    own: Ints
    other: Ints
    aligned: int
    matrix: Floats
    label: Floats
    test: Floats
    test_label: Floats

    @property
    def rows(self) -> int:
        """How many training rows there are."""
        return len(self.label)

    @property
    def left_missing(self) -> Floats:
        """The training rows without B's cells of rows that are not aligned, also of columns that do not differ."""
        lacking = self.matrix.copy()
        lacking[self.aligned :, np.setdiff1d(np.arange(lacking.shape[1]), self.own)] = np.nan
        return lacking

    @property
    def truth(self) -> Floats:
        """B's cells."""
        return self.matrix[:, self.other]

    def columns_of_a(self, label: bool) -> Columns:
        """What A has of all training rows, with or without the label."""
        names = tuple(self.variables[place].name for place in self.own)
        matrix = self.matrix[:, self.own]
        return Columns(np.column_stack([matrix, self.label]), (*names, "label")) if label else Columns(matrix, names)

    def missing(self, rows: int | None = None) -> list[Variable]:
        """B's columns, with cells in the aligned rows only."""
        return [
            hidden(self.variables[place], self.matrix[: self.aligned, place], rows or self.rows) for place in self.other
        ]

    def filled(self, columns: Mapping[int, Floats]) -> Floats:
        """The training rows with these columns of B, by place, and what is not among them left missing."""
        table = self.left_missing
        for place, values in columns.items():
            table[:, place] = values
        return table


@lru_cache(maxsize=1)
def columns_of(name: str) -> tuple[Table, tuple[Variable, ...], Floats]:
    """A data set as a table, its columns that have more than one value, and its label."""
    data = datasets.load(name)
    table = table_from_frame(data.frame, data.frame.columns[0], name)
    return table, tuple(one for one in variables_of(table) if not one.constant), np.asarray(data.label, float)


def hidden(variable: Variable, known: Floats, rows: int) -> Variable:
    """The column with cells in the first rows only."""
    values = np.full(rows, np.nan)
    values[: len(known)] = known
    return variable_of(variable.column, values)


def deal(name: str, seed: int, aligned: float, *, rows: int = 0, sample: Sample = "random") -> Dealt:
    """Deal a data set, or so many rows of it; `selected` aligned rows are no random sample, but go with A's columns."""
    table, variables, label = columns_of(name)
    rng = np.random.default_rng(seed)
    places, order = rng.permutation(len(variables)), rng.permutation(len(label))
    order = order[:rows] if rows else order
    own, other = places[: len(places) // 2], places[len(places) // 2 :]
    test, train = order[: int(TEST * len(order))], order[int(TEST * len(order)) :]
    matrix = np.column_stack([variable.values for variable in variables])
    if sample == "selected":
        train = train[_selected(matrix[np.ix_(train, own)], rng)]
    count = int(aligned * len(train))
    differ = [place for place in other if not hidden(variables[place], matrix[train[:count], place], count).constant]
    return Dealt(
        table=table.take(train),
        variables=variables,
        own=own,
        other=np.array(differ, np.int64),
        aligned=count,
        matrix=matrix[train],
        label=label[train],
        test=matrix[test],
        test_label=label[test],
    )


def _selected(matrix: Floats, rng: np.random.Generator) -> Ints:
    """Rows in a random order in which those come early whose columns, ranked and added with random signs, are high."""
    signs = rng.choice([-1.0, 1.0], matrix.shape[1])
    score = centred_ranks(matrix).astype(float) @ signs
    score = (score - score.mean()) / (score.std() or 1.0)
    # Sampling without replacement by weights: the largest of weight plus Gumbel noise come first.
    return np.argsort(-(SELECTION * score + rng.gumbel(size=len(score))), kind="stable")


def predict(
    dealt: Dealt, base: LearnerParameters, settings: SelfTrainingSettings, seed: int, *, label: bool = False
) -> tuple[Prediction, ...]:
    """B's columns from A's; with the label only for draws."""
    return predict_columns(alone(), base, dealt.columns_of_a(label), dealt.missing(), settings, seed).predictions


def classify(train: Floats, label: Floats, test: Floats) -> Floats:
    """The probabilities of a downstream model for the test rows."""
    try:
        from lightgbm import LGBMClassifier
    except ImportError:
        raise InputError("the downstream model needs: pip install 'unpooled[experiments]'") from None
    model = LGBMClassifier(**DOWNSTREAM).fit(train, label)
    return np.asarray(model.predict_proba(test), float)[:, 1]


def quality(dealt: Dealt, cells: Floats, where: Bools | None = None) -> dict[str, float]:
    """How good B's cells are where they were hidden, the mean over columns; NaN counts as not filled.

    RMSE and MAE are in standard deviations of all hidden cells of the column. `where`: only these cells count.
    """
    shown = slice(dealt.aligned, None)
    counted = ~np.isnan(cells[shown]) & ~np.isnan(dealt.truth[shown])
    counted &= True if where is None else where[shown]
    found: dict[str, list[float]] = {}
    for place, true, said, compared in zip(dealt.other, dealt.truth[shown].T, cells[shown].T, counted.T, strict=True):
        if not compared.any():
            continue
        if dealt.variables[place].classes:
            each = {
                "accuracy": accuracy(true[compared], said[compared]),
                "f1": macro_f1(true[compared], said[compared]),
            }
        else:
            each = summary_of_numbers(true[compared], said[compared])
            spread = float(np.nanstd(true)) or 1.0
            each |= {"rmse": each["rmse"] / spread, "mae": each["mae"] / spread}
        for what, value in each.items():
            found.setdefault(what, []).append(value)
    means = {what: statistics.mean(values) for what, values in found.items()}
    return means | {"filled": float(counted.sum() / max((~np.isnan(dealt.truth[shown])).sum(), 1))}


def confidence_ranks(predictions: Sequence[Prediction], truth: Floats) -> dict[str, dict[str, float]]:
    """How confidence and intervals fare on hidden cells, whose `truth` has a column for each prediction.

    `rank` is Spearman's correlation of 1 - confidence with the error, the mean over columns; `coverage` the fraction of
    hidden numbers within their intervals of 90 %.
    """
    ranks: dict[str, list[float]] = {"calibrated": [], "paper": []}
    covered = []
    for prediction, true in zip(predictions, truth.T, strict=True):
        cells = ~prediction.known & ~np.isnan(true)
        wrong, outputs = np.abs(prediction.values - true)[cells], prediction.outputs[cells]
        classes = prediction.column.classes
        errors = (wrong > 0).astype(float) if classes else wrong
        each = prediction.confidence[cells], paper_confidence(outputs, classes)
        for what, confidence in zip(ranks, each, strict=True):
            if np.ptp(errors) > 0:
                ranks[what].append(spearman(1 - confidence, errors))
        if prediction.errors is not None:
            low, high = prediction.column.interval(outputs, prediction.errors[cells])
            covered.append(float(((low <= true[cells]) & (true[cells] <= high)).mean()))
    found = {what: {"rank": statistics.mean(values)} for what, values in ranks.items() if values}
    if covered and "calibrated" in found:
        found["calibrated"]["coverage"] = statistics.mean(covered)
    return found


def skills(predictions: Sequence[Prediction], truth: Floats) -> list[float]:
    """How much of the loss of the marginal distribution is saved on hidden cells: R², or McFadden's for classes."""
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


def screenings(dealt: Dealt, predictions: Sequence[Prediction]) -> dict[Measure, Screening]:
    """By measure the list of B's columns, from the aligned rows; `gain` from predictions of known cells."""
    rows = dealt.aligned
    own = [hidden(dealt.variables[place], dealt.matrix[:rows, place], rows) for place in dealt.own]
    other = dealt.missing(rows)
    left, right = (centred_ranks(matrix_of(each, rows)) for each in (own, other))
    matrix = correlations((left.T.astype(float) @ right).astype(object), squared_sums(left), squared_sums(right))
    counts = [binned(variable) for variable in other]
    tables = []
    for variable in own:
        codes, bins = binned(variable)
        each = [np.histogram2d(codes, theirs, [range(bins + 1), range(count + 1)])[0] for theirs, count in counts]
        tables.append(np.concatenate(each, axis=1).astype(np.int64))
    names = [variable.name for variable in other]
    return {
        "mean": by_correlation(names, matrix, rows, "mean"),
        "max": by_correlation(names, matrix, rows, "max"),
        "cramer": by_contingency(names, Contingency(tuple(tables), tuple(count for _, count in counts)), rows),
        "gain": by_gain(names, *gains_of(predictions), rows),
    }
