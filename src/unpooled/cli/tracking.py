"""`unpooled track`, and logging at the end of a run that says so in its private file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, get_args

import typer
from pydantic import ValidationError

from unpooled.errors import InputError, UnpooledError
from unpooled.jobs.files import load_private
from unpooled.jobs.private import Artefact, Tracking
from unpooled.run.folder import parties_in, private_path
from unpooled.settings import faults
from unpooled.tracking.mlflow_store import log_run


def track_command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a party, or of a run with all parties.")],
    mlflow: Annotated[
        str | None,
        typer.Option(metavar="URI", help="An MLflow tracking server, or file:///FOLDER. Default: the private file's."),
    ] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="The MLflow experiment. Default: the private file's.")
    ] = None,
    artefact: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join(get_args(Artefact)),
            help="Log this file; may be repeated. Default: those that the private file names.",
        ),
    ] = None,
) -> None:
    """Log a party's own side of a run that has ended: the plan, figures, and files that are asked for.

    Runs whose private file has [tracking] are logged when they finish; this is for others, or if that went wrong. What
    is logged goes to the server outside of the ledger. It never has tables, ids or keys, except what an artefact shows.
    """
    homes = parties_in(run)
    if not homes:
        raise InputError(f"{run} is not a run's folder, or no party has started there")
    given = {"mlflow": mlflow, "experiment": experiment, "artefacts": artefact or None}
    changes = {key: value for key, value in given.items() if value is not None}
    try:
        kept = dict.fromkeys(homes, Tracking()) if mlflow else {home: tracking_of(home) for home in homes}
        settings = {home: Tracking.model_validate(tracking.model_dump() | changes) for home, tracking in kept.items()}
    except InputError:
        raise InputError(f"{run}: its private file is not known any more; name a place with --mlflow") from None
    except ValidationError as error:
        raise InputError("; ".join(faults(error, "tracking"))) from None
    wanted = {home: tracking for home, tracking in settings.items() if tracking.mlflow is not None}
    if not wanted:
        raise InputError(f"{run}: its private file does not say where to log; name a place with --mlflow")
    for home, tracking in wanted.items():
        typer.echo(_said(home, tracking, log_run(home, tracking)))


def tracking_of(home: Path) -> Tracking:
    """What a party's private file says of logging, which its run folder remembers."""
    return load_private(private_path(home)).tracking


def track_finished(settings: Mapping[Path, Tracking], *, quiet: bool) -> None:
    """Log those parties' sides of a run that want it; if that fails, the run has finished all the same."""
    for home, tracking in settings.items():
        if tracking.mlflow is None:
            continue
        try:
            said = _said(home, tracking, log_run(home, tracking))
        except UnpooledError as error:
            typer.echo(f"warning: {error}\nto log it later: unpooled track {shlex.quote(str(home))}", err=True)
        else:
            if not quiet:
                typer.echo(said)


def _said(home: Path, tracking: Tracking, run: str) -> str:
    return f"logged: {home} to {tracking.place}, experiment {tracking.experiment}, run {run}"
