"""What the active party's result says of its completed table, column by column; no row shows in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from math import sqrt, tanh
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.expected_error import ExpectedError, expected_errors
from unpooled.complete.screening import SIGNIFICANCE, can_be_learned, threshold_warning
from unpooled.complete.self_training import Prediction
from unpooled.complete.table import GENERATED, NOT_FILLED, PREDICTED, REAL, CompletedTable
from unpooled.complete.variables import Variable, variables_of
from unpooled.data.coding import Column, encode, learn
from unpooled.data.columns import kind_name
from unpooled.data.table import Table
from unpooled.evaluate.side_by_side import side_by_side
from unpooled.jobs.complete.choosing import Choice
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.work import Work, log

ENOUGH_CELLS = 30
"""With fewer real cells in the common rows, what fills a column goes by little; a report and the log name it."""
ORIGINS = (REAL, PREDICTED, GENERATED, NOT_FILLED)

Why = Literal["named", "not named", "too few", "too many", "above", "below", "significant", "chance"]
"""Why a column is predicted, or is not: as the plan says, by its values, by its strength."""


def completed_figures(
    table: Table, done: CompletedTable, choice: Choice, predictions: tuple[Prediction, ...], work: Work[Parameters]
) -> dict[str, Any]:
    """All that the report shows: cells by origin, every column, associations, and warnings."""
    parameters, settings = work.parameters, work.private.generate
    rng, by_name = np.random.default_rng(0), {one.variable.name: one for one in predictions}
    strengths = {one.column: one for one in choice.screening.columns} if choice.screening else {}
    completers = {name: group.completer for group in settings.groups for name in group.columns}
    columns: list[dict[str, Any]] = []
    for variable, (name, kind) in zip(
        variables_of(table, most_classes=parameters.most_classes), table.kinds.items(), strict=True
    ):
        column = learn(name, kind, table.frame[name])
        prediction, strength = by_name.get(name), strengths.get(name)
        origin = done.provenance[name]
        counts = _by_origin(origin)
        completer = completers.get(name, settings.completer)
        columns.append(
            {
                "name": name,
                "type": kind_name(kind),
                "way": PREDICTED if prediction else GENERATED if counts[GENERATED] else NOT_FILLED,
                "why": why(variable, choice, parameters),
                "completer": "" if prediction else completer.completer,
                "strength": strength.strength if strength else None,
                "significant": strength.significant if strength else None,
                "cells": counts,
                "in_common": _by_origin(origin.head(table.frame.height)),
                "unsure": int(_unsure(prediction, parameters.predict.alpha).sum()) if prediction else 0,
                "confidence": _mean(done.confidence[name], origin.is_in([PREDICTED, GENERATED])),
                "errors": _errors(column, prediction, done, rng),
                "distribution": _distribution(column, done.table[name], origin),
            }
        )
    return {
        "measure": "" if parameters.columns is not None else parameters.measure,
        "threshold": parameters.threshold,
        "alpha": parameters.predict.alpha,
        "least_confidence": settings.least_confidence,
        "cells": {one: sum(each["cells"][one] for each in columns) for one in ORIGINS},
        "completed": columns,
        "unsure_rows": _unsure_rows(predictions, parameters.predict.alpha),
        "weight": settings.weight or "",
        "draws": settings.draws,
        "warning": threshold_warning(parameters.threshold) if parameters.threshold is not None else "",
        **_associations(choice, table, parameters),
    }


def warn_of_few(figures: Mapping[str, Any], party: str) -> None:
    """Say in the log which columns were filled by few real cells."""
    for column in figures["completed"]:
        counts = column["cells"]
        if counts[REAL] < ENOUGH_CELLS and counts[PREDICTED] + counts[GENERATED]:
            log.warning("%s: column '%s' has %d real cells, few to fill it by", party, column["name"], counts[REAL])


def why(variable: Variable, choice: Choice, parameters: Parameters) -> Why:
    """Why a column is predicted, or why not."""
    chosen = variable.name in choice.columns
    if choice.screening is None:
        return "named" if chosen else "not named"
    passes = variable.name in choice.screening.chosen(parameters.threshold)
    if not chosen and not can_be_learned(variable, parameters.predict):
        return "too few"
    if not chosen and passes:
        return "too many"
    if parameters.threshold is not None:
        return "above" if passes else "below"
    return "significant" if passes else "chance"


def _by_origin(origin: pl.Series) -> dict[str, int]:
    return {one: int((origin == one).sum()) for one in ORIGINS}


def _associations(choice: Choice, table: Table, parameters: Parameters) -> dict[str, Any]:
    """What is drawn of associations, and from where on they count: from the threshold on if columns are screened by
    single associations, else from where on no chance would bring any of them."""
    if choice.associations is None:
        return {}
    what, line, by = "rank correlation", None, ""
    if parameters.association == "cramer":
        what = "Cramér's V"
    else:
        line, by = _beyond_chance(table.frame.height, choice.associations.size), "chance"
    if parameters.columns is None and parameters.measure in ("max", "cramer") and parameters.threshold is not None:
        line, by = parameters.threshold, "threshold"
    values = np.nan_to_num(choice.associations.T).tolist()
    return {"associations": {"what": what, "columns": list(table.kinds), "values": values, "line": line, "by": by}}


def _beyond_chance(rows: int, tests: int) -> float | None:
    """The least rank correlation that is significant with so many tests, as `screening` has it."""
    if rows < 4 or not tests:
        return None
    return tanh(NormalDist().inv_cdf(1 - SIGNIFICANCE / (2 * tests)) * sqrt(1.06 / (rows - 3)))


def _unsure(prediction: Prediction, alpha: float) -> Bools:
    """Which cells are predicted, and less sure than a prediction must be to be learned from."""
    unsure: Bools = ~prediction.known & (prediction.confidence < alpha)
    return unsure


def _unsure_rows(predictions: Sequence[Prediction], alpha: float) -> dict[str, int]:
    """In how many rows some predicted cells are unsure, and in how many all are."""
    if not predictions:
        return {"some": 0, "all": 0}
    predicted = np.array([~one.known for one in predictions])
    unsure = np.array([_unsure(one, alpha) for one in predictions])
    some = unsure.any(axis=0)
    return {"some": int(some.sum()), "all": int((some & (unsure == predicted).all(axis=0)).sum())}


def _mean(confidence: pl.Series, filled: pl.Series) -> float | None:
    found = confidence.filter(filled).mean()
    return float(found) if isinstance(found, int | float) else None


def _errors(
    column: Column, prediction: Prediction | None, done: CompletedTable, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """By known cells that were hidden: each figure, and as `guess` what the same one value everywhere would have."""
    if prediction:
        judged = prediction.known & ~np.isnan(prediction.held_out).any(axis=1)
        truth, filled = prediction.variable.values[judged], prediction.column.values(prediction.held_out[judged])
    elif held_out := done.held_out.get(column.name):
        truth, filled = held_out.truth, held_out.filled
    else:
        return []
    return [asdict(one) | {"guess": _guess(one, truth)} for one in expected_errors(column, truth, filled, rng)]


def _guess(error: ExpectedError, truth: Floats) -> float:
    if error.measure == "r2":
        return 0.0
    if error.measure == "mae":
        return float(np.abs(truth - np.median(truth)).mean())
    return float(np.unique(truth, return_counts=True)[1].max() / len(truth))


def _distribution(column: Column, cells: pl.Series, origin: pl.Series) -> dict[str, Any] | None:
    """Real against filled cells: fractions by bins or levels, and how far apart they are; None without either."""
    values = encode(column, cells)
    real, filled = (values[(origin.is_in(which)).to_numpy()] for which in ([REAL], [PREDICTED, GENERATED]))
    if not len(real) or not len(filled):
        return None
    found = side_by_side(column, real, filled)
    axis = {"edges": list(found.edges)} if found.edges else {"levels": list(found.levels)}
    return {**axis, "real": list(found.first), "filled": list(found.second), "apart": found.apart}
