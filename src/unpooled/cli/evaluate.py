"""`unpooled evaluate`: how good a result was, once outcomes or the truth are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table as Grid

from unpooled.cli.options import Json
from unpooled.data.handles import HANDLE
from unpooled.errors import InputError
from unpooled.evaluate.lookalike import Evaluation, Part
from unpooled.evaluate.table import ColumnEvaluation, TableEvaluation, evaluate_table
from unpooled.evaluate.table_files import read_mask, read_tables
from unpooled.jobs.complete.evaluation import evaluate_completed
from unpooled.jobs.complete.parameters import Parameters as CompleteParameters
from unpooled.jobs.complete.table_files import HANDLES
from unpooled.jobs.deliver.job import Parameters as DeliverParameters
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.lookalike.evaluation import evaluate_list
from unpooled.jobs.lookalike.parameters import Parameters
from unpooled.report.page import write_report
from unpooled.run.folder import STATUS, plan_in, read_json

evaluate_app = typer.Typer(help="Evaluate a result once outcomes, or the truth, are known.", no_args_is_help=True)


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


@evaluate_app.command("table")
def table_command(
    completed: Annotated[
        Path, typer.Argument(metavar="COMPLETED", help="The completed table: a .csv, .csv.gz or .parquet file.")
    ],
    truth: Annotated[
        Path,
        typer.Option(metavar="FILE", help="The true table: it has the same columns and rows, and may have more."),
    ],
    id_columns: Annotated[
        list[str],
        typer.Option("--id", metavar="COLUMN", help="The id column of all files; several times if there are several."),
    ],
    mask: Annotated[
        Path | None,
        typer.Option(
            "--mask",
            "--provenance",
            metavar="FILE",
            help="Which cells were filled: a file with the same ids and columns, whose cells are empty, false, 0 or "
            "real where they were not. Default: all cells count.",
        ),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option("--category", metavar="COLUMN", help="A column whose numbers are codes of a category."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a completed table, if the truth is known: cell by cell, and as a distribution.

    Numbers and dates (in days): RMSE, MAE and R²; KS, the greatest difference of the distribution functions;
    Wasserstein, how far values must be moved on average, in standard deviations. Other types: accuracy, macro F1, and
    total variation (TV), half the sum of differences in frequency. For pairs of columns: how far their association
    (Spearman, Cramér's V, correlation ratio) is from the true one. --json has everything.
    """
    table, true = read_tables(completed, truth, id_columns, categories or ())
    found = evaluate_table(table, true, None if mask is None else read_mask(mask, table))
    if as_json:
        typer.echo(json.dumps({"completed": str(completed), "association": found.association, **asdict(found)}))
        return
    _show_table(found)


@evaluate_app.command("completed")
def completed_command(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="The active party's folder, or the folder of a run with all parties on this machine."
        ),
    ],
    truth: Annotated[Path, typer.Option(metavar="FILE", help="True values: a .csv, .csv.gz or .parquet file.")],
    id_columns: Annotated[
        list[str],
        typer.Option("--id", metavar="COLUMN", help="The id column of that file; several times if there are several."),
    ],
    handles: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The handles.csv of a passive party, if true values are by id. Default: that in RUN, if it has all "
            "parties; otherwise the id column must be handle.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate the cells that a job of the kind complete has filled, if the truth is known.

    The figures are those of `evaluate table`. They are written to evaluation.json in the active party's folder, and
    shown in its report.
    """
    plan = plan_in(run)
    folder, parameters = run, parameters_of(plan)
    if not isinstance(parameters, CompleteParameters):
        raise InputError(f"{run}: is of a job that completes no table")
    if not (run / STATUS).exists():
        folder = run / plan.active
        if handles is None and list(id_columns) != [HANDLE]:
            handles = run / plan.with_role("passive")[0] / HANDLES
    elif read_json(run / STATUS).get("party") != plan.active:
        raise InputError(f"{run}: is not the folder of {plan.active}, who has the completed table")
    found = evaluate_completed(folder, plan.active, truth, id_columns, handles, parameters)
    report = write_report(folder)
    if as_json:
        typer.echo(json.dumps({"report": str(report), "association": found.association, **asdict(found)}))
        return
    _show_table(found)
    typer.echo(f"report: {report}")


def _show_table(found: TableEvaluation) -> None:
    console = Console(highlight=False)
    console.print(f"{found.rows:,} rows have cells that count.")
    numbers = {name: column for name, column in found.columns.items() if column.kind in ("number", "date")}
    others = {name: column for name, column in found.columns.items() if name not in numbers}
    if numbers:
        console.print(_errors(numbers, {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "ks": "KS", "wasserstein": "Wass."}))
        console.print(_moments(numbers))
    if others:
        console.print(_errors(others, {"accuracy": "accuracy", "macro_f1": "macro F1", "total_variation": "TV"}))
    if found.pairs:
        worst = max(found.pairs, key=lambda pair: pair.difference)
        console.print(
            f"association of {len(found.pairs):,} pairs of columns: {found.association:.3f} apart on average; most for "
            f"{worst.columns[0]} and {worst.columns[1]}, {worst.completed:.3f} instead of {worst.truth:.3f}"
        )


def _errors(columns: Mapping[str, ColumnEvaluation], measures: Mapping[str, str]) -> Grid:
    grid = _grid("column", "cells", "missing", *measures.values())
    for name, one in columns.items():
        values = {**one.errors, **one.distribution}
        grid.add_row(name, f"{one.cells:,}", f"{one.missing:,}", *(_figure(key, values.get(key)) for key in measures))
    return grid


def _moments(columns: Mapping[str, ColumnEvaluation]) -> Grid:
    grid = _grid("column", "", "mean", "variance", "skewness", "kurtosis")
    for name, one in columns.items():
        for which, moments in one.moments.items():
            figures = (_figure(key, value) for key, value in moments.items())
            grid.add_row(name if which == "truth" else "", which, *figures)
    return grid


def _grid(*headings: str) -> Grid:
    """Names give way where a line is too short, figures never."""
    grid = Grid()
    grid.add_column(headings[0], overflow="fold")
    for heading in headings[1:]:
        grid.add_column(heading, justify="right", no_wrap=True)
    return grid


def _figure(measure: str, value: float | None) -> str:
    """Four digits of what has the column's unit, three decimals of everything else."""
    if value is None:
        return ""
    return f"{value:.4g}" if measure in ("rmse", "mae", "mean", "variance") else f"{value:.3f}"


def _seeker(run: Path) -> tuple[Parameters | DeliverParameters, str, Path]:
    """The settings of the job that left a list, who its seeker is, and where its files are."""
    plan = plan_in(run)
    parameters, seekers = parameters_of(plan), plan.with_role("seeker")
    if not isinstance(parameters, Parameters | DeliverParameters) or not seekers:
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
