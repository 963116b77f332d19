"""Cells of a data set that are hidden in one of three ways, completed, and judged against the truth.

A quarter of the rows, with all cells, is for testing a downstream model; of the others cells are hidden:

- `random`: each cell with a chance of a fifth;
- `block`: of half of the columns all cells of 70 % of the rows, as if their party did not have these rows;
- `rows`: all cells of 70 % of the rows. So a job `complete` asks a completer: of the other people nothing is known to
  the party that fills its columns.

The label is never among the columns. Completers see neither the label nor the test rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.filling import Completed
from unpooled.data import datasets
from unpooled.data.coding import Column, encode_all, learn_all, replace_cells
from unpooled.data.columns import Kind
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.evaluate.distribution import spearman
from unpooled.evaluate.metrics import auc
from unpooled.evaluate.table import ColumnEvaluation, evaluate_table
from unpooled.experiments.dealing import classify

TEST = 0.25
AT_RANDOM, LACKING = 0.2, 0.7
"""The chance of a cell to be hidden, and the fraction of the rows that a party lacks."""

RANDOM, BLOCK, ROWS = WAYS = ("random", "block", "rows")
BREAST = "breast"

_SCHOOLING = ("illiterate", "basic.4y", "basic.6y", "basic.9y", "high.school", "professional.course")
ORDERED: Mapping[str, Mapping[str, Kind]] = {
    "bank": {"education": (*_SCHOOLING, "university.degree")},
    "census": {
        "education": (
            "Preschool",
            "1st-4th",
            "5th-6th",
            "7th-8th",
            "9th",
            "10th",
            "11th",
            "12th",
            "HS-grad",
            "Some-college",
            "Assoc-voc",
            "Assoc-acdm",
            "Bachelors",
            "Masters",
            "Prof-school",
            "Doctorate",
        )
    },
}
"""Categories with an order, which the publishers' files do not say."""

BOOLEANS: Mapping[str, Mapping[str, str]] = {
    "bank": {"default": "yes", "housing": "yes", "loan": "yes", "contact": "telephone"},
    "credit": {"SEX": "2"},
    "census": {"sex": "Male"},
}
"""Columns of two values, and which of them is true."""

KINDS = ("number", "ordered", "boolean", "category")
"""Kinds of columns that are told apart; a date is a number of days."""


@dataclass(frozen=True, eq=False)
class Hidden:
    """Rows of a data set: `truth` with all cells, of which those under `mask` are hidden, and test rows; their labels.

    `columns` are those of all these rows, so that no level is unknown; `seed` is where everything random comes from.
    """

    truth: Table
    mask: Bools
    label: Floats
    test: Table
    test_label: Floats
    columns: tuple[Column, ...]
    seed: int

    def rng(self, *what: int) -> np.random.Generator:
        """Random numbers of their own for each purpose."""
        return np.random.default_rng([self.seed, *what])


@lru_cache(maxsize=1)
def table_of(name: str) -> tuple[Table, Floats]:
    """A data set as a table, coded categories as categories, and its label."""
    data = _breast() if name == BREAST else datasets.load(name)
    missing = ("", *datasets.MISSING.get(name, ()))
    cells = {column: pl.col(column).cast(pl.String) for column in BOOLEANS.get(name, {})}
    booleans = [
        pl.when(~text.is_in(missing)).then(text == BOOLEANS[name][column]).alias(column)
        for column, text in cells.items()
    ]
    frame = data.frame.with_columns(booleans)
    types: dict[str, Kind] = {column: "category" for column in datasets.TYPES.get(name, {}) if column not in cells}
    types |= ORDERED.get(name, {})
    return table_from_frame(frame, frame.columns[0], name, types, missing), np.asarray(data.label, float)


def _breast() -> datasets.Dataset:
    """The breast cancer data that come with scikit-learn: 569 rows of 30 numbers; class 1 is malignant."""
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError:
        raise InputError(f"the data set {BREAST} needs: pip install 'unpooled[experiments]'") from None
    found = load_breast_cancer()
    frame = pl.DataFrame({"id": range(len(found.data)), **dict(zip(found.feature_names, found.data.T, strict=True))})
    return datasets.Dataset(BREAST, frame, np.asarray(found.target == 0))


def hide(name: str, rows: int, way: str, seed: int) -> Hidden:
    """So many rows of a set, or all of them if `rows` is 0 or more than there are, with cells hidden in this way."""
    table, label = table_of(name)
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(table.frame.height)[: rows or None]
    cut = int(TEST * len(order))
    test, train = order[:cut], order[cut:]
    truth = table.take(train)
    known = ~truth.frame.select(pl.col(list(table.kinds)).is_null()).to_numpy()
    mask = mask_of(way, known.shape, rng) & known
    return Hidden(truth, mask, label[train], table.take(test), label[test], learn_all(table.take(order)), seed)


def mask_of(way: str, shape: tuple[int, int], rng: np.random.Generator) -> Bools:
    """Which cells are hidden, rows × columns."""
    if way == RANDOM:
        return rng.random(shape) < AT_RANDOM
    rows = rng.choice(shape[0], round(LACKING * shape[0]), replace=False)
    columns = rng.choice(shape[1], shape[1] // 2, replace=False) if way == BLOCK else np.arange(shape[1])
    mask = np.zeros(shape, np.bool_)
    mask[np.ix_(rows, columns)] = True
    return mask


def kind_of(column: Column) -> str:
    """Which of `KINDS` a column is."""
    if column.is_number:
        return "number"
    return "ordered" if isinstance(column.kind, tuple) else str(column.kind)


def judged(hidden: Hidden, table: Table) -> dict[str, float]:
    """How far the hidden cells of a completed table are from the truth; nothing if none was filled.

    `rmse_scaled` is over all hidden numbers, each column scaled to lie between 0 and 1. All else are means over
    columns: `rmse` in standard deviations of the column, `accuracy`, distances, and accuracy and total variation by
    kind of column. `association` is the mean difference over pairs of columns.
    """
    found = evaluate_table(table, hidden.truth, hidden.mask)
    judgements = [(column, found.columns[column.name]) for column in hidden.columns if column.name in found.columns]
    numbers = [(column, each) for column, each in judgements if column.is_number and each.cells]
    classes = [(kind_of(column), each) for column, each in judgements if not column.is_number and each.cells]
    if not numbers and not classes:
        return {}
    figures = _of_numbers(hidden, numbers) if numbers else {}
    if classes:
        figures["accuracy"] = statistics.mean(each.errors["accuracy"] for _, each in classes)
        figures["tv"] = statistics.mean(each.distribution["total_variation"] for _, each in classes)
    for kind in dict.fromkeys(kind for kind, _ in classes):
        own = [each for one, each in classes if one == kind]
        figures[kind] = statistics.mean(each.errors["accuracy"] for each in own)
        figures[f"{kind}_tv"] = statistics.mean(each.distribution["total_variation"] for each in own)
    return figures | ({} if found.association is None else {"association": found.association})


def _of_numbers(hidden: Hidden, numbers: Sequence[tuple[Column, ColumnEvaluation]]) -> dict[str, float]:
    """The figures of columns of numbers; a column that is constant in the truth has no scale."""
    scaled, cells = 0.0, 0
    whole = {column.name: column for column in learn_all(hidden.truth)}
    found: dict[str, list[float]] = {}
    for column, each in numbers:
        true = whole[column.name]
        if true.low == true.high:
            continue
        scaled += each.cells * (each.errors["rmse"] / ((true.high or 0.0) - (true.low or 0.0))) ** 2
        cells += each.cells
        found.setdefault("rmse", []).append(each.errors["rmse"] / true.spread)
        for name, value in each.distribution.items():
            found.setdefault(name, []).append(value)
    means = {name: statistics.mean(values) for name, values in found.items()}
    return means | ({"rmse_scaled": float(np.sqrt(scaled / cells))} if cells else {})


def mean_or_mode(hidden: Hidden) -> Table:
    """Hidden numbers filled with the mean of their column's known cells, all else with the most frequent value."""
    values = encode_all(hidden.columns, hidden.truth)
    values[hidden.mask] = np.nan
    for column, cells in zip(hidden.columns, values.T, strict=True):
        known = cells[~np.isnan(cells)]
        cells[:] = known.mean() if column.is_number else np.bincount(known.astype(np.int64)).argmax()
    return replace_cells(hidden.truth, hidden.columns, values, hidden.mask)


def downstream(hidden: Hidden, tables: Sequence[Table]) -> float:
    """The AUC on the test rows of a model, or of the mean of models, trained on each of these tables."""
    test = encode_all(hidden.columns, hidden.test)
    chances = [classify(encode_all(hidden.columns, table), hidden.label, test) for table in tables]
    return auc(hidden.test_label, np.mean(chances, axis=0))


def trust_rank(hidden: Hidden, done: Completed) -> float | None:
    """Spearman's correlation of 1 - trust with the error of a cell, 1 for a wrong class: the mean over columns."""
    truth, values = (encode_all(hidden.columns, table) for table in (hidden.truth, done.table))
    found = []
    for place, column in enumerate(hidden.columns):
        cells = done.filled[:, place]
        errors = np.abs(values[cells, place] - truth[cells, place])
        errors = errors if column.is_number else (errors > 0).astype(float)
        if len(errors) and np.ptp(errors) > 0:
            found.append(spearman(1.0 - done.trust[cells, place], errors))
    return statistics.mean(found) if found else None
