"""What a job will cost each party, told before it starts: messages, bytes, CPU time, memory.

The job is rehearsed with few rows and few rounds of learning (`rehearsal`), and what that takes is scaled up
(`scaling`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from unpooled.align.normalise import IdRules
from unpooled.align.ristretto import as_with, many
from unpooled.arrays import Ints
from unpooled.data.sources import rows_at_once
from unpooled.data.table import Table
from unpooled.errors import InputError, RefusedError
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.together import keys_compared, known_rows, rows_in_all
from unpooled.jobs.work import CheckedJob, begin
from unpooled.run.rehearsal import COLUMNS, Cast, like
from unpooled.run.scaling import Scale, rehearsed

log = logging.getLogger("unpooled.run")

_GUESSED_ROWS, _GUESSED_PEOPLE = 10_000, 10
_START_SECONDS, _MESSAGE_SECONDS, _BYTE_SECONDS = 1.1, 1e-4, 2e-9
"""CPU time to start a process, and besides what is rehearsed, of a message and a byte over TLS, at either end."""
_START_MB, _READING_MB, _ROW_MB, _CELL_MB = 120.0, 30.0, 5e-4, 2e-5
"""Memory of a process at rest; to read a table, for each of its rows, and for each cell, as read and as prepared."""
_BIN_MB, _VALUE_MB, _COLUMNS_AT_ONCE = 1e-6, 8e-6, 5
"""Where columns stay on disk: memory of a bin, of a value, and how many columns, or copies of one, there are."""
_BATCHES_AT_ONCE = 3
"""How many batches of rows are in memory when a table is read so."""
_LOOPS_MB = 200.0
"""Of numba, with the loops that encrypt and add, and their table."""
_SHARES_LOOPS_MB = 100.0
"""Half of what numba takes with the loops of `shares`: whether a party loads them depends on how much it computes."""
_POINTS_LOOPS_MB = 120.0
"""Of numba with the loops of points."""
_COPIES, _CIPHERTEXT_COPIES, _COORDINATOR_COPIES = 5, 4, 3
"""How many times the largest message is in memory, in one form or another; of matrices encrypted together, one at a
time has more."""


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
    """What a job costs each party with so many common rows; `guesses` are sentences on what was not known.

    `others` is how many rows take part that the active party lacks.
    """

    common: int
    others: int
    guesses: tuple[str, ...]
    parties: dict[str, Cost]


def forecast(jobs: Sequence[CheckedJob[Any]], common: int | None = None) -> Forecast:
    """What a job will cost, by the tables of those of its parties that are here.

    `common` is how many rows all owners of columns have. Without it they are counted if all tables are here, and else
    guessed.
    """
    cast, guesses = _cast(jobs, common)
    guesses += _untold(jobs)
    with as_with(_points(cast)):
        scale = rehearsed(cast)
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
    others = cast.common - cast.own
    return Forecast(cast.own, others, tuple(guess for guess in (*guesses, scale.said, scale.guess) if guess), costs)


def _untold(jobs: Sequence[CheckedJob[Any]]) -> list[str]:
    """What is not rehearsed at a party alone."""
    trained = {job.party: job.private.generate.networks for job in jobs if job.party == job.plan.active}
    return [
        f"the training of {' and '.join(names)} at {party} is left out: it takes more CPU time and memory than the rest"
        for party, names in trained.items()
        if names
    ]


def _memory(scale: Scale, party: str) -> float:
    """The most memory that a party needs, in MB."""
    cast, largest = scale.cast, scale.largest(party) / 1e6
    if party not in cast.tables:
        return _START_MB + _COORDINATOR_COPIES * largest + _loops(scale, party)
    rows, columns = cast.rows[party], len(cast.tables[party].kinds)
    prepared = cast.common * scale.widths[party] if party in scale.widths else 0
    table = _CELL_MB * (rows * columns + prepared)
    if cast.privates[party].memory is not None and kind_named(cast.plan.kind).by_column:
        batch = _BATCHES_AT_ONCE * min(rows, rows_at_once) * columns
        table = _VALUE_MB * (_COLUMNS_AT_ONCE * rows + batch) + _BIN_MB * prepared
    copies = _CIPHERTEXT_COPIES if cast.plan.engine == "paillier" else _COPIES
    return _START_MB + _READING_MB + _ROW_MB * rows + table + copies * largest + _loops(scale, party)


def _points(cast: Cast) -> int:
    """About how many points a party multiplies to compare ids: its own, and another's."""
    by_points = getattr(parameters_of(cast.plan), "psi", None) == "ecdh"
    return 2 * max(cast.rows.values(), default=0) if by_points else 0


def _loops(scale: Scale, party: str) -> float:
    """Memory of compiled loops, in MB; a coordinator encrypts nothing, and has no points."""
    points = _POINTS_LOOPS_MB if party in scale.cast.tables and many(_points(scale.cast)) else 0.0
    return max(points, _learning_loops(scale, party))


def _learning_loops(scale: Scale, party: str) -> float:
    if scale.cast.plan.engine == "shares":
        return _SHARES_LOOPS_MB if scale.widths else 0.0
    return _LOOPS_MB if party in scale.cast.tables and scale.own_key and scale.own_key.loops else 0.0


def beyond_memory(found: Forecast, jobs: Sequence[CheckedJob[Any]]) -> list[str]:
    """For each party that would take more memory than its private file allows, a sentence with what would help."""
    return [
        f"{job.party}: memory: the job would take about {cost.peak_memory_mb / 1000:.2g} GB here, and {limit:g} GB are "
        "allowed: allow more, name fewer columns in [table], or take part with fewer rows"
        for job in jobs
        if (limit := job.private.memory) and (cost := found.parties[job.party]).peak_memory_mb > 1000 * limit
    ]


def check_memory(job: CheckedJob[Any]) -> None:
    """Refuse a job that would take more memory than the party allows, by a forecast from its table alone.

    A job that cannot be forecast is not refused.
    """
    if job.private.memory is None:
        return
    try:
        found = forecast([job])
    except InputError as error:
        log.info("%s: no forecast, so nobody knows whether memory will suffice: %s", job.party, error)
        return
    if beyond := beyond_memory(found, [job]):
        raise RefusedError(beyond[0])


def _cast(jobs: Sequence[CheckedJob[Any]], common: int | None) -> tuple[Cast, list[str]]:
    """The parties as they are here, and stand-ins for the others; what of that is guessed."""
    plan = jobs[0].plan
    kind, holders = kind_named(plan.kind), [name for name, party in plan.parties.items() if party.role != "coordinator"]
    if any("earlier" in keys for keys in kind.private_needs.values()):
        raise InputError("a job that takes its data from an earlier run is not rehearsed")
    privates = {job.party: job.private for job in jobs}
    found = {job.party: begin(job, kind.table(job), Path()).table for job in jobs}
    tables = {party: table for party, table in found.items() if table is not None}
    if absent := [party for party in holders if party not in tables]:
        if any("model" in keys for keys in kind.private_needs.values()):
            raise InputError("the other parties' parts of the model are not here")
        return _guessed(plan, tables, privates, absent, common)
    return _counted(plan, tables, privates, jobs[0].parameters, common), []


def _guessed(
    plan: Plan, tables: dict[str, Table], privates: dict[str, Private], absent: Sequence[str], common: int | None
) -> tuple[Cast, list[str]]:
    """With one party's table here, or none, the others are guessed."""
    seekers, others = plan.with_role("seeker"), kind_named(plan.kind).other_rows
    (own,) = tables or [""]
    here = own in plan.owners
    size = tables[own].frame.height if own else 0
    people = size if here else _GUESSED_PEOPLE * size if own else _GUESSED_ROWS
    if others and own == plan.active:
        people *= _GUESSED_PEOPLE
    common = common or (max(people // _GUESSED_PEOPLE, 1) if others else people)
    known = max(common // _GUESSED_PEOPLE, 1) if not seekers or seekers[0] != own else size
    rows = {party: table.frame.height for party, table in tables.items()}
    for party in absent:
        tables[party], privates[party] = like(tables[own] if here else None, party, plan)
        small = known if party in seekers else common if others and party == plan.active else None
        rows[party] = max(people, common) if small is None else small
    columns = f"as many columns as {own}" if here else f"{COLUMNS} columns of numbers"
    owners = ", ".join(party for party in absent if party in plan.owners)
    guesses = [f"{owners}: {columns}" if others else f"{owners}: {columns}, and {people:,} rows"]
    if plan.active in absent and getattr(parameters_of(plan), "columns", None):
        guesses.append(f"the columns of {plan.active} that the plan names are numbers")
    if others:
        guesses.append(f"{plan.active} has {common:,} of {people:,} rows")
    if seekers:
        guesses.append(f"{seekers[0]} knows {known:,} of the common rows")
    privates = {party: privates.get(party, Private()) for party in plan.parties}
    taking_part = max(people, common) if others else common
    return _checked(Cast(plan, tables, privates, rows, taking_part, known, common)), guesses


def _counted(
    plan: Plan, tables: dict[str, Table], privates: dict[str, Private], parameters: Any, common: int | None
) -> Cast:
    """With all tables here, rows in common are counted."""
    rules, seekers = parameters if isinstance(parameters, IdRules) else IdRules(), plan.with_role("seeker")
    keys = keys_compared(tables, [plan.active, *plan.with_role("passive")], rules)
    shared = tables[plan.active].take(rows_in_all(keys))
    known = int(known_rows(shared, tables[seekers[0]], rules).sum()) if seekers else 0
    if common is not None and shared.frame.height:
        known = known * common // shared.frame.height
    common = shared.frame.height if common is None else common
    rows = {party: table.frame.height for party, table in tables.items()}
    if not kind_named(plan.kind).other_rows:
        return _checked(Cast(plan, tables, privates, rows, common, known, common))
    taking_part, owners = max(len(rows_in_all(keys[1:])), common), [plan.active, *plan.with_role("passive")]
    return _checked(Cast(plan, tables, privates, rows, taking_part, known, common, _together(owners, keys)))


def _together(owners: Sequence[str], keys: Sequence[Sequence[bytes]]) -> dict[str, Ints]:
    """By owner where the rows are that all of them have, in one order."""
    common = [keys[0][row] for row in rows_in_all(keys)]
    places = [{key: place for place, key in enumerate(own)} for own in keys]
    return {party: np.array([own[key] for key in common]) for party, own in zip(owners, places, strict=True)}


def _checked(cast: Cast) -> Cast:
    """The same, if there are common rows; a table has at least as many as take part."""
    if not cast.own:
        raise InputError("the parties have no row in common")
    least = dict.fromkeys(cast.plan.owners, cast.common) | {cast.plan.active: cast.own}
    rows = {party: max(count, least.get(party, cast.known)) for party, count in cast.rows.items()}
    return replace(cast, rows=rows)
