"""A check's own section of the report: the parties' tables, and the connections between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from unpooled.drawing.html import render
from unpooled.jobs.check.job import Parameters
from unpooled.jobs.run_files import RunFiles, Section, result_of

_TEMPLATE = Path(__file__).with_name("section.html")


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


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What the results of a check say: every party's, None where there is none, and all connections."""
    results = {name: result_of(party, CheckResult) for name, party in run.parties.items()}
    connections = [(name, link) for name, result in results.items() if result for link in result.links]
    html = render(_TEMPLATE, run=run, results=results, connections=connections, round_trips=parameters.round_trips)
    return Section("", html)
