"""What `--dry-run` shows: that everything is in place, and what will be disclosed to whom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from unpooled.cli.quality import show_tables
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import Preflight
from unpooled.jobs.together import Together
from unpooled.jobs.work import CheckedJob


def show_dry_run(
    plan: Plan,
    preflights: Sequence[Preflight],
    parties: Sequence[CheckedJob[Any]],
    together: Together | None = None,
    *,
    as_json: bool,
) -> None:
    """Show what was found at the parties, all messages of the job, and the most that they can tell."""
    exchanges = outline_of(plan)
    found = {job.party: kind_named(plan.kind).answers(job) for job in parties}
    answers = {party: answered for party, answered in found.items() if answered}
    if as_json:
        most = {party: vars(answered) for party, answered in answers.items()}
        content = {"parties": [asdict(each) for each in preflights], "exchanges": [_plain(e) for e in exchanges]}
        typer.echo(json.dumps(content | {"answers": most, "together": together and asdict(together)}))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(_parties(plan, preflights))
    show_tables(console, preflights, together)
    console.print(_exchanges(exchanges))
    for party, answered in answers.items():
        console.print(f"{party}: {answered}.")
    frames, size = sum(e.frames or 0 for e in exchanges), sum(e.bytes or 0 for e in exchanges)
    more = "" if all(e.frames or e.only_if for e in exchanges) else ", and more that grows with the tables"
    console.print(
        f"About {frames} messages and {size / 1e6:.1f} MB{more}. Nothing was started, nothing left this machine.",
        soft_wrap=True,
    )


def _plain(exchange: Exchange) -> dict[str, object]:
    plain = {name: getattr(exchange, name) for name in ("sender", "receiver", "kind", "frames", "bytes", "only_if")}
    return plain | {"discloses": exchange.disclosure.what, "to": exchange.disclosure.to}


def _parties(plan: Plan, preflights: Sequence[Preflight]) -> Table:
    table = Table("party", "role", "table", "columns", "certificates", title="Parties")
    for found in preflights:
        columns = ", ".join(f"{name} ({kind})" for name, kind in found.columns.items())
        table.add_row(found.party, plan.parties[found.party].role, found.origin, columns, found.certificates)
    return table


def _exchanges(exchanges: list[Exchange]) -> Table:
    table = Table("from", "to", "message", "times", "MB", "discloses", title="Messages")
    for e in exchanges:
        times = e.only_if or ("by rows" if e.frames is None else str(e.frames))
        size = "" if e.only_if else "by rows" if e.bytes is None else f"{e.bytes / 1e6:.3f}"
        table.add_row(e.sender, e.receiver, e.message.__name__, times, size, str(e.disclosure))
    return table
