"""The commands that make or fetch data: `unpooled example` and `unpooled datasets`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import DownloadColumn, Progress, SpinnerColumn, TextColumn, TransferSpeedColumn
from rich.table import Table

from unpooled.data import datasets, example, publisher
from unpooled.errors import InputError
from unpooled.jobs.example_job import write_job_files

datasets_app = typer.Typer(help="The public data sets bank, credit and census.", no_args_is_help=True)


def example_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where to write; made if it is not there.")],
    rows: Annotated[
        int, typer.Option(help=f"People in the population, {example.SMALLEST:,} to {example.LARGEST:,}.")
    ] = example.ROWS,
    seed: Annotated[int, typer.Option(help="The same seed gives the same files.")] = example.SEED,
) -> None:
    """Write made-up tables of a shop, a telephone company and a bank.

    The shop knows some of its buyers, the other two hold columns of people who may buy.

    truth.csv says who would buy, to judge a result by; no party reads it. The job files are ready for
    `unpooled run DIR/job.toml`.
    """
    for path in (*example.write(folder, rows, seed), *write_job_files(folder, "check")):
        typer.echo(f"wrote {path}")


@datasets_app.command("fetch")
def fetch_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Which sets; all if none is named.")] = None,
) -> None:
    """Download data sets from the UCI Machine Learning Repository into your cache, and check them.

    They are published under CC BY 4.0. Reading credit takes an install with the extra "datasets".
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns) as bars:
        tasks = {name: bars.add_task(name, total=None) for name in names or datasets.PUBLISHED}
        written = publisher.fetch(tasks, datasets.cache_folder(), lambda name, size: bars.advance(tasks[name], size))
    for path in written:
        typer.echo(f"wrote {path}")
    if datasets.folder() != datasets.cache_folder():
        typer.echo(f"{datasets.FOLDER_VARIABLE} is set, so these copies are not used until you unset it.")


@datasets_app.command("list")
def list_command() -> None:
    """Show where the data sets are looked for, and check those that are there."""
    typer.echo(f"Looking in {datasets.folder()}")
    table = Table("set", "part", "file", "rows", "positives", "verified")
    problems = []
    for name, parts in datasets.PUBLISHED.items():
        for part, expected in parts.items():
            try:
                datasets.load(name, part)
                verified = "yes"
            except InputError as problem:
                verified = "no"
                problems.append(str(problem))
            table.add_row(name, part, expected.file, f"{expected.rows:,}", f"{expected.positives:,}", verified)
    Console().print(table)
    for problem_text in problems:
        typer.echo(problem_text)
