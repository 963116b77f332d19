"""What a party has in hand when its part of a job begins: the plan, its own settings, its table, cleaned."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel

from unpooled.data.prepare import Cleaning, clean
from unpooled.data.sources import load
from unpooled.data.table import Table
from unpooled.errors import RefusedError
from unpooled.jobs.labels import check_weights
from unpooled.jobs.model_files import reading
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private, check_fits
from unpooled.secure.evidence import RECEIVED, SECRETS, Evidence
from unpooled.secure.query_count import Asked

WORKING = ".working"
"""The folder for what a run needs while it runs and nobody needs afterwards; `unpooled purge` removes it."""

log = logging.getLogger("unpooled.jobs")

P = TypeVar("P", bound=BaseModel)


@dataclass(frozen=True)
class Work(Generic[P]):
    """One party's part: `folder` is where it keeps what it makes, `table` is None for a coordinator.

    `resume` says that an interrupted run goes on, where it has kept how far it was.
    """

    plan: Plan
    parameters: P
    party: str
    private: Private
    folder: Path
    table: Table | None
    cleaning: Cleaning | None
    resume: bool = False


def evidence_for(work: Work[P]) -> Evidence | None:
    """Where an owner of columns keeps evidence for an audit; None where the plan wants none, or nothing is hidden."""
    plan = work.plan
    if not plan.audit or plan.engine == "plain" or work.party not in plan.owners:
        return None
    return Evidence(work.folder / RECEIVED, work.folder / WORKING / SECRETS)


def asked_before(work: Work[P]) -> Asked:
    """What this party was asked in the run so far, if that was interrupted; it counts on."""
    return Asked(work.folder / WORKING)


def begin(
    plan: Plan,
    parameters: P,
    party: str,
    private: Private,
    folder: Path,
    table: Table | None = None,
    *,
    resume: bool = False,
) -> Work[P]:
    """Load and clean a party's table, and refuse what its policy does not allow; a table may also be given."""
    check_fits(plan, party, private, table_given=table is not None)
    if table is None:
        settings = reading(plan, party, private)
        if settings is None:
            return Work(plan, parameters, party, private, folder, None, None, resume)
        log.info("%s reads %s", party, settings.origin)
        table = load(settings, party)
    check_weights(table, private.weight)
    cleaned, cleaning = clean(table, private.prepare)
    rows, minimum = cleaned.frame.height, private.policy.minimum_rows
    if rows < minimum:
        raise RefusedError(f"{party} takes part with at least {minimum} rows (policy.minimum_rows) and has fewer")
    log.info("%s has %d rows ready", party, rows)
    return Work(plan, parameters, party, private, folder, cleaned, cleaning, resume)
