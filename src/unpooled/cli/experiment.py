"""`unpooled experiment`: measurements on public data, kept cell by cell."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Drawing
from rich.table import Table

from unpooled.cli.options import Quiet
from unpooled.cli.output.bars import duration
from unpooled.data import datasets
from unpooled.experiments import cells as kept
from unpooled.experiments import experiments, figures, page
from unpooled.experiments.experiment import Cell, Experiment, Tier
from unpooled.experiments.running import Progress, compute, seconds_left


def experiment_command(
    name: Annotated[
        str | None,
        typer.Argument(metavar="NAME", help="The experiment, or all of them: all. Without it they are listed."),
    ] = None,
    tier: Annotated[
        Tier,
        typer.Option(
            metavar="TIER",
            help="quick: minutes, to see that it works; standard: an hour or two; seed: the papers' settings, a day or "
            "more.",
        ),
    ] = Tier.quick,
    seed: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="The first random seed. Default: the experiment's own.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the data sets are. Default: UNPOOLED_DATA, else what `unpooled datasets fetch` fetched.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Where cells and figures are kept; created if missing.")
    ] = Path("results"),
    to_page: Annotated[
        Path | None,
        typer.Option("--page", metavar="FILE", help="The page whose section is written. Default: results.md in --out."),
    ] = None,
    from_cells: Annotated[
        bool, typer.Option("--from-cells", help="Compute nothing: figures and section from the cells that are there.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment on public data, and write its tables and figures.

    Every cell (a data set, a random seed, settings) is computed once and kept in a CSV file, with versions, kind of
    machine and duration. Interrupt it at any time: the same command goes on with the cells that are missing. At the
    end figures are written as SVG and PNG, and a section of a Markdown page. Experiments on look-alikes share cells.
    It needs the extras "experiments" and "plots".
    """
    if name is None:
        _list()
        return
    wanted = experiments.experiments_named(name)
    if data is not None:
        os.environ[datasets.FOLDER_VARIABLE] = str(data)
    figures.check()
    for experiment in wanted:
        _run(experiment, tier, seed, out, to_page or out / "results.md", from_cells=from_cells, quiet=quiet)


def _run(
    experiment: Experiment, tier: Tier, seed: int | None, out: Path, to_page: Path, *, from_cells: bool, quiet: bool
) -> None:
    path = kept.path_of(experiment, tier, out)
    if not from_cells:
        first = experiment.seed if seed is None else seed
        wanted, done = experiment.cells(tier, first), kept.read(experiment, path)
        if not quiet:
            typer.echo(_announced(experiment, tier, wanted, done))
        try:
            with _bar(experiment, quiet) as watch:
                compute(experiment, tier, first, out, watch)
        except KeyboardInterrupt:
            typer.echo("Stopped. The same command continues with the cells that are missing.", err=True)
            raise
    written = page.write(experiment, tier, kept.read(experiment, path), out, to_page)
    if not quiet:
        for one in (path, *written):
            typer.echo(f"wrote {one}" if one != path else f"cells: {one}")


def _list() -> None:
    table = Table("experiment", "what it measures")
    for each in experiments.EXPERIMENTS:
        table.add_row(each.name, each.about)
    Console().print(table)


def _announced(experiment: Experiment, tier: Tier, wanted: Sequence[Cell], done: kept.Cells) -> str:
    missing = sum(experiment.key(cell) not in done for cell in wanted)
    told = f"{experiment.name}, tier {tier}: {len(wanted)} cells, {len(wanted) - missing} done"
    return f"{told}, about {duration(seconds_left(experiment, wanted, done))} to go" if missing else told


@contextmanager
def _bar(experiment: Experiment, quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """On a terminal a bar, else a line for each cell."""
    console = Console(stderr=True, soft_wrap=True)
    if quiet:
        yield lambda _: None
    elif not console.is_terminal:
        yield lambda progress: console.out(_in_words(experiment, progress), highlight=False)
    else:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Drawing(*columns, console=console, transient=True) as drawing:
            task = drawing.add_task(experiment.name)
            yield lambda progress: drawing.update(
                task,
                completed=progress.done,
                total=progress.total,
                description=f"{_cell(progress)}, about {duration(progress.seconds_left)} left",
            )


def _in_words(experiment: Experiment, progress: Progress) -> str:
    done = f"{experiment.name}: {progress.done} of {progress.total} cells"
    if progress.cell is None:
        return done
    return f"{done}, about {duration(progress.seconds_left)} left; now {_cell(progress)}"


def _cell(progress: Progress) -> str:
    """A cell in a few words, without what does not apply to it."""
    return ", ".join(f"{name} {value}" for name, value in (progress.cell or {}).items() if value) or "done"
