"""`unpooled jobs`: jobs of this party's service, by its JSON interface."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import tomllib
from http.client import HTTPResponse
from pathlib import Path
from typing import Annotated, Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

import typer
from rich.console import Console
from rich.table import Table as Grid

from unpooled import atomic
from unpooled.cli.options import Json
from unpooled.errors import InputError

jobs_app = typer.Typer(
    no_args_is_help=True,
    help="Jobs of this party's service: draft, offer, approve and follow them from a terminal or a program.",
    epilog="The service is named by --service or UNPOOLED_CONSOLE. A token, made under “Your account” there, is "
    "in the file that --token-file names, or in UNPOOLED_TOKEN.",
)

_TOKEN = "UNPOOLED_TOKEN"  # noqa: S105
_SECONDS = 60.0
Service = Annotated[
    str, typer.Option("--service", metavar="URL", envvar="UNPOOLED_CONSOLE", help="The console's address.")
]
TokenFile = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help=f"A file with the token. Default: ${_TOKEN}.")
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id.")]
Why = Annotated[str, typer.Option("--reason", help="Why; the other parties are told.")]
_USUAL = "http://127.0.0.1:7480"


@jobs_app.callback()
def _options(context: typer.Context, service: Service = _USUAL, token_file: TokenFile = None) -> None:
    context.obj = _Interface(service.rstrip("/"), token_file)


class _Interface:
    """A service's JSON interface, with a token."""

    def __init__(self, service: str, token_file: Path | None) -> None:
        if urlsplit(service).scheme not in ("http", "https"):
            raise InputError("--service: an address begins with http:// or https://")
        self._service = service
        self._token_file = token_file

    def ask(self, method: str, path: str, content: Any = None) -> Any:
        """What the service answers; an error of the service is raised in its words."""
        with self._open(method, path, content) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def fetch(self, path: str, to: Path) -> None:
        """Write a file that the service sends."""
        with self._open("GET", path) as answer, atomic.replacing(to) as temporary, temporary.open("wb") as file:
            shutil.copyfileobj(answer, file)

    def _open(self, method: str, path: str, content: Any = None) -> HTTPResponse:
        body = None if content is None else json.dumps(content).encode()
        headers = {"Authorization": f"Bearer {self._token()}", "Content-Type": "application/json"}
        request = Request(f"{self._service}/api{path}", body, headers, method=method)  # noqa: S310
        try:
            answer: HTTPResponse = urlopen(request, timeout=_SECONDS, context=self._tls())  # noqa: S310
        except HTTPError as error:
            with error:
                raise InputError(f"{self._service}: {_said(error)}") from None
        except URLError as error:
            raise InputError(f"{self._service} cannot be reached: {error.reason}") from None
        return answer

    def _tls(self) -> ssl.SSLContext | None:
        return ssl.create_default_context() if self._service.startswith("https") else None

    def _token(self) -> str:
        if self._token_file is not None:
            with atomic.naming(self._token_file, "read"):
                return self._token_file.read_text(encoding="utf-8").strip()
        if token := os.environ.get(_TOKEN, "").strip():
            return token
        raise InputError(f"a token is needed: name a file with --token-file, or set {_TOKEN}")


def _said(error: HTTPError) -> str:
    try:
        return str(json.loads(error.read())["error"])
    except (ValueError, KeyError, TypeError):
        return f"it answered with {error.code} {error.reason}"


@jobs_app.command("list")
def list_jobs(
    context: typer.Context,
    state: Annotated[str, typer.Option(help="Only those in this state.")] = "",
    as_json: Json = False,
) -> None:
    """List jobs, the latest first."""
    jobs = context.obj.ask("GET", f"/jobs?state={quote(state)}" if state else "/jobs")
    if as_json:
        typer.echo(json.dumps(jobs))
        return
    grid = Grid("job", "state", "kind", "by", "purpose", box=None, pad_edge=False)
    for job in jobs:
        grid.add_row(job["id"], job["state"], job["kind"], job["drafter"], job["purpose"])
    Console(markup=False, emoji=False, highlight=False).print(grid if jobs else "there are no jobs")


@jobs_app.command("show")
def show_job(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Show one job: what was decided, and how far the runs are."""
    _show(context.obj.ask("GET", f"/jobs/{quote(job)}"), as_json)


@jobs_app.command("draft")
def draft_job(
    context: typer.Context,
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="The plan.")],
    purpose: Annotated[str, typer.Option(help="Why the job is proposed; all parties see it.")],
    days: Annotated[int, typer.Option(min=1, max=366, help="How many days the offer is open.")] = 14,
    every: Annotated[str, typer.Option(help="Repeat it every day, week or month.")] = "",
    until: Annotated[str, typer.Option(help="When repeating ends, for example 2027-06-30.")] = "",
    offer: Annotated[bool, typer.Option("--offer", help="Offer it to the other parties at once.")] = False,
    as_json: Json = False,
) -> None:
    """Draft a job from a plan."""
    with atomic.naming(plan, "read"):
        text = plan.read_text(encoding="utf-8")
    content = {"purpose": purpose, "plan": text, "days": days, "every": every, "until": until}
    job = context.obj.ask("POST", "/jobs", content)
    if offer:
        job = context.obj.ask("POST", f"/jobs/{job['id']}/offer")
    _show(job, as_json)


@jobs_app.command("approve")
def approve_job(
    context: typer.Context,
    job: JobId,
    choices: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A TOML file with what is chosen: table, target, weight, model, earlier, [generate], [consent]. A "
            "coordinator needs none.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Approve a job with a table and what others may learn."""
    content: dict[str, Any] = {}
    if choices:
        with atomic.naming(choices, "read"):
            try:
                content = tomllib.loads(choices.read_text(encoding="utf-8"))
            except tomllib.TOMLDecodeError as error:
                raise InputError(f"{choices}: not TOML: {error}") from None
    _show(context.obj.ask("POST", f"/jobs/{quote(job)}/approve", {"choices": content}), as_json)


@jobs_app.command("offer")
def offer_job(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Offer a draft to the other parties."""
    _show(context.obj.ask("POST", f"/jobs/{quote(job)}/offer"), as_json)


@jobs_app.command("decline")
def decline_job(context: typer.Context, job: JobId, reason: Why, as_json: Json = False) -> None:
    """Decline a job that has not begun."""
    _show(context.obj.ask("POST", f"/jobs/{quote(job)}/decline", {"reason": reason}), as_json)


@jobs_app.command("pause")
def pause_job(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Let a job pause at all parties; what is done so far is kept."""
    _show(context.obj.ask("POST", f"/jobs/{quote(job)}/pause"), as_json)


@jobs_app.command("continue")
def continue_job(context: typer.Context, job: JobId, as_json: Json = False) -> None:
    """Let a job go on that was paused, or failed and can be resumed."""
    _show(context.obj.ask("POST", f"/jobs/{quote(job)}/continue"), as_json)


@jobs_app.command("cancel")
def cancel_job(context: typer.Context, job: JobId, reason: Why, as_json: Json = False) -> None:
    """End a job for all parties."""
    _show(context.obj.ask("POST", f"/jobs/{quote(job)}/cancel", {"reason": reason}), as_json)


@jobs_app.command("fetch")
def fetch_files(
    context: typer.Context,
    job: JobId,
    folder: Annotated[Path, typer.Option("--to", metavar="DIR", help="Where to put the files.")],
    name: Annotated[str, typer.Option(help="Only this file.")] = "",
) -> None:
    """Fetch the files of a job's latest run: list, ranking, predictions, report, ledger."""
    files = [name] if name else context.obj.ask("GET", f"/jobs/{quote(job)}/files")["files"]
    if not files:
        raise InputError("this job has no files yet")
    atomic.make_folder(folder)
    for file in files:
        context.obj.fetch(f"/jobs/{quote(job)}/files/{quote(file)}", folder / Path(file).name)
        typer.echo(str(folder / Path(file).name))


def _show(job: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(job))
        return
    console = Console(markup=False, emoji=False, highlight=False)
    console.print(f"{job['id']}  {job['kind']}, {job['state']}")
    console.print(f"offered by {job['drafter']} ({job['drafted_by']}): {job['purpose']}")
    for decision in job["decisions"]:
        reason = f": {decision['reason']}" if decision["reason"] else ""
        console.print(f"  {decision['party']}: {decision['choice']} by {decision['by']}{reason}")
    for run in job["runs"]:
        error = f": {run['error']}" if run["error"] else ""
        console.print(f"  run of {run['party']}: {run['state']}, attempt {run['attempt']}{error}")
    if job["reason"]:
        console.print(f"ended: {job['reason']}")
