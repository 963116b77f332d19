"""`unpooled evaluate`: how good a result was, once it is known what became of people."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import polars as pl
import typer
from pydantic import ValidationError
from rich.console import Console
from rich.table import Table as Grid

from unpooled import atomic
from unpooled.cli.options import Json
from unpooled.data.columns import fault
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.evaluate.lookalike import Evaluation, Id, Outcomes, Part, evaluate
from unpooled.jobs.files import load_plan
from unpooled.jobs.kinds import faults, parameters_of
from unpooled.jobs.lookalike.job import Parameters
from unpooled.jobs.lookalike.list_files import RELIABLE
from unpooled.jobs.plan import Plan
from unpooled.report.listed import ListFile, read_list
from unpooled.report.lookalike import EVALUATION
from unpooled.report.page import write_report
from unpooled.run.folder import PLAN, STATUS, read_json

evaluate_app = typer.Typer(help="Tell how good a result was, once more is known.", no_args_is_help=True)


@evaluate_app.command("lookalike")
def lookalike_command(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The seeker's folder, or that of a run with all parties here.")
    ],
    outcomes: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Who turned out positive: a .csv, .csv.gz or .parquet with their ids, each as often as you like.",
        ),
    ],
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="The file has everybody of whom it is known, and this column says true or false, 1 or 0.",
        ),
    ] = None,
    id_columns: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COLUMN", help="The id column of the file, if it is not called as in the list."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell the seeker how good its list of look-alikes was: precision, recall and lift for every tier.

    Precision is the share that turned out positive. Recall is the share of all positives in the file that is listed, so
    leave out those whom you knew before. Lift, which takes --outcome, is how many times as many turned out positive as
    among everybody in the file; then people who are listed and not in the file count for nothing.

    An id of several columns takes --id several times, in the list's order. The figures are kept as evaluation.json in
    the seeker's folder, and its report shows them.
    """
    found, report = judge(run, outcomes, outcome, id_columns)
    if as_json:
        typer.echo(json.dumps({"run": str(report.parent), "report": str(report), **asdict(found)}))
        return
    _show(found)
    typer.echo(f"report: {report}")


def judge(
    run: Path, outcomes: Path, outcome: str | None = None, id_columns: Sequence[str] | None = None
) -> tuple[Evaluation, Path]:
    """Judge the list of a run by a file of outcomes, keep the figures, and draw the seeker's page anew."""
    plan, seeker, folder = _seeker(run)
    listed = read_list(folder / RELIABLE)
    parameters = parameters_of(plan)
    ignore_case = isinstance(parameters, Parameters) and parameters.ignore_case
    known = _outcomes(_read(outcomes, listed, id_columns, outcome, seeker), outcome, ignore_case=ignore_case)
    tiers, iterations = listed.lines["tier"].to_list(), listed.lines["iteration"].to_list()
    found = evaluate(_keys(listed.ids, ignore_case=ignore_case), tiers, iterations, known)
    atomic.write_text(folder / EVALUATION, json.dumps(asdict(found), indent=2) + "\n")
    return found, write_report(folder)


def _seeker(run: Path) -> tuple[Plan, str, Path]:
    """The plan of a search, who its seeker is, and where its files are."""
    if not (run / PLAN).exists():
        raise InputError(f"{run} is not a run's folder: it has no {PLAN}")
    plan = load_plan(run / PLAN)
    seekers = plan.with_role("seeker")
    if plan.kind != "lookalike" or not seekers:
        raise InputError(f"{run} is a run of kind {plan.kind}, which leaves no list of look-alikes")
    if not (run / STATUS).exists():
        return plan, seekers[0], run / seekers[0]
    party = read_json(run / STATUS).get("party")
    if party != seekers[0]:
        raise InputError(f"{run} is the folder of {party}; {seekers[0]} has the list, in its own folder")
    return plan, seekers[0], run


def _read(path: Path, listed: ListFile, names: Sequence[str] | None, outcome: str | None, seeker: str) -> Table:
    """The file of outcomes: ids as texts, called as in the list or by other names, and the outcome if it has one."""
    ids = tuple(names or listed.ids.columns)
    if len(ids) != listed.ids.width:
        raise InputError(f"--id: the list's ids have {listed.ids.width} columns; name as many, in the same order")
    columns = (outcome,) if outcome is not None else ()
    try:
        settings = TableSettings(path=path, id=ids, columns=columns, types=dict.fromkeys(columns, "boolean"))
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(faults(error))}") from None
    table = load(settings, seeker)
    for name in ids:
        if (blank := table.frame[name].is_null()).any():
            raise fault(seeker, str(path), "an id is missing", name, (blank.arg_true() + 1).to_list())
    if not table.frame.height:
        raise fault(seeker, str(path), "there is nobody in it")
    return table


def _outcomes(table: Table, outcome: str | None, *, ignore_case: bool) -> Outcomes:
    keys = _keys(table.ids, ignore_case=ignore_case)
    if outcome is None:
        return Outcomes(set(keys))
    said: dict[Id, tuple[bool, int]] = {}
    for row, (key, cell) in enumerate(zip(keys, table.frame[outcome], strict=True), start=1):
        if cell is not None and said.setdefault(key, (cell, row))[0] != cell:
            reason = "the same id has both true and false"
            raise fault(table.party, table.origin, reason, outcome, [said[key][1], row])
    if not said:
        raise fault(table.party, table.origin, "no row has a value", outcome)
    return Outcomes({key for key, (positive, _) in said.items() if positive}, said.keys())


def _keys(ids: pl.DataFrame, *, ignore_case: bool) -> list[Id]:
    if not ignore_case:
        return ids.rows()
    return [tuple(unicodedata.normalize("NFC", cell.casefold()) for cell in row) for row in ids.iter_rows()]


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
