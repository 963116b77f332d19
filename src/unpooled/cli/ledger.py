"""`unpooled ledger`: what left each party and what arrived, and whether the parties' ledgers agree."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table

from unpooled.errors import LedgerError
from unpooled.ledger import Record, read_ledger, reconcile, summarise
from unpooled.report.page import DIFFERENCES_SHOWN
from unpooled.run.folder import LEDGER


@dataclass(frozen=True)
class Pair:
    """Two parties, and where their ledgers differ."""

    parties: tuple[str, str]
    differences: list[str]


def ledger_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help=f"A run's folder, a party's folder in it, or a {LEDGER}; several if apart."
        ),
    ],
    json_output: Annotated[bool, typer.Option("--json", help="Print one JSON object, with every difference.")] = False,
) -> None:
    """Show what left each party, to whom, how often, how many bytes, and what it discloses.

    Checks that no ledger was tampered with, and compares the ledgers of every two parties.

    Exit code 1: a ledger is broken, or two of them differ.
    """
    records, broken = _read_all(runs)
    pairs = [Pair((a.party, b.party), reconcile(a, b)) for a, b in combinations(records, 2)]
    if json_output:
        typer.echo(json.dumps(_as_json(records, broken, pairs), indent=2, ensure_ascii=False))
    else:
        _show(records, broken, pairs)
    if broken or any(pair.differences for pair in pairs):
        raise typer.Exit(1)


def _read_all(runs: list[Path]) -> tuple[list[Record], list[str]]:
    """The ledgers that hold, and for each of the others what is wrong with it."""
    records: dict[str, Record] = {}
    broken = []
    for path in dict.fromkeys(path for run in runs for path in _ledgers_in(run)):
        try:
            record = read_ledger(path)
        except LedgerError as error:
            broken.append(str(error))
            continue
        if record.party in records:
            both = f"{records[record.party].path} and {path}"
            raise LedgerError(f"{both} are both ledgers of {record.party}; give those of one run")
        records[record.party] = record
    return list(records.values()), broken


def _ledgers_in(run: Path) -> list[Path]:
    if run.is_file():
        return [run]
    if (run / LEDGER).exists():
        return [run / LEDGER]
    found = sorted(run.glob(f"*/{LEDGER}"))
    if not found:
        raise LedgerError(f"{run} holds no {LEDGER}, and neither do its sub-folders")
    return found


def _show(records: list[Record], broken: list[str], pairs: list[Pair]) -> None:
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for record in records:
        console.print(f"{record.party}: {'closed in order' if record.closed else 'not closed: the run did not end'}")
        console.print(_table(record), soft_wrap=False)
    for problem in broken:
        console.print(f"broken: {problem}")
    for pair in pairs:
        names, count = " and ".join(pair.parties), len(pair.differences)
        console.print(f"{names}: {f'{count} differences' if count else 'agree'}")
        for difference in pair.differences[:DIFFERENCES_SHOWN]:
            console.print(f"  {difference}")
        if count > DIFFERENCES_SHOWN:
            console.print(f"  and {count - DIFFERENCES_SHOWN} more; --json shows them all")


def _table(record: Record) -> Table:
    table = Table("way", "peer", "kind", "frames", "bytes", "discloses")
    for line in summarise(record):
        table.add_row(line.way, line.peer, line.kind, f"{line.frames:,}", decimal(line.bytes), str(line.disclosure))
    return table


def _as_json(records: list[Record], broken: list[str], pairs: list[Pair]) -> dict[str, Any]:
    return {
        "parties": [
            {
                "party": record.party,
                "plan": record.plan,
                "closed": record.closed,
                "messages": [
                    {
                        "way": line.way,
                        "peer": line.peer,
                        "kind": line.kind,
                        "frames": line.frames,
                        "bytes": line.bytes,
                        "discloses": line.disclosure.what,
                        "to": line.disclosure.to,
                    }
                    for line in summarise(record)
                ],
            }
            for record in records
        ],
        "broken": broken,
        "pairs": [{"parties": pair.parties, "differences": pair.differences} for pair in pairs],
    }
