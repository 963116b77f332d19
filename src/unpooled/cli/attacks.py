"""`unpooled audit`: what other parties could infer under a plan, before anybody agrees to it."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table as Grid

from unpooled import atomic
from unpooled.attacks.audit import Audit, audit
from unpooled.attacks.findings import ATTACKS
from unpooled.cli.options import Json, Quiet
from unpooled.cli.output.bars import bars
from unpooled.jobs.checks import checked
from unpooled.jobs.files import load_job, load_plan, load_private
from unpooled.jobs.preflight import loaded
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, cleaned
from unpooled.report.attacks import figure_of, in_a_sentence, write_attacks

ROWS = 3000


def audit_command(
    job: Annotated[
        Path,
        typer.Argument(metavar="JOB.toml", help="A plan with private sections, as for `run`; or a plan and --private."),
    ],
    party: Annotated[str, typer.Option("--as", metavar="NAME", help="The party that asks; its table is used.")],
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="This party's private file, if JOB.toml is a plan.")
    ] = None,
    rows: Annotated[int, typer.Option(min=500, help="The most rows of the table that are used.")] = ROWS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same draws.")] = 1,
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page. Default: JOB-NAME-attacks.html.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Attack a plan before agreeing to it: what could other parties infer, from what they would be shown?

    The job is run in this process with the party's own table and made-up tables of all others, and attacked from every
    seat. Nothing leaves this machine. Writes a page with a picture, and the same as JSON beside it; docs/attacks.md
    explains the attacks. To check after a run that a party put in what it should have, use `ledger --audit`.
    """
    console = Console(stderr=True)
    with bars(console, quiet or as_json, f"attacking a simulated job for {party}") as watch:
        found = audit(_cleaned(job, party, private), rows, seed, lambda progress: watch({"simulation": progress}))
    written = write_attacks(found, page or Path(f"{job.stem}-{party}-attacks.html"))
    told = asdict(found)
    atomic.write_text(written.with_suffix(".json"), json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    if as_json:
        typer.echo(json.dumps(told | {"page": str(written)}, ensure_ascii=False))
        return
    if not quiet:
        _show(found)
    typer.echo(f"page: {written}")


def _cleaned(job: Path, party: str, private: Path | None) -> CheckedJob[Any]:
    """The party's side of the job, with its table in memory, cleaned."""
    if private is None:
        both = load_job(job)
        side = checked(both.plan, party, both.privates.get(party, Private()))
    else:
        side = checked(load_plan(job), party, load_private(private))
    side = loaded(side)
    table, _, _ = cleaned(side)
    return replace(side, table=table)


def _show(found: Audit) -> None:
    titles = {attack.name: attack.title for attack in ATTACKS}
    grid = Grid("attack", "by", "about", "finds out", "score", box=None, pad_edge=False)
    for one in found.findings:
        grid.add_row(titles[one.attack], f"{one.party} ({one.seat})", one.about, one.level, figure_of(one))
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(grid)
    console.print(in_a_sentence(found), soft_wrap=True)
