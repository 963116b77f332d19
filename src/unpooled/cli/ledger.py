"""`unpooled ledger`: what each party sent and received, and whether the parties' ledgers agree."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from unpooled.cli.audit import audit_run
from unpooled.cli.options import Json
from unpooled.cli.output.messages import details, learners, of_ledgers, wrapped
from unpooled.drawing.words import listed, many
from unpooled.errors import InputError, LedgerError
from unpooled.jobs.files import load_plan
from unpooled.ledger import Pair, Record, read_ledger, reconcile_all, summarise
from unpooled.report.page import DIFFERENCES_SHOWN
from unpooled.run.folder import LEDGER, PLAN, STATUS


@dataclass(frozen=True)
class Finding:
    """The ledgers that are intact, what is wrong with the others, how they compare, and whose are missing.

    `missing` are the parties of a whole run without a ledger in its folder. `uncompared` are peers that ledgers mention
    and whose own may well be elsewhere.
    """

    records: list[Record]
    broken: list[str]
    pairs: tuple[Pair, ...]
    missing: list[str]
    uncompared: list[str]

    @property
    def in_order(self) -> bool:
        return not self.broken and not self.missing and not any(pair.differences for pair in self.pairs)


def ledger_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help=f"The folder of a run or of a party, or a {LEDGER}; several to compare them."
        ),
    ],
    audit: Annotated[
        bool, typer.Option("--audit", help="Audit the inputs of parties instead: gradients, labels, columns.")
    ] = False,
    of: Annotated[
        str | None, typer.Option("--of", metavar="PARTY", help="Write a request to this party to open its inputs.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option("--sample", metavar="N", min=1, help="Ask for this many products, drawn at random. Default: all."),
    ] = None,
    request: Annotated[
        Path | None, typer.Option("--open", metavar="REQUEST", help="Answer a request, if you agree to it.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree to what the answer discloses.")] = False,
    answer: Annotated[Path | None, typer.Option("--answer", metavar="FILE", help="Check an answer.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Show every message by name, not a summary.")] = False,
    as_json: Json = False,
) -> None:
    """Show what each party sent, and what the others learnt from it; with --all message by message.

    Verifies each ledger, and compares the ledgers of every two parties.

    With --audit: check that the inputs of parties are what the learner prescribes. With all parties on one machine this
    takes one step. Otherwise the checker writes a request with --of, the other party answers it with --open, and the
    checker, or somebody who was given its folder, checks the answer with --answer.

    Exit code 1: a ledger is damaged or missing, two ledgers differ, or an audit found a deviation.
    """
    if audit:
        if len(runs) != 1:
            raise InputError("--audit: give one folder, that of a run or of a party in it")
        audit_run(runs[0], of, sample, request, answer, yes=yes, as_json=as_json)
        return
    finding = _find(runs)
    if as_json:
        typer.echo(json.dumps(_as_json(finding), indent=2, ensure_ascii=False))
    else:
        _show(finding, everything=everything)
    if not finding.in_order:
        raise typer.Exit(1)


def _find(runs: list[Path]) -> Finding:
    records, broken = _read_all(runs)
    present = {record.party for record in records}
    missing = [party for run in dict.fromkeys(runs) for party in _without_ledger(run) if party not in present]
    mentioned = {entry.peer for record in records for entry in record.entries}
    return Finding(records, broken, reconcile_all(records), missing, sorted(mentioned - present - set(missing)))


def _read_all(runs: list[Path]) -> tuple[list[Record], list[str]]:
    """The ledgers that are intact, and for each of the others what is wrong with it."""
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


def _without_ledger(run: Path) -> list[str]:
    """The parties in the plan of a whole run's folder that have no ledger there."""
    if not (run / PLAN).exists() or (run / STATUS).exists():
        return []
    return [party for party in load_plan(run / PLAN).parties if not (run / party / LEDGER).exists()]


def _show(finding: Finding, *, everything: bool) -> None:
    messages = of_ledgers(finding.records)
    typer.echo(wrapped(_parties(finding.records)))
    for part in (learners(messages, "learnt"), details(messages) if everything else ()):
        if text := wrapped(part):
            typer.echo(f"\n{text}")
    typer.echo()
    if not everything and messages:
        typer.echo("--all shows every message by name.")
    for problem in finding.broken:
        typer.echo(f"damaged: {problem}")
    for party in finding.missing:
        typer.echo(f"missing: the ledger of {party}, which is in the run's plan")
    if agreeing := [" and ".join(pair.parties) for pair in finding.pairs if not pair.differences]:
        typer.echo(wrapped([f"agree: {', '.join(agreeing)}"]))
    for pair in finding.pairs:
        if count := len(pair.differences):
            typer.echo(f"{' and '.join(pair.parties)}: {many(count, 'difference')}")
        for difference in pair.differences[:DIFFERENCES_SHOWN]:
            typer.echo(f"  {difference}")
        if count > DIFFERENCES_SHOWN:
            typer.echo(f"  and {count - DIFFERENCES_SHOWN} more; --json shows them all")
    if finding.uncompared:
        typer.echo(f"not compared, because their ledgers are not here: {', '.join(finding.uncompared)}")
        typer.echo("To compare your ledger with a peer's: unpooled ledger MINE THEIRS")


def _parties(records: Sequence[Record]) -> Iterator[str]:
    """Each party's ledger in a line: whether it was closed, and how much was sent to whom."""
    for record in records:
        to: dict[str, list[int]] = {}
        for entry in record.entries:
            if entry.way == "sent":
                to.setdefault(entry.peer, []).append(entry.bytes)
        state = "closed in order" if record.closed else "not closed: the run did not end properly"
        sizes = list(itertools.chain(*to.values()))
        peers = [f"{decimal(sum(found))} to {peer}" for peer, found in to.items()]
        said = f"; sent {many(len(sizes), 'message')}, {listed(peers)}" if peers else "; sent nothing"
        yield f"{record.party}: {state}{said}"


def _as_json(finding: Finding) -> dict[str, Any]:
    return {
        "parties": [
            {
                "party": record.party,
                "plan": record.plan,
                "closed": record.closed,
                "messages": [
                    {name: value for name, value in vars(line).items() if name != "disclosure"}
                    | {"discloses": line.disclosure.what, "to": line.disclosure.to}
                    for line in summarise(record)
                ],
            }
            for record in finding.records
        ],
        "broken": finding.broken,
        "missing": finding.missing,
        "uncompared": finding.uncompared,
        "pairs": [vars(pair) for pair in finding.pairs],
    }
