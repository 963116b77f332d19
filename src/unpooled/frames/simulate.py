"""All parties of a job as threads of this process, from data frames: the quick way to try a method."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import ValidationError

from unpooled.data.columns import Kind
from unpooled.errors import PlanError
from unpooled.frames.inputs import as_files, framed
from unpooled.frames.kept import kept_in
from unpooled.frames.models import ModelPart
from unpooled.frames.outcome import Outcome, PartyOutcome
from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan, Role
from unpooled.jobs.preflight import loaded
from unpooled.jobs.private import Private
from unpooled.run import simulate as threads
from unpooled.run.progress import Progress
from unpooled.settings import faults


@dataclass(frozen=True)
class Member:
    """A party of a simulation: its role, and its table as a polars or pandas data frame with the id column's name.

    `types` and `hashed` are as in the `[table]` of a private file. `handles` is a data frame with the same id
    columns and a column `handle`, such as completing a table hands back. `exclude` is one with the ids of people to
    leave out. `model` is the party's part of a model, and `earlier` what it had at the end of an earlier job, for kinds
    of job that go on from these.
    """

    role: Role
    frame: Any = None
    id: str | Sequence[str] = "id"
    types: Mapping[str, Kind] | None = None
    hashed: bool = False
    handles: Any = None
    private: Private = field(default_factory=Private)
    model: ModelPart | None = None
    earlier: PartyOutcome | None = None
    exclude: Any = None


def simulate(
    kind: str,
    members: Mapping[str, Member],
    *,
    engine: Literal["shares", "paillier", "plain"] | None = None,
    folder: str | Path | None = None,
    seed: int | None = None,
    timeout: float | None = None,
    key_bits: int | None = None,
    insecure: bool | None = None,
    count_rows: bool | None = None,
    audit: bool | None = None,
    watcher: Callable[[str, Progress], None] | None = None,
    **parameters: Any,
) -> Outcome:
    """Run a kind of job on data frames, with all parties in this process: the quick way to try a method.

    `seed` gives parties without a seed of their own one each, so that draws are repeatable; `folder` keeps all files.
    `watcher` is told of progress, with the party's name. The other keywords before `parameters`, which are those of the
    kind of job, are as in a plan.

    >>> import polars as pl
    >>> people = pl.DataFrame({"id": range(100), "age": range(100)})
    >>> members = {"telco": Member("passive", people), "bank": Member("active", people.head(60))}
    >>> simulate("check", members, round_trips=1).results["bank"]["rows"]
    {'telco': 100}
    >>> simulate("align", members).tables["telco"]["aligned"].height
    60
    """
    fields = {
        "engine": engine,
        "timeout": timeout,
        "key_bits": key_bits,
        "insecure": insecure,
        "count_rows": count_rows,
        "audit": audit,
    }
    content = {
        "kind": kind,
        "parties": {name: {"role": member.role} for name, member in members.items()},
        "parameters": parameters,
        **{name: value for name, value in fields.items() if value is not None},
    }
    try:
        plan = Plan.model_validate(content)
    except ValidationError as error:
        raise PlanError("; ".join(faults(error))) from None
    with ExitStack() as held:
        privates = {}
        for place, (name, member) in enumerate(members.items()):
            further = {"model": member.model, "earlier": member.earlier, "exclude": member.exclude}
            private = held.enter_context(as_files(name, _private_of(name, member), **further))
            if seed is not None and private.seed is None:
                private = private.model_copy(update={"seed": _own_seed(seed, place)})
            privates[name] = private
        return simulate_job(plan, privates, folder, watcher)


def simulate_job(
    plan: Plan,
    privates: Mapping[str, Private],
    folder: str | Path | None = None,
    watcher: Callable[[str, Progress], None] | None = None,
) -> Outcome:
    """Run a plan with all its parties in this process; tables may be files, or frames by `TableSettings.of_frame`.

    A party without private settings has the defaults. With a folder all files are kept there.
    """
    jobs = {party: loaded(checked(plan, party, privates.get(party, Private()))) for party in plan.parties}
    tables = {party: job.table for party, job in jobs.items() if job.table is not None}
    watchers = {party: partial(watcher, party) for party in plan.parties} if watcher else None
    with ExitStack() as held:
        root = Path(held.enter_context(tempfile.TemporaryDirectory())) if folder is None else Path(folder)
        found = threads.simulate_job(plan, privates, tables, root, watchers=watchers)
        parties = {
            party: PartyOutcome(
                party,
                plan,
                found.results[party],
                found.ledgers[party],
                found.tables[party],
                kept_in(root / party, party, copied=folder is None),
            )
            for party in plan.parties
        }
    return Outcome(parties, None if folder is None else root.resolve())


def _private_of(party: str, member: Member) -> Private:
    """A party's private settings, with its frame as the table."""
    if member.frame is None:
        if member.private.table is None and member.role != "coordinator":
            raise PlanError(f"{party} needs a table: a frame, or one in its private settings")
        return member.private
    own = {"id": member.id, "types": member.types, "hashed": member.hashed, "handles": member.handles}
    return member.private.model_copy(update={"table": framed(party, None, member.frame, **own)})


def _own_seed(seed: int, place: int) -> int:
    """A party's own seed, of 63 bits."""
    return int(np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> 1)
