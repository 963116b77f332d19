"""Activations in the job: foretold, agreed to, within limits over all runs, and the same after an interruption."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from outlines import check_outline
from typer.testing import CliRunner

from unpooled import control
from unpooled.arrays import Floats
from unpooled.budget.accounts import account_of
from unpooled.budget.book import Book
from unpooled.budget.places import Places
from unpooled.budget.spending import About, begin_spending
from unpooled.cli import app
from unpooled.complete.vf_gain import protocol
from unpooled.complete.vf_gain.privacy import Noise
from unpooled.complete.vf_gain.protocol import Activations, GradientComes
from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.jobs.checks import check_fits, checked
from unpooled.jobs.complete import activating
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.over_runs import check_over_runs, said
from unpooled.jobs.plan import fields_of
from unpooled.jobs.preflight import loaded, preflight_together
from unpooled.jobs.private import Private
from unpooled.ledger import read_ledger
from unpooled.run.conversation import role_of
from unpooled.run.forecast import forecast
from unpooled.run.simulate import simulate_job, simulate_roles
from unpooled.secure.engine import Stop

FOUR = ("clinic", "registry", "insurer", "coordinator")
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
SOME = {"columns": ["lab", "visits"]}
EVERY = {"columns": ["lab", "visits", "seen", "smoker", "stage", "ward"]}
ONE = {"units": 1}
LENDS = {"consent": {"values": True, "activations": True}}
LOOSE = {"units": 2, "epsilon": 1000.0, "column_limit": 1.0}
"""Hardly any noise."""


# What is said


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(SOME | {"engine": "plain"}, id="plain"),
        pytest.param(SOME | {"parties": FOUR}, id="shares, two passive parties"),
        pytest.param(SOME | {"parties": FOUR} | PAILLIER, id="paillier, two passive parties"),
        pytest.param(EVERY | {"engine": "plain"}, id="nothing is left to fill"),
        pytest.param(SOME | {"model": {"learner": "linear"}}, id="linear"),
    ],
)
def test_the_outline_is_what_is_said(completing: Any, settings: dict[str, Any]) -> None:
    plan = completing.plan(activations=ONE, **settings)
    outcome = completing.run(plan)
    check_outline(outline_of(plan), outcome.ledgers)
    for party in plan.owners:
        told = outcome.results[party]["activations"]
        assert set(told) == {"epsilon", "delta", "units", "rows"}
        assert (told["units"], told["rows"]) == (1, 160)
    for party in plan.with_role("passive"):
        entries = outcome.ledgers[party].entries
        assert {e.scope.split("/")[0] for e in entries if e.kind in ("Activations", "GradientComes")} == {"activations"}
    assert outcome.tables["clinic"]["completed"].null_count().sum_horizontal().item() == 0


def test_without_activations_in_the_plan_none_are_sent(completing: Any) -> None:
    outcome = completing.run(completing.plan(engine="plain", **SOME))
    assert "Activations" not in {e.kind for record in outcome.ledgers.values() for e in record.entries}
    assert "activations" not in outcome.results["registry"]


def test_completers_use_them_for_people_whom_the_clinic_lacks(completing: Any) -> None:
    def found(name: str, **parameters: Any) -> float:
        plan = completing.plan(columns=["ward"], engine="plain", **parameters)
        clinic = {"generate": {"completer": {"completer": "iterative"}}}
        tables = completing.run(
            plan, name, clinic=clinic, registry=LENDS | {"policy": {"maximum_epsilon": 1000}}
        ).tables
        ids = tables["registry"]["handles"].join(completing.frames["registry"], on="id", maintain_order="left")
        visits = tables["clinic"]["completed"]["visits"][130:].cast(pl.Float64).to_numpy()
        return float(np.corrcoef(visits, ids["weight"][130:])[0, 1]) if visits.std() else 0.0

    assert found("with", activations=LOOSE) > 0.5
    assert abs(found("without")) < 0.5


def test_cells_that_do_not_differ_have_a_gradient_of_0() -> None:
    for cells in (np.ones((120, 2)), np.empty((120, 0)), np.full((120, 1), np.nan)):
        assert (protocol.gradient_of(cells, 3) == np.zeros((120, 1))).all()


# What is refused before the start


def dry_run(completing: Any, plan: Any, frames: dict[str, pl.DataFrame] | None = None, **privates: Any) -> None:
    made, tables = completing.privates(plan, **privates), completing.tables(plan, **(frames or {}))
    jobs = [checked(plan, party, made[party], tables.get(party)) for party in plan.parties]
    for job in jobs:
        kind_named("complete").check_files(job)
    preflight_together(jobs)


def nothing_was_sent(completing: Any) -> bool:
    """By the registry, besides what begins and ends every job."""
    record = read_ledger(completing.root / "run" / "registry" / "ledger.jsonl")
    return {e.kind for e in record.entries if e.way == "sent"} <= control.KINDS


def test_more_epsilon_than_a_party_allows(completing: Any) -> None:
    plan = completing.plan(activations={"epsilon": 3.0, "units": 1}, engine="shares", **SOME)
    policy = {"registry": LENDS | {"policy": {"maximum_epsilon": 2.5}}}
    for begin in (dry_run, lambda *given, **more: completing.run(*given[1:], **more)):
        with pytest.raises(RefusedError, match=r"registry .* at most epsilon = 2.5 \(policy.maximum_epsilon\), .* 3:"):
            begin(completing, plan, **policy)
    assert nothing_was_sent(completing)
    dry_run(completing, plan, registry=LENDS | {"policy": {"maximum_epsilon": 3}})


def test_as_many_units_as_a_party_has_columns(completing: Any) -> None:
    plan = completing.plan(activations={"units": 3}, engine="shares", **SOME)
    said = r"^registry: .*: it has 3 columns, .* activations have 3 units"
    with pytest.raises(InputError, match=said):
        dry_run(completing, plan)
    with pytest.raises(InputError, match=said):
        completing.run(plan)
    assert nothing_was_sent(completing)


def test_a_package_that_is_missing_at_a_passive_party(completing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InputError, match=r"^registry: activations .*pip install 'unpooled\[generate\]'"):
        dry_run(completing, completing.plan(activations=ONE, **SOME))
    dry_run(completing, completing.plan(**SOME))


def test_too_few_common_rows(completing: Any) -> None:
    plan, frames = completing.plan(activations=ONE, **SOME), {"clinic": completing.frames["clinic"][:90]}
    with pytest.raises(RefusedError, match="registry takes part in a gradient over at least 100 common rows"):
        dry_run(completing, plan, frames)


def test_a_passive_party_must_agree(completing: Any) -> None:
    plan = completing.plan(activations=ONE, **SOME)
    only = Private.model_validate({"consent": {"values": True}, "table": {"path": "a.csv", "id": "id"}})
    with pytest.raises(PlanError, match=r"^registry: consent.activations: clinic gets .*epsilon.*without activations"):
        check_fits(plan, "registry", only)
    check_fits(completing.plan(**SOME), "registry", only)
    check_fits(plan, "coordinator", Private())


def test_the_dry_run_says_what_epsilon_means(completing: Any, tmp_path: Path) -> None:
    for party in ("clinic", "registry"):
        completing.frames[party].write_csv(tmp_path / f"{party}.csv")
    (tmp_path / "job.toml").write_text(JOB)
    shown = CliRunner().invoke(app, ["run", str(tmp_path / "job.toml"), "--dry-run", "--no-forecast"])
    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.output.split())
    assert "epsilon = 2: activations change the odds" in text
    assert "delta = 1e-06" in text
    assert "a few numbers for each row, made of the sender's columns" in text


# Over all runs


@pytest.fixture
def kept(completing: Any, tmp_path: Path) -> tuple[Any, Places, dict[str, Private]]:
    """A plan, where books are, and private settings with tables on disk."""
    plan = completing.plan(activations={"units": 1, "epsilon": 3.0}, engine="plain", **SOME)
    for party in plan.owners:
        completing.frames[party].write_csv(tmp_path / f"{party}.csv")
    tables = {party: {"table": {"path": tmp_path / f"{party}.csv", "id": "id"}} for party in plan.owners}
    privates = completing.privates(plan, **{"registry": LENDS, **tables})
    agreed = {"registry": LENDS, "clinic": {"consent": {"rows": True}}}
    for party in plan.owners:
        privates[party] = Private.model_validate(tables[party] | agreed[party] | {"seed": 1})
    return plan, Places(tmp_path / "books", tmp_path / "anchors"), privates


def test_epsilon_is_added_up_in_the_book_of_the_table(
    kept: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, places, privates = kept

    def check(party: str, plan: Any = plan) -> list[str]:
        job = loaded(checked(plan, party, privates[party]))
        standing = check_over_runs(job, job.table, places)
        assert standing is not None
        return list(said(party, standing))

    for number in (1, 2):
        assert check("registry")
        simulate_job(plan, privates, folder=tmp_path / f"{number}", books=places)
        account = account_of(Book(str(tmp_path / "registry.csv"), places).read())
        assert account.amount("epsilon") == 3.0 * number
    refused = r"registry sends at most 8 epsilon of activations over all its runs \(policy.maximum_total_epsilon\)"
    with pytest.raises(RefusedError, match=refused + "; earlier runs have sent 6, and the plan has 3"):
        check("registry")
    with pytest.raises(RefusedError, match=refused):
        simulate_job(plan, privates, folder=tmp_path / "3", books=places)
    ledger = (tmp_path / "3" / "registry" / "ledger.jsonl").read_text()
    assert "GradientComes" in ledger
    assert "Activations" not in ledger
    without = plan.model_copy(update={"parameters": {**plan.parameters, "activations": None}})
    assert any("6 of 8 epsilon of activations sent" in line for line in check("registry", without))
    assert check("clinic"), "which sends none"
    for name, value in places.environment.items():
        monkeypatch.setenv(name, value)
    shown = CliRunner().invoke(app, ["budget", str(tmp_path / "registry.csv")])
    assert "epsilon of activations sent" in shown.output
    assert "6 of 8" in shown.output


def test_a_resumed_run_is_not_counted_twice(kept: Any, tmp_path: Path) -> None:
    plan, places, privates = kept
    book, root = Book(str(tmp_path / "registry.csv"), places), tmp_path / "run"

    def go(*, resume: bool, guards: dict[str, Any] | None = None) -> None:
        roles = {}
        for party in plan.parties:
            (root / party).mkdir(parents=True, exist_ok=True)
            about = About(party, "complete", "digest of the plan", {})
            limits = privates[party].policy
            counted = begin_spending(root / party, book, limits, about, resume=resume) if party == "registry" else None
            job = checked(plan, party, privates[party])
            roles[party] = role_of(job, root / party, resume=resume, spending=counted)
        fields = fields_of(plan, parameters_of(plan))
        simulate_roles(roles, fields=fields, guards=guards, timeout=600, folder=tmp_path / f"ledgers {resume}")

    class Killed(BaseException):
        pass

    def guard(sent: type, _size: int) -> None:
        if sent is Activations:
            raise Killed

    with pytest.raises(Killed):
        go(resume=False, guards={"registry": guard})
    assert account_of(book.read()).amount("epsilon") == 3.0, "counted before they leave"
    go(resume=True)
    assert account_of(book.read()).amount("epsilon") == 3.0


# Interruptions


@pytest.fixture(scope="module")
def begin(completing_in: Callable[[Path], Any], search: Any, tmp_path_factory: Any) -> Callable[[], Any]:
    def begin() -> Any:
        completing = completing_in(tmp_path_factory.mktemp("run"))
        plan = completing.plan(FOUR, activations=LOOSE | {"units": 1}, columns=["lab"])
        privates = {party: {"policy": {"maximum_epsilon": 1000}} | LENDS for party in ("registry", "insurer")}
        privates["clinic"] = {"consent": {"rows": True}, "generate": {"completer": {"completer": "iterative"}}}
        seeds = {"clinic": 1, "registry": 2, "insurer": 3, "coordinator": 4}
        return search(plan, completing.tables(plan), completing.root, privates=privates, seeds=seeds)

    return begin


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Floats]:
    """What the clinic has received each time."""
    seen: list[Floats] = []
    gather = activating.gather_activations

    def spy(*given: Any) -> Floats:
        seen.append(gather(*given))
        return seen[-1]

    monkeypatch.setattr(activating, "gather_activations", spy)
    return seen


STOPS = [("clinic", Stop, 1), ("registry", Activations, 0), ("clinic", GradientComes, 0)]


@pytest.mark.parametrize(("party", "kind", "arrived"), STOPS)
def test_an_interrupted_run_ends_as_if_it_had_not_been(
    begin: Callable[[], Any], seen: list[Floats], monkeypatch: pytest.MonkeyPatch, party: str, kind: type, arrived: int
) -> None:
    def same_noise(points: Floats, noise: Noise) -> Floats:
        return np.rint(64 * (points / noise.spread + noise.at(np.random.default_rng(5).random(points.shape))))

    monkeypatch.setattr(protocol, "noisy", same_noise)
    whole = begin()
    whole.go()
    run = begin()
    run.stop(party, 0, kind=kind)
    assert len(seen) == 1 + arrived
    run.go()
    assert (seen[0] == seen[-1]).all()
    tables = [one.root / "clinic" / "completed.parquet" for one in (whole, run)]
    assert tables[0].read_bytes() == tables[1].read_bytes()


def test_a_resumed_run_sends_what_it_has_kept_and_asks_for_nothing(
    begin: Callable[[], Any], seen: list[Floats]
) -> None:
    run = begin()
    run.stop("clinic", 0, kind=Stop)
    again = run.go()
    assert (seen[0] == seen[1]).all(), "the noise too"
    in_step = {e.kind for e in again.ledgers["registry"].entries if e.scope.startswith("activations")}
    assert in_step == {"GradientComes", "FeatureCount", "Activations"}


def test_a_party_that_asks_again_and_again_is_refused(begin: Callable[[], Any]) -> None:
    run = begin()
    for _ in range(3):
        run.stop("registry", 0, kind=Activations)
        shutil.rmtree(run.root / "registry" / ".working" / "activations" / "groups")  # as if it had kept nothing
    with pytest.raises(RefusedError, match=r"clinic answers at most 39 columns about the same 130 rows"):
        run.go()


# The forecast


def test_a_forecast_has_them(completing: Any) -> None:
    plan = completing.plan(activations={"units": 1, "epsilon": 9.0}, engine="plain", **SOME)
    made = completing.privates(plan, registry=LENDS | {"policy": {"maximum_epsilon": 9}})
    tables = completing.tables(plan)
    all_here = forecast([checked(plan, party, made[party], tables.get(party)) for party in plan.parties])
    assert all_here.guesses == ()
    outcome = completing.run(plan, registry=LENDS | {"policy": {"maximum_epsilon": 9}})
    sent = sum(entry.bytes for entry in outcome.ledgers["registry"].entries if entry.way == "sent")
    assert 0.6 < all_here.parties["registry"].sent_bytes / sent < 1.6
    alone = forecast([checked(plan, "registry", made["registry"], tables["registry"])])
    assert not any("activations" in guess for guess in alone.guesses)


def test_a_forecast_with_more_units_than_made_up_columns(completing: Any) -> None:
    plan = completing.plan(activations={"units": 6}, engine="plain", **SOME)
    clinic = checked(plan, "clinic", completing.privates(plan)["clinic"], completing.tables(plan)["clinic"])
    assert any("activations are left out" in guess for guess in forecast([clinic]).guesses)


JOB = """
kind = "complete"
[parties]
clinic = {role = "active"}
registry = {role = "passive"}
coordinator = {role = "coordinator"}
[parameters]
columns = ["lab"]
[parameters.activations]
epsilon = 2.0
delta = 1e-6
units = 1
[private.clinic]
consent.rows = true
table = {path = "clinic.csv", id = "id"}
[private.clinic.generate.completer]
completer = "gain"
[private.registry]
consent = {values = true, activations = true}
table = {path = "registry.csv", id = "id"}
[private.coordinator]
"""
