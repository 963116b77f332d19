"""What a party has in hand when its part of a job begins: the plan, its own settings, its table, cleaned."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from unpooled.align.normalise import IdRules, comparable
from unpooled.data.prepare import Cleaning, clean
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.errors import RefusedError
from unpooled.jobs.exclusion import rows_left
from unpooled.jobs.labels import check_weights
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

    `resume` says that an interrupted run goes on, where it has kept how far it was. `excluded` is how many rows an
    owner has left out by its own file.
    """

    cleaning: Cleaning | None
    folder: Path
    resume: bool = False
    excluded: int = 0


def evidence_for(work: Work[P]) -> Evidence | None:
    """Where an owner of columns keeps evidence for an audit; None where the plan wants none, or nothing is hidden."""
    plan = work.plan
    if not plan.audit or plan.engine == "plain" or work.party not in plan.owners:
        return None
    return Evidence(work.folder / RECEIVED, work.folder / WORKING / SECRETS)


def asked_before(work: Work[P]) -> Asked:
    """What this party was asked in the run so far, if that was interrupted; it counts on."""
    return Asked(work.folder / WORKING)


def begin(job: CheckedJob[P], settings: TableSettings | None, folder: Path, *, resume: bool = False) -> Work[P]:
    """Take the table in memory, or load the one of these settings; clean it, and refuse one with too few rows."""
    party, private, table, cleaning, excluded = job.party, job.private, job.table, None, 0
    if table is None and settings is not None:
        log.info("%s reads %s", party, settings.origin)
        table = load(settings, party)
    if table is not None:
        check_weights(table, private.weight)
        ids = comparable(table, job.parameters) if isinstance(job.parameters, IdRules) else None
        table, cleaning = clean(table, private.prepare, ids)
        if party in job.plan.owners:
            left = rows_left(table, private.exclude, id_rules(job), hashed=table.hashed)
            table, excluded = table.take(left), table.frame.height - len(left)
        rows, minimum = table.frame.height, private.policy.minimum_rows
        if rows < minimum:
            raise RefusedError(f"{party} takes part with at least {minimum} rows (policy.minimum_rows) and has fewer")
        if cleaning.duplicates_removed:
            log.info("%s: %d rows repeat another row and were removed", party, cleaning.duplicates_removed)
        log.info("%s has %d rows ready", party, rows)
    return Work(job.plan, job.parameters, party, private, table, cleaning, folder, resume, excluded)


def id_rules(job: CheckedJob[P]) -> IdRules:
    """How ids are compared; a kind of job that compares none has no rules, and takes ids as they are."""
    return job.parameters if isinstance(job.parameters, IdRules) else IdRules()
