"""Running a job from a command: signals, logs, progress, and what is said at the end."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console

from unpooled import atomic
from unpooled.cli.output.bars import ConsoleHandler, bars
from unpooled.cli.output.closing import say_done
from unpooled.cli.tracking import track_finished
from unpooled.errors import InternalError, Interrupted, JobFailed, UnpooledError
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Tracking
from unpooled.jobs.work import CheckedJob, Result
from unpooled.report.page import write_report
from unpooled.run import folder as run_folder
from unpooled.run.join import join
from unpooled.run.progress import Watch, keep_progress
from unpooled.transport.handover import Through

_LAST_SECONDS = 5.0
"""How long a party may take to end after the process that started it has died."""

_LOG_LINE, _LOG_TIME = "%(asctime)s %(message)s", "%H:%M:%S"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def take_part(
    job: CheckedJob[Any],
    folder: Path,
    *,
    quiet: bool,
    as_json: bool,
    attached: bool,
    resume: bool = False,
    through: Through | None = None,
) -> None:
    """Join or join again, with a progress bar, and write the report; an attached party keeps its progress in a file.

    An attached party is ended by the process that started it, so Ctrl-C does not concern it.
    """
    console, party = Console(stderr=True), job.party
    _log_to(console, quiet or as_json)
    if attached:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with interruptible(signal.SIGTERM):
                threading.Thread(target=_end_with_parent, daemon=True).start()
                join(job, folder, keep_progress(folder), resume=resume, through=through)
        except Interrupted as interrupted:
            raise typer.Exit(interrupted.code) from None
        return

    def start(watch: Watch) -> dict[str, Result]:
        with _log_in(folder / run_folder.LOG):
            result = join(job, folder, lambda progress: watch({party: progress}), resume=resume, through=through)
            return {party: result}

    _watched(f"{job.plan.kind}: {party}", console, folder, start, quiet, as_json)
    track_finished({folder: job.private.tracking}, quiet=quiet or as_json)


def run_all(
    plan: Plan,
    folder: Path,
    start: Callable[[Watch], dict[str, Result]],
    tracked: Mapping[Path, Tracking],
    quiet: bool,
    as_json: bool,
) -> None:
    """Start all parties, with progress bars, write the report, and log those sides that are to be `tracked`."""
    _watched(f"{plan.kind}: {', '.join(plan.parties)}", Console(stderr=True), folder, start, quiet, as_json)
    track_finished(tracked, quiet=quiet or as_json)


def _watched(
    title: str,
    console: Console,
    folder: Path,
    start: Callable[[Watch], dict[str, Result]],
    quiet: bool,
    as_json: bool,
) -> None:
    with interruptible(*_SIGNALS):
        try:
            with bars(console, quiet or as_json, title) as watch:
                results = start(watch)
        except Interrupted as interrupted:
            for line in (str(interrupted), *_left_behind(folder, interrupted=True)):
                typer.echo(line, err=True)
            raise typer.Exit(interrupted.code) from None
        except (UnpooledError, OSError, MemoryError) as error:
            state = run_folder.read_json(folder / run_folder.STATUS).get("state")
            if isinstance(error, JobFailed) or state == "failed":
                for line in _left_behind(folder):
                    error.add_note(line)
            raise
        say_done(folder, results, quiet, as_json)


@contextmanager
def interruptible(*signals: signal.Signals) -> Iterator[None]:
    """Within the block the first of these signals raises `Interrupted`, and later ones are ignored."""

    def interrupt(number: int, _frame: FrameType | None) -> None:
        for each in signals:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {each: signal.signal(each, interrupt) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _left_behind(folder: Path, *, interrupted: bool = False) -> Iterator[str]:
    """The lines that follow an error: where the run's files are, and how to resume."""
    if not (folder / run_folder.PLAN).exists():
        return
    yield f"run: {folder}"
    with suppress(UnpooledError, OSError):  # an error in doing so must not replace the run's own
        yield f"report: {write_report(folder)}"
    yield run_folder.how_to_resume(folder, interrupted=interrupted)


def _log_to(console: Console, quiet: bool) -> None:
    terminal = ConsoleHandler(console)
    terminal.setLevel(logging.WARNING if quiet else logging.INFO)
    logging.basicConfig(level=logging.INFO, format=_LOG_LINE, datefmt=_LOG_TIME, handlers=[terminal])


@contextmanager
def _log_in(path: Path) -> Iterator[None]:
    """Keep the log in a file as well, quiet or not; the details of an internal error are there alone."""
    log = logging.getLogger("unpooled")
    with open(path, "a", encoding="utf-8", opener=atomic.owner_only) as file:
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter(_LOG_LINE, _LOG_TIME))
        log.addHandler(handler)
        try:
            yield
        except (UnpooledError, OSError, MemoryError):
            raise
        except Exception:
            traceback.print_exc(file=file)
            raise InternalError(f"internal error; {path} has the details") from None
        finally:
            log.removeHandler(handler)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin: its lock, held by this thread, would upset the interpreter's end
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_LAST_SECONDS)
    os._exit(128 + signal.SIGTERM)
