"""What a job will cost each party, told before it starts: messages, bytes, CPU time, memory.

The job is rehearsed with few rows and few rounds of learning (`rehearsal`). What it sends grows with rows and rounds,
each type of message in its own way: rehearsals that differ in rows, or in rounds, say how.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Any

from unpooled.align.ecdh import CHUNK
from unpooled.align.ids import keys_of
from unpooled.align.normalise import IdRules
from unpooled.align.ristretto import POINT_BYTES
from unpooled.data.prepare import fit, transform
from unpooled.errors import InputError
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.labels import features_of
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, begin
from unpooled.run.rehearsal import COLUMNS, Cast, Key, Rehearsal, like, rehearse
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.wire import kind_of

_ROWS, _PAILLIER_ROWS, _TABLE_ROWS = 2_100, 300, 3_000
"""The most common rows of a rehearsal, and rows of a table; a second rehearsal has a third of the common rows."""
_GUESSED_ROWS, _GUESSED_PEOPLE = 10_000, 10
_GROWS = 1.5
"""With three times the rows, counts of messages that grow by less than this do not depend on the rows; nor do those of
learners that take all rows at once, which grow only while trees are small for want of rows."""
_LONG = 1_000
"""Rounds after which every fit has ended that can end early."""

_START_SECONDS, _MESSAGE_SECONDS, _BYTE_SECONDS = 1.1, 1e-4, 2e-9
"""CPU time to start a process, and besides what is rehearsed, of a message and a byte over TLS, at either end."""
_START_MB, _READING_MB, _ROW_MB, _CELL_MB = 120.0, 30.0, 5e-4, 4e-5
"""Memory of a process at rest; to read a table, for each of its rows, and for each cell, as read and as prepared."""
_COPIES, _COORDINATOR_COPIES = 7, 2
"""How many times the largest message is in memory, in one form or another."""


@dataclass(frozen=True)
class Cost:
    """What a job costs one party; the messages are those that it sends."""

    messages: int
    sent_bytes: int
    received_bytes: int
    cpu_seconds: float
    peak_memory_mb: float


@dataclass(frozen=True)
class Forecast:
    """What a job costs each party with so many common rows; `guesses` are sentences on what was not known."""

    common: int
    guesses: tuple[str, ...]
    parties: dict[str, Cost]


def forecast(jobs: Sequence[CheckedJob[Any]], common: int | None = None) -> Forecast:
    """What a job will cost, by the tables of those of its parties that are here.

    `common` is how many rows all owners of columns have. Without it they are counted if all tables are here, and else
    guessed.
    """
    cast, guesses = _cast(jobs, common)
    scale = _rehearsed(cast)
    sizes = {key: scale.bytes(key) for key in scale.high.bytes}
    frames = {key: scale.frames(key, sizes[key]) for key in scale.high.bytes}
    costs = {}
    for party in cast.plan.parties:
        sent, received = ([key for key in sizes if key[way] == party] for way in (0, 1))
        out, back = sum(sizes[key] for key in sent), sum(sizes[key] for key in received)
        count = sum(frames[key] for key in sent)
        moved = _MESSAGE_SECONDS * (count + sum(frames[key] for key in received)) + _BYTE_SECONDS * (out + back)
        seconds = _START_SECONDS + scale.cpu(party) + moved
        costs[party] = Cost(round(count), round(out), round(back), round(seconds, 1), round(_memory(scale, party)))
    return Forecast(cast.common, tuple(guesses), costs)


def _memory(scale: _Scale, party: str) -> float:
    """The most memory that a party needs, in MB."""
    cast, largest = scale.cast, scale.of(lambda one: one.largest[party], rounds=False) / 1e6
    if party not in cast.tables:
        return _START_MB + _COORDINATOR_COPIES * largest
    rows, columns = cast.rows[party], len(cast.tables[party].kinds)
    cells = rows * columns + (cast.common * scale.widths[party] if party in scale.widths else 0)
    return _START_MB + _READING_MB + _ROW_MB * rows + _CELL_MB * cells + _COPIES * largest


@dataclass(frozen=True, eq=False)
class _Scale:
    """Rehearsals, by which figures are scaled to all rows and rounds: `low` has fewer rounds than `high`.

    `widths` are the numbers of owners' columns as prepared for a learner.
    `small` has as few rounds and fewer rows than `low`; None if all grows with the rows, or all rows were rehearsed.
    `models` and `groups` are how many times more there are of them than in the rehearsals.
    """

    cast: Cast
    widths: dict[str, int]
    high: Rehearsal
    low: Rehearsal
    small: Rehearsal | None
    few: int
    more: int
    rounds: float
    models: float
    groups: float

    def of(
        self, figure: Callable[[Rehearsal], float], *, times: float = 1.0, least: float = 1.0, rounds: bool = True
    ) -> float:
        """A figure with all rows and rounds; if its rows grow it by less than `least`, they do not count."""
        high, low = figure(self.high), figure(self.low)
        by_round = max(high - low, 0.0) / (self.more - self.few) if self.more > self.few and rounds else 0.0
        fixed = max(high - by_round * self.more, 0.0)
        return (fixed + by_round * self.rounds * times) * self._by_rows(low, figure, least)

    def _by_rows(self, low: float, figure: Callable[[Rehearsal], float], least: float) -> float:
        rows, wanted = self.low.common, self.cast.common
        if self.small is None:
            return wanted / rows
        small = figure(self.small)
        if rows == self.small.common or not low or low < least * small:
            return 1.0
        by_row = min(max(low - small, 0.0) / (rows - self.small.common), low / rows)
        return 1 + by_row * (wanted - rows) / low

    def bytes(self, key: Key) -> float:
        if key[3]:
            return self.high.bytes[key] * self._by_tables(key[0], key[1])
        return self.of(lambda one: one.bytes[key], times=self.models)

    def frames(self, key: Key, size: float) -> float:
        found = self.high.frames[key]
        if not key[3]:
            return self.of(lambda one: one.frames[key], times=self.groups, least=_GROWS if self.more == 1 else inf)
        chunked = found * self._by_tables(key[0], key[1]) if found > 2 else size / (CHUNK * POINT_BYTES)
        return max(found, chunked) if size > self.high.bytes[key] else found

    def cpu(self, party: str) -> float:
        aligning = self.high.cpu[party, True] * self._by_tables(party)
        return aligning + self.of(lambda one: one.cpu[party, False], times=self.models)

    def _by_tables(self, *parties: str) -> float:
        """How many times more ids an alignment of these parties has; with the seeker it is about the common ones."""
        plan, cast, one = self.cast.plan, self.cast, self.high
        if seekers := set(parties) & set(plan.with_role("seeker")):
            (seeker,) = seekers
            return (cast.rows[seeker] + cast.common) / (one.rows[seeker] + one.common)
        return sum(cast.rows[owner] for owner in plan.owners) / sum(one.rows[owner] for owner in plan.owners)


def _rehearsed(cast: Cast) -> _Scale:
    """Rehearse the job as often as it takes to see how its figures grow."""
    plan = cast.plan
    kind, parameters, raw = kind_named(plan.kind), parameters_of(plan), plan.parameters
    model: LearnerParameters | None = getattr(parameters, "model", None)
    groups = kind.groups(parameters)
    widths = _widths(cast) if groups else {}
    fewer = groups
    if plan.engine == "paillier":
        raw = {**raw, **kind.shorter(parameters)}
        fewer = kind.groups(kind.parameters.model_validate(raw))
    times = (sum(groups) / sum(fewer), len(groups) / len(fewer)) if fewer else (1.0, 1.0)
    most = _PAILLIER_ROWS if plan.engine == "paillier" else _ROWS
    few, more, wanted, batch, name = 1, 1, 1.0, 0, ""
    if model and (learner := learner_of(model)).rounds:
        name, unit = learner.rounds(model, max(fewer), plan.engine)
        wanted = getattr(model, name)
        few, more = min(unit, int(wanted)), min(2 * unit, int(wanted))
        if learner.batch_rows:
            batch = learner.batch_rows(model, max(widths.values()))
            batches = 1 if plan.engine == "paillier" else 2
            most = ceil(batches * batch / (1 - getattr(parameters, "test_fraction", 0.0)))
    rows = min(most, cast.common)

    def run(rows: int, rounds: int, table_rows: int = 1, **settings: Any) -> Rehearsal:
        changed = raw | {"model": {**raw.get("model", {}), name: rounds}} if name else raw
        return rehearse(cast, rows, changed, table_rows, **settings)

    high = run(rows, more, _TABLE_ROWS)
    low = run(rows, few) if few < more else high
    small = None if batch else run(rows // 3, few) if rows < cast.common else low
    if model and (once := learner_of(model).ends_early(model)):
        ended = run(min(2 * rows, cast.common), _LONG, engine="plain")
        taken = max(ended.frames[key] for key in ended.frames if key[2] == kind_of(once)) / len(fewer)
        wanted = min(wanted, max(taken * ended.common / cast.common, _least_rounds(model)))  # it takes as many steps
    return _Scale(cast, widths, high, low, small, few, more, wanted, *times)


def _least_rounds(model: LearnerParameters) -> int:
    """With so many steps that the first round or two do it, patience decides."""
    return int(getattr(model, "patience", 0)) + 2


def _widths(cast: Cast) -> dict[str, int]:
    """How many columns each owner has, prepared; an intercept among them."""
    widths = {}
    for party in cast.plan.owners:
        table, prepare = features_of(cast.tables[party], cast.privates[party]), cast.privates[party].prepare
        sample = replace(table, frame=table.frame.head(_ROWS))
        widths[party] = len(transform(fit(sample, prepare), sample).names) + 1
    return widths


def _cast(jobs: Sequence[CheckedJob[Any]], common: int | None) -> tuple[Cast, list[str]]:
    """The parties as they are here, and stand-ins for the others; what of that is guessed."""
    plan, parameters = jobs[0].plan, jobs[0].parameters
    kind, holders = kind_named(plan.kind), [name for name, party in plan.parties.items() if party.role != "coordinator"]
    if any("earlier" in keys for keys in kind.private_needs.values()):
        raise InputError("a job that takes its data from an earlier run is not rehearsed")
    privates = {job.party: job.private for job in jobs}
    found = {job.party: begin(job, kind.table(job), Path()).table for job in jobs}
    tables = {party: table for party, table in found.items() if table is not None}
    absent, seekers = [party for party in holders if party not in tables], plan.with_role("seeker")
    guesses: list[str] = []
    rows = {party: table.frame.height for party, table in tables.items()}
    if absent:
        if any("model" in keys for keys in kind.private_needs.values()):
            raise InputError("the other parties' parts of the model are not here")
        (own,) = tables or [""]
        here = own in plan.owners
        people = rows[own] if here else _GUESSED_PEOPLE * rows[own] if own else _GUESSED_ROWS
        common = common or people
        known = max(common // _GUESSED_PEOPLE, 1) if not seekers or seekers[0] != own else rows[own]
        for party in absent:
            standing, private = like(tables[own] if here else None, party, plan)
            tables[party], privates[party] = standing, private
            rows[party] = known if party in seekers else max(people, common)
        columns = f"as many columns as {own}" if here else f"{COLUMNS} columns of numbers"
        lenders = ", ".join(party for party in absent if party in plan.owners)
        guesses.append(f"{lenders}: {columns}, and {people:,} rows")
        if seekers:
            guesses.append(f"{seekers[0]} knows {known:,} of the common rows")
        privates = {party: privates.get(party, Private()) for party in plan.parties}
    else:
        rules = parameters if isinstance(parameters, IdRules) else IdRules()
        ids = {party: set(keys_of(table, rules)) for party, table in tables.items()}
        shared = set.intersection(*(ids[owner] for owner in plan.owners))
        known = len(shared & ids[seekers[0]]) if seekers else 0
        if common is not None and shared:
            known = known * common // len(shared)
        common = len(shared) if common is None else common
    if not common:
        raise InputError("the parties have no row in common")
    rows = {party: max(count, common if party in plan.owners else known) for party, count in rows.items()}
    return Cast(plan, tables, privates, rows, common, known), guesses
