"""What a terminal shows while a job runs: a bar for each party that has said how far it is, and log lines above."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Drawing
from rich.table import Column

from unpooled.run.progress import Progress, Watch

_STEP_WIDTH, _BAR_WIDTH = 32, 24


@contextmanager
def bars(console: Console, quiet: bool, title: str | None = None) -> Iterator[Watch]:
    """Draw what is handed over until the block ends, below the title; without a terminal say just the title."""
    if quiet or not console.is_terminal:
        if title and not quiet:
            console.print(title, highlight=False)
        yield lambda _: None
        return
    head = Drawing(SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    if title:
        head.add_task(title, total=None)
    parties = Drawing(
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[step]}", markup=False, table_column=Column(no_wrap=True, max_width=_STEP_WIDTH)),
        BarColumn(_BAR_WIDTH),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Live(Group(head, parties), console=console, transient=True):
        yield _drawn_in(parties)


def _drawn_in(drawing: Drawing) -> Watch:
    """Whoever hands over progress has it drawn; the time is that of the step, so it begins anew with each."""
    tasks: dict[str, TaskID] = {}
    shown: dict[str, Progress] = {}

    def watch(found: Mapping[str, Progress]) -> None:
        for party, progress in found.items():
            if party not in tasks:
                tasks[party] = drawing.add_task(party, step="")
            before = shown.get(party)
            if before and (before.where != progress.where or before.done > progress.done):
                drawing.reset(tasks[party], step="")
            shown[party] = progress
            step = _in_words(progress.where)
            drawing.update(tasks[party], completed=progress.done, total=progress.total, step=step)

    return watch


def _in_words(where: str) -> str:
    """A scope as it is read.

    >>> _in_words("fit/tree 3/level 2")
    'fit, tree 3, level 2'
    """
    return where.replace("/", ", ")


class ConsoleHandler(logging.Handler):
    """Log lines go through the console that draws the bars, which moves them out of the way."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._console.out(self.format(record), highlight=False)
        except Exception:
            self.handleError(record)
