"""Computing what is missing of an experiment: the cells that are done are skipped, each new one is kept at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from unpooled import atomic
from unpooled.experiments import cells as kept
from unpooled.experiments.cells import Cells, Done
from unpooled.experiments.experiment import Cell, Experiment, Tier


@dataclass(frozen=True)
class Progress:
    """How far an experiment is; `cell` is the one that is computed next, or None at the end."""

    done: int
    total: int
    seconds_left: float
    cell: Cell | None


def seconds_left(experiment: Experiment, cells: Iterable[Cell], done: Cells) -> float:
    """How long the cells that are not done will take: the experiment's guess, times how wrong it was so far."""
    guessed = [(experiment.seconds(cell), done.get(experiment.key(cell))) for cell in cells]
    measured = [(guess, found.seconds) for guess, found in guessed if found]
    known = sum(guess for guess, _ in measured)
    pace = sum(seconds for _, seconds in measured) / known if known > 0 else 1.0
    return pace * sum(guess for guess, found in guessed if found is None)


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
    for place, cell in enumerate(todo):
        watch(Progress(len(wanted) - len(todo) + place, len(wanted), seconds_left(experiment, wanted, done), cell))
        began = time.monotonic()
        figures = experiment.compute(cell)
        done[experiment.key(cell)] = Done(figures, time.monotonic() - began, versions, machine)
        kept.write(experiment, done, path)
    watch(Progress(len(wanted), len(wanted), 0.0, None))
    return kept.read(experiment, path)
