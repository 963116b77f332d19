"""Check everything that a party needs before a job starts, without a connection.

Ids are checked in every row, other columns in the first rows only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from unpooled.align.normalise import IdRules, comparable
from unpooled.data.columns import Kind, kind_name
from unpooled.data.prepare import check_limits
from unpooled.data.sources import load, schema
from unpooled.errors import PlanError
from unpooled.jobs.exclusion import check_excluded
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.learning import rules_of
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob
from unpooled.secure.engine import check_engine
from unpooled.transport.trust import Identity, load_identity


@dataclass(frozen=True)
class Preflight:
    """What was found at one party: its columns with their types, and by its use a column that is no feature."""

    party: str
    origin: str
    columns: dict[str, str]
    not_features: dict[str, str]
    certificates: str


def identity_of(party: str, private: Private) -> Identity:
    """The key and certificates of a party; its private file must name their folder."""
    if private.certificates is None:
        raise PlanError(f"{party}: certificates: name the folder with its key and certificate in the private file")
    return load_identity(private.certificates, party)


def preflight(job: CheckedJob[Any], *, joins: bool = False) -> Preflight:
    """Check a party's model, table, columns, limits and certificates; the first fault is raised.

    A party that `joins` over a network must have certificates; for one that runs here they can be made.
    """
    plan, party, private, kind = job.plan, job.party, job.private, kind_named(job.plan.kind)
    if plan.engine == "plain":  # for every kind of job; how products are protected was checked with the plan
        check_engine(rules_of(plan), coordinator=False, networked=True)
    origin = "no table"
    columns: dict[str, Kind] = {}
    kind.check_files(job)
    if settings := kind.table(job):
        origin, columns = settings.origin, schema(settings, party)
        check_limits(private.prepare, columns, party, origin)
        kind.check_columns(job, columns, origin)
        if private.exclude:
            check_excluded(private.exclude, settings.id, party)
        if isinstance(job.parameters, IdRules):
            comparable(load(settings.model_copy(update={"columns": (), "types": {}}), party), job.parameters)
    certificates = "made for the run"
    if joins or private.certificates is not None:
        identity_of(party, private)
        certificates = "valid"
    uses = {"target": private.target, "weight": private.weight}
    apart = {use: name for use, name in uses.items() if name in columns}
    features = {name: kind_name(kind) for name, kind in columns.items() if name not in apart.values()}
    return Preflight(party, origin, features, apart, certificates)
