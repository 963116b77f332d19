"""Check everything that a party needs before a job starts, without a connection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unpooled.budget.places import usual_places
from unpooled.budget.standing import Standing
from unpooled.data.columns import Kind, kind_name
from unpooled.data.prepare import fit
from unpooled.data.quality import Quality, quality_of
from unpooled.errors import PlanError
from unpooled.jobs.exclusion import excluded_people
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.learning.common import rules_of
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.over_runs import check_over_runs
from unpooled.jobs.private import Private
from unpooled.jobs.together import Together, check_together
from unpooled.jobs.work import CheckedJob, cleaned, id_rules, with_table
from unpooled.secure.engine import check_engine
from unpooled.transport.trust import Identity, load_identity
from unpooled.workers.cluster import check_cluster


@dataclass(frozen=True)
class Preflight:
    """What was found at one party: its columns with their types, and by its use a column that is no feature.

    A coordinator has no table, and so neither `quality` nor `budget`, what the table's book says. `cluster`
    is the address of the Ray cluster that it works on, `tracking` the place where its run is logged; both may be empty.
    """

    party: str
    origin: str
    columns: dict[str, str]
    not_features: dict[str, str]
    certificates: str
    cluster: str
    tracking: str
    quality: Quality | None
    budget: Standing | None


def identity_of(party: str, private: Private) -> Identity:
    """The key and certificates of a party; its private file must name their folder."""
    if private.certificates is None:
        raise PlanError(f"{party}: certificates: name the folder with its key and certificate in the private file")
    return load_identity(private.certificates, party)


def loaded(job: CheckedJob[Any], folder: Path | None = None) -> CheckedJob[Any]:
    """The same with the party's whole table in memory; its model, which may say how to read it, is checked first.

    If the party's memory is limited, columns stay on disk in this folder, if one is given.
    """
    if job.table is not None:
        return job
    kind = kind_named(job.plan.kind)
    kind.check_files(job)
    return with_table(job, kind.table(job), folder if kind.by_column and job.private.memory is not None else None)


def preflight(job: CheckedJob[Any], *, joins: bool = False, resumed: str = "") -> Preflight:
    """Check a party's model, table, columns, limits in this run and over all, certificates and cluster.

    The first fault is raised. A party that `joins` over a network must have certificates; for one that runs here they
    can be made. `resumed` is the name that a run which goes on has in the book of the party's table.
    """
    plan, party, private = job.plan, job.party, job.private
    if plan.engine == "plain":  # for every kind of job; how products are protected was checked with the plan
        check_engine(rules_of(plan), coordinator=False, networked=True)
    table, cleaning, _ = cleaned(loaded(job))
    origin, columns, quality = "no table", dict[str, Kind](), None
    if table is not None:
        kind_named(plan.kind).check_table(job, table)
        if party in plan.owners:
            fit(features_of(table, private), private.prepare)
        elif private.exclude:
            excluded_people(private.exclude, table.id, party, id_rules(job), hashed=table.hashed)
        origin, columns, quality = table.origin, table.kinds, quality_of(table, private.prepare, cleaning)
    budget = check_over_runs(job, table, usual_places(), resumed)
    certificates = "made for the run"
    if joins or private.certificates is not None:
        identity_of(party, private)
        certificates = "valid"
    if cluster := private.workers.address or "":
        check_cluster(cluster, party)
    uses = {"target": private.target, "weight": private.weight}
    apart = {use: name for use, name in uses.items() if name in columns}
    features = {name: kind_name(kind) for name, kind in columns.items() if name not in apart.values()}
    return Preflight(party, origin, features, apart, certificates, cluster, private.tracking.place, quality, budget)


def preflight_together(jobs: Sequence[CheckedJob[Any]]) -> tuple[list[Preflight], Together | None]:
    """Check all parties of a job on this machine, and what only shows when their tables are compared."""
    return [preflight(job) for job in jobs], check_together(jobs)
