"""The commands that write, check, start and tidy up jobs."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console

from unpooled import atomic
from unpooled.cli.bars import ConsoleHandler, bars
from unpooled.cli.dry_run import show_dry_run
from unpooled.cli.evaluate import judge
from unpooled.cli.options import Json, Quiet
from unpooled.data import example
from unpooled.errors import InputError, JobFailed, PlanError, UnpooledError
from unpooled.jobs.example_job import write_job_files
from unpooled.jobs.files import Job, load_job, load_plan, load_private
from unpooled.jobs.kinds import KINDS, Result
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import rehearse
from unpooled.jobs.private import Private, check_fits
from unpooled.jobs.templates import job_template, plan_template, private_template
from unpooled.jobs.work import WORKING
from unpooled.report.page import write_report
from unpooled.run import folder as run_folder
from unpooled.run.join import addresses_of, join
from unpooled.run.progress import Watch, keep_progress
from unpooled.run.spawn import spawn, spawn_again
from unpooled.secure.evidence import SECRETS

_LAST_SECONDS = 5.0
"""How long a party whose spawner has died may take to end in order."""

_LOG_LINE, _LOG_TIME = "%(asctime)s %(message)s", "%H:%M:%S"
_TEMPLATES = {"job": job_template, "plan": plan_template, "private": private_template}

RunFolder = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="Folder for this run. Default: runs/KIND-DATE-TIME.")
]
Attached = Annotated[
    bool, typer.Option(hidden=True, help="End when standard input closes, and keep progress in a file.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, show what will be disclosed, start nothing.")
]


def run_command(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.toml", help="A plan with a [private.NAME] section for each party.")
    ],
    dry_run: DryRun = False,
    run: RunFolder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a job with all its parties on this machine, each in a process of its own.

    Certificates and ports are made for the run where the file names none. With a machine for each party, use `join`.
    """
    loaded = load_job(job)
    rehearsals = [rehearse(loaded.plan, party, private) for party, private in loaded.privates.items()]
    if dry_run:
        show_dry_run(loaded.plan, rehearsals, loaded.privates, as_json=as_json)
        return
    folder = run or run_folder.new_folder(loaded.plan.kind)
    _spawn_and_report(loaded, folder, quiet, as_json)


def join_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="The plan, the same file at every party.")],
    party: Annotated[str, typer.Option("--as", metavar="NAME", help="Which of the plan's parties this is.")],
    private: Annotated[Path, typer.Option(metavar="FILE", help="This party's own settings.")],
    dry_run: DryRun = False,
    run: RunFolder = None,
    quiet: Quiet = False,
    as_json: Json = False,
    attached: Attached = False,
) -> None:
    """Take part in a job as one party, over the network.

    The parties may start in any order; each waits for the others as long as the plan's timeout says.
    """
    loaded_plan, loaded_private = load_plan(plan), load_private(private)
    if dry_run:
        rehearsal = rehearse(loaded_plan, party, loaded_private, joins=True)
        addresses_of(loaded_plan, party, loaded_private)
        show_dry_run(loaded_plan, [rehearsal], {party: loaded_private}, as_json=as_json)
        return
    folder = run or run_folder.new_folder(f"{loaded_plan.kind}-{party}")
    check_fits(loaded_plan, party, loaded_private)  # before there is a folder
    run_folder.create(folder)
    run_folder.keep_private(folder, private)
    _take_part(Seat(loaded_plan, party, loaded_private, folder), quiet=quiet, as_json=as_json, attached=attached)


def resume_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run that was interrupted.")],
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A party's own settings, if they are elsewhere now.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Take part again though this party has finished, for another that has not.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    attached: Attached = False,
) -> None:
    """Go on with a run that was interrupted, from what its parties have kept.

    RUN is the folder of one party, which joined, or that of a run with all of them here. Every party has to resume; the
    result is the one that an undisturbed run would have had. Plan, tables and software must be the same as before.
    """
    if not (run / run_folder.PLAN).exists():
        raise InputError(f"{run} is not a run's folder: it has no {run_folder.PLAN}")
    states = [run_folder.read_json(home / run_folder.STATUS).get("state") for home in run_folder.parties_in(run)]
    if not again and states and set(states) == {"finished"}:
        raise InputError(f"{run} has finished; take part --again only if another party has not")
    if (run / run_folder.STATUS).exists():
        plan = load_plan(run / run_folder.PLAN)
        party = str(run_folder.read_json(run / run_folder.STATUS).get("party", ""))
        seat = Seat(plan, party, load_private(private or run_folder.private_path(run)), run)
        check_fits(plan, party, seat.private)
        _take_part(seat, quiet=quiet, as_json=as_json, attached=attached, resume=True)
        return
    if private is not None:
        raise InputError(f"--private: {run} is the run of several parties; each has kept its own settings")
    plan = load_plan(run / run_folder.PLAN)
    _watched(plan, run, lambda watch: spawn_again(run, watch), quiet, as_json)


def job_command(
    example_kind: Annotated[
        str | None, typer.Option("--example", metavar="KIND", help="Print a file for this kind.")
    ] = None,
    part: Annotated[
        Literal["job", "plan", "private"],
        typer.Option(help="Which file: job, for a trial on one machine, or plan or private, for a machine each."),
    ] = "job",
) -> None:
    """List the kinds of job, or print a commented example file for one."""
    if example_kind is None:
        for name, kind in KINDS.items():
            typer.echo(f"{name:10} {kind.summary}")
        return
    if example_kind not in KINDS:
        raise PlanError(f"there is no kind of job {example_kind!r}; there are: {', '.join(KINDS)}")
    typer.echo(_TEMPLATES[part](example_kind), nl=False)


def demo_command(
    rows: Annotated[int, typer.Option(help="People in the generated population.")] = example.ROWS,
    engine: Annotated[
        Literal["shares", "paillier"],
        typer.Option(help="How products are protected. With paillier, which takes far longer, little is learned."),
    ] = "shares",
    run: RunFolder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Try it: four real parties over mutual TLS on this machine find look-alikes in made-up data; a report to look at.

    A shop knows some of its buyers; a bank and a telephone company, who hold columns of many people, find for it who
    else is very likely one.
    """
    folder = run_folder.create(run or run_folder.new_folder("demo"))
    tables = folder / "tables"
    example.write(tables, rows)
    write_job_files(tables, "lookalike", engine=engine)
    job = load_job(tables / "job.toml")

    def start(watch: Watch) -> dict[str, Result]:
        results = spawn(job.plan, job.privates, folder, watch)
        judge(folder, tables / "truth.csv", example.OUTCOME)  # these people are made up, so the truth is known
        return results

    _watched(job.plan, folder, start, quiet, as_json)


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
) -> None:
    """Write a run's report again, from the files in its folder; with all parties here, also each party's own."""
    typer.echo(f"report: {write_report(run)}")


def purge_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    force: Annotated[bool, typer.Option("--force", help="Even if it did not finish and could be resumed.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a run's working files: keys made for it, copies of private settings, checkpoint, and what an audit needs.

    Plan, ledgers, logs, results and reports stay. What was put in can then no longer be opened in an audit. A run that
    did not finish is refused, since without these files it cannot be resumed, and so is one that is still running.
    """
    evidence = any(run.glob(f"**/{WORKING}/{SECRETS}"))
    removed = run_folder.purge(run, force=force)
    if as_json:
        typer.echo(json.dumps({"removed": [str(path) for path in removed]}))
        return
    for path in removed:
        typer.echo(f"removed {path}")
    if evidence:
        typer.echo("what was put in can no longer be opened in an audit")
    if not removed:
        typer.echo("nothing to remove")


class Seat(NamedTuple):
    """Which party's part is to be taken, with what, and where."""

    plan: Plan
    party: str
    private: Private
    folder: Path


def _take_part(seat: Seat, *, quiet: bool, as_json: bool, attached: bool, resume: bool = False) -> None:
    """Join or join again, with a progress bar, and write the report; an attached one keeps its progress in a file."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console, folder, party = Console(stderr=True), seat.folder, seat.party
    _log_to(console, quiet or as_json)
    if attached:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        join(*seat, keep_progress(folder), resume=resume)
        return
    try:
        with _log_in(folder / run_folder.LOG), bars(console, quiet or as_json, f"{seat.plan.kind}: {party}") as watch:
            result = join(*seat, lambda progress: watch({party: progress}), resume=resume)
    except UnpooledError:
        _report_failure(folder)
        raise
    _say_done(folder, write_report(folder), {party: result}, quiet, as_json)


def _spawn_and_report(job: Job, folder: Path, quiet: bool, as_json: bool) -> None:
    _watched(job.plan, folder, lambda watch: spawn(job.plan, job.privates, folder, watch), quiet, as_json)


def _watched(plan: Plan, folder: Path, start: Callable[[Watch], dict[str, Result]], quiet: bool, as_json: bool) -> None:
    """Start all parties, with progress bars, and write the report."""
    title = f"{plan.kind}: {', '.join(plan.parties)}"
    try:
        with bars(Console(stderr=True), quiet or as_json, title) as watch:
            results = start(watch)
    except JobFailed:
        _report_failure(folder)
        raise
    _say_done(folder, write_report(folder), results, quiet, as_json)


def _report_failure(folder: Path) -> None:
    """Write what can be told of a run that failed; no error in doing so may take the place of the run's own."""
    with suppress(UnpooledError, OSError):
        typer.echo(f"report: {write_report(folder)}", err=True)


def _say_done(folder: Path, report: Path, results: dict[str, Any], quiet: bool, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"run": str(folder), "report": str(report), "results": results}))
    elif not quiet:
        typer.echo(f"run:    {folder}")
        typer.echo(f"report: {report}")


def _log_to(console: Console, quiet: bool) -> None:
    terminal = ConsoleHandler(console)
    terminal.setLevel(logging.WARNING if quiet else logging.INFO)
    logging.basicConfig(level=logging.INFO, format=_LOG_LINE, datefmt=_LOG_TIME, handlers=[terminal])


@contextmanager
def _log_in(path: Path) -> Iterator[None]:
    """Keep the log in a file as well, quiet or not."""
    log = logging.getLogger("unpooled")
    with open(path, "a", encoding="utf-8", opener=atomic.owner_only) as file:
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter(_LOG_LINE, _LOG_TIME))
        log.addHandler(handler)
        try:
            yield
        finally:
            log.removeHandler(handler)


def _end_with_parent() -> None:
    while os.read(0, 1024):  # not sys.stdin: its lock, held by this thread, would upset the interpreter's end
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_LAST_SECONDS)
    os._exit(128 + signal.SIGTERM)
