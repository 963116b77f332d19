"""What a party has in hand when its part of a job begins: the plan, its own settings, its table, cleaned."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from pydantic import BaseModel

from unpooled.align.handles import check_handles, has_only_handles
from unpooled.align.normalise import IdRules, comparable
from unpooled.budget.spending import Spending
from unpooled.data.prepare import Cleaning, clean
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.errors import RefusedError
from unpooled.jobs.exclusion import rows_left
from unpooled.jobs.learning.labels import check_weights
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.secure.evidence import RECEIVED, SECRETS, Evidence
from unpooled.secure.query_count import Asked

WORKING = ".working"
"""The folder for what a run needs while it runs and nobody needs afterwards; `unpooled purge` removes it."""

log = logging.getLogger("unpooled.jobs")

Result = dict[str, Any]
"""What a party has at the end: JSON values, for `result.json` and its report."""

P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True)
class CheckedJob(Generic[P]):
    """One party's side of a job, made by `checks.checked` alone; `table` is None if it is not in memory yet."""

    plan: Plan
    parameters: P
    party: str
    private: Private
    table: Table | None


@dataclass(frozen=True)
class Work(CheckedJob[P]):
    """What a party begins with: its table, cleaned, or None for a coordinator; and the folder for what it makes.

    `resume` says that an interrupted run goes on, where it has kept how far it was. `left_out` is how many rows an
    owner has left out, as its result says it. `spending` counts what the run discloses in the book of the table, if it
    has one.
    """

    cleaning: Cleaning | None
    folder: Path
    resume: bool = False
    left_out: Mapping[str, int] = field(default_factory=dict)
    spending: Spending | None = None


def disk_for(work: Work[P]) -> Path | None:
    """Where an owner has large arrays, if its memory is limited; None if they are in memory."""
    return None if work.private.memory is None else work.folder / WORKING


def evidence_for(work: Work[P]) -> Evidence | None:
    """Where an owner of columns keeps evidence for an audit; None where the plan wants none, or nothing is hidden."""
    plan = work.plan
    if not plan.audit or plan.engine == "plain" or work.party not in plan.owners:
        return None
    return Evidence(work.folder / RECEIVED, work.folder / WORKING / SECRETS)


def asked_before(work: Work[P]) -> Asked:
    """What this party was asked in the run so far, if that was interrupted; it counts on."""
    return Asked(work.folder / WORKING)


def with_table(job: CheckedJob[P], settings: TableSettings | None, folder: Path | None = None) -> CheckedJob[P]:
    """The same with the table of these settings in memory, unless one is there; what it was taken for is logged.

    With a folder its columns stay on disk there.
    """
    if job.table is not None or settings is None:
        return job
    log.info("%s reads %s", job.party, settings.origin)
    table = load(settings, job.party, folder)
    for note in table.notes:
        log.log(logging.INFO if note.level == "note" else logging.WARNING, "%s: %s", job.party, note)
    return replace(job, table=table)


def cleaned(job: CheckedJob[P]) -> tuple[Table | None, Cleaning | None, dict[str, int]]:
    """The table in memory, cleaned, and how many rows an owner has left out; one with too few rows is refused."""
    if job.table is None:
        return None, None, {}
    check_weights(job.table, job.private.weight)
    ids, left_out = None, dict[str, int]()
    if isinstance(job.parameters, IdRules):
        check_handles(job.table, job.parameters, owner=job.party in job.plan.owners)
        ids = comparable(job.table, id_rules(job))
    table, cleaning = clean(job.table, job.private.prepare, ids)
    if job.party in job.plan.owners:
        left = rows_left(table, job.private.exclude, id_rules(job), hashed=table.hashed)
        table, left_out["excluded_rows"] = table.take(left), table.frame.height - len(left)
    if table.handles is not None:
        left = np.flatnonzero(table.handles.is_not_null())
        table, left_out["rows_without_handle"] = table.take(left), table.frame.height - len(left)
    minimum = job.private.policy.minimum_rows
    if table.frame.height < minimum:
        raise RefusedError(f"{job.party} takes part with at least {minimum} rows (policy.minimum_rows) and has fewer")
    return table, cleaning, {what: rows for what, rows in left_out.items() if rows}


def begin(
    job: CheckedJob[P],
    settings: TableSettings | None,
    folder: Path,
    *,
    resume: bool = False,
    spending: Spending | None = None,
) -> Work[P]:
    """Take the table in memory, or load the one of these settings, and clean it."""
    table, cleaning, left_out = cleaned(with_table(job, settings))
    if table is not None and cleaning is not None:
        if cleaning.duplicates_removed:
            log.info("%s: %d rows repeat another row and were removed", job.party, cleaning.duplicates_removed)
        log.info("%s has %d rows ready", job.party, table.frame.height)
    given = job.plan, job.parameters, job.party, job.private, table
    return Work(*given, cleaning, folder, resume, left_out, spending)


def id_rules(job: CheckedJob[P]) -> IdRules:
    """How a party's ids are compared; a kind of job that compares none takes them as they are, and so are handles."""
    if not isinstance(job.parameters, IdRules):
        return IdRules()
    table = job.table if job.party in job.plan.owners else None
    return IdRules() if table is not None and has_only_handles(table, job.parameters) else job.parameters
