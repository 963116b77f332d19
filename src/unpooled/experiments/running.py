"""Computing what is missing of an experiment: the cells that are done are skipped, each new one is kept at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from unpooled import atomic, workers
from unpooled.experiments import cells as kept
from unpooled.experiments.cells import Cells, Done
from unpooled.experiments.experiment import Cell, Experiment, Figures, Tier


@dataclass(frozen=True)
class Progress:
    """How far an experiment is; `cell` is the one that is computed next, or None at the end."""

    done: int
    total: int
    seconds_left: float
    cell: Cell | None


def seconds_left(experiment: Experiment, cells: Iterable[Cell], done: Cells) -> float:
    """How long the cells that are not done will take: the experiment's guess, times how wrong it was so far.

    Those that keep one core busy take their part of the time only.
    """
    guessed = [(experiment.seconds(cell), done.get(experiment.key(cell)), cell) for cell in cells]
    measured = [(guess, found.seconds) for guess, found, _ in guessed if found]
    known = sum(guess for guess, _ in measured)
    pace = sum(seconds for _, seconds in measured) / known if known > 0 else 1.0
    left = [(guess, workers.cores() if experiment.one_core(cell) else 1) for guess, found, cell in guessed if not found]
    return pace * sum(guess / beside for guess, beside in left)


def compute(
    experiment: Experiment, tier: Tier, seed: int, folder: Path, watch: Callable[[Progress], None] = lambda _: None
) -> Cells:
    """Compute and keep the cells of a tier that are not there yet; all cells that the file then has."""
    wanted = experiment.cells(tier, seed)
    path = kept.path_of(experiment, tier, folder)
    done = kept.read(experiment, path)
    todo = [cell for cell in wanted if experiment.key(cell) not in done]
    if todo:
        experiment.check(todo)
        atomic.make_folder(folder)
    versions, machine = kept.versions_of(experiment.packages), kept.machine()
    computed = _computed(experiment, todo)
    for place, cell in enumerate(todo):
        watch(Progress(len(wanted) - len(todo) + place, len(wanted), seconds_left(experiment, wanted, done), cell))
        figures, seconds = next(computed)
        done[experiment.key(cell)] = Done(figures, seconds, versions, machine)
        kept.write(experiment, done, path)
    watch(Progress(len(wanted), len(wanted), 0.0, None))
    return kept.read(experiment, path)


def _computed(experiment: Experiment, cells: Sequence[Cell]) -> Iterator[tuple[Figures, float]]:
    """Each cell's figures and duration, in order; neighbours that keep one core busy are computed side by side."""
    timed = partial(_timed, experiment.compute)
    for one_core, neighbours in groupby(cells, experiment.one_core):
        side_by_side = workers.in_order if one_core else map
        yield from side_by_side(timed, neighbours)


def _timed(compute_one: Callable[[Cell], Figures], cell: Cell) -> tuple[Figures, float]:
    began = time.monotonic()
    return compute_one(cell), time.monotonic() - began
