"""See that everything is in place: every party's table loads and prepares, and all parties reach each other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import Field, TypeAdapter

from unpooled.arrays import Bytes
from unpooled.data.columns import kind_name
from unpooled.data.prepare import fit, save
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import Work
from unpooled.session import Session
from unpooled.settings import Section
from unpooled.wire import message

_SMALL = 1024


class Parameters(Section):
    """What a check can be told."""

    round_trips: int = Field(20, description="how many small messages measure the delay of a connection", ge=1, le=1000)
    megabytes: int = Field(8, description="size of the one large message that measures its speed", ge=1, le=1000)


@message(discloses="how many rows this party has after cleaning", to="the active party")
class RowCount:
    rows: int


@message(discloses="nothing: random bytes, to measure the connection")
class Probe:
    content: Bytes


@message(discloses="nothing: how much of the probe arrived")
class Echo:
    length: int


@dataclass(frozen=True)
class Column:
    """A column of a party's table, and what cleaning found in it."""

    name: str
    kind: str
    missing: int
    impossible: int
    constant: bool
    left_out: bool


@dataclass(frozen=True)
class TableSummary:
    """A party's table before and after cleaning."""

    rows_read: int
    duplicates_removed: int
    rows_dropped: int
    rows: int
    columns: tuple[Column, ...]
    prepared_columns: int


@dataclass(frozen=True)
class Connection:
    """A connection as one of its two ends measured it."""

    peer: str
    round_trip_ms: float
    megabytes_per_second: float


@dataclass(frozen=True)
class CheckResult:
    """What a check leaves in `result.json`; `rows` is what the active party was told."""

    table: TableSummary | None
    rows: Mapping[str, int]
    links: tuple[Connection, ...]


_AS_JSON = TypeAdapter(CheckResult)


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """The same for every party: prepare the table, tell the active party its size, measure every connection."""
    table = _prepare_table(work)
    with session.scope("sizes"):
        rows = _exchange_sizes(session, work)
    links = []
    for first, second in combinations(work.plan.parties, 2):
        with session.scope(f"link {first} {second}"):
            if session.party == first:
                links.append(_measure(session, second, work.parameters))
            elif session.party == second:
                _answer(session, first, work.parameters)
    found: dict[str, Any] = _AS_JSON.dump_python(CheckResult(table, rows, tuple(links)), mode="json")
    return found


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What a check says."""
    sizes = [Exchange(party, plan.active, RowCount, 1, 50) for party in _lenders(plan)]
    links = []
    for first, second in combinations(plan.parties, 2):
        small, large = parameters.round_trips, parameters.megabytes * 10**6
        links.append(Exchange(first, second, Probe, small + 1, small * _SMALL + large))
        links.append(Exchange(second, first, Echo, small + 1, (small + 1) * 50))
    return [*sizes, *links]


def _lenders(plan: Plan) -> list[str]:
    return [name for name, party in plan.parties.items() if party.role not in ("active", "coordinator")]


def _prepare_table(work: Work[Parameters]) -> TableSummary | None:
    table, cleaning = work.table, work.cleaning
    if table is None or cleaning is None:
        return None
    preparation = fit(table, work.private.prepare)
    save(preparation, work.folder / "preparation.json")
    columns = tuple(
        Column(
            name,
            kind_name(kind),
            missing=cleaning.missing.get(name, 0),
            impossible=len(cleaning.impossible.get(name, ())),
            constant=name in preparation.constant,
            left_out=name in preparation.left_out,
        )
        for name, kind in table.kinds.items()
    )
    counts = cleaning.rows_read, cleaning.duplicates_removed, cleaning.rows_dropped, table.frame.height
    return TableSummary(*counts, columns, len(preparation.names))


def _exchange_sizes(session: Session, work: Work[Parameters]) -> dict[str, int]:
    if session.party == work.plan.active:
        return {party: session.recv(party, RowCount).rows for party in _lenders(work.plan)}
    if work.table is not None:
        session.send(work.plan.active, RowCount(work.table.frame.height))
    return {}


def _measure(session: Session, peer: str, parameters: Parameters) -> Connection:
    def seconds(probe: Probe) -> float:
        start = time.perf_counter()
        session.send(peer, probe)
        session.recv(peer, Echo)
        return time.perf_counter() - start

    def probe(size: int) -> Probe:
        return Probe(np.frombuffer(session.secret.randbytes(size), np.uint8))

    delays = [seconds(probe(_SMALL)) for _ in range(parameters.round_trips)]
    large = seconds(probe(parameters.megabytes * 10**6))
    return Connection(peer, round(1000 * statistics.median(delays), 3), round(parameters.megabytes / large, 1))


def _answer(session: Session, peer: str, parameters: Parameters) -> None:
    for _ in range(parameters.round_trips + 1):
        probe = session.recv(peer, Probe, at_most=max(_SMALL, parameters.megabytes * 10**6))
        session.send(peer, Echo(len(probe.content)))
