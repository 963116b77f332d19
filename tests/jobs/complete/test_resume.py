"""Completing a table that was interrupted goes on, and gives the same table; nothing is asked for ever."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled import control
from unpooled.complete.association import AssociationRequest, RankNorms
from unpooled.complete.federated import NextRound, NoMoreRounds, PredictedColumns
from unpooled.complete.screening import Screening, Strength, save
from unpooled.data.table import Table
from unpooled.errors import InputError, RefusedError
from unpooled.jobs.complete import job as complete_job
from unpooled.run.simulate import Outcome
from unpooled.secure.shares.dealer import Dealt
from unpooled.vertical.trees.messages import Grown, LentColumns, SplitSides

FOUR = ("clinic", "registry", "insurer", "coordinator")
SEEDS = {"clinic": 1, "registry": 2, "insurer": 3, "coordinator": 4}
COLUMNS = ("id", "lab", "smoker", "ward")
FILES = [f"{name}.parquet" for name in ("completed", "provenance", "confidence", "draws")]
GENERATE = {"draws": 1, "completer": {"completer": "marginal"}}


@pytest.fixture(scope="module")
def begin(completing_in: Callable[[Path], Any], search: Any, tmp_path_factory: Any) -> Callable[..., Any]:
    def begin(**settings: Any) -> Any:
        """A run in folders of its own, of a clinic with three columns."""
        completing = completing_in(tmp_path_factory.mktemp("run"))
        plan = completing.plan(**{"engine": "plain"} | settings)
        columns = COLUMNS[:3] if settings.get("measure") == "cramer" else COLUMNS  # of which there are few classes
        tables = completing.tables(plan, clinic=completing.frames["clinic"].select(columns))
        privates = {"clinic": {"generate": GENERATE}}
        return search(plan, tables, completing.root, privates=privates, seeds=SEEDS)

    return begin


WAYS: dict[str, dict[str, Any]] = {
    "gain": {"associations": True},
    "max": {"measure": "max", "threshold": 0.1},
    "cramer": {"measure": "cramer", "threshold": 0.1, "parties": FOUR},
    "shares": {"measure": "max", "threshold": 0.1, "engine": "shares"},
    "rounds": {"columns": ["lab", "smoker"], "predict": {"rounds": 3, "alpha": 0.1, "confidence": "calibrated"}},
}


@pytest.fixture(scope="module")
def whole(begin: Callable[..., Any]) -> Callable[[str], Any]:
    """Each way once, without an interruption; `outcome` is what came of it."""
    kept: dict[str, Any] = {}

    def whole(way: str) -> Any:
        if way not in kept:
            run = begin(**WAYS[way])
            kept[way] = run, run.go()
        return kept[way]

    return whole


def found(run: Any) -> dict[str, bytes]:
    return {name: (run.root / "clinic" / name).read_bytes() for name in [*FILES, "handles.csv"]}


def received(outcome: Outcome[Any], party: str) -> list[str]:
    return [entry.kind for entry in outcome.ledgers[party].entries if entry.way == "received"]


STOPS = [
    ("gain", "clinic", PredictedColumns, 0),
    ("gain", "registry", SplitSides, 1),
    ("gain", "clinic", NoMoreRounds, 0),
    ("gain", "clinic", PredictedColumns, 1),
    ("max", "clinic", AssociationRequest, 0),
    ("max", "registry", RankNorms, 0),
    ("max", "clinic", NextRound, 1),
    ("max", "registry", SplitSides, 3),
    ("cramer", "insurer", LentColumns, 0),
    ("cramer", "insurer", control.Goodbye, 0),
    ("shares", "coordinator", Dealt, 2),
    ("rounds", "clinic", Grown, 5),
    ("rounds", "clinic", NoMoreRounds, 0),
]


@pytest.mark.parametrize(("way", "party", "kind", "after"), STOPS)
def test_wherever_a_party_was_stopped_the_table_is_the_same(
    begin: Callable[..., Any], whole: Callable[[str], Any], way: str, party: str, kind: type, after: int
) -> None:
    undisturbed, outcome = whole(way)
    run = begin(**WAYS[way])
    run.stop(party, after, kind=kind)
    assert not (run.root / "clinic" / "completed.parquet").exists() or kind is control.Goodbye
    again = run.go()
    assert found(run) == found(undisturbed)
    counted = ("digest", "questions", "bits", "splits", "most_bits")
    told = [{k: v for k, v in each.results["clinic"].items() if k not in counted} for each in (outcome, again)]
    assert told[0] == told[1]
    assert again.results["registry"]["questions"] >= outcome.results["registry"]["questions"]


def test_an_interruption_while_the_rest_is_generated(
    begin: Callable[..., Any], whole: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that was learned is kept, so nothing is asked again."""
    undisturbed, outcome = whole("gain")
    run = begin(**WAYS["gain"])

    def pages(party: str) -> int:
        return len(list((run.root / party / ".working" / "checkpoint" / "groups").glob("page-*")))

    with monkeypatch.context() as patched:

        def killed(*_: Any, **__: Any) -> None:
            while pages("registry") < pages("clinic"):  # which keeps them a little later
                time.sleep(0.01)
            raise KeyboardInterrupt

        patched.setattr(complete_job, "complete_table", killed)
        with pytest.raises(KeyboardInterrupt):
            run.go()
    again = run.go()
    assert found(run) == found(undisturbed)
    assert not {"AssociationRequest", "NextRound", "SplitRequest"} & set(received(again, "registry"))
    for name in ("questions", "bits", "splits"):
        assert again.results["registry"][name] == outcome.results["registry"][name], "and counted once"


def test_associations_are_not_asked_for_again(begin: Callable[..., Any], whole: Callable[[str], Any]) -> None:
    undisturbed, _ = whole("max")
    run = begin(**WAYS["max"])
    run.stop("clinic", 0, kind=NextRound)
    again = received(run.go(), "registry")
    assert "AssociationsNeeded" in again
    assert "AssociationRequest" not in again
    assert run.asked("registry", ".")["begun"] == 1
    assert found(run) == found(undisturbed)


def test_associations_are_computed_three_times_at_the_most(begin: Callable[..., Any]) -> None:
    run = begin(**WAYS["max"])
    for times in (1, 2, 3):
        run.stop("clinic", 0, kind=PredictedColumns)
        assert run.asked("registry", ".")["begun"] == times
        shutil.rmtree(run.root / "clinic" / ".working" / "associations")  # as if the clinic wanted them again
    with pytest.raises(RefusedError, match=r"registry computes associations 3 times .*clinic"):
        run.go()
    assert run.asked("registry", ".")["begun"] == 3


def test_limits_hold_for_all_interruptions_together(begin: Callable[..., Any], whole: Callable[[str], Any]) -> None:
    questions = whole("max")[1].results["registry"]["questions"]
    run = begin(**WAYS["max"])
    run.privates |= {"registry": {"policy": {"maximum_questions": questions}}}
    run.stop("clinic", 0, kind=PredictedColumns)
    associated = run.asked("registry", ".")["answered"]
    assert list(associated) == [" association"]
    run.stop("clinic", 0, kind=Grown)  # what the first trees asked was answered in vain
    run.privates |= {"registry": {"policy": {"maximum_questions": questions - associated[" association"]}}}
    with pytest.raises(RefusedError, match=r"registry .*columns"):
        run.go()


# Refused


@pytest.fixture(scope="module")
def stopped_once(begin: Callable[..., Any]) -> Any:
    """After the associations, before the first models: nobody goes on with it."""
    run = begin(**WAYS["max"])
    run.stop("clinic", 0, kind=PredictedColumns)
    return run


@pytest.fixture
def stopped(stopped_once: Any, tmp_path: Path) -> Any:
    """A copy."""
    shutil.copytree(stopped_once.root, tmp_path / "stopped")
    return replace(stopped_once, root=tmp_path / "stopped", privates=dict(stopped_once.privates))


@pytest.mark.parametrize(("party", "column"), [("clinic", "lab"), ("registry", "age")])
def test_another_table_is_refused(stopped: Any, party: str, column: str) -> None:
    tables: dict[str, Table] = dict(stopped.tables)
    tables[party] = replace(tables[party], frame=tables[party].frame.with_columns(pl.col(column) + 0.001))
    stopped.tables = tables
    with pytest.raises(InputError, match=f"^{party}: .*table"):
        stopped.go()
    assert not list(stopped.root.rglob("completed.*"))


def test_people_that_only_the_registry_has_are_part_of_its_table(stopped: Any) -> None:
    registry = stopped.tables["registry"]
    others = ~registry.frame["id"].is_in(stopped.tables["clinic"].frame["id"].to_list())
    first = registry.frame.filter(others)["id"][0]
    stopped.tables = dict(stopped.tables) | {
        "registry": replace(registry, frame=registry.frame.with_columns(pl.col("id").replace(first, "patient-new")))
    }
    with pytest.raises(InputError, match=r"^registry: .*table"):
        stopped.go()


@pytest.mark.parametrize(
    "changed",
    [
        {"draws": 2},
        {"completer": {"completer": "copula"}},
        {"groups": [{"columns": ["ward"], "completer": {"completer": "marginal"}}]},
        {"least_confidence": 0.5},
        {"format": "csv"},
    ],
    ids=str,
)
def test_other_settings_of_what_is_generated_are_refused(stopped: Any, changed: dict[str, Any]) -> None:
    stopped.privates["clinic"] = {"generate": GENERATE | changed}
    with pytest.raises(InputError, match=r"^clinic: .*private setting"):
        stopped.go()


def test_another_list_is_refused(begin: Callable[..., Any], tmp_path: Path) -> None:
    names = ("lab", "smoker")
    for place, order in enumerate((names, names[::-1])):
        listed = [Strength(column=name, strength=0.9 - 0.5 * at) for at, name in enumerate(order)]
        others = [Strength(column=name, strength=0.0) for name in COLUMNS[1:] if name not in names]
        save(Screening(measure="max", rows=9, columns=(*listed, *others)), tmp_path / f"{place}.json")
    shutil.copy(tmp_path / "0.json", tmp_path / "list.json")
    run = begin(measure="list", threshold=0.6)
    run.privates["clinic"] = {"generate": GENERATE | {"screening": str(tmp_path / "list.json")}}
    run.stop("clinic", 0, kind=PredictedColumns)
    shutil.copy(tmp_path / "1.json", tmp_path / "list.json")
    with pytest.raises(InputError, match=r"^clinic: .*private setting"):
        run.go()


def test_another_plan_is_refused(stopped: Any) -> None:
    changed = dict(stopped.plan.parameters) | {"threshold": 0.2}
    stopped.plan = stopped.plan.model_copy(update={"parameters": changed})
    with pytest.raises(InputError, match="plan"):
        stopped.go()


def test_a_new_run_in_the_same_place_begins_anew(stopped: Any) -> None:
    stopped.privates["clinic"] = {"generate": GENERATE | {"draws": 0}}
    outcome = stopped.go(resume=False)
    assert "AssociationRequest" in received(outcome, "registry")


# What is kept


def test_no_id_is_in_a_checkpoint(whole: Callable[[str], Any]) -> None:
    run, _ = whole("gain")
    kept = [path for path in run.root.glob("*/.working/**/*") if path.is_file()]
    assert {path.relative_to(run.root).parts[2] for path in kept} >= {"associations", "checkpoint", "screening"}
    assert not [path for path in kept if b"patient-" in path.read_bytes()]
    assert {path.stat().st_mode & 0o077 for path in kept} == {0}
    asked = [json.loads(path.read_text()) for path in run.root.glob("registry/.working/**/asked.json")]
    assert len(asked) == 3
    keys = [key for one in asked for key in one["answered"]]
    assert sorted(keys) == ["", "", " association"], "each count has its own rows, and nobody else's"
