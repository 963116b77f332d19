"""What a job will cost, as the dry run shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.filesize import decimal

from unpooled.errors import UnpooledError
from unpooled.jobs.work import CheckedJob
from unpooled.run.forecast import Forecast, forecast

Common = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="With --dry-run: how many rows the parties have in common. Default: counted if all tables are here, else "
        "guessed.",
    ),
]
NoForecast = Annotated[
    bool, typer.Option("--no-forecast", help="With --dry-run: do not forecast messages, bytes, CPU time and memory.")
]


def expected(
    jobs: Sequence[CheckedJob[Any]], common: int | None, *, skip: bool = False, quiet: bool = False
) -> Forecast | str:
    """The forecast, or why there is none: nothing that goes wrong in it fails a dry run."""
    if skip:
        return "not asked for"
    console = Console(stderr=True, quiet=quiet)
    try:
        with console.status("rehearsing the job with a few rows, to forecast what it takes"):
            return forecast(jobs, common)
    except UnpooledError as error:
        return str(error)
    except Exception:
        return "internal error in the rehearsal"


def in_words(found: Forecast | str) -> list[str]:
    """The forecast in lines, with its assumptions."""
    if isinstance(found, str):
        return [f"No forecast: {found}."]
    more = f" and {found.others:,} others" if found.others else ""
    lines = [f"Forecast, with {found.common:,} common rows{more}; real figures may be half or twice as high:"]
    for party, cost in found.parties.items():
        seconds = f"{cost.cpu_seconds:,.0f} s" if cost.cpu_seconds < 600 else f"{cost.cpu_seconds / 60:,.0f} min"
        lines.append(
            f"{party}: {cost.messages:,} messages, sends {decimal(cost.sent_bytes)}, receives "
            f"{decimal(cost.received_bytes)}, CPU {seconds}, memory {decimal(round(cost.peak_memory_mb * 1e6))}"
        )
    return [*lines, *(f"Guessed: {guess}." for guess in found.guesses)]


def as_json(found: Forecast | str) -> dict[str, Any]:
    """The same as JSON values."""
    if isinstance(found, str):
        return {"none": found}
    parties = {party: vars(cost) for party, cost in found.parties.items()}
    return {"common": found.common, "others": found.others, "guesses": list(found.guesses), "parties": parties}
