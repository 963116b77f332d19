"""Jobs after a completion: the registry contributes by handle, the clinic has handles for ids and weights of rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import loaded, preflight_together
from unpooled.jobs.private import Private
from unpooled.jobs.together import check_together
from unpooled.jobs.work import CheckedJob
from unpooled.run import scaling
from unpooled.run.forecast import forecast
from unpooled.run.simulate import Outcome, simulate_job

ROWS, STRANGERS = 160, 12
MODEL_NAME = '"name":"[0-9a-f]{32}"'
SMALL = {"model": {"trees": 3, "depth": 2}, "test_fraction": 0.25}


@dataclass(frozen=True)
class Files:
    """What a completion leaves: the registry's table and its handles, the clinic's completed table.

    The clinic has a table with the ids in place of handles too, to compare with. Handles have the order of the ids.
    """

    root: Path

    def plan(self, kind: str = "train", active: str = "clinic", **settings: Any) -> Plan:
        parameters = {**(SMALL if kind == "train" else {}), "compare": "handles", **settings}
        roles = {party: "active" if party == active else "passive" for party in ("registry", "clinic")}
        parties = {party: {"role": role} for party, role in (roles | {"coordinator": "coordinator"}).items()}
        return Plan.model_validate({"kind": kind, "parameters": parameters, "parties": parties, "timeout": 600.0})

    def registry(self, **table: Any) -> Private:
        given = {"path": self.root / "registry.csv", "id": "person", "handles": self.root / "handles.csv"}
        return Private.model_validate({"seed": 1, "table": {key: v for key, v in (given | table).items() if v}})

    def clinic(self, name: str = "completed.parquet", key: str = "handle", **settings: Any) -> Private:
        table = {"path": self.root / name, "id": key}
        own = {"seed": 2, "target": "ill", "weight": "confidence", "table": table}
        return Private.model_validate(own | settings)

    def privates(self) -> dict[str, Private]:
        return {"registry": self.registry(), "clinic": self.clinic(), "coordinator": Private()}

    def jobs(self, plan: Plan | None = None, **privates: Private) -> list[CheckedJob[Any]]:
        plan, all_of = plan or self.plan(), self.privates() | privates
        return [checked(plan, party, all_of[party]) for party in plan.parties]

    def run(self, plan: Plan, name: str, engine: str = "plain", **privates: Private) -> Outcome[dict[str, Any]]:
        plan = plan.model_copy(update={"engine": engine})
        return simulate_job(plan, self.privates() | privates, folder=self.root / name)

    def written(self, name: str, party: str, file: str) -> pl.DataFrame:
        return pl.read_csv(self.root / name / party / file, infer_schema=False)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    rng = np.random.default_rng(1)
    ids, handles = (
        [f"+49 30 {number:06}" for number in range(ROWS)],
        [f"{number:016x}" for number in np.sort(rng.integers(2**62, size=ROWS))],
    )
    x = rng.normal(size=(ROWS, 3)).round(3)
    real = np.arange(ROWS) % 4 == 0
    columns = {
        "test": [date(2020, 1, 1) + timedelta(days=int(day)) for day in 400 * x[:, 2]],
        "smoker": x[:, 2] > 0.3,
        "group": pl.Series(["a", "b", "c"]).gather(np.digitize(x[:, 2], [-0.5, 0.5])).cast(pl.Categorical),
        "visits": pl.Series(rng.integers(0, 9, ROWS), dtype=pl.Int32),
        "ill": pl.Series(np.where(x.sum(axis=1) > 0, "yes", "no")),
        "confidence": np.where(real, 1.0, rng.uniform(0.2, 1, ROWS).round(3)),
    }
    shuffled = rng.permutation(ROWS)
    completed = pl.DataFrame({"handle": handles, **columns})[shuffled]
    completed.write_parquet(tmp_path / "completed.parquet")
    completed.write_csv(tmp_path / "completed.csv")
    pl.DataFrame({"person": ids, **columns})[shuffled].write_parquet(tmp_path / "by-id.parquet")
    strangers = [f"+49 40 {number:06}" for number in range(STRANGERS)]
    more = rng.normal(size=(STRANGERS, 3)).round(3)
    people = {"person": [*ids, *strangers], "age": [*x[:, 0], *more[:, 0]], "income": [*x[:, 1], *more[:, 1]]}
    pl.DataFrame(people)[rng.permutation(ROWS + STRANGERS)].write_csv(tmp_path / "registry.csv")
    pl.DataFrame({"person": ids, "handle": handles})[rng.permutation(ROWS)].write_csv(tmp_path / "handles.csv")
    return Files(tmp_path)


def test_training_by_handle_is_training_by_id(files: Files) -> None:
    """The same rows in the same order: so the same model, to the bit, with weights and every type of column."""
    results = files.run(files.plan(), "by-handle", "shares").results
    by_id = files.plan().model_copy(update={"parameters": SMALL})
    files.run(by_id, "by-id", registry=files.registry(handles=None), clinic=files.clinic("by-id.parquet", "person"))
    assert results["registry"]["rows_without_handle"] == STRANGERS
    assert (results["registry"]["rows"], results["clinic"]["common"]) == (ROWS, ROWS)
    ours, theirs = (files.written(name, "clinic", "predictions.csv") for name in ("by-handle", "by-id"))
    assert ours.drop("handle").equals(theirs.drop("person"))
    assert ours["set"].value_counts().sort("set")["count"].to_list() == [40, 120]
    for party in ("clinic", "registry"):
        one, other = ((files.root / name / party / "model.json").read_text() for name in ("by-handle", "by-id"))
        assert re.sub(MODEL_NAME, "", one) == re.sub(MODEL_NAME, "", other)
    unweighted = files.run(files.plan(), "unweighted", clinic=files.clinic(weight=None)).results["clinic"]
    assert unweighted["metrics"] != results["clinic"]["metrics"]


def test_each_party_keeps_its_own_names_of_rows(files: Files) -> None:
    files.run(files.plan(), "run")
    aligned = {party: files.written("run", party, "aligned.csv") for party in ("registry", "clinic")}
    assert aligned["clinic"].columns == ["handle"]
    assert aligned["clinic"]["handle"].is_sorted()
    handles = dict(pl.read_csv(files.root / "handles.csv", infer_schema=False).iter_rows())
    assert [handles[person] for person in aligned["registry"]["person"]] == aligned["clinic"]["handle"].to_list()


def test_ids_are_not_read_by_the_rules_of_handles_nor_handles_by_those_of_ids(files: Files) -> None:
    rules = {"normalise": {"name": "phone", "country": "49"}}
    results = files.run(files.plan(**rules), "run").results
    assert results["clinic"]["common"] == ROWS
    out = files.root / "out.csv"
    pl.DataFrame({"person": ["030 000003", "0049 30 000005", "+49 40 000001"]}).write_csv(out)
    excluding = files.registry().model_copy(update={"exclude": out})
    results = files.run(files.plan(**rules), "excluding", registry=excluding).results
    assert results["clinic"]["common"] == ROWS - 2
    assert (results["registry"]["excluded_rows"], results["registry"]["rows_without_handle"]) == (3, STRANGERS - 1)
    pl.DataFrame({"handle": files.written("run", "clinic", "aligned.csv")["handle"].head(4)}).write_csv(out)
    excluding = files.clinic(exclude=out)
    assert (
        files.run(files.plan(**rules), "clinic-excluding", clinic=excluding).results["registry"]["common"] == ROWS - 4
    )


@pytest.mark.parametrize("name", ["completed.parquet", "completed.csv"])
def test_the_registry_may_be_active(files: Files, name: str) -> None:
    table = pl.read_csv(files.root / "registry.csv", infer_schema=False)
    labels = pl.Series("stays", np.arange(len(table)) % 3 > 0)
    table.with_columns(labels).write_csv(files.root / "registry.csv")
    clinic = files.clinic(name, target=None, weight=None)
    registry = files.registry().model_copy(update={"target": "stays"})
    files.run(files.plan(active="registry"), "run", registry=registry, clinic=clinic)
    found = files.written("run", "registry", "predictions.csv")
    assert found.columns == ["person", "set", "label", "score"]
    truth = dict(zip(table["person"], labels.cast(pl.String), strict=True))
    assert [truth[person] for person in found["person"]] == found["label"].to_list()


def test_the_model_predicts_by_handle(files: Files) -> None:
    files.run(files.plan(), "run")
    models = {party: {"model": files.root / "run" / party} for party in ("registry", "clinic")}
    registry = files.registry().model_copy(update=models["registry"])
    results = files.run(
        files.plan("predict"), "new", registry=registry, clinic=files.clinic(**models["clinic"])
    ).results
    assert results["registry"]["rows_without_handle"] == STRANGERS
    ours, theirs = (files.written(name, "clinic", "predictions.csv") for name in ("run", "new"))
    assert ours.select("handle", "label", "score").equals(theirs)


# Before the start


def test_the_dry_run_finds_the_common_rows_by_handle(files: Files) -> None:
    (registry, clinic, _), together = preflight_together([loaded(job) for job in files.jobs()])
    assert together is not None
    assert (together.common, together.known, together.warnings) == (ROWS, None, ())
    assert clinic.not_features == {"target": "ill", "weight": "confidence"}
    assert set(clinic.columns.values()) == {"date", "boolean", "category", "number"}
    assert registry.quality is not None
    assert registry.quality.rows == ROWS
    assert any(f"{STRANGERS} of {ROWS + STRANGERS} rows have no handle" in note.text for note in registry.quality.notes)


def test_a_forecast_rehearses_with_made_up_ids(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, rows in (("_ROWS", 60), ("_TABLE_ROWS", 80)):
        monkeypatch.setattr(scaling, name, rows)
    found = forecast([loaded(job) for job in files.jobs()])
    assert (found.common, found.guesses) == (ROWS, ())
    assert found.parties["registry"].sent_bytes > 0
    alone = forecast([loaded(files.jobs()[0])])
    assert alone.common == ROWS
    assert "clinic: as many columns as registry" in alone.guesses[0]


def test_handles_of_another_completion_are_refused_before_the_start(files: Files) -> None:
    listed = pl.read_csv(files.root / "handles.csv", infer_schema=False)
    others = pl.Series("handle", [f"f{handle[1:]}" for handle in listed["handle"]])
    listed.with_columns(others).write_csv(files.root / "handles.csv")
    with pytest.raises(InputError, match=r"clinic, registry have 0 ids in common.*these look like handles"):
        check_together([loaded(job) for job in files.jobs()])
    with pytest.raises(RefusedError, match=r"fewer than 30 ids are in common"):
        files.run(files.plan(), "run")


def test_who_does_not_fit_the_plan_is_refused_before_the_start(files: Files) -> None:
    with pytest.raises(InputError, match=r"^registry: .*registry\.csv: column 'person': .*not a handle"):
        preflight_together([loaded(job) for job in files.jobs(registry=files.registry(handles=None))])
    plan = files.plan(compare="ids")
    with pytest.raises(PlanError, match=r"registry: table\.handles: the plan compares ids"):
        preflight_together([loaded(job) for job in files.jobs(plan)])
    aligning = files.plan("align").model_copy(update={"parameters": {}})
    clinic = files.clinic(target=None, weight=None)
    with pytest.raises(PlanError, match=r"registry: table\.handles: the plan compares ids"):
        preflight_together([loaded(job) for job in files.jobs(aligning, clinic=clinic)])
    few = Private.model_validate(files.registry().model_dump() | {"policy": {"minimum_rows": ROWS + 1}})
    with pytest.raises(RefusedError, match=rf"registry .*{ROWS + 1} rows .*minimum_rows"):
        preflight_together([loaded(job) for job in files.jobs(registry=few)])


# In Python, and over TLS


def test_data_frames_with_handles_are_simulated(files: Files) -> None:
    completed = pl.read_parquet(files.root / "completed.parquet").drop("confidence")
    registry, handles = (pl.read_csv(files.root / name) for name in ("registry.csv", "handles.csv"))
    members = {
        "registry": Member("passive", registry, id="person", handles=handles),
        "clinic": Member("active", completed, id="handle", private=Private(target="ill", seed=2)),
        "coordinator": Member("coordinator"),
    }
    found = simulate("train", members, compare="handles", **SMALL)
    assert found.tables["clinic"]["predictions"]["handle"].to_list() == sorted(completed["handle"])
    broken = replace(members["registry"], handles=handles.head(50).vstack(handles.head(1)))
    with pytest.raises(InputError, match=r"registry: handles: column 'person': rows 1 and 51: the same id"):
        simulate("train", members | {"registry": broken}, compare="handles", **SMALL)
