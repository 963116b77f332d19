"""The command `unpooled`.

Exit codes: 0 all is well; 1 something failed here; 2 the call, the plan or a private file is wrong; 3 another party
failed or was lost; 130 interrupted by Ctrl-C; 143 interrupted by SIGTERM.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from unpooled.cli.attacks import audit_command
from unpooled.cli.budget import budget_command
from unpooled.cli.certs import certs_app
from unpooled.cli.data import datasets_app, example_command
from unpooled.cli.evaluate import evaluate_app
from unpooled.cli.experiment import experiment_command
from unpooled.cli.generate import generate_command
from unpooled.cli.jobs import (
    demo_command,
    job_command,
    join_command,
    purge_command,
    report_command,
    resume_command,
    run_command,
)
from unpooled.cli.ledger import ledger_command
from unpooled.cli.quality import check_command
from unpooled.cli.remote_jobs import jobs_app
from unpooled.cli.serve import serve_app
from unpooled.cli.tracking import track_command
from unpooled.errors import PeerError, PlanError, UnpooledError, described
from unpooled.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="unpooled",
    help="Learning together from data that stays apart.",
    epilog="Exit codes: 0 all is well, 1 something failed here, 2 the call, the plan or a private file is wrong, "
    "3 another party failed or was lost, 130 interrupted by Ctrl-C, 143 interrupted by SIGTERM.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("check")(check_command)
app.command("audit")(audit_command)
app.command("run")(run_command)
app.command("join")(join_command)
app.command("resume")(resume_command)
app.command("job")(job_command)
app.command("demo")(demo_command)
app.command("report")(report_command)
app.command("ledger")(ledger_command)
app.command("track")(track_command)
app.command("budget")(budget_command)
app.command("purge")(purge_command)
app.command("generate")(generate_command)
app.command("example")(example_command)
app.command("experiment")(experiment_command)
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(datasets_app, name="datasets")
app.add_typer(certs_app, name="certs")
app.add_typer(serve_app, name="serve")
app.add_typer(jobs_app, name="jobs")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; an error is said without a traceback, then what to do next, and there is an exit code."""
    try:
        app()
    except (UnpooledError, OSError, MemoryError) as error:
        console = Console(stderr=True, soft_wrap=True, markup=False, highlight=False)
        console.print(Text.assemble(("error: ", "red"), described(error)))
        for note in getattr(error, "__notes__", ()):
            console.print(note)
        sys.exit(exit_code(error))
    except KeyboardInterrupt:
        sys.exit(130)


def exit_code(error: BaseException) -> int:
    """The exit code of an error."""
    if isinstance(error, PlanError):
        return 2
    return 3 if isinstance(error, PeerError) else 1
