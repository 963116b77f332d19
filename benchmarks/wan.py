"""What a long line costs a look-alike search: the same search on loopback and through slow lines.

A search of the credit data with the default settings (hidden nodes and bags, estimates) but fewer trees and iterations,
since the cost of each level of trees is the same: four parties as processes that communicate over mutual TLS, first
directly, then through a proxy (`slow_line`) between each two of them, of 100 Mbit/s each way and a delay one way. The
bar is for 50 ms one way, which is a round trip of 100 ms; figures for a round trip of 50 ms are beside it.

`seconds` is wall time from connecting all parties to the end, as the parties' ledgers have it, so that starting four
Python processes on this machine does not count. `round_trips` is how often the active party turned from sending to
waiting for that peer; of them, those within one scope of another party at the same time overlap. The lists and rankings
must be the same in all runs, otherwise the benchmark stops.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console

from slow_line import slow_lines
from transport import free_port
from unpooled.jobs.plan import Party, Plan
from unpooled.ledger import Record, read_ledger
from unpooled.run.folder import LEDGER
from unpooled.run.spawn import books_in, spawn
from vfpu import ROLES, private_of, write_tables

TREES, ITERATIONS, TOP = 5, 1, 1_000
BITS_PER_SECOND = 100e6
DELAYS = {"loopback": None, "round_trip_50_ms": 0.025, "one_way_50_ms": 0.05}
BAR = 4.0


def search(name: str, folder: Path, dealt: Any, delay: float | None) -> dict[str, Any]:
    """Run the search, over slow lines if there is a delay."""
    places = {party: f"127.0.0.1:{free_port()}" for party in ROLES}
    privates = {
        party: private_of(party, folder, dealt).model_copy(update={"listen": place}) for party, place in places.items()
    }
    run = folder / name

    def go(addresses: dict[str, str]) -> None:
        parties = {p: Party.model_validate({"role": role, "address": addresses[p]}) for p, role in ROLES.items()}
        parameters = {"top": TOP, "method": {"iterations": ITERATIONS}, "model": {"trees": TREES}}
        spawn(Plan(kind="lookalike", parties=parties, parameters=parameters), privates, run, books=books_in(run))

    if delay is None:
        go(places)
    else:
        with slow_lines(places, delay, BITS_PER_SECOND) as addresses:
            go(addresses)
    records = {party: read_ledger(run / party / LEDGER) for party in ROLES}
    return {
        "seconds": round(seconds_of(records), 2),
        "round_trips": round_trips(records["c"]),
        "megabytes": round(sum(e.bytes for r in records.values() for e in r.entries if e.way == "sent") / 1e6, 1),
        "results": [(run / "a" / "reliable.csv").read_text(), (run / "c" / "ranking.csv").read_text()],
    }


def seconds_of(records: dict[str, Record]) -> float:
    times = [entry.at for record in records.values() for entry in record.entries]
    return max(times) - min(times)


def round_trips(record: Record) -> dict[str, int]:
    """By peer, how often a party turned from sending to receiving."""
    turns: Counter[str] = Counter()
    sent: set[str] = set()
    for entry in record.entries:
        if entry.way == "sent":
            sent.add(entry.peer)
        elif entry.peer in sent:
            sent.remove(entry.peer)
            turns[entry.peer] += 1
    return dict(turns)


def main() -> None:
    console, found = Console(stderr=True), dict[str, dict[str, Any]]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dealt = write_tables(folder)
        for way, delay in DELAYS.items():
            console.print(f"{way} ...")
            found[way] = search(way, folder, dealt, delay)
            console.print(f"{way}: {found[way]['seconds']} s")
    results = [taken.pop("results") for taken in found.values()]
    if any(other != results[0] for other in results):
        raise RuntimeError("other lists or rankings than on loopback")
    ratios = {way: taken["seconds"] / found["loopback"]["seconds"] for way, taken in found.items()}
    value = ratios["one_way_50_ms"]
    figures = {
        "benchmark": "wan",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "trees": TREES,
        "iterations": ITERATIONS,
        "searches": found,
        "round_trip_50_ms_vs_loopback": round(ratios["round_trip_50_ms"], 2),
        "bars": [{"name": "wan_vs_loopback", "value": round(value, 2), "bar": BAR, "holds": value <= BAR}],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
