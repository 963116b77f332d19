"""What a command says once a job has finished: the figures that matter, then where the files are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer
from rich.filesize import decimal

from unpooled.drawing.html import duration
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.run_files import RunFiles
from unpooled.jobs.work import Result
from unpooled.report.gather import gather
from unpooled.report.page import write_report


def say_done(folder: Path, results: Mapping[str, Result], quiet: bool, as_json: bool) -> None:
    """Write the report and say what came out at each party, how much it sent and how long the run took."""
    files = gather(folder)
    report = write_report(folder, files)
    headline = kind_named(files.plan.kind).headline
    figures = {party: headline(result) for party, result in results.items()}
    sent = {party: _sent(files, party) for party in results}
    began, ended = files.started, files.ended
    if as_json:
        content = {
            "run": str(folder),
            "report": str(report),
            "seconds": (ended - began).total_seconds() if began and ended else None,
            "sent_bytes": sent,
            "figures": {party: {figure.name: figure.value for figure in said} for party, said in figures.items()},
            "results": results,
        }
        typer.echo(json.dumps(content))
    elif not quiet:
        for party, said in figures.items():
            words = [figure.words for figure in said]
            typer.echo(f"{party}: {', '.join([*words, f'{decimal(sent[party])} sent'])}")
        if began and ended:
            typer.echo(f"took:   {duration(began, ended)}{', since it was last resumed' if files.resumed else ''}")
        typer.echo(f"run:    {folder}")
        typer.echo(f"report: {report}")


def _sent(files: RunFiles, party: str) -> int:
    return sum(size for (sender, _), size in files.flows.items() if sender == party)
