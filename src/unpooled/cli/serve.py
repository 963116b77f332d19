"""`unpooled serve`: a party's service, and what its administrator does at a terminal."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from unpooled.errors import InputError

serve_app = typer.Typer(
    help="Run this party's service: plans are offered and approved in a browser, runs start and resume by themselves.",
    invoke_without_command=True,
)

_STATE = Path("~/.local/state/unpooled/service")
State = Annotated[
    Path,
    typer.Option(
        "--state",
        metavar="DIR",
        envvar="UNPOOLED_SERVICE",
        callback=Path.expanduser,
        help="The service's state folder.",
    ),
]
ConsoleAt = Annotated[
    str | None,
    typer.Option(
        "--console", metavar="HOST:PORT", help="Where the console of a new service listens. Default: 127.0.0.1:7480."
    ),
]
Attached = Annotated[bool, typer.Option(hidden=True, help="End when standard input closes.")]
Archive = Annotated[Path, typer.Argument(metavar="FILE", help="The archive, for example backup.tar.gz.")]


@serve_app.callback()
def serve(context: typer.Context, state: State = _STATE, console: ConsoleAt = None, attached: Attached = False) -> None:
    """Run this party's service until it is stopped; its console is a page in a browser.

    A new service prints an address for setting it up. Everything it keeps is in its state folder. See docs/serve.md.
    """
    if context.invoked_subcommand is not None:
        source = context.get_parameter_source("state")
        if source and source.name == "COMMANDLINE":  # the command would not see it
            raise InputError(f"--state: write it after {context.invoked_subcommand}")
        return
    with _packages():
        from unpooled.serve.console.server import run_server
    run_server(state, console, attached=attached, say=typer.echo)


@serve_app.command()
def backup(file: Archive, state: State = _STATE) -> None:
    """Write the whole state of a service, its keys included, into one archive; also while the service runs."""
    with _packages():
        from unpooled.serve.folder import StateFolder
        from unpooled.serve.state.backup import make_backup
    size = make_backup(StateFolder(state), file)
    typer.echo(f"{file}: {size:,} bytes; it holds this party's keys, so keep it as you keep these")


@serve_app.command()
def restore(file: Archive, state: State = _STATE) -> None:
    """Restore a service from an archive into an empty state folder.

    Jobs that were open are cancelled, sessions and tokens end, and peers learn that the service has begun anew.
    """
    with _packages():
        from unpooled.serve.folder import StateFolder
        from unpooled.serve.state.backup import restore as restore_backup
    party = restore_backup(file, StateFolder(state))
    typer.echo(f"{state}: the service of {party} is restored; start it with: unpooled serve --state {state}")


@serve_app.command()
def password(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the account.")], state: State = _STATE
) -> None:
    """Give somebody a new password, as whoever has the machine may; it is asked for twice."""
    with _packages():
        from argon2 import PasswordHasher

        from unpooled.serve.accounts.people import existing, reset_password
        from unpooled.serve.folder import StateFolder
        from unpooled.serve.settings import load_settings
        from unpooled.serve.state.database import open_database
    folder = StateFolder(state)
    load_settings(folder)
    database = open_database(folder.database)
    try:
        with database.reading() as connection:
            existing(connection, name)
        first = getpass.getpass(f"New password of {name}: ")
        if first != getpass.getpass("The same again: "):
            raise InputError("the two passwords differ; nothing was changed")
        reset_password(database, PasswordHasher(), "service", name, first)
    finally:
        database.close()
    typer.echo(f"{name} has a new password, and was signed out everywhere")


@serve_app.command()
def verify(state: State = _STATE) -> None:
    """Check that the audit log, the ledger and the books of a service are what they were when they were written.

    Exit code 1: one of them is not.
    """
    with _packages():
        from unpooled.serve.folder import StateFolder
        from unpooled.serve.state.verifying import verified
    found = verified(StateFolder(state))
    for one in found:
        typer.echo(f"{one.what}: {one.problem or one.found}")
    if any(one.problem for one in found):
        raise typer.Exit(1)


@contextmanager
def _packages() -> Iterator[None]:
    """For the imports of a command: say what to install, or that there is no service here."""
    if sys.platform == "win32":
        raise InputError("serve: Windows is not supported; use Linux or macOS")
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs more packages ({error.name}): pip install 'unpooled[serve]'") from None
