"""What a long line costs a look-alike search: the same search on loopback and through slow lines.

The search is the default one on the credit data: 30,000 rows, hidden nodes and bags, ten bags, 50 trees, five
iterations, estimates. It takes five minutes, with `--iterations 1` a minute and a half. Four parties are processes that
communicate over mutual TLS, first directly, then through a proxy (`slow_line`) between each two of them, of 100 Mbit/s
each way with a delay. The bar is for a delay of 50 ms one way, a round trip of 100 ms; figures for a round trip of 50
ms are beside it.

Seconds are wall time, from the first message to the last (`whole`), and from the first tree to the last (`learning`).
The bar is for learning: the alignment before it is much computing and few messages, and the fewer iterations, the
larger a part of the whole it is. `round_trips` is how often the active party turned from sending to a peer to
receiving from it; those with the passive party and the coordinator run side by side, and so do those of groups of trees
that take turns. `round_trips_per_group` are those with the passive party while trees grow, for each group of trees.
`line_seconds` is what the fuller direction of the line between owners takes at least, by its bytes alone. Every run
must give the same list and ranking, otherwise the benchmark stops. Short searches come first, so that no run compiles
loops.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from slow_line import slow_lines
from transport import free_port
from unpooled.data.datasets import Scenario
from unpooled.jobs.plan import Party, Plan
from unpooled.ledger import Entry, read_ledger
from unpooled.run.folder import LEDGER
from unpooled.run.spawn import books_in, spawn
from unpooled.vertical.trees.messages import Grown, Trees
from unpooled.wire import kind_of
from vfpu import ROLES, TOP, compile_loops, private_of, write_tables

TREES, ITERATIONS = 50, 5
BITS_PER_SECOND = 100e6
DELAYS = {"loopback": None, "round_trip_50_ms": 0.025, "one_way_50_ms": 0.05}
BAR = 4.0


class Found(NamedTuple):
    """What a search took, and its list and ranking."""

    figures: dict[str, Any]
    whole: float
    learning: float
    result: tuple[str, str]


@contextmanager
def lines(places: Mapping[str, str], delay: float | None) -> Iterator[Mapping[str, str]]:
    """Where the parties reach each other: directly, or over slow lines."""
    if delay is None:
        yield places
        return
    with slow_lines(places, delay, BITS_PER_SECOND) as addresses:
        yield addresses


def search(run: Path, tables: Path, dealt: Scenario, delay: float | None, iterations: int) -> Found:
    places = {party: f"127.0.0.1:{free_port()}" for party in ROLES}
    privates = {
        party: private_of(party, tables, dealt).model_copy(update={"listen": place}) for party, place in places.items()
    }
    parameters = {"top": TOP, "method": {"iterations": iterations}, "model": {"trees": TREES}}
    with lines(places, delay) as addresses:
        parties = {p: Party.model_validate({"role": role, "address": addresses[p]}) for p, role in ROLES.items()}
        spawn(Plan(kind="lookalike", parties=parties, parameters=parameters), privates, run, books=books_in(run))
    records = {party: read_ledger(run / party / LEDGER) for party in ROLES}
    everything = [entry for record in records.values() for entry in record.entries]
    learning, groups = of_learning(records["c"].entries)
    whole, learned = seconds_of(everything), seconds_of(learning)
    figures = {
        "whole_seconds": round(whole, 2),
        "learning_seconds": round(learned, 2),
        "round_trips": dict(round_trips(records["c"].entries)),
        "round_trips_per_group": round(round_trips(learning)["b"] / groups, 2),
        "line_seconds": round(8 * max(bytes_with(learning, "b").values()) / BITS_PER_SECOND, 2),
        "megabytes": round(sum(entry.bytes for entry in everything if entry.way == "sent") / 1e6, 1),
    }
    result = (run / "a" / "reliable.csv").read_text(), (run / "c" / "ranking.csv").read_text()
    return Found(figures, whole, learned, result)


def of_learning(entries: Sequence[Entry]) -> tuple[list[Entry], int]:
    """What the active party sent and received from the first tree to the last, and how often trees grew together."""
    begins = [place for place, entry in enumerate(entries) if entry.kind == kind_of(Trees)]
    ends = [place for place, entry in enumerate(entries) if entry.kind == kind_of(Grown)]
    return list(entries[begins[0] : ends[-1] + 1]), len(begins)


def round_trips(entries: Sequence[Entry]) -> Counter[str]:
    """By peer."""
    turns: Counter[str] = Counter()
    asked: set[str] = set()
    for entry in entries:
        if entry.way == "sent":
            asked.add(entry.peer)
        elif entry.peer in asked:
            asked.remove(entry.peer)
            turns[entry.peer] += 1
    return turns


def bytes_with(entries: Sequence[Entry], peer: str) -> Counter[str]:
    """By direction."""
    found: Counter[str] = Counter()
    for entry in entries:
        if entry.peer == peer:
            found[entry.way] += entry.bytes
    return found


def seconds_of(entries: Sequence[Entry]) -> float:
    times = [entry.at for entry in entries]
    return max(times) - min(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=ITERATIONS)
    asked = parser.parse_args()
    console, found = Console(stderr=True), dict[str, Found]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dealt = write_tables(folder)
        compile_loops(folder, dealt)
        for way, delay in DELAYS.items():
            console.print(f"{way} ...")
            found[way] = search(folder / way, folder, dealt, delay, asked.iterations)
            console.print(f"{way}: {found[way].whole:.1f} s, of which learning {found[way].learning:.1f} s")
    if any(other.result != found["loopback"].result for other in found.values()):
        raise RuntimeError("another list or ranking than on loopback")
    base, far = found["loopback"], found["one_way_50_ms"]
    value = far.learning / base.learning
    figures = {
        "benchmark": "wan",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "trees": TREES,
        "iterations": asked.iterations,
        "searches": {way: taken.figures for way, taken in found.items()},
        "learning_vs_loopback": {way: round(taken.learning / base.learning, 2) for way, taken in found.items()},
        "whole_vs_loopback": {way: round(taken.whole / base.whole, 2) for way, taken in found.items()},
        "bars": [{"name": "wan_vs_loopback", "value": round(value, 2), "bar": BAR, "holds": value <= BAR}],
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
