"""What cannot be completed is refused before anything leaves, with party, file and column; so are wrong messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from unpooled import control
from unpooled.complete import screening
from unpooled.complete.association import AssociationRequest, help_contingency, help_spearman
from unpooled.complete.federated import PredictedColumns, check_groups
from unpooled.complete.screening import Screening, Strength
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.complete import job as complete_job
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.preflight import preflight_together
from unpooled.ledger import read_ledger

ROWS = 130
Frames = dict[str, pl.DataFrame]


@pytest.fixture
def refused(completing: Any) -> Callable[..., str]:
    """Why a job is not begun; nothing was sent."""

    def check(plan: Any, frames: Frames, privates: dict[str, Any]) -> None:
        made, tables = completing.privates(plan, **privates), completing.tables(plan, **frames)
        jobs = [checked(plan, party, made[party], tables.get(party)) for party in plan.parties]
        for job in jobs:
            kind_named("complete").check_files(job)
        preflight_together(jobs)

    def refused(plan: Any, frames: Frames | None = None, **privates: Any) -> str:
        with pytest.raises((InputError, PlanError, RefusedError)) as error:
            check(plan, frames or {}, privates)
        return str(error.value)

    return refused


def clinic_with(completing: Any, *columns: Any) -> Frames:
    return {"clinic": completing.frames["clinic"].with_columns(*columns)}


# Tables


def test_a_handful_of_other_people(completing: Any, refused: Callable[..., str]) -> None:
    said = refused(completing.plan(), registry={"consent": {"values": True}, "policy": {"minimum_rows": 31}})
    assert said.startswith("registry lets values be made of at least 31 people")


def test_no_common_rows(completing: Any, refused: Callable[..., str]) -> None:
    strangers = clinic_with(completing, pl.col("id").str.replace("patient", "client"))
    said = refused(completing.plan(), strangers)
    assert said.startswith("clinic, registry have 0 ids in common")
    assert "minimum_overlap" in said


def test_nothing_is_missing(completing: Any, refused: Callable[..., str]) -> None:
    clinic, registry = completing.frames["clinic"].drop("lab"), completing.frames["registry"]
    registry = registry.filter(pl.col("id").is_in(clinic["id"].to_list()))
    said = refused(completing.plan(), {"clinic": clinic, "registry": registry})
    assert said == "clinic: data frame: nothing is missing: it has every row of registry and a value in every cell"


def test_a_cell_that_is_missing_is_enough(completing: Any) -> None:
    clinic, registry = completing.frames["clinic"], completing.frames["registry"]
    registry = registry.filter(pl.col("id").is_in(clinic["id"].to_list()))
    plan = completing.plan(columns=["lab"], engine="plain")
    outcome = completing.run(plan, frames={"registry": registry})
    missing = clinic["lab"].null_count()
    assert outcome.results["clinic"]["cells"] == {
        "real": 6 * ROWS - missing,
        "predicted": missing,
        "generated": 0,
        "not filled": 0,
    }


COLUMNS = {
    "one value": (pl.lit(4).alias("same"), "it has a single value"),
    "no value": (pl.lit(None, pl.Float64).alias("same"), "same"),
    "time of day": (pl.lit(datetime(2024, 1, 2, 3, 4)).dt.offset_by("1d").alias("when"), "time of day"),
    "large integers": ((pl.int_range(pl.len()) + 2**53).alias("account"), "15 digits"),
    "a handle": (pl.int_range(pl.len()).alias("handle"), "rename it"),
    "a draw": (pl.int_range(pl.len()).alias("draw"), "rename it"),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_a_column_that_cannot_be_completed(completing: Any, refused: Callable[..., str], what: str) -> None:
    column, reason = COLUMNS[what]
    name = column.meta.output_name()
    said = refused(completing.plan(), clinic_with(completing, column))
    assert said.startswith("clinic: data frame: ")
    assert f"column '{name}'" in said
    assert reason in said


def test_it_is_refused_in_python_too_before_the_alignment(completing: Any) -> None:
    frames = clinic_with(completing, (pl.int_range(pl.len()) + 2**53).alias("account"))
    with pytest.raises(InputError, match=r"clinic: data frame: column 'account': .*15 digits"):
        completing.run(completing.plan(engine="plain"), frames=frames)
    with pytest.raises(PlanError, match=r"^clinic: target: "):
        completing.run(completing.plan(engine="plain"), "target", clinic={"target": "visits"})
    ledger = read_ledger(completing.root / "run" / "clinic" / "ledger.jsonl")
    assert {entry.kind for entry in ledger.entries if entry.way == "sent"} <= control.KINDS


def test_a_party_without_columns(completing: Any, refused: Callable[..., str]) -> None:
    for party in ("clinic", "registry"):
        said = refused(completing.plan(), {party: completing.frames[party].select("id")})
        assert said == f"{party}: data frame: it has no column besides the ids"


def test_a_predicted_column_that_common_rows_say_nothing_of(completing: Any, refused: Callable[..., str]) -> None:
    """It has values, but of people whom the registry does not have."""
    clinic = completing.frames["clinic"]
    known = pl.col("id").is_in(clinic["id"][:20].to_list())
    frames = {
        "clinic": clinic.with_columns(pl.when(known).then("lab").alias("lab")),
        "registry": completing.frames["registry"].filter(~known),
    }
    said = refused(completing.plan(columns=["visits", "lab"]), frames)
    assert said == (
        "clinic: data frame: column 'lab': columns in the plan names it, but in the common rows it has one value or "
        "fewer than 4 cells"
    )


def test_too_few_common_rows_for_associations(completing: Any, refused: Callable[..., str]) -> None:
    frames = {"registry": completing.frames["registry"].filter(pl.col("id") >= "patient-040")}
    assert "at least 100 common rows" in refused(completing.plan(measure="max"), frames)
    assert "each of 37 classes and bins); there are 130" in refused(completing.plan(measure="cramer"))


# Plans and private files


def test_columns_and_groups_that_the_table_lacks(completing: Any, refused: Callable[..., str]) -> None:
    said = refused(completing.plan(columns=["lab", "pulse"]))
    assert said.startswith("clinic: data frame: column 'pulse': columns in the plan names it")
    groups = {"groups": [{"columns": ["ward", "bed"]}]}
    said = refused(completing.plan(), clinic={"generate": groups})
    assert said.startswith("clinic: data frame: column 'bed': generate.groups 1 names it")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": []}, "at least one column"),
        ({"columns": ["lab", "lab"]}, "each once"),
        ({"columns": ["lab", "ward"], "most_columns": 1}, "most_columns"),
    ],
)
def test_a_plan_that_cannot_be(completing: Any, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        checked(completing.plan(**settings), "coordinator", completing.privates(completing.plan())["coordinator"])


def test_more_columns_or_levels_than_the_plan_allows(completing: Any, refused: Callable[..., str]) -> None:
    said = refused(completing.plan(most_columns=5))
    assert said.startswith("clinic: data frame: it has 6 columns, and most_columns in the plan is 5")
    said = refused(completing.plan(most_classes=2))
    assert said == "clinic: data frame: column 'stage': it has 3 levels, and most_classes in the plan is 2"


@pytest.mark.parametrize("key", ["target", "weight"])
def test_a_target_or_weight(completing: Any, refused: Callable[..., str], key: str) -> None:
    said = refused(completing.plan(), clinic={key: "visits"})
    assert said == f"clinic: {key}: every column of the table is completed; remove this key"


def test_a_weight_in_the_place_of_a_column(completing: Any, refused: Callable[..., str]) -> None:
    said = refused(completing.plan(), clinic={"generate": {"weight": "ward"}})
    assert said.startswith("clinic: data frame: column 'ward': generate.weight needs another name")


def test_a_list_of_another_table(completing: Any, refused: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "screening.json"
    names = ["lab", "visits", "seen", "smoker", "stage"]
    strengths = tuple(Strength(column=name, strength=0.5, significant=True) for name in names)
    screening.save(Screening(measure="max", rows=130, columns=strengths), path)
    given = {"generate": {"screening": str(path)}}
    assert refused(completing.plan(measure="list"), clinic=given) == (
        f"clinic: {path}: column 'ward' of data frame is not on the list"
    )
    assert "the plan takes no list: remove it" in refused(completing.plan(), clinic=given)
    assert "name it" in refused(completing.plan(measure="list"))
    path.write_text('{"format": 1}')
    assert refused(completing.plan(measure="list"), clinic=given).startswith(f"{path}: ")
    assert "cannot be read" in refused(
        completing.plan(measure="list"), clinic={"generate": {"screening": str(tmp_path / "none.json")}}
    )


# Messages that cannot be


@pytest.mark.parametrize(
    ("classes", "columns"),
    [((0, 0), (1, 1)), ((1,), (1,)), ((21,), (1,)), ((0,), (0,)), ((0,), (-1,)), ((0, 2), (3, 4)), ((0,), (1, 1))],
)
def test_columns_that_the_plan_does_not_have_are_refused(classes: tuple[int, ...], columns: tuple[int, ...]) -> None:
    with pytest.raises(ProtocolError, match=r"invalid PredictedColumns from clinic: "):
        check_groups(PredictedColumns(classes, columns), "clinic", 6, 20)
    check_groups(PredictedColumns((0, 20), (3, 3)), "clinic", 6, 20)


class Asking:
    """A session that asks for associations over so many rows and columns."""

    party = "registry"

    def __init__(self, rows: int, columns: int) -> None:
        self._asked = AssociationRequest(rows, columns)

    def recv(self, *_: object) -> AssociationRequest:
        return self._asked


@pytest.mark.parametrize(("rows", "columns"), [(129, 3), (131, 3), (130, 4), (130, -1)])
def test_associations_that_the_plan_does_not_have_are_refused(completing: Any, rows: int, columns: int) -> None:
    team: Any = SimpleNamespace(session=Asking(rows, columns), active="clinic")
    rng, table = SimpleNamespace(permutation=range), completing.frames["registry"][:ROWS].select("age").to_numpy()
    with pytest.raises(ProtocolError, match=r"invalid AssociationRequest from clinic: .*registry.* 3 columns"):
        help_spearman(team, table, rng, 3)  # type: ignore[arg-type]
    with pytest.raises(ProtocolError, match=r"invalid AssociationRequest from clinic: .* 3 classes and bins"):
        help_contingency(team, (table > 0).astype(int), (2,), rng, 3)  # type: ignore[arg-type]


def test_more_rounds_than_the_plan_has_are_refused(completing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clinic has another plan in mind than the one that was agreed on."""
    learned = complete_job.predict_columns

    def asking(team: Any, base: Any, columns: Any, variables: Any, settings: Any, seed: int, **kept: Any) -> Any:
        more = settings.model_copy(update={"rounds": 3, "alpha": 0.0})
        return learned(team, base, columns, variables, more, seed, **kept)

    monkeypatch.setattr(complete_job, "predict_columns", asking)
    with pytest.raises(ProtocolError, match=r"invalid NextRound from clinic: more rounds than the plan has"):
        completing.run(completing.plan(columns=["lab"], engine="plain"))


def test_rows_that_are_to_be_completed_cannot_be_dropped(completing: Any) -> None:
    with pytest.raises(PlanError, match=r"^clinic: prepare\.missing: "):
        completing.run(completing.plan(engine="plain"), "drop", clinic={"prepare": {"missing": "drop"}})
