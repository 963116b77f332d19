"""All parties of a job as threads of this process: for trials, tests and research. Nothing is protected from anyone."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from unpooled import atomic
from unpooled.data.columns import Kind
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import CAUSES, PlanError, cause_of
from unpooled.jobs.files import write_toml
from unpooled.jobs.kinds import Result, faults, parameters_of
from unpooled.jobs.plan import Plan, Role, digest_of, fields_of
from unpooled.jobs.private import Private
from unpooled.ledger import Ledger, Record, read_ledger
from unpooled.run import folder as run_folder
from unpooled.run.conversation import converse, guard_of, role_of, seed_of
from unpooled.session import Session
from unpooled.transport.mailbox import ROOM_BYTES
from unpooled.transport.memory import MemoryTransport, mailboxes

T = TypeVar("T")

_GLANCE_SECONDS = 0.2


@dataclass(frozen=True)
class Member:
    """A party of a simulation: its role, and its table as a polars or pandas data frame with the id column's name."""

    role: Role
    frame: Any = None
    id: str | Sequence[str] = "id"
    types: Mapping[str, Kind] | None = None
    private: Private = field(default_factory=Private)


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What every party has at the end, and its ledger."""

    results: dict[str, T]
    ledgers: dict[str, Record]


def simulate(kind: str, members: Mapping[str, Member], **parameters: Any) -> Outcome[Result]:
    """Run a kind of job on data frames, all parties here: the quick way to try a method.

    >>> import polars as pl
    >>> people = pl.DataFrame({"id": range(100), "age": range(100)})
    >>> members = {"telco": Member("passive", people), "bank": Member("active", people.head(60))}
    >>> simulate("check", members, round_trips=1).results["bank"]["rows"]
    {'telco': 100}
    """
    roles = {name: {"role": member.role} for name, member in members.items()}
    try:
        plan = Plan.model_validate({"kind": kind, "parties": roles, "parameters": parameters})
    except ValidationError as error:
        raise PlanError("; ".join(faults(error))) from None
    tables = {
        name: table_from_frame(member.frame, member.id, name, member.types)
        for name, member in members.items()
        if member.frame is not None
    }
    return simulate_job(plan, {name: member.private for name, member in members.items()}, tables)


def simulate_job(
    plan: Plan, privates: Mapping[str, Private], tables: Mapping[str, Table] | None = None, folder: Path | None = None
) -> Outcome[Result]:
    """Run a plan with all its parties here; tables that are given take the place of those in private settings.

    A party without private settings has the defaults.
    """
    with ExitStack() as stack:
        root = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        roles: dict[str, Callable[[Session], Result]] = {}
        seeds, guards = {}, {}
        for party in plan.parties:
            private = privates.get(party, Private())
            home = run_folder.create(root / party)
            role = role_of(plan, party, private, home, (tables or {}).get(party))
            roles[party] = partial(_keeping_files, role, plan, home)
            seeds[party], guards[party] = seed_of(private), guard_of(party, private.policy)
        write_toml(root / run_folder.PLAN, plan)
        fields = fields_of(plan, parameters_of(plan))
        return simulate_roles(roles, fields=fields, seeds=seeds, guards=guards, timeout=plan.timeout, folder=root)


def _keeping_files(role: Callable[[Session], Result], plan: Plan, home: Path, session: Session) -> Result:
    with run_folder.status_kept(home, session.party, plan):
        result = role(session)
        run_folder.write_result(home, result)
    return result


def simulate_roles(
    roles: Mapping[str, Callable[[Session], T]],
    *,
    fields: Mapping[str, str] | None = None,
    seeds: Mapping[str, int] | None = None,
    guards: Mapping[str, Callable[[type, int], None]] | None = None,
    timeout: float = 60,
    room: int = ROOM_BYTES,
    folder: Path | None = None,
) -> Outcome[T]:
    """Run one function per party, each with a session of its own; if any fails, the original error is raised."""
    with ExitStack() as stack:
        root = folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for party in roles:
            atomic.make_folder(root / party)
        digest = digest_of(fields or {})
        ledgers = {
            party: stack.enter_context(Ledger(root / party / run_folder.LEDGER, party, digest)) for party in roles
        }
        boxes = mailboxes(ledgers, room)
        results: dict[str, T] = {}
        errors: dict[str, BaseException] = {}

        def run(party: str) -> None:
            session = Session(
                MemoryTransport(party, boxes, timeout),
                ledgers[party],
                seed=(seeds or {}).get(party, 0),
                timeout=timeout,
                guard=(guards or {}).get(party),
            )
            try:
                results[party] = converse(session, fields or {}, roles[party])
            except BaseException as error:
                errors[party] = error

        threads = [
            threading.Thread(target=run, args=(party,), name=f"unpooled-{party}", daemon=True) for party in roles
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(_GLANCE_SECONDS)  # not for ever at once: an interrupt must get through
        except BaseException:
            for box in boxes.values():
                for peer in box.peers:
                    box.lose(peer, "the simulation was interrupted")
            raise
        if errors:
            raise original(errors)
        return Outcome(results, {party: read_ledger(root / party / run_folder.LEDGER) for party in roles})


def original(errors: Mapping[str, BaseException]) -> BaseException:
    """The error that the others followed from, with theirs as notes; of several, the one that came first."""
    first = min(errors, key=lambda party: CAUSES.index(cause_of(errors[party])))
    for party, error in errors.items():
        if party != first:
            errors[first].add_note(f"then {party}: {error}")
    return errors[first]
