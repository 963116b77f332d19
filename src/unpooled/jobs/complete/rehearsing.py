"""What completing a table does otherwise in a rehearsal, which has few rows, few trees and perhaps made-up tables.

Which columns can be predicted shows neither in few rows nor with few trees, and a rehearsal that predicts more columns
than another seems to have more costly trees. So that is decided once, before the first rehearsal: where the tables of
all owners are here they are screened as one table, elsewhere all columns are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from unpooled.arrays import Floats
from unpooled.complete.association import (
    LEAST_ROWS,
    ROWS_PER_COLUMN,
    Contingency,
    centred_ranks,
    correlations,
    squared_sums,
)
from unpooled.complete.screening import by_contingency, by_correlation, screen
from unpooled.complete.variables import MOST_BINS, Variable, coded, matrix_of, variables_of
from unpooled.complete.vf_gain import protocol as vf_gain
from unpooled.data.prepare import fit, transform
from unpooled.data.table import Table
from unpooled.jobs.complete.activating import noise_is_installed
from unpooled.jobs.complete.choosing import screened_variables
from unpooled.jobs.complete.parameters import SCREENED_CLASSES, Parameters
from unpooled.jobs.kind import Rehearsed
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.private import Private
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learners import default_parameters
from unpooled.vertical.team import alone

_MOST_OWN_ROWS = 1_000
"""Of the active party in a rehearsal with counts, which need more rows than rank correlations."""
_SCREENED_ROWS = 2_000
_SMALL = default_parameters(bags=True).model_copy(update={"trees": 4, "learning_rate": 0.5})
"""Few trees that learn fast, and find about the strengths that many do which learn slowly."""


def rehearsed(
    parameters: Parameters, encrypted: bool, together: Mapping[str, tuple[Table, Private]], columns: int
) -> Rehearsed:
    """Under encryption there is one round. The rows may be too few for counts of so many columns."""
    changed, guesses = dict[str, Any](), list[str]()
    screened = parameters.columns is None and parameters.measure != "list"
    if screened and not together:
        changed = {"measure": "max", "threshold": 0.0}
    elif parameters.measure == "cramer" and (encrypted or least_own_rows(parameters, columns) > _MOST_OWN_ROWS):
        changed = {"measure": "max"}
    if not (parameters.columns or together):
        guesses.append("all columns can be predicted; if fewer can, the job costs less")
    if (sent := parameters.activations) and (not noise_is_installed() or (not together and sent.units >= columns)):
        changed |= {"activations": None}
        guesses.append("activations are left out, which cost little")
    after = parameters.model_copy(update=changed)
    if after.association != parameters.association == "cramer":
        guesses.append("columns are screened by rank correlations, not by Cramér's V, which costs more")
    if encrypted:
        once = parameters.predict.model_copy(update={"rounds": 1, "folds": min(parameters.predict.folds, 2)})
        changed |= {"predict": once.model_dump(mode="json")}
    least = least_own_rows(after, columns)
    if not (screened and together):
        return Rehearsed(changed, "; ".join(guesses), least)
    chosen = columns_chosen(parameters, together)
    return Rehearsed(changed, "; ".join(guesses), least, lambda found: found.deciding(chosen))


def least_own_rows(parameters: Parameters, columns: int) -> int:
    """How many rows of the active party with so many columns are enough for a rehearsal."""
    each = max(SCREENED_CLASSES, MOST_BINS) + 1 if parameters.association == "cramer" else 1
    least = max(LEAST_ROWS, vf_gain.LEAST_ROWS if parameters.activations else 0)
    return max(least, ROWS_PER_COLUMN * columns * each if parameters.association else 0)


def columns_chosen(parameters: Parameters, together: Mapping[str, tuple[Table, Private]]) -> tuple[str, ...]:
    """The columns that a screening finds in the tables of all owners, of which the active party's is the first.

    A sample of the rows and a few trees show all but the weakest columns.
    """
    (own, _), *others = together.values()
    rows = own.frame.height
    some = np.sort(np.random.default_rng(1).permutation(rows)[:_SCREENED_ROWS])
    variables, lent = screened_variables(own.take(some), parameters), [(each.take(some), own) for each, own in others]
    if parameters.measure == "gain":
        return screen(alone(), variables, "gain", _SMALL, columns=_prepared(lent)).chosen(parameters.threshold)
    names, theirs = [one.name for one in variables], _variables(lent, parameters)
    if parameters.measure == "cramer":
        found = by_contingency(names, _counted(theirs, variables, len(some)), rows)
    else:
        measure: Literal["mean", "max"] = "mean" if parameters.measure == "mean" else "max"
        found = by_correlation(names, _correlated(theirs, variables, len(some)), rows, measure)
    return found.chosen(parameters.threshold)


def _prepared(tables: Sequence[tuple[Table, Private]]) -> Columns:
    """The passive parties' columns as their learners have them."""
    features = [(features_of(table, private), private.prepare) for table, private in tables]
    found = [transform(fit(table, prepare), table) for table, prepare in features]
    return Columns(np.hstack([one.matrix for one in found]), tuple(name for one in found for name in one.names))


def _variables(tables: Sequence[tuple[Table, Private]], parameters: Parameters) -> list[Variable]:
    """The passive parties' columns as associations have them."""
    return [one for table, _ in tables for one in variables_of(table, most_classes=parameters.most_classes)]


def _correlated(theirs: Sequence[Variable], own: Sequence[Variable], rows: int) -> Floats:
    left, right = (centred_ranks(matrix_of(variables, rows)) for variables in (theirs, own))
    return correlations(left.T @ right, squared_sums(left), squared_sums(right))


def _counted(theirs: Sequence[Variable], own: Sequence[Variable], rows: int) -> Contingency:
    (bins, sizes), (codes, classes) = coded(theirs, rows), coded(own, rows)
    right = np.hstack(
        [column[:, np.newaxis] == np.arange(count) for column, count in zip(codes.T, classes, strict=True)]
    )
    lefts = [column[:, np.newaxis] == np.arange(count) for column, count in zip(bins.T, sizes, strict=True)]
    return Contingency(tuple(left.T.astype(np.int64) @ right.astype(np.int64) for left in lefts), classes)
