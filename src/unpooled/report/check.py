"""A check's own section of the report: the parties' tables, and the connections between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from unpooled.report.gather import PartyFiles, Story


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


@dataclass(frozen=True)
class CheckSection:
    """Every party's result, None where there is none that can be read, and all connections with who measured them."""

    results: Mapping[str, CheckResult | None]
    connections: tuple[tuple[str, Connection], ...]


def check_section(story: Story) -> CheckSection:
    """What the results of a check say."""
    results = {name: _result(party) for name, party in story.parties.items()}
    connections = tuple((name, link) for name, result in results.items() if result for link in result.links)
    return CheckSection(results, connections)


def _result(party: PartyFiles) -> CheckResult | None:
    try:
        return TypeAdapter(CheckResult).validate_python(party.result)
    except ValidationError:
        return None
