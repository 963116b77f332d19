"""Screening: which of the active party's columns can be predicted from the passive parties' columns.

For each column a strength between 0 and 1, and by that a list, the strongest first. The list is saved, and can be
handed in again. `measure` says what the strength is:

- `mean`: the mean absolute rank correlation with all passive columns, as the FedPSG-PUM paper has it;
- `max`: the largest absolute rank correlation with any of them;
- `cramer`: the largest bias-corrected Cramér's V (Bergsma, 2013) of the column, as classes or in bins, with any of
  them; it serves categories, and sees associations that are not monotone;
- `gain`: how much better a small vertical model predicts held-out rows than the marginal distribution does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import erfc, sqrt
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from unpooled import atomic
from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.association import (
    MOST_COLUMNS,
    Contingency,
    contingency,
    help_contingency,
    help_spearman,
    spearman,
)
from unpooled.complete.federated import help_predict_columns, predict_columns
from unpooled.complete.self_training import Prediction, SelfTrainingSettings
from unpooled.complete.variables import Variable, coded, matrix_of
from unpooled.errors import InputError
from unpooled.settings import faults
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import default_parameters
from unpooled.vertical.resume import Checkpoint
from unpooled.vertical.team import Team

AssociationMeasure = Literal["mean", "max", "cramer"]
Measure = Literal["mean", "max", "cramer", "gain"]

SIGNIFICANCE = 0.01
GAIN_SETTINGS = SelfTrainingSettings(folds=3, confidence="paper")
USUAL_THRESHOLDS = (0.3, 0.8)
_LEAST = 1e-6
"""Of a probability, so that a class that a forest has not seen costs much, but not everything."""


class Strength(BaseModel):
    """How well a column can be predicted; `significant` is None where that was not tested."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    column: str
    strength: float = Field(ge=0, le=1)
    significant: bool | None = None


class Screening(BaseModel):
    """All columns, the strongest first."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    measure: Measure
    rows: int = Field(ge=0)
    columns: tuple[Strength, ...]

    def chosen(self, threshold: float | None = None) -> tuple[str, ...]:
        """The columns above a threshold, or without one those that are significant; the strongest first."""
        if threshold is None:
            return tuple(each.column for each in self.columns if each.significant)
        return tuple(each.column for each in self.columns if each.strength > threshold)


def screen(
    team: Team,
    variables: Sequence[Variable],
    measure: Measure = "gain",
    base: LearnerParameters | None = None,
    seed: int = 0,
    *,
    columns: Columns | None = None,
    checkpoint: Checkpoint | None = None,
) -> Screening:
    """At the active party: screen its columns over the common rows; for `gain` with models of `base`, or small trees.

    These learn from the passive parties' columns, and in a pooled run from `columns`.

    A column with a single value, or too few, cannot be predicted: its strength is 0.
    """
    names, rows = [variable.name for variable in variables], len(variables[0].values) if variables else 0
    if measure == "gain":
        learned = [variable for variable in variables if can_be_learned(variable, GAIN_SETTINGS)]
        own, small = columns or Columns(np.empty((rows, 0)), ()), base or default_parameters(bags=True)
        found = predict_columns(team, small, own, learned, GAIN_SETTINGS, seed, checkpoint=checkpoint).predictions
        gains = {
            one.variable.name: gained for one, gained in zip(found, zip(*gains_of(found), strict=True), strict=True)
        }
        each = np.array([gains.get(name, (0.0, 0.0)) for name in names]).reshape(-1, 2)
        return by_gain(names, each[:, 0], each[:, 1], rows)
    if measure == "cramer":
        return by_contingency(names, contingency(team, *coded(variables, rows)), rows)
    return by_correlation(names, spearman(team, matrix_of(variables, rows)), rows, measure)


def help_screen(
    team: Team,
    variables: Sequence[Variable],
    rows: int,
    measure: Measure = "gain",
    base: LearnerParameters | None = None,
    most_thresholds: int | None = None,
) -> None:
    """At a passive party: take part in that with its own columns of the same rows."""
    if measure == "gain":
        columns = Columns(matrix_of(variables, rows), tuple(one.name for one in variables))
        help_predict_columns(team, base or default_parameters(bags=True), columns, GAIN_SETTINGS, most_thresholds)
    else:
        help_associate(team, variables, rows, measure)


def help_associate(
    team: Team,
    variables: Sequence[Variable],
    rows: int,
    measure: AssociationMeasure,
    rng: np.random.Generator | None = None,
    most: int = MOST_COLUMNS,
) -> None:
    """At a passive party: take part in the associations that `measure` goes by; `rng` draws the order of columns.

    `most` is for how many columns, or classes of all columns, may be asked.
    """
    if measure == "cramer":
        help_contingency(team, *coded(variables, rows), rng, most)
    else:
        help_spearman(team, matrix_of(variables, rows), rng, most)


def can_be_learned(variable: Variable, settings: SelfTrainingSettings) -> bool:
    """Whether a column has values enough, and not only one."""
    return not variable.constant and int(variable.known.sum()) >= 2 * settings.folds


def by_correlation(names: Sequence[str], matrix: Floats, rows: int, measure: Literal["mean", "max"]) -> Screening:
    """The list by rank correlations, passive columns × own ones."""
    absolute = np.abs(matrix)
    if not len(absolute):
        strengths = np.zeros(len(names))
    else:
        strengths = absolute.mean(axis=0) if measure == "mean" else absolute.max(axis=0)
    largest = absolute.max(axis=0, initial=0.0)
    return _listed(names, strengths, rows, measure, _correlated(largest, rows, max(matrix.size, 1)))


def by_contingency(names: Sequence[str], counts: Contingency, rows: int) -> Screening:
    """The list by Cramér's V."""
    strengths, significant = np.zeros(len(names)), np.zeros(len(names), bool)
    tests = len(names) * len(counts.tables)
    for place in range(len(names)):
        for table in counts.of(place):
            value, chance = cramers_v(table)
            strengths[place] = max(strengths[place], value)
            significant[place] |= chance * tests < SIGNIFICANCE
    return _listed(names, strengths, rows, "cramer", significant)


def by_gain(names: Sequence[str], gains: Floats, errors: Floats, rows: int) -> Screening:
    """The list by cross-validated gain; a gain is significant if it is far above 0 in its standard errors."""
    chances = np.array(
        [
            _upper_tail(gain / error) if error > 0 else float(gain <= 0)
            for gain, error in zip(gains, errors, strict=True)
        ]
    )
    return _listed(names, np.clip(gains, 0, 1), rows, "gain", chances * max(len(names), 1) < SIGNIFICANCE)


def gains_of(predictions: Sequence[Prediction]) -> tuple[Floats, Floats]:
    """How much of the loss of the marginal distribution the held-out predictions save, and the standard errors.

    The loss is the squared error for numbers and the negative log-likelihood for classes, so a gain is R², or
    McFadden's R², of known cells.
    """
    found = []
    for prediction in predictions:
        judged = prediction.known & ~np.isnan(prediction.held_out).any(axis=1)
        truth, outputs = prediction.variable.labels[judged], prediction.held_out[judged]
        if classes := prediction.variable.classes:
            codes = truth.astype(np.int64)
            chances = np.bincount(codes, minlength=classes) / max(len(codes), 1)
            likely = np.maximum(outputs[np.arange(len(codes)), codes], _LEAST)
            loss, usual = -np.log(likely), -np.log(chances[codes])
        else:
            loss, usual = (outputs[:, 0] - truth) ** 2, (truth - truth.mean()) ** 2 if len(truth) else truth
        base = float(usual.mean()) if len(usual) else 0.0
        saved = (usual - loss) / base if base > 0 else np.zeros(1)
        found.append((float(saved.mean()), float(saved.std() / sqrt(len(saved)))))
    return np.array([gain for gain, _ in found]), np.array([error for _, error in found])


def cramers_v(table: Ints) -> tuple[float, float]:
    """Bias-corrected V of a table of counts, and how likely one so large is by chance (Wilson and Hilferty, 1931)."""
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(float)
    (left, right), total = table.shape, table.sum()
    if min(left, right) < 2 or total < 2:
        return 0.0, 1.0
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / total
    chi = float(((table - expected) ** 2 / expected).sum())
    free = (left - 1) * (right - 1)
    z = ((chi / free) ** (1 / 3) - (1 - 2 / (9 * free))) / sqrt(2 / (9 * free))
    phi = max(chi / total - free / (total - 1), 0.0)
    smaller = min(left - (left - 1) ** 2 / (total - 1), right - (right - 1) ** 2 / (total - 1)) - 1
    return min(sqrt(phi / smaller), 1.0) if smaller > 0 else 0.0, _upper_tail(z)


def threshold_warning(threshold: float) -> str:
    """What to say of an unusual threshold; empty if it is a usual one."""
    low, high = USUAL_THRESHOLDS
    if threshold < low:
        return f"threshold {threshold:g} is low: columns that can hardly be predicted are predicted too"
    return f"threshold {threshold:g} is high: few columns pass it" if threshold > high else ""


def save(screening: Screening, path: Path) -> None:
    """Write the list as readable JSON."""
    atomic.write_text(path, screening.model_dump_json(indent=2) + "\n")


def load(path: Path) -> Screening:
    """Read what `save` wrote, and check every value."""
    try:
        return Screening.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InputError(f"{path}: {faults(error)[0]}") from None


def _listed(names: Sequence[str], strengths: Floats, rows: int, measure: Measure, significant: Bools) -> Screening:
    order = np.argsort(-strengths, kind="stable")
    columns = [
        Strength(column=names[place], strength=float(strengths[place]), significant=bool(significant[place]))
        for place in order
    ]
    return Screening(measure=measure, rows=rows, columns=tuple(columns))


def _correlated(largest: Floats, rows: int, tests: int) -> Bools:
    """Which correlations are too large for chance, with as many tests (Fisher's z; Fieller and others, 1957)."""
    if rows < 4:
        return np.zeros(len(largest), bool)
    z = np.arctanh(np.minimum(largest, 1 - 1e-12)) * sqrt((rows - 3) / 1.06)
    return np.array([2 * _upper_tail(value) * tests < SIGNIFICANCE for value in z.tolist()], bool)


def _upper_tail(z: float) -> float:
    """The chance of a standard normal number above z."""
    return erfc(z / sqrt(2)) / 2
