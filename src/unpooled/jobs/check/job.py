"""See that everything is in place: every party's table loads and prepares, and all parties reach each other."""

from __future__ import annotations

import statistics
import time
from itertools import combinations
from typing import Any

import numpy as np
from pydantic import Field

from unpooled.arrays import Bytes
from unpooled.data.columns import kind_name
from unpooled.data.prepare import fit, save, transform
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


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """The same for every party: prepare the table, tell the active party its size, measure every connection."""
    result: dict[str, Any] = {"table": _prepare_table(work)}
    with session.scope("sizes"):
        result["rows"] = _exchange_sizes(session, work)
    result["links"] = []
    for first, second in combinations(work.plan.parties, 2):
        with session.scope(f"link {first} {second}"):
            if session.party == first:
                result["links"].append(_measure(session, second, work.parameters))
            elif session.party == second:
                _answer(session, first, work.parameters)
    return result


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


def _prepare_table(work: Work[Parameters]) -> dict[str, Any] | None:
    if work.table is None or work.cleaning is None:
        return None
    preparation = fit(work.table, work.private.prepare)
    save(preparation, work.folder / "preparation.json")
    prepared = transform(preparation, work.table)
    cleaning = work.cleaning
    return {
        "rows_read": cleaning.rows_read,
        "duplicates_removed": cleaning.duplicates_removed,
        "rows_dropped": cleaning.rows_dropped,
        "rows": work.table.frame.height,
        "columns": [
            {
                "name": name,
                "kind": kind_name(kind),
                "missing": cleaning.missing.get(name, 0),
                "impossible": len(cleaning.impossible.get(name, ())),
                "constant": name in preparation.constant,
                "left_out": name in preparation.left_out,
            }
            for name, kind in work.table.kinds.items()
        ],
        "prepared_columns": len(prepared.names),
    }


def _exchange_sizes(session: Session, work: Work[Parameters]) -> dict[str, int]:
    if session.party == work.plan.active:
        return {party: session.recv(party, RowCount).rows for party in _lenders(work.plan)}
    if work.table is not None:
        session.send(work.plan.active, RowCount(work.table.frame.height))
    return {}


def _measure(session: Session, peer: str, parameters: Parameters) -> dict[str, Any]:
    def seconds(probe: Probe) -> float:
        start = time.perf_counter()
        session.send(peer, probe)
        session.recv(peer, Echo)
        return time.perf_counter() - start

    def probe(size: int) -> Probe:
        return Probe(np.frombuffer(session.secret.randbytes(size), np.uint8))

    delays = [seconds(probe(_SMALL)) for _ in range(parameters.round_trips)]
    large = seconds(probe(parameters.megabytes * 10**6))
    return {
        "peer": peer,
        "round_trip_ms": round(1000 * statistics.median(delays), 3),
        "megabytes_per_second": round(parameters.megabytes / large, 1),
    }


def _answer(session: Session, peer: str, parameters: Parameters) -> None:
    for _ in range(parameters.round_trips + 1):
        probe = session.recv(peer, Probe, at_most=max(_SMALL, parameters.megabytes * 10**6))
        session.send(peer, Echo(len(probe.content)))
