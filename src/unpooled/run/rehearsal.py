"""A job in this process with few rows and few rounds of learning, to see what it sends and what that takes.

Tables that are here are sampled, and the ids of their rows replaced; others have columns like those that are here, or
made-up ones. The parties are threads, so nothing leaves this process.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpooled.align.normalise import IdRules
from unpooled.control import Goodbye
from unpooled.data.table import Table
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.plan import Plan, fields_of
from unpooled.jobs.private import Consent, Policy, Private
from unpooled.jobs.scores import free_name
from unpooled.jobs.work import CheckedJob
from unpooled.run import folder as run_folder
from unpooled.run.conversation import role_of
from unpooled.run.simulate import simulate_roles
from unpooled.secure.shares import state
from unpooled.session import Session
from unpooled.wire import kind_of

COLUMNS = 10
_TARGET = "target"
_MOST_LABELS = 50
_ALIGNING = "unpooled.align."

Key = tuple[str, str, str, bool]
"""Sender, receiver, message type, and whether the message is part of an alignment."""


@dataclass(frozen=True, eq=False)
class Cast:
    """The parties of a job: tables, sampled or made up, private settings, and how many rows each has in the job.

    `common` is how many rows all owners have, and `known` how many of these the seeker has.
    """

    plan: Plan
    tables: dict[str, Table]
    privates: dict[str, Private]
    rows: dict[str, int]
    common: int
    known: int


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What was sent: frames and bytes; CPU seconds by party, within an alignment and without.

    `largest` is the size of the largest frame that a party sent or received, `rows` how many its table had.
    """

    common: int
    rows: dict[str, int]
    frames: Counter[Key] = field(default_factory=Counter)
    bytes: Counter[Key] = field(default_factory=Counter)
    largest: Counter[str] = field(default_factory=Counter)
    cpu: dict[tuple[str, bool], float] = field(default_factory=dict)


def like(table: Table | None, party: str, plan: Plan) -> tuple[Table, Private]:
    """What stands for a party whose table is not here: columns as in another's, or made-up numbers, and a target."""
    rng = np.random.default_rng(1)
    if table is None:
        columns = {f"column {number}": rng.normal(size=1000) for number in range(COLUMNS)}
        frame = pl.DataFrame({"id": list(map(str, range(1000)))} | columns)
        table = Table(party, "made up", ("id",), dict.fromkeys(columns, "number"), frame)
    target = None
    if "target" in kind_named(plan.kind).private_needs.get(plan.parties[party].role, ()):
        target, classes = free_name(_TARGET, table.frame.columns), parameters_of(plan).model.classes  # type: ignore[attr-defined]
        values = rng.integers(classes, size=table.frame.height) if classes else rng.normal(size=table.frame.height)
        cells = pl.Series(target, values).cast(pl.String) if classes else pl.Series(target, values)
        kinds = table.kinds | {target: "category" if classes else "number"}
        table = replace(table, kinds=kinds, frame=table.frame.with_columns(cells))
    return replace(table, party=party), Private(target=target)


def rehearse(cast: Cast, common: int, parameters: Mapping[str, Any], most_rows: int, **settings: Any) -> Rehearsal:
    """Run the job with so many common rows and other parameters; `settings` change the plan.

    The largest table has at most so many rows, or those in common, and the others in proportion.
    """
    as_they_are = {name: value for name, value in parameters.items() if name not in IdRules.model_fields}
    plan = cast.plan.model_copy(update={"parameters": as_they_are, **settings})  # made-up ids are no phone numbers
    fraction = min(most_rows / max(cast.rows.values(), default=1), 1.0)
    known = min(max(round(cast.known * common / cast.common), 10), common)
    tables = {}
    for party, table in cast.tables.items():
        seeks = plan.parties[party].role == "seeker"
        shared = known if seeks else common
        rows = max(round(cast.rows[party] * (known / max(cast.known, 1) if seeks else fraction)), shared)
        tables[party] = _sample(table, rows, shared, common, cast.privates[party].target)
    jobs = {party: checked(plan, party, _lenient(cast.privates[party]), tables.get(party)) for party in plan.parties}
    found = Rehearsal(common, {party: table.frame.height for party, table in tables.items()})
    with _as_if(common / cast.common), tempfile.TemporaryDirectory() as folder:
        clocks = {party: _Clock() for party in jobs}
        outcome = simulate_roles(
            {party: _timed(job, Path(folder) / party, clocks[party]) for party, job in jobs.items()},
            fields=fields_of(plan, parameters_of(plan)),
            guards={party: clock.before for party, clock in clocks.items()},
            timeout=plan.timeout,
            folder=Path(folder),
        )
    for party, record in outcome.ledgers.items():
        found.largest[party] = max(entry.bytes for entry in record.entries)
        found.cpu.update({(party, aligning): seconds for aligning, seconds in clocks[party].spent.items()})
        for entry in record.entries:
            if entry.way == "sent":
                key = party, entry.peer, entry.kind, entry.kind in clocks[party].aligning
                found.frames[key] += 1
                found.bytes[key] += entry.bytes
    return found


def _sample(table: Table, rows: int, shared: int, common: int, target: str | None) -> Table:
    """So many rows; the first `shared` of them have ids out of those in common, the others have ids of their own."""
    rng, height = np.random.default_rng(rows), table.frame.height
    picked = rng.choice(height, rows, replace=rows > height)
    if target in table.kinds and table.kinds[target] != "number":  # each label is there at least twice
        firsts = table.frame.with_row_index("place").unique(target, keep="first")["place"].to_numpy().repeat(2)
        if len(firsts) <= min(2 * _MOST_LABELS, shared):
            picked[: len(firsts)] = firsts
    ids = [f"{number:08}" for number in rng.choice(common, shared, replace=False)]
    ids += [f"{table.party}{number:08}" for number in range(rows - shared)]
    other_ids = [pl.lit("").alias(name) for name in table.id[1:]]
    frame = table.frame[picked].with_columns(pl.Series(table.id[0], ids), *other_ids)
    return replace(table, frame=frame, hashed=False)


def _lenient(private: Private) -> Private:
    """The same settings for a table in memory, without limits that few rows would run into."""
    least = {name: 1 for name in Policy.model_fields if name.startswith("minimum_")}
    policy = Policy.model_validate(least | {"maximum_thresholds": private.policy.maximum_thresholds})
    agreed = Consent(positives=True, found=True)
    return private.model_copy(update={"table": None, "seed": 1, "policy": policy, "consent": agreed})


class _Clock:
    """Counts the CPU seconds of a party's thread, those of an alignment by themselves."""

    def __init__(self) -> None:
        self.spent = {True: 0.0, False: 0.0}
        self.aligning: set[str] = set()
        self._last = 0.0

    def before(self, kind: type, _size: int) -> None:
        """What was spent since the last message belongs to this one."""
        now, aligning = time.thread_time(), kind.__module__.startswith(_ALIGNING)
        self.spent[aligning] += now - self._last
        self._last = now
        if aligning:
            self.aligning.add(kind_of(kind))


def _timed(job: CheckedJob[Any], folder: Path, clock: _Clock) -> Callable[[Session], None]:
    def role(session: Session) -> None:
        with run_folder.taken(folder):
            role_of(job, folder)(session)
        clock.before(Goodbye, 0)

    return role


@contextmanager
def _as_if(fraction: float) -> Iterator[None]:
    """Random numbers are dealt ahead as if there were all rows, and the parties' threads compute all, to be timed."""
    cores, ahead = os.environ.get("LOKY_MAX_CPU_COUNT"), state.most_bytes_ahead
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"
    state.most_bytes_ahead = int(ahead * fraction)
    try:
        yield
    finally:
        state.most_bytes_ahead = ahead
        del os.environ["LOKY_MAX_CPU_COUNT"]
        if cores is not None:
            os.environ["LOKY_MAX_CPU_COUNT"] = cores
