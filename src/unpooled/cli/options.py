"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print errors only.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
