"""Which columns are predicted: those that a screening finds, those of a list from an earlier run, or those of the plan.

A screening by gain has a checkpoint of its own. Associations are computed once: the active party keeps them, and says
in a resumed run that they are not needed again; a passive party computes them a few times at the most, whatever it is
told.

1. the active party says whether associations are needed, if the plan has any
2. if so, they are computed (`complete.association`)
3. columns are screened by gain, if the plan says so (`complete.screening`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook, Page
from unpooled.complete import screening
from unpooled.complete.association import Contingency, allow_bits, contingency, spearman
from unpooled.complete.federated import help_predict_columns
from unpooled.complete.screening import GAIN_SETTINGS, Screening, can_be_learned
from unpooled.complete.variables import Variable, coded, matrix_of, variables_of
from unpooled.data.table import Table
from unpooled.errors import ResumeRefused
from unpooled.jobs.complete.parameters import SCREENED_CLASSES, Parameters
from unpooled.jobs.work import WORKING, Work, asked_before
from unpooled.vertical.inputs import Columns
from unpooled.vertical.resume import Checkpoint
from unpooled.vertical.team import Team
from unpooled.wire import message

SCREENING = "screening.json"
_ASSOCIATIONS = "associations"
_MOST_TIMES = 3


@message(
    discloses="whether associations are to be computed now, or were kept when the run was interrupted",
    to="a passive party",
)
class AssociationsNeeded:
    needed: bool


@dataclass(frozen=True, eq=False)
class Choice:
    """The columns that are predicted, the strongest first, and what that goes by, as far as there is any.

    `associations` are passive columns × own ones, in [-1, 1] for rank correlations and in [0, 1] for Cramér's V.
    """

    columns: tuple[str, ...]
    screening: Screening | None
    associations: Floats | None


def screened_variables(table: Table, parameters: Parameters) -> list[Variable]:
    """The active party's columns of the common rows, as they are screened."""
    return variables_of(table, most_classes=min(SCREENED_CLASSES, parameters.most_classes))


def choose(team: Team, work: Work[Parameters], table: Table, seed: int, checkpoint: Checkpoint | None) -> Choice:
    """At the active party: choose among its columns, of which `table` has the common rows."""
    parameters, variables = work.parameters, screened_variables(table, work.parameters)
    associated = _associated(team, work, variables) if parameters.association else None
    values = None if associated is None else values_of(associated)
    if parameters.columns is not None:
        return Choice(parameters.columns, None, values)
    found = _screened(team, work, variables, associated, seed, checkpoint)
    screening.save(found, work.folder / SCREENING)
    able = {one.name for one in variables if can_be_learned(one, parameters.predict)}
    chosen = [name for name in parameters.chosen(found) if name in able]
    return Choice(tuple(chosen[: parameters.most_columns]), found, values)


def help_choose(
    team: Team,
    work: Work[Parameters],
    variables: Sequence[Variable],
    columns: Columns,
    rng: np.random.Generator,
    checkpoint: Checkpoint | None,
) -> None:
    """At a passive party: lend its columns of the common rows, as they are and as they are prepared for a learner."""
    parameters, policy = work.parameters, work.private.policy
    measure = parameters.association
    if measure:
        needed, asked = team.session.recv(team.active, AssociationsNeeded).needed, asked_before(work)  # 1
        if needed and asked.begun >= _MOST_TIMES:
            raise ResumeRefused(
                f"{team.session.party} computes associations {_MOST_TIMES} times in a run at the most, however often "
                f"that is resumed, and {team.active} wants them again: begin a new run"
            )
        with asked.counting(team.products, team.digest):  # also what was answered before the run was resumed
            allow_bits(team, len(columns.matrix), 0)
            if needed:
                asked.count(team.products, team.digest, 1)
                rows = len(columns.matrix)
                screening.help_associate(team, variables, rows, measure, rng, parameters.most_asked)  # 2
    if parameters.screens_by_gain:
        most = parameters.most_columns, parameters.most_classes
        help_predict_columns(
            team,
            parameters.model,
            columns,
            GAIN_SETTINGS,
            policy.maximum_thresholds,
            checkpoint=checkpoint,
            most=most,
        )  # 3


def values_of(associated: Floats | Contingency) -> Floats:
    """Passive columns × own ones: rank correlations as they are, of counts Cramér's V."""
    if not isinstance(associated, Contingency):
        return associated
    own = range(len(associated.classes))
    by_column = [[screening.cramers_v(table)[0] for table in associated.of(place)] for place in own]
    return np.array(by_column, float).reshape(len(own), -1).T


def _screened(
    team: Team,
    work: Work[Parameters],
    variables: Sequence[Variable],
    associated: Floats | Contingency | None,
    seed: int,
    checkpoint: Checkpoint | None,
) -> Screening:
    """All columns by their strength."""
    parameters, names = work.parameters, [variable.name for variable in variables]
    rows = len(variables[0].values)
    if listed := work.private.generate.screening:  # which is there if the plan says so, and only then (`checks`)
        return screening.load(listed)
    if parameters.measure == "gain" or associated is None:
        return screening.screen(team, variables, "gain", parameters.model, seed, checkpoint=checkpoint)  # 3
    if isinstance(associated, Contingency):
        return screening.by_contingency(names, associated, rows)
    return screening.by_correlation(names, associated, rows, "mean" if parameters.measure == "mean" else "max")


def _associated(team: Team, work: Work[Parameters], variables: Sequence[Variable]) -> Floats | Contingency:
    """Associations from the interrupted run, or new ones."""
    kept = Notebook(work.folder / WORKING / _ASSOCIATIONS)
    needed = not (work.resume and len(kept))
    for owner in team.passive:
        team.session.send(owner, AssociationsNeeded(needed))  # 1
    if not needed:
        return _on(kept.read(0))
    kept.keep_first(0)
    rows = len(variables[0].values)
    if work.parameters.association == "cramer":
        counts = contingency(team, *coded(variables, rows))  # 2
        sizes = np.array([len(table) for table in counts.tables], np.int64)
        kept.write(counts=np.concatenate(counts.tables), bins=sizes, classes=np.array(counts.classes, np.int64))
        return counts
    matrix = spearman(team, matrix_of(variables, rows))  # 2
    kept.write(matrix=matrix)
    return matrix


def _on(page: Page) -> Floats | Contingency:
    if "matrix" in page:
        return page["matrix"].astype(float)
    tables = np.split(page["counts"].astype(np.int64), np.cumsum(page["bins"].astype(np.int64))[:-1])
    return Contingency(tuple(tables), tuple(page["classes"].tolist()))
