"""`unpooled evaluate`: how good a result was, once outcomes are known."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from unpooled.cli.options import Json
from unpooled.errors import InputError
from unpooled.evaluate.lookalike import Evaluation, Part
from unpooled.jobs.deliver.job import Parameters as DeliverParameters
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.lookalike.evaluation import evaluate_list
from unpooled.jobs.lookalike.job import Parameters
from unpooled.report.page import write_report
from unpooled.run.folder import STATUS, plan_in, read_json

evaluate_app = typer.Typer(help="Evaluate a result once outcomes are known.", no_args_is_help=True)


@evaluate_app.command("lookalike")
def lookalike_command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The seeker's folder, or the folder of a run with all parties on this machine."
        ),
    ],
    outcomes: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Who turned out positive: a .csv, .csv.gz or .parquet file of ids; duplicates are ignored.",
        ),
    ],
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The file lists everyone whose outcome is known, and this column is true or false, 1 or 0.",
        ),
    ] = None,
    id_columns: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="The id column of the file, if its name differs from the list's."),
    ] = None,
    hashed: Annotated[
        bool, typer.Option("--hashed", help="The ids of the file are SHA-256 hashes already, as the plan has them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Evaluate the seeker's list of look-alikes: precision, recall and lift for every tier.

    Precision is the fraction of listed people who turned out positive. Recall is the fraction of all positives in the
    file who are on the list, so leave out those you knew before. Lift needs --outcome: it is precision divided by the
    fraction of positives in the file; people who are on the list but not in the file are then ignored.

    For an id of several columns, give --id several times, in the list's order. The figures are written to
    evaluation.json in the seeker's folder, and shown in its report.
    """
    parameters, seeker, folder = _seeker(run)
    found = evaluate_list(folder, seeker, outcomes, outcome, id_columns, parameters, hashed=hashed)
    report = write_report(folder)
    if as_json:
        typer.echo(json.dumps({"run": str(report.parent), "report": str(report), **asdict(found)}))
        return
    _show(found)
    typer.echo(f"report: {report}")


def _seeker(run: Path) -> tuple[Parameters | DeliverParameters, str, Path]:
    """The settings of the job that left a list, who its seeker is, and where its files are."""
    plan = plan_in(run)
    parameters, seekers = parameters_of(plan), plan.with_role("seeker")
    if not isinstance(parameters, (Parameters, DeliverParameters)) or not seekers:
        raise InputError(f"{run} is a run of kind {plan.kind}, which leaves no list of look-alikes")
    if not (run / STATUS).exists():
        return parameters, seekers[0], run / seekers[0]
    party = read_json(run / STATUS).get("party")
    if party != seekers[0]:
        raise InputError(f"{run} is the folder of {party}; {seekers[0]} has the list, in its own folder")
    return parameters, seekers[0], run


def _show(found: Evaluation) -> None:
    console = Console(highlight=False)
    if found.everybody is None:
        console.print(f"{found.positives:,} people turned out positive.")
    else:
        console.print(f"{found.positives:,} of {found.everybody:,} people known turned out positive.")
    grid = Grid("part of the list", "rows", "known", "positive", "precision", "recall", "lift")
    for column in grid.columns[1:]:
        column.justify = "right"
    named = {f"{tier} tier": part for tier, part in found.tiers.items()}
    promoted = {f"iteration {number}" if number else "not promoted": part for number, part in found.iterations.items()}
    for parts in (named, promoted, {"in all": found.whole}):
        for name, part in parts.items():
            grid.add_row(name, *_cells(part))
        grid.add_section()
    console.print(grid)


def _cells(part: Part) -> list[str]:
    shares = ["" if value is None else f"{value:.3f}" for value in (part.precision, part.recall)]
    lift = "" if part.lift is None else f"{part.lift:.2f}"
    return [f"{part.rows:,}", f"{part.known:,}", f"{part.positive:,}", *shares, lift]
