"""The commands that write, check, start and clean up jobs."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from unpooled.cli.console_demo import show_console
from unpooled.cli.options import Json, Quiet
from unpooled.cli.output.dry_run import show_dry_run
from unpooled.cli.output.forecast import Common, NoForecast, expected
from unpooled.cli.quality import say_warnings
from unpooled.cli.running import run_all, take_part
from unpooled.cli.tracking import tracking_of
from unpooled.data.example import SEED
from unpooled.errors import InputError
from unpooled.jobs import kinds
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_job import write_job_files
from unpooled.jobs.examples.templates import job_template, plan_template, private_template
from unpooled.jobs.files import load_job, load_plan, load_private
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.preflight import loaded, preflight, preflight_together
from unpooled.jobs.work import WORKING, Result
from unpooled.report.page import write_report
from unpooled.run import folder as run_folder
from unpooled.run.join import addresses_of
from unpooled.run.progress import Watch
from unpooled.run.spawn import books_in, spawn, spawn_again
from unpooled.secure.evidence import SECRETS
from unpooled.transport.handover import inherited

_SHOWN = [kind.name for kind in kinds.KINDS if kind.example.judge]
_TEMPLATES = {"job": job_template, "plan": plan_template, "private": private_template}

RunFolder = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="Folder for this run. Default: runs/KIND-DATE-TIME.")
]
JoinFolder = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="Folder for this run. Default: runs/KIND-PARTY-DATE-TIME.")
]
_TEMPORARY = Path(tempfile.gettempdir())
"""Where columns stay on disk while everything is checked, at parties whose memory is limited."""

DemoFolder = Annotated[
    Path | None, typer.Option("--run", metavar="DIR", help="Folder for this run. Default: runs/demo-DATE-TIME.")
]
Attached = Annotated[
    bool, typer.Option(hidden=True, help="End when standard input closes, and write progress to a file.")
]
Descriptor = Annotated[
    int | None,
    typer.Option("--through", hidden=True, metavar="FD", help="The socket by which a service passes connections on."),
]
RunKey = Annotated[
    str | None, typer.Option(hidden=True, metavar="HEX", help="The run's key at the services of all parties.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything and show what would be disclosed, without starting.")
]

All = Annotated[
    bool, typer.Option("--all", help="With --dry-run: every column, all findings about tables, every message by name.")
]


def run_command(
    job: Annotated[
        Path, typer.Argument(metavar="JOB.toml", help="A plan with a [private.NAME] section for each party.")
    ],
    dry_run: DryRun = False,
    everything: All = False,
    common: Common = None,
    no_forecast: NoForecast = False,
    run: RunFolder = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a job with all its parties on this machine, each in a process of its own.

    Certificates and ports that the file does not name are made for the run. To run each party on its own machine, use
    `join`.
    """
    read = load_job(job)
    parties = [loaded(checked(read.plan, party, private), _TEMPORARY) for party, private in read.privates.items()]
    found, together = preflight_together(parties)
    if dry_run:
        costs = expected(parties, common, skip=no_forecast, quiet=quiet or as_json)
        show_dry_run(read.plan, found, parties, together, costs, everything=everything, as_json=as_json)
        return
    del parties  # each party's process reads its own table
    if not quiet and not as_json:
        say_warnings(found, together)
    folder = run or run_folder.new_folder(read.plan.kind)
    tracked = {folder / party: private.tracking for party, private in read.privates.items()}
    run_all(read.plan, folder, lambda watch: spawn(read.plan, read.privates, folder, watch), tracked, quiet, as_json)


def join_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="The plan, the same file at every party.")],
    party: Annotated[str, typer.Option("--as", metavar="NAME", help="The name of this party in the plan.")],
    private: Annotated[Path, typer.Option(metavar="FILE", help="This party's private file.")],
    dry_run: DryRun = False,
    everything: All = False,
    common: Common = None,
    no_forecast: NoForecast = False,
    run: JoinFolder = None,
    quiet: Quiet = False,
    as_json: Json = False,
    attached: Attached = False,
    through: Descriptor = None,
    run_key: RunKey = None,
) -> None:
    """Take part in a job as one party, over the network.

    Parties may start in any order; each waits for the others until the plan's timeout.
    """
    job = checked(load_plan(plan), party, load_private(private))
    if dry_run:
        job = loaded(job, _TEMPORARY)
        found = preflight(job, joins=True)
        addresses_of(job.plan, party, job.private)
        costs = expected([job], common, skip=no_forecast, quiet=quiet or as_json)
        show_dry_run(job.plan, [found], [job], None, costs, everything=everything, as_json=as_json)
        return
    service = inherited(through, run_key)
    folder = run or run_folder.new_folder(f"{job.plan.kind}-{party}")
    run_folder.create(folder)
    run_folder.keep_private(folder, private)
    take_part(job, folder, quiet=quiet, as_json=as_json, attached=attached, through=service)


def resume_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of an interrupted run.")],
    private: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The party's private file, if it has moved.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Take part again after finishing, because another party has not finished.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    attached: Attached = False,
    through: Descriptor = None,
    run_key: RunKey = None,
) -> None:
    """Resume an interrupted run from its checkpoints.

    RUN is the folder of one party, or of a run with all parties on this machine. Every party has to resume. The result
    is the same as without the interruption. Plan, tables and software must not have changed.
    """
    plan = run_folder.plan_in(run)
    states = [run_folder.read_json(home / run_folder.STATUS).get("state") for home in run_folder.parties_in(run)]
    if not again and states and set(states) == {"finished"}:
        raise InputError(f"{run} has finished; use --again only if another party has not")
    if (run / run_folder.STATUS).exists():
        party = str(run_folder.read_json(run / run_folder.STATUS).get("party", ""))
        job = checked(plan, party, load_private(private or run_folder.private_path(run)))
        service = inherited(through, run_key)
        take_part(job, run, quiet=quiet, as_json=as_json, attached=attached, resume=True, through=service)
        return
    if private is not None:
        raise InputError(f"--private: {run} is a run of several parties; each has kept its own private file")
    tracked = {home: tracking_of(home) for home in run_folder.parties_in(run)}
    run_all(plan, run, lambda watch: spawn_again(run, watch), tracked, quiet, as_json)


def job_command(
    example_kind: Annotated[
        str | None, typer.Option("--example", metavar="KIND", help="Print an example file for this kind of job.")
    ] = None,
    part: Annotated[
        Literal["job", "plan", "private"],
        typer.Option(help="Which file: job (a trial on one machine), plan, or private (one machine for each party)."),
    ] = "job",
) -> None:
    """List the kinds of job, or print a commented example file for one."""
    if example_kind is None:
        for kind in kinds.KINDS:
            typer.echo(f"{kind.name:10} {kind.summary}")
        return
    typer.echo(_TEMPLATES[part](example_kind), nl=False)


def demo_command(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"What to show: {' or '.join(_SHOWN)}.")] = LOOKALIKE.name,
    rows: Annotated[
        int | None, typer.Option(help="Number of people to generate. Default: as many as suit the kind.")
    ] = None,
    engine: Annotated[
        Literal["shares", "paillier"],
        typer.Option(help="The engine; with paillier, which is much slower, the models are small."),
    ] = "shares",
    run: DemoFolder = None,
    console: Annotated[
        bool, typer.Option("--console", help="Start a service for each party instead, and open the shop's inbox.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Try it: parties on this machine do a job on made-up data, over mutual TLS, and write a report.

    `lookalike`: a shop knows some of its buyers. A bank and a telephone company, who hold data on many people, find out
    for the shop who else is likely to buy. `complete`: a clinic has laboratory values of a tenth of a registry's
    patients, and gets a full table for all of them.
    """
    example = kinds.kind_named(kind).example
    if example.judge is None:
        raise InputError(f"{kind}: there is no demo of this kind of job; there is one of: {', '.join(_SHOWN)}")
    folder = run_folder.create(run or run_folder.new_folder("demo"))
    if console:
        show_console(folder, rows)
        return
    tables = folder / "tables"
    example.tables.write(tables, example.tables.rows if rows is None else rows, SEED)
    write_job_files(tables, kind, engine=engine)
    job = load_job(tables / "job.toml")

    def start(watch: Watch) -> dict[str, Result]:
        results = spawn(job.plan, job.privates, folder, watch, books_in(folder))
        for party, judged in (example.judge(folder, tables) if example.judge else {}).items():
            results[party] |= judged
        return results

    run_all(job.plan, folder, start, {}, quiet, as_json)


def report_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
) -> None:
    """Write a run's report again from the files in its folder; with all parties here, one for each party too."""
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
