"""Progress while a job runs: on a terminal a bar for each party, with log lines above; else a line now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.filesize import decimal
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Drawing
from rich.table import Column

from unpooled.run.progress import Progress, Watch

_STEP_WIDTH, _BAR_WIDTH = 36, 16
_LINE_SECONDS, _LINE_FRACTION, _QUIET_SECONDS = 30.0, 0.1, 600.0
"""Without a terminal: the least between two lines of a party, in time and in work; and the longest without a line."""

_SURE_SECONDS, _SURE_FRACTION = 3.0, 0.02
"""How much time and work must have passed before the remaining time is estimated."""


@contextmanager
def bars(console: Console, quiet: bool, title: str | None = None) -> Iterator[Watch]:
    """Show the progress that is handed over until the block ends."""
    if quiet:
        yield lambda _: None
        return
    if not console.is_terminal:
        if title:
            console.print(title, highlight=False)
        yield _lines(console)
        return
    head = Drawing(SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    if title:
        head.add_task(title, total=None)
    parties = Drawing(
        TextColumn("{task.description}", markup=False),
        TextColumn("{task.fields[step]}", markup=False, table_column=Column(no_wrap=True, max_width=_STEP_WIDTH)),
        BarColumn(_BAR_WIDTH),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[sent]}", markup=False, table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[left]}", markup=False, table_column=Column(no_wrap=True)),
    )
    with Live(Group(head, parties), console=console, transient=True):
        yield _drawn_in(parties)


def _drawn_in(drawing: Drawing) -> Watch:
    """Draws progress as bars."""
    tasks: dict[str, TaskID] = {}
    rests: dict[str, _Rest] = {}

    def watch(found: Mapping[str, Progress]) -> None:
        for party, progress in found.items():
            if party not in tasks:
                tasks[party] = drawing.add_task(party, step="", sent="", left="")
            drawing.update(
                tasks[party],
                completed=progress.done,
                total=progress.total,
                step=_in_words(progress.where, progress.step),
                sent=decimal(progress.sent, precision=0),
                left=rests.setdefault(party, _Rest()).after(progress, drawing.get_time()),
            )

    return watch


def _lines(console: Console, get_time: Callable[[], float] = time.monotonic) -> Watch:
    """Prints progress as lines, the first one after a while."""
    began = get_time()
    last: dict[str, tuple[float, str, float]] = {}
    rests: dict[str, _Rest] = {}

    def watch(found: Mapping[str, Progress]) -> None:
        now = get_time()
        for party, progress in found.items():
            left = rests.setdefault(party, _Rest()).after(progress, now)
            then, step, fraction = last.get(party, (began, "", 0.0))
            news = progress.step != step or progress.fraction >= fraction + _LINE_FRACTION
            if now - then >= (_LINE_SECONDS if news else _QUIET_SECONDS):
                last[party] = now, progress.step, progress.fraction
                done = f"{_in_words(progress.where, progress.step)}, {progress.done} of {progress.total}"
                said = [done, f"{decimal(progress.sent, precision=0)} sent", *filter(None, [left])]
                console.out(f"{party}: {', '.join(said)}", highlight=False)

    return watch


@dataclass
class _Rest:
    """Estimates the remaining time of a party's step."""

    step: str = ""
    began: float = 0.0
    fraction: float = 0.0

    def after(self, progress: Progress, now: float) -> str:
        """In words; nothing while it is too early to tell."""
        seconds = self.seconds(progress, now)
        return "" if seconds is None else f"about {duration(seconds)} left"

    def seconds(self, progress: Progress, now: float) -> float | None:
        if progress.step != self.step or progress.fraction < self.fraction:
            self.step, self.began, self.fraction = progress.step, now, progress.fraction
        passed, done = now - self.began, progress.fraction - self.fraction
        if passed < _SURE_SECONDS or done < _SURE_FRACTION or progress.fraction >= 1:
            return None
        return passed * (1 - progress.fraction) / done


def duration(seconds: float) -> str:
    """About how long.

    >>> duration(8.2), duration(119), duration(100_000)
    ('9 s', '2 min', '28 h')
    """
    for length, unit in ((3600, "h"), (60, "min")):
        if seconds > 1.5 * length:
            return f"{round(seconds / length)} {unit}"
    return f"{int(seconds) + 1} s"


def _in_words(where: str, step: str) -> str:
    """A scope as it is shown, without the step that contains it.

    >>> _in_words("align/raise", "align/raise"), _in_words("find/iteration 2 of 5, trees of 10 bags", "find")
    ('align, raise', 'iteration 2 of 5, trees of 10 bags')
    """
    return where.removeprefix(f"{step}/").replace("/", ", ")


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
