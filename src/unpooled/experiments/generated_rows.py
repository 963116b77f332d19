"""Rows of a public data set for generators to learn from, what they generate, and how good that is.

So many rows are drawn from a set, with its label as one of the columns. A quarter is held out, the rest is trained on,
and as many rows as were trained on are generated. All distances are to the training rows; those of the held-out rows,
which come from the same distribution, say how small a distance can be expected to get.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.filling import FEWEST_DRAWS, Fitted, complete
from unpooled.data import datasets
from unpooled.data.coding import Column, encode_all, learn_all
from unpooled.data.table import Table, table_from_frame
from unpooled.evaluate.alike import how_alike
from unpooled.evaluate.closest import closest_record
from unpooled.evaluate.distribution import spearman
from unpooled.evaluate.metrics import auc
from unpooled.evaluate.table import evaluate_table
from unpooled.experiments.dealing import classify

HELD_OUT = 0.25
LABEL = "label"
DRAWS = FEWEST_DRAWS
"""With fewer, trust is not that of a cell."""

DISTANCES = {
    "ks": "ks",
    "total_variation": "tv",
    "wasserstein": "wasserstein",
    "association": "association",
    "mean": "mean",
    "variance": "variance",
    "skewness": "skewness",
    "kurtosis": "kurtosis",
    "missing": "missing",
}
"""What `evaluate.alike` calls them, and the names of the figures."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows of a data set: those to train on, those held out, and the cells of these that are hidden to be filled.

    `columns` are those of all these rows, so that no level is unknown; `seed` is where everything random comes from.
    """

    training: Table
    held_out: Table
    hidden: Bools
    columns: tuple[Column, ...]
    seed: int

    def rng(self, *what: int) -> np.random.Generator:
        """Random numbers of their own for each purpose."""
        return np.random.default_rng([self.seed, *what])

    def some(self) -> tuple[Table, Table]:
        """Training rows, as many as are held out, and as many others, or what is left."""
        rows = self.held_out.frame.height
        order = self.rng(2).permutation(self.training.frame.height)
        return self.training.take(order[:rows]), self.training.take(order[rows : 2 * rows])


@lru_cache(maxsize=1)
def table_of(name: str) -> Table:
    """A data set as a table, coded categories as categories, and its label as a category."""
    data = datasets.load(name)
    frame = data.frame.with_columns(pl.Series(LABEL, np.where(data.label, "yes", "no")))
    types: Any = datasets.TYPES[name] | {LABEL: "category"}
    return table_from_frame(frame, data.frame.columns[0], name, types, ("", *datasets.MISSING[name]))


def drawn(name: str, rows: int, seed: int) -> Sample:
    """So many rows of a set, or all of them if `rows` is 0; half of the columns are to be filled, never the label."""
    table = table_of(name)
    rng = np.random.default_rng([seed, 0])
    order = rng.permutation(table.frame.height)[: rows or None]
    cut = int(HELD_OUT * len(order))
    training, held_out = table.take(order[cut:]), table.take(order[:cut])
    features = [place for place, column in enumerate(table.kinds) if column != LABEL]
    hidden = np.zeros((cut, len(table.kinds)), np.bool_)
    hidden[:, rng.choice(features, len(features) // 2, replace=False)] = True
    hidden &= ~held_out.frame.select(pl.col(list(table.kinds)).is_null()).to_numpy()
    return Sample(training, held_out, hidden, learn_all(table.take(order)), seed)


class Stopwatch:
    """Seconds since it was started: of the processor, all cores together, and of the clock."""

    def __init__(self) -> None:
        self._began = time.process_time(), time.monotonic()

    @property
    def cpu(self) -> float:
        """Seconds of the processor."""
        return time.process_time() - self._began[0]

    @property
    def wall(self) -> float:
        """Seconds of the clock."""
        return time.monotonic() - self._began[1]


def forget_compiled() -> None:
    """Let what JAX has compiled be compiled again, so that every measured training includes that."""
    if "jax" in sys.modules:
        import jax

        jax.clear_caches()  # type: ignore[no-untyped-call]


def judged(sample: Sample, rows: Table) -> dict[str, float]:
    """How good generated rows are: distances, the AUC of a model that is trained on them, and nearness to rows."""
    training, _ = sample.some()
    some = rows.take(sample.rng(3).permutation(rows.frame.height)[: sample.held_out.frame.height])
    nearest = closest_record(some, training, sample.held_out, sample.columns)
    found = _distances(sample, rows) | {"auc": _auc(sample, rows), "copies": _copies(sample, rows)}
    return found | {"closest": nearest.nearer_to_training, "distance": nearest.median_to_training}


def held_out_judged(sample: Sample) -> dict[str, float]:
    """The same of the held-out rows; `closest` compares two sets of training rows, so only chance moves it from 0.5."""
    one, other = sample.some()
    nearest = closest_record(sample.held_out, one, other, sample.columns)
    found = _distances(sample, sample.held_out) | {"copies": _copies(sample, sample.held_out)}
    return found | {"closest": nearest.nearer_to_training, "distance": nearest.median_to_training}


def real_rows_judged(sample: Sample) -> dict[str, float]:
    """The AUC of a model that is trained on the training rows."""
    return {"auc": _auc(sample, sample.training)}


def _distances(sample: Sample, rows: Table) -> dict[str, float]:
    means = how_alike(rows, sample.training).means
    return {short: means[name] for name, short in DISTANCES.items() if name in means}


def _matrix(sample: Sample, rows: Table) -> tuple[Floats, Floats]:
    """The columns besides the label, and whether the label is yes."""
    values = encode_all(sample.columns, rows)
    place = next(place for place, column in enumerate(sample.columns) if column.name == LABEL)
    return np.delete(values, place, axis=1), (rows.frame[LABEL] == "yes").cast(pl.Float64).to_numpy()


def _auc(sample: Sample, rows: Table) -> float:
    """Of a downstream model on the held-out rows; rows with one label only teach it nothing."""
    matrix, label = _matrix(sample, rows)
    test, truth = _matrix(sample, sample.held_out)
    return auc(truth, classify(matrix, label, test)) if 0.0 < label.mean() < 1.0 else 0.5


def _copies(sample: Sample, rows: Table) -> float:
    """The fraction of rows that are equal to a training row in all columns."""
    names = list(rows.kinds)
    known = sample.training.frame.select(names).unique()
    same = rows.frame.select(names).join(known, on=names, how="semi", nulls_equal=True)
    return same.height / rows.frame.height


def filled_judged(sample: Sample, fitted: Fitted) -> dict[str, float]:
    """How well hidden cells of held-out rows are filled, given the others: means over columns.

    R² of numbers and accuracy of classes are of what the draws agree on. `rank` is Spearman's correlation of 1 - trust
    with the error of a cell, 1 for a wrong class.
    """
    clock = Stopwatch()
    done = complete(fitted, sample.held_out, sample.rng(4), sample.hidden, draws=DRAWS)
    seconds = clock.cpu
    found: dict[str, list[float]] = {}
    for evaluation in evaluate_table(done.table, sample.held_out, sample.hidden).columns.values():
        for name in ("r2", "accuracy"):
            if name in evaluation.errors:
                found.setdefault(name, []).append(evaluation.errors[name])
    truth, values = (encode_all(sample.columns, table) for table in (sample.held_out, done.table))
    for place, column in enumerate(sample.columns):
        cells = done.filled[:, place] & ~np.isnan(truth[:, place])
        errors = np.abs(values[cells, place] - truth[cells, place])
        errors = errors if column.is_number else (errors > 0).astype(float)
        if len(errors) and np.ptp(errors) > 0:
            found.setdefault("rank", []).append(spearman(1.0 - done.trust[cells, place], errors))
    return {name: statistics.mean(each) for name, each in found.items()} | {"fill_cpu": seconds}
