"""A check's own section of the report: the parties' tables, and the connections between them."""

from __future__ import annotations

from pathlib import Path

from unpooled.drawing.html import render
from unpooled.drawing.words import many
from unpooled.jobs.check.job import CheckResult, Parameters
from unpooled.jobs.run_files import Figure, RunFiles, Section, result_of
from unpooled.jobs.work import Result

_TEMPLATE = Path(__file__).with_name("section.html")


def headline(result: Result) -> list[Figure]:
    """How many rows the party has, and the slowest connection that it measured."""
    said = []
    if table := result["table"]:
        said.append(Figure("rows", table["rows"], many(table["rows"], "row")))
    if speeds := [link["megabytes_per_second"] for link in result["links"]]:
        slowest = f"slowest of {many(len(speeds), 'connection')}: {min(speeds):g} MB/s"
        said.append(Figure("slowest_megabytes_per_second", min(speeds), slowest))
    return said


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What the results of a check say: every party's, None where there is none, and all connections."""
    results = {name: result_of(party, CheckResult) for name, party in run.parties.items()}
    connections = [(name, link) for name, result in results.items() if result for link in result.links]
    html = render(_TEMPLATE, run=run, results=results, connections=connections, round_trips=parameters.round_trips)
    return Section("", html)
