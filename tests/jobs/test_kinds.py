"""Kinds of job: each has all that is asked of it, nothing else knows them by name, and a new one takes one folder."""

from __future__ import annotations

import ast
import re
import tomllib
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import Field
from typer.testing import CliRunner

import unpooled
from unpooled.cli import app
from unpooled.data.table import table_from_frame
from unpooled.drawing.html import render
from unpooled.errors import PlanError
from unpooled.jobs import kinds
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.examples.templates import job_template
from unpooled.jobs.files import load_job
from unpooled.jobs.kind import (
    Agreement,
    Example,
    Kind,
    any_rows,
    any_table,
    as_planned,
    no_answers,
    no_files,
    nothing_said,
    own_table,
)
from unpooled.jobs.kinds import KINDS, kind_named
from unpooled.jobs.learning.scores import RowFile, write_rows
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.run_files import Figure, RunFiles
from unpooled.jobs.run_files import Section as Drawn
from unpooled.jobs.work import Work
from unpooled.report.page import write_report
from unpooled.run.simulate import simulate_job
from unpooled.session import Session
from unpooled.settings import Section
from unpooled.wire import message

SOURCE = Path(unpooled.__file__).parent
COMMANDS = {("evaluate.py", "'lookalike'"), ("__init__.py", "'check'")}
"""A command that is called like the kind whose list it looks at."""
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_kind_has_its_folder_and_its_page(kind: Kind[Any]) -> None:
    assert kind.parameters.__module__.startswith(f"unpooled.jobs.{kind.name}.")
    assert kind.summary.endswith(".")
    assert "active" in kind.needs
    assert set(kind.needs) <= set(kind.takes)
    assert set(kind.private_needs) | set(kind.consents) | set(kind.example.private) <= set(kind.takes)
    page, _, anchor = kind.page.partition("#")
    text = (DOCS / page).read_text(encoding="utf-8")
    headings = [re.sub(r"[^\w-]", "", line.lower().replace(" ", "-")) for line in re.findall(r"^#+ (.*)$", text, re.M)]
    assert f"`{kind.name}`" in text or kind.name in page or not anchor
    assert not anchor or anchor in headings


def test_a_kind_leaves_nothing_out() -> None:
    named = {field.name: getattr(KINDS[0], field.name) for field in fields(Kind)}
    for missing in named:
        with pytest.raises(TypeError, match=missing):
            Kind(**{name: value for name, value in named.items() if name != missing})


def test_no_other_module_knows_the_kinds_by_name() -> None:
    names = {kind.name for kind in KINDS}
    for path in (path for part in ("jobs", "run", "report", "cli") for path in (SOURCE / part).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            told = isinstance(node, ast.Constant) and node.value in names
            assert not told or (path.name, ast.unparse(node)) in COMMANDS, f"{path}:{getattr(node, 'lineno', 0)}"


RESULTS: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "align": ({"rows": 900, "common": 700, "positives": 40}, {"common": 700, "positives": 40}),
    "check": (
        {"table": {"rows": 900}, "links": [{"megabytes_per_second": 80.0}, {"megabytes_per_second": 20.5}]},
        {"rows": 900, "slowest_megabytes_per_second": 20.5},
    ),
    "complete": (
        {"common": 70, "others": 900, "cells": {"predicted": 4, "generated": 3}},
        {"common": 70, "others": 900, "predicted": 4, "generated": 3},
    ),
    "deliver": (
        {"listed": 30, "expected": {"precision": 0.625}},
        {"listed": 30, "expected_precision": 0.625},
    ),
    "information": (
        {"common": 700, "columns": [{"iv": 0.3}, {"iv": 0.019}], "lent": {"telco": [0.02, 0.0]}},
        {"common": 700, "useful": 2},
    ),
    "lookalike": (
        {"common": 700, "positives": 40, "listed": 30, "judged": {"listed": {"precision": 0.5}}},
        {"common": 700, "positives": 40, "listed": 30, "precision": 0.5},
    ),
    "predict": ({"common": 700, "metrics": {"new": {"mae": 2.0, "r2": 0.4}}}, {"common": 700, "r2": 0.4}),
    "train": ({"common": 700, "metrics": {"test": {"f1": 0.3, "auc": 0.8}}}, {"common": 700, "auc": 0.8}),
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_says_the_figures_that_matter_at_the_end(kind: Kind[Any]) -> None:
    result, expected = RESULTS[kind.name]
    figures = kind.headline(result)
    assert {figure.name: figure.value for figure in figures} == expected
    assert all(figure.words for figure in figures)


# A kind that is made up: every party greets the active one


@message(discloses="a greeting", to="the active party")
class Greeting:
    text: str


class Parameters(Section):
    text: str = Field("hello", description="how parties greet the active one")


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    return [Exchange(party, plan.active, Greeting, 1, 50) for party in plan.parties if party != plan.active]


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    if session.party != work.plan.active:
        session.send(work.plan.active, Greeting(work.parameters.text))
        return {"greetings": {}}
    greetings = {peer: session.recv(peer, Greeting).text for peer in session.peers}
    write_rows(work.folder / "greeters.csv", pl.DataFrame({"id": list(greetings)}), {"number": pl.Series([7])})
    return {"greetings": greetings}


def section(run: RunFiles, parameters: Parameters) -> Drawn:
    heard = run.results([run.plan.active], dict[str, dict[str, str]])
    greetings = heard[run.plan.active]["greetings"] if heard else {}
    headline = f"{run.plan.active} heard “{parameters.text}” {len(greetings)} times."
    return Drawn(headline, render(Path(parameters.text + ".html"), greetings=greetings))


GREET = Kind(
    name="greet",
    summary="Greet the active party.",
    page="jobs.md",
    parameters=Parameters,
    takes=("active", "passive", "coordinator"),
    needs=("active", "passive"),
    products=False,
    other_rows=False,
    by_column=True,
    outline=outline,
    role=role,
    tables={"greeters": RowFile("greeters.csv")},
    private_needs={"active": ("target",)},
    consents={"passive": (Agreement("found", "{active} hears from {party}"),)},
    table=own_table,
    check_files=no_files,
    check_table=any_table,
    check_common=any_rows,
    answers=no_answers,
    said_before=nothing_said,
    audit=None,
    groups=lambda _: [],
    rehearsed=as_planned,
    example=Example(
        tables=CUSTOMERS,
        parameters={},
        paillier_parameters={},
        private={"active": {"target": "of-{party}"}},
        seeded=False,
        judge=None,
    ),
    headline=lambda result: [Figure("greetings", len(result["greetings"]), f"{len(result['greetings'])} greetings")],
    section=section,
)
ROLES = {"telco": "passive", "bank": "active"}
PRIVATES: dict[str, dict[str, Any]] = {"telco": {"consent": {"found": True}}, "bank": {"target": "x"}}


@pytest.fixture
def greet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The text of greetings, which is also where this kind's template is."""
    monkeypatch.setattr(kinds, "KINDS", (*KINDS, GREET))
    (tmp_path / "hello.html").write_text(
        "{% for name, text in greetings.items() %}<p>{{ name }}: <b>{{ text }}</b></p>{% endfor %}"
    )
    return str(tmp_path / "hello")


def plan_of(greet: str, **roles: str) -> Plan:
    parties = {name: {"role": role} for name, role in (roles or ROLES).items()}
    return Plan.model_validate({"kind": "greet", "parties": parties, "parameters": {"text": greet}})


def test_a_new_kind_has_example_files_and_a_dry_run(greet: str, tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["job"]).stdout.splitlines()[-1].split(maxsplit=1) == ["greet", GREET.summary]
    template = job_template("greet")
    content = tomllib.loads(template)
    assert list(content["parties"]) == ["telco", "bank", "coordinator"]
    assert (content["private"]["bank"]["target"], content["private"]["telco"]["consent"]) == (
        "of-bank",
        {"found": True},
    )
    assert "# how parties greet the active one" in template
    (tmp_path / "job.toml").write_text(template)
    for party in ("telco", "bank"):
        (tmp_path / f"{party}.csv").write_text("customer,region\n" + "".join(f"{row},north\n" for row in range(30)))
    said = CliRunner().invoke(app, ["run", str(tmp_path / "job.toml"), "--dry-run"], catch_exceptions=False).stdout
    assert "bank learns from telco and coordinator: a greeting" in said
    assert load_job(tmp_path / "job.toml").plan.kind == "greet"


def test_a_new_kind_runs_and_has_a_section(greet: str, tmp_path: Path) -> None:
    privates = {name: Private.model_validate(own) for name, own in PRIVATES.items()}
    frame = pl.DataFrame({"id": range(40), "x": range(40)})
    tables = {name: table_from_frame(frame, "id", name) for name in ROLES}
    outcome = simulate_job(plan_of(greet), privates, tables, tmp_path / "run")
    assert outcome.results["bank"] == {"greetings": {"telco": greet}}
    assert outcome.tables["bank"]["greeters"].rows() == [("telco", 7)]
    assert outcome.tables["telco"] == {}
    page = write_report(tmp_path / "run").read_text(encoding="utf-8")
    assert f'<p class="lead">bank heard “{greet}” 1 times.</p>' in page
    assert f"<p>telco: <b>{greet}</b></p>" in page


def test_a_new_kinds_needs_are_checked(greet: str) -> None:
    table = {"table": {"path": "x.csv", "id": "id"}}
    good = {name: Private.model_validate(own | table) for name, own in PRIVATES.items()}
    for party, private in good.items():
        checked(plan_of(greet), party, private)
    bare = Private.model_validate(table)
    for party, key in (("bank", "target"), ("telco", "found: bank hears from telco")):
        with pytest.raises(PlanError, match=f"{party}: .*{key}"):
            checked(plan_of(greet), party, bare)
    with pytest.raises(PlanError, match=r"parties\.shop: greet has no seeker"):
        checked(plan_of(greet, shop="seeker", **ROLES), "bank", good["bank"])
    with pytest.raises(PlanError, match="greet needs a party with the role passive"):
        checked(plan_of(greet, bank="active", helper="coordinator"), "bank", good["bank"])


def test_a_kind_that_is_not_there_is_refused() -> None:
    with pytest.raises(PlanError, match="there is no such kind; there are: align"):
        kind_named("greet")
