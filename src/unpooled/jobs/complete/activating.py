"""Activations of passive parties as further columns for the active party's completers, if the plan has them.

A resumed run sends the activations that were kept, and no product is computed for them. A product that was interrupted
is computed again, a few times at the most: a passive party that has other features each time would be shown more.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from unpooled.align.other_rows import ExtendedRows
from unpooled.arrays import Floats
from unpooled.complete.vf_gain.protocol import check_epsilon, gather_activations, lend_activations
from unpooled.complete.vf_gain.settings import VfGainSettings
from unpooled.data.columns import fault
from unpooled.data.prepare import fit, transform
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.learning.common import checkpoint_of
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.work import CheckedJob, Work
from unpooled.secure.engine import ANSWERED_FRACTION
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import Team

ACTIVATIONS = "activations"
"""The scope of the step, the folder of what is kept, and a key of the plan, of consents and of results."""
_MOST_TIMES = 3


def gather(
    team: Team, work: Work[Parameters], table: Table, extended: ExtendedRows, predicted: Collection[str]
) -> Floats | None:
    """At the active party: activations of all rows; None if the plan has none.

    `table` has the common rows. The gradient is of the columns that are not predicted, or if all are, of these.
    """
    settings, session = work.parameters.activations, team.session
    if settings is None:
        return None
    kept = checkpoint_of(work, table, name=ACTIVATIONS)
    engine, rest = team.products, [name for name in table.kinds if name not in predicted]
    # not as many questions as the learner asks, which are about other rows and another party's columns
    engine.rules = replace(engine.rules, questions=_MOST_TIMES * int(ANSWERED_FRACTION * extended.common))
    with session.scope(ACTIVATIONS), kept.asked.counting(engine, team.digest, {}):
        session.progress(0, 1)
        cells = _as_numbers(work, table, rest or list(table.kinds))
        found = gather_activations(team, settings, cells, extended.common + extended.others)
        session.progress(1, 1)
    return found


def lend(
    team: Team, work: Work[Parameters], table: Table, columns: Columns, extended: ExtendedRows, seed: int
) -> dict[str, Any]:
    """At a passive party: send activations of all rows, if the plan has any; what its result says of that."""
    settings, session = work.parameters.activations, team.session
    if settings is None:
        return {}
    kept = checkpoint_of(work, table, extended.seed, ACTIVATIONS).groups
    most, rng = work.private.policy.maximum_epsilon, np.random.default_rng([seed, 1])
    with session.scope(ACTIVATIONS):
        session.progress(0, 1)
        lend_activations(team, settings, columns.matrix, extended.common, rng, maximum_epsilon=most, kept=kept)
        session.progress(1, 1)
    return sent_in(settings, extended)


def sent_in(settings: VfGainSettings | None, extended: ExtendedRows) -> dict[str, Any]:
    """What both sides' results say of activations."""
    if settings is None:
        return {}
    rows = extended.common + extended.others
    told = {"epsilon": settings.epsilon, "delta": settings.delta, "units": settings.units, "rows": rows}
    return {ACTIVATIONS: told}


def check_sending(job: CheckedJob[Parameters]) -> None:
    """Refuse a plan's activations at a passive party that would not send them, or cannot."""
    settings = job.parameters.activations
    if settings is None:
        return
    check_epsilon(job.party, settings, job.private.policy.maximum_epsilon)
    if not noise_is_installed():
        raise InputError(f"{job.party}: activations in the plan need: pip install 'unpooled[generate]'")


def check_width(job: CheckedJob[Parameters], table: Table) -> None:
    """Refuse a passive party's table with no more columns than activations have units."""
    settings, columns = job.parameters.activations, len(features_of(table, job.private).kinds)
    if settings is not None and columns <= settings.units:
        reason = (
            f"it has {columns} columns, and {job.party} sends fewer numbers for a row than that: the plan's "
            f"activations have {settings.units} units; set fewer, or lend more columns"
        )
        raise fault(table.party, table.origin, reason)


def noise_is_installed() -> bool:
    """Whether the package is there that says how much noise activations need."""
    return find_spec("dp_accounting") is not None


def _as_numbers(work: Work[Parameters], table: Table, names: Collection[str]) -> Floats:
    """Cells of these columns, a column for each level of a category; missing ones are not-a-number."""
    part = replace(table, kinds={name: table.kinds[name] for name in names})
    settings = work.private.prepare.model_copy(update={"missing": "keep", "categories": "one-hot"})
    return transform(fit(part, settings), part).matrix
