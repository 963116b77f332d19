"""`unpooled serve`: a party's service, and what its administrator does at a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from unpooled.errors import InputError

serve_app = typer.Typer(
    help="Run this party's service: plans are offered and approved in a browser, runs start and resume by themselves.",
    invoke_without_command=True,
)

_STATE = Path.home() / ".local" / "state" / "unpooled" / "service"
State = Annotated[
    Path, typer.Option("--state", metavar="DIR", envvar="UNPOOLED_SERVICE", help="The service's state folder.")
]
Attached = Annotated[bool, typer.Option(hidden=True, help="End when standard input closes.")]


@serve_app.callback()
def serve(context: typer.Context, state: State = _STATE, attached: Attached = False) -> None:
    """Run this party's service until it is stopped; its console is a page in a browser.

    A new service prints an address for setting it up. Everything it keeps is in its state folder. See docs/serve.md.
    """
    if context.invoked_subcommand is not None:
        return
    if sys.platform == "win32":
        raise InputError("serve: Windows is not supported; use Linux or macOS")
    try:
        from unpooled.serve.console.server import run_server
    except ModuleNotFoundError as error:
        raise InputError(f"serve needs more packages ({error.name}): pip install 'unpooled[serve]'") from None
    run_server(state, attached=attached, say=typer.echo)
