"""The training of a model as a command shows it: a bar on a terminal, else lines, and what Ctrl-C does."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Drawing
from rich.table import Column

from unpooled.cli.output.bars import duration
from unpooled.errors import Interrupted

if TYPE_CHECKING:
    from unpooled.networks.training import Progress, Watch

_LINES = 10
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def training_bar(console: Console, model: str, quiet: bool) -> Iterator[Watch]:
    """Show how far a training is, its loss, and about how long it will still take."""
    if quiet:
        yield lambda _: None
    elif not console.is_terminal:
        yield _line_by_line(console, model)
    else:
        drawing = Drawing(
            TextColumn("{task.description}", markup=False),
            BarColumn(20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[said]}", markup=False, table_column=Column(no_wrap=True)),
            console=console,
            transient=True,
        )
        with drawing:
            task = drawing.add_task(f"training {model}", total=None, said="compiling")

            def watch(progress: Progress) -> None:
                first = drawing.tasks[0].total is None
                words = _in_words(progress, first=first)
                drawing.update(task, completed=progress.epoch, total=progress.epochs, said=words)

            yield watch


def _line_by_line(console: Console, model: str) -> Watch:
    """A line after the first epoch, and after each tenth of them."""
    begun: list[int] = []

    def watch(progress: Progress) -> None:
        begun.append(progress.epoch)
        done = [_LINES * epoch // progress.epochs for epoch in (progress.epoch - 1, progress.epoch)]
        if len(begun) == 1 or done[0] < done[1]:
            said = f"training {model}: epoch {progress.epoch:,} of {progress.epochs:,}"
            console.out(f"{said}, {_in_words(progress, first=len(begun) == 1)}", highlight=False)

    return watch


def _in_words(progress: Progress, *, first: bool) -> str:
    """How long it takes shows after the first epoch, which is compiled too."""
    left = f", about {duration(progress.seconds_left)} left" if progress.epoch < progress.epochs else ""
    return f"loss {progress.loss:.4g}{'' if first else left}"


@contextmanager
def stoppable(console: Console) -> Iterator[Callable[[], None]]:
    """Yield what raises `Interrupted` once Ctrl-C or SIGTERM has come; a second one is raised at once."""
    asked: list[int] = []

    def ask(number: int, _frame: FrameType | None) -> None:
        if asked:
            raise Interrupted(number)
        asked.append(number)
        console.out("stopping after this epoch; once more: at once", highlight=False)

    def stop() -> None:
        if asked:
            raise Interrupted(asked[0])

    before = {each: signal.signal(each, ask) for each in _SIGNALS}
    try:
        yield stop
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
