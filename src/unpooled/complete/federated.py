"""Predicting columns from those that other parties hold: `predict_columns` at the active party, `help_predict_columns`
at the others.

The active party has the columns to be predicted, for some of the rows; the passive parties have theirs for all. Columns
with equally many classes are predicted in lockstep. A party alone (`team.alone()`) finds the same in pooled columns,
to the last bit. If all parties have checkpoints, an interrupted run goes on from what all of them have kept.

1. the active party says how many columns are predicted, and how many classes each group of them has
2. for each group, round after round, it says that another round comes; models are fitted, and score all rows
3. it says that no more rounds of this group come

>>> from unpooled.vertical.team import alone
>>> from unpooled.vertical.trees.parameters import GbdtParameters
>>> import numpy as np
>>> import polars as pl
>>> from unpooled.complete.variables import variables_of
>>> from unpooled.data.table import table_from_frame
>>> rng = np.random.default_rng(1)
>>> matrix = rng.normal(size=(600, 2))
>>> cells = pl.DataFrame({"id": range(200), "lab": matrix[:200].sum(axis=1)})
>>> lab, = variables_of(table_from_frame(cells, "id", "clinic"), rows=600)
>>> base, once = GbdtParameters(trees=20, depth=3), SelfTrainingSettings(rounds=1, folds=2)
>>> done = predict_columns(alone(), base, Columns(matrix, ("a", "b")), [lab], once, seed=1)
>>> bool(np.corrcoef(done.predictions[0].values[200:], matrix[200:].sum(axis=1))[0, 1] > 0.9)
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unpooled.arrays import Floats
from unpooled.complete.column_model import ColumnModel
from unpooled.complete.self_training import Prediction, SelfTrainingSettings, What, probabilities, self_train
from unpooled.complete.variables import Variable
from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters, Model, Part
from unpooled.vertical.learners import learner_named
from unpooled.vertical.numbers import mean_of_models
from unpooled.vertical.resume import Checkpoint, Fits, Loans
from unpooled.vertical.stages import stage
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.wire import message

__all__ = ["Columns", "SelfTrainingSettings", "Variable", "help_predict_columns", "predict_columns"]

MOST_COLUMNS = 2**12
MOST_CLASSES = 2**8


@message(
    discloses="how many columns are predicted, and how many classes they have, in groups; 0 for numbers",
    to="a passive party",
)
class PredictedColumns:
    classes: tuple[int, ...]
    columns: tuple[int, ...]


@message(discloses="that another round of models is fitted", to="a passive party")
class NextRound:
    pass


@message(discloses="how many rounds these columns took, and that no more come", to="a passive party")
class NoMoreRounds:
    rounds: int


@dataclass(frozen=True, eq=False)
class Predicted:
    """What was found about each column, and the last models by number of classes and by what they predict.

    Each has as many models as there are columns of so many classes times folds, column by column.
    """

    predictions: tuple[Prediction, ...]
    models: Mapping[tuple[int, What], Model]


@dataclass(frozen=True, eq=False)
class NewCells:
    """One column of new rows: the models' outputs, the predicted values as `data.coding` has them, how sure each is."""

    column: ColumnModel
    outputs: Floats
    values: Floats
    confidence: Floats


def predict_columns(
    team: Team,
    base: LearnerParameters,
    columns: Columns,
    variables: Sequence[Variable],
    settings: SelfTrainingSettings,
    seed: int,
    *,
    checkpoint: Checkpoint | None = None,
) -> Predicted:
    """At the active party: predict the missing cells of `variables`; `columns` are what it adds to the others' columns.

    The seed is its secret.
    """
    rows = len(columns.matrix)
    if wrong := [one.name for one in variables if one.values.shape != (rows,)]:
        raise InputError(f"column '{wrong[0]}': it must have a cell for each of {rows} rows")
    groups: dict[int, list[Variable]] = {}
    for variable in variables:
        groups.setdefault(variable.classes, []).append(variable)
    for owner in team.passive:
        team.session.send(owner, PredictedColumns(tuple(groups), tuple(map(len, groups.values()))))  # 1
    if not groups:
        return Predicted((), {})
    fits, names = Fits(team, base, columns, checkpoint), tuple(map(str, range(max(groups, default=0))))
    found: dict[str, Prediction] = {}
    models: dict[tuple[int, What], Model] = {}
    for number, (classes, group) in enumerate(groups.items()):
        before = fits.group

        def learn(targets: Sequence[Target], what: What, number: int = number, classes: int = classes) -> Any:
            if not (fitted := fits.kept()):
                for owner in team.passive:
                    team.session.send(owner, NextRound())  # 2
                team.progress(number, len(groups))
                fitted = fits.scored(fits.fit(targets, names[:classes], with_classes(base, classes)))
                fits.keep(fitted)
            models[classes, what] = fitted.model
            return fitted.scores

        with fits.counting():
            predictions = self_train(group, learn, settings, seed + number)
        for owner in team.passive:
            team.session.send(owner, NoMoreRounds(fits.group - before))  # 3
        found |= {prediction.variable.name: prediction for prediction in predictions}
    return Predicted(tuple(found[variable.name] for variable in variables), models)


def help_predict_columns(
    team: Team,
    base: LearnerParameters,
    columns: Columns,
    settings: SelfTrainingSettings,
    most_thresholds: int | None = None,
    *,
    checkpoint: Checkpoint | None = None,
    most: tuple[int, int] = (MOST_COLUMNS, MOST_CLASSES),
) -> dict[tuple[int, What], Part]:
    """At a passive party: lend columns; what is kept are its parts of the last models (`Predicted.models`).

    `most` is how many columns may be predicted, and how many classes each may have.
    """
    groups = team.session.recv(team.active, PredictedColumns)  # 1
    check_groups(groups, team.active, *most)
    if not groups.classes:
        return {}
    stages = [
        stage(with_classes(base, classes), [settings.folds * count] * settings.rounds * len(settings.learned(classes)))
        for classes, count in zip(groups.classes, groups.columns, strict=True)
    ]
    loans = Loans(team, stages, columns, most_thresholds, checkpoint)
    parts, lent, done = dict[tuple[int, What], Part](), dict[int, Part](), 0
    with loans.counting():
        for each in stages:
            (parameters,), planned = each.choices, each.groups
            while isinstance(told := team.session.recv(team.active, NextRound, NoMoreRounds), NextRound):  # 2
                if loans.group - done >= len(planned):
                    raise ProtocolError(f"invalid NextRound from {team.active}: more rounds than the plan has")
                part = loans.lend(planned[0], loans.begin(planned[0]), parameters)
                if not loans.learner.scores_in_fit(parameters):
                    loans.learner.help_score(team, part, columns, True)
                loans.keep(part, planned[0])
                lent[loans.group] = part
            learned = settings.learned(parameters.classes)
            if not 0 < told.rounds <= min(loans.group - done, len(planned)) or told.rounds % len(learned):  # 3
                raise ProtocolError(
                    f"invalid NoMoreRounds from {team.active}: {told.rounds} is no number of rounds of these columns"
                )
            done += told.rounds
            for group, what in enumerate(learned, start=done - len(learned) + 1):
                # Its rounds may have been over before the run was resumed.
                parts[parameters.classes, what] = lent.get(group) or loans.kept(group - 1)
    return parts


def predict_new(
    team: Team, models: Mapping[tuple[int, What], Model], learned: Sequence[ColumnModel], folds: int, columns: Columns
) -> list[NewCells]:
    """At the active party: what the kept models say of the same columns in new rows."""
    outputs: dict[str, dict[What, Floats]] = {column.column.name: {} for column in learned}
    for (classes, what), model in models.items():
        scores = learner_named(model.learner).score(team, model, columns)
        group = [column.column.name for column in learned if column.classes == classes]
        for place, name in enumerate(group):
            each = [probabilities(one, classes) for one in scores[place * folds : (place + 1) * folds]]
            outputs[name][what] = mean_of_models(each)
    found = []
    for column in learned:
        of_column = outputs[column.column.name]
        errors = of_column["errors"][:, 0] if "errors" in of_column else None
        said = of_column["values"]
        found.append(NewCells(column, said, column.values(said), column.confidence(said, errors)))
    return found


def help_predict_new(team: Team, parts: Mapping[tuple[int, What], Part], columns: Columns) -> None:
    """At a passive party: take part in that, with its parts of the same models in the same order."""
    for part in parts.values():
        learner_named(part.learner).help_score(team, part, columns, False)


def check_groups(
    told: PredictedColumns, active: str, most_columns: int = MOST_COLUMNS, most_classes: int = MOST_CLASSES
) -> None:
    """Refuse numbers of columns or classes that cannot be."""
    fits = len(told.classes) == len(told.columns) == len(set(told.classes))
    if not fits or not all(each == 0 or 2 <= each <= most_classes for each in told.classes):
        raise ProtocolError(f"invalid PredictedColumns from {active}: repeated or impossible numbers of classes")
    if not all(each >= 1 for each in told.columns) or sum(told.columns) > most_columns:
        raise ProtocolError(f"invalid PredictedColumns from {active}: a number of columns is out of range")


def with_classes(base: LearnerParameters, classes: int) -> LearnerParameters:
    """The same learner for so many classes; 0 for numbers."""
    return base.model_copy(update={"classes": classes})
