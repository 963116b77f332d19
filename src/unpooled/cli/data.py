"""The commands that make or fetch data: `unpooled example` and `unpooled datasets`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn
from rich.table import Table

from unpooled.cli.options import Json, Quiet
from unpooled.data import datasets, example, example_patients, publisher
from unpooled.errors import InputError
from unpooled.jobs.align.kind import ALIGN
from unpooled.jobs.examples.example_job import example_job, write_job_files
from unpooled.jobs.kinds import kind_named

SMALLEST = max(example.SMALLEST, example_patients.SMALLEST)

datasets_app = typer.Typer(help="The public data sets bank, credit and census.", no_args_is_help=True)


@dataclass(frozen=True)
class Found:
    """A part of a data set: its rows and positives if the file is as published, otherwise what is wrong with it."""

    set: str
    part: str
    file: str
    rows: int | None
    positives: int | None
    problem: str | None


def example_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; created if missing.")],
    rows: Annotated[
        int | None,
        typer.Option(help=f"Number of people, {SMALLEST:,} to {example.LARGEST:,}. Default: as many as suit the kind."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = example.SEED,
    kind: Annotated[str, typer.Option(metavar="KIND", help="The kind of job to write files for.")] = ALIGN.name,
    model: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="For a kind that uses an earlier run: the folder of the run that trained a model, or made a list.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write made-up tables of a shop, a telephone company and a bank, or of a registry and a clinic, with job files.

    The shop knows some of its buyers; the other two hold data on people who may buy. truth.csv says who would buy, to
    evaluate results; no party reads it.

    Start the job with `unpooled run DIR/job.toml`. It finds the people whom the parties have in common. With
    `--kind information` the telephone company and the bank see how much each column says about who has a mortgage. With
    `--kind train` the telephone company and the bank learn how often people pay by card, and with `--kind predict` they
    use that model. With `--kind lookalike` they find look-alikes for the shop, and with `--kind deliver` the shop gets
    a list of another length. With `--kind complete` a clinic, which has laboratory values of a tenth of a registry's
    patients, completes its table.
    """
    example_job(kind, model)  # before anything is written
    tables = kind_named(kind).example.tables
    written = tables.write(folder, tables.rows if rows is None else rows, seed)
    _say_written([*written, *write_job_files(folder, kind, model)], quiet)


def _say_written(paths: list[Path], quiet: bool) -> None:
    if not quiet:
        for path in paths:
            typer.echo(f"wrote {path}")


@datasets_app.command("fetch")
def fetch_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which sets; all if none is named.")] = None,
    quiet: Quiet = False,
) -> None:
    """Download data sets from the UCI Machine Learning Repository into your cache, and check them.

    They are published under CC BY 4.0. Reading credit needs the extra "datasets".
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, disable=quiet) as bars:
        tasks = {name: bars.add_task(name, total=None) for name in names or datasets.PUBLISHED}
        written = publisher.fetch(tasks, datasets.cache_folder(), lambda name, size: bars.advance(tasks[name], size))
    _say_written(written, quiet)
    if datasets.folder() != datasets.cache_folder() and not quiet:
        typer.echo(f"{datasets.FOLDER_VARIABLE} is set, so these copies are not used while it is set.")


@datasets_app.command("list")
def list_command(as_json: Json = False) -> None:
    """Show where the data sets are expected, and verify those that are there."""
    found = [
        _found(name, part, expected) for name, parts in datasets.PUBLISHED.items() for part, expected in parts.items()
    ]
    if as_json:
        typer.echo(json.dumps({"folder": str(datasets.folder()), "sets": [vars(part) for part in found]}))
    else:
        _show(found)


def _found(name: str, part: str, expected: datasets.Published) -> Found:
    problem = _problem(name, part)
    rows, positives = (None, None) if problem else (expected.rows, expected.positives)
    return Found(name, part, expected.file, rows, positives, problem)


def _problem(name: str, part: str) -> str | None:
    try:
        datasets.load(name, part)
    except InputError as problem:
        return str(problem)
    return None


def _show(found: list[Found]) -> None:
    typer.echo(f"Looking in {datasets.folder()}")
    table = Table("set", "part", "file", "rows", "positives", "verified")
    for part in found:
        counts = ["" if count is None else f"{count:,}" for count in (part.rows, part.positives)]
        table.add_row(part.set, part.part, part.file, *counts, "no" if part.problem else "yes")
    Console().print(table)
    for part in found:
        if part.problem:
            typer.echo(part.problem)
