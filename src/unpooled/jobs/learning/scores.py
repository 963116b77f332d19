"""What a party keeps of predictions: a file with a line for each row, and figures in which no single row shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpooled import atomic
from unpooled.arrays import Bools, Floats
from unpooled.data.columns import typed
from unpooled.evaluate import metrics
from unpooled.jobs.learning.labels import Labels

PREDICTIONS = "predictions.csv"
_CODE = "^[+-]?0[0-9]"
_GROUPS = 10
_BINS = 20


def write_predictions(
    folder: Path, ids: pl.DataFrame, scores: Floats, names: Sequence[str], more: Mapping[str, pl.Series] | None = None
) -> None:
    """Write a line for each row: its ids, what else is given of it, and its score, for its owner alone.

    Of two classes (`names`) the score is the probability of the second; of several there is the most probable one,
    and the probability of each.
    """
    columns = dict(more or {})
    if len(names) > 2:
        columns["prediction"] = pl.Series(names).gather(scores.argmax(axis=1))
        columns |= {f"probability_{name}": pl.Series(scores[:, place]) for place, name in enumerate(names)}
    else:
        columns["score"] = pl.Series(scores[:, 0])
    write_rows(folder / PREDICTIONS, ids, columns)


def write_rows(path: Path, ids: pl.DataFrame, columns: Mapping[str, pl.Series]) -> None:
    """Write a line for each row: its ids, and columns, of which none takes the name of an id column."""
    for name, cells in columns.items():
        ids = ids.with_columns(cells.alias(free_name(name, ids.columns)))
    with atomic.replacing(path) as temporary:
        ids.write_csv(temporary)


@dataclass(frozen=True)
class RowFile:
    """A file of `write_rows`; `ids` gives the ids back that were changed to be written."""

    name: str
    ids: Callable[[pl.DataFrame], pl.DataFrame] = lambda written: written

    def read(self, folder: Path, id_columns: int) -> pl.DataFrame | None:
        """The rows in a party's folder: ids as texts, other columns of the type that all their cells have.

        None if there is no such file.
        """
        if not (folder / self.name).exists():
            return None
        cells = pl.read_csv(folder / self.name, infer_schema=False, glob=False)
        ids, others = cells.columns[:id_columns], cells.columns[id_columns:]
        return self.ids(cells.select(ids)).with_columns(inferred(cells[name]) for name in others)


def inferred(cells: pl.Series) -> pl.Series:
    """Texts as cells of their type; numbers are whole if all were written without a decimal point.

    >>> [inferred(pl.Series(cells)).to_list() for cells in (["1", None], ["0.5", "2"], ["007", "1"], ["true", "no"])]
    [[1, None], [0.5, 2.0], ['007', '1'], ['true', 'no']]
    """
    if cells.str.contains(_CODE).any():
        return cells
    whole = [cells.cast(pl.Int64, strict=False)] if cells.count() else []
    typed_cells = (*whole, typed(cells, "number"), typed(cells, "boolean"))
    return next((column for column in typed_cells if column.count() == cells.count()), cells)


def free_name(name: str, taken: Collection[str]) -> str:
    """A column's name, or one like it that is not taken.

    >>> free_name("label", ["id", "label"])
    'label_'
    """
    while name in taken:
        name += "_"
    return name


def metrics_of(labels: Labels, scores: Floats, rows: Bools) -> dict[str, float]:
    """How good the scores of some rows with known labels are; nothing if there are none, or all are of one class."""
    if not rows.any() or (labels.names and len(np.unique(labels.values[rows])) < 2):
        return {}
    truth, weights = labels.values[rows], labels.weights[rows]
    if not labels.names:
        return metrics.summary_of_numbers(truth, scores[rows, 0], weights)
    return metrics.summary_of_classes(truth, metrics.probabilities_of(scores[rows]), weights)


def curves_of(labels: Labels, scores: Floats, rows: Bools) -> dict[str, list[list[float]]]:
    """Of two classes the curves of some rows, each as x and y; those that have none are left out."""
    curves: dict[str, list[list[float]]] = {}
    if len(labels.names) != 2 or not rows.any():
        return curves
    truth, chances, weights = labels.values[rows], scores[rows, 0], labels.weights[rows]
    for name, curve in (("roc", metrics.roc_curve), ("precision_recall", metrics.precision_recall_curve)):
        with suppress(metrics.Undefined):
            curves[name] = [axis.tolist() for axis in curve(truth, chances, weights)]
    return curves


def calibration_of(labels: Labels, scores: Floats, rows: Bools) -> list[dict[str, Any]]:
    """Rows in groups of about equal size by what was predicted: its mean beside that of the truth.

    For two classes and numbers; with several classes there is nothing to order by.
    """
    if len(labels.names) > 2:
        return []
    chosen = np.flatnonzero(rows & (labels.weights > 0))
    ranked = chosen[np.argsort(scores[chosen, 0], kind="stable")]
    groups = [group for group in np.array_split(ranked, _GROUPS) if group.size]
    return [
        {
            "prediction": float(np.average(scores[group, 0], weights=labels.weights[group])),
            "truth": float(np.average(labels.values[group], weights=labels.weights[group])),
            "rows": len(group),
        }
        for group in groups
    ]


def histogram_of(scores: Floats, names: Sequence[str]) -> dict[str, list[float]]:
    """How many rows have which score; of several classes, which probability of the most probable one."""
    values = scores.max(axis=1)
    counts, edges = np.histogram(values.clip(0.0, 1.0), _BINS, (0.0, 1.0)) if names else np.histogram(values, _BINS)
    return {"edges": edges.tolist(), "counts": counts.tolist()}
