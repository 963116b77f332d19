"""`unpooled serve`: a party's service, and what its administrator does at a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unpooled.errors import InputError

serve_app = typer.Typer(
    help="Run this party's service: an inbox for plans, approvals in a browser, runs that start and resume by themselves.",
    invoke_without_command=True,
)

_STATE = Path.home() / ".local" / "state" / "unpooled" / "service"
State = Annotated[
    Path, typer.Option("--state", metavar="DIR", envvar="UNPOOLED_SERVICE", help="The service's state folder.")
]
