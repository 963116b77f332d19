"""What a train job leaves at each party, and what it refuses to start with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.errors import InputError, PlanError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import outline_of, parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Private
from unpooled.jobs.train.job import Parameters, notes_of

TASKS = {"buys": 2, "group": 3, "amount": 0}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
TWO = ("telco", "bank", "coordinator")


# What parties keep


def test_each_party_keeps_its_own_part_for_its_own_eyes(learning: Any) -> None:
    learning.run(learning.plan())
    run = learning.root / "run"
    always, kept = {"ledger.jsonl", "plan.toml", "result.json", "status.json"}, {"model.json", "preparation.json"}
    own = {"telco": kept | {"aligned.csv"}, "railway": kept | {"aligned.csv"}, "coordinator": set()}
    own["bank"] = kept | {"aligned.csv", "predictions.csv"}
    for party, names in own.items():
        files = {path.name: path.stat().st_mode & 0o777 for path in (run / party).iterdir()}
        assert files.keys() == always | names | {".working"} | ({"audit.jsonl"} if names else set())
        assert {files[name] for name in names} <= {0o600}
    aligned = [pl.read_csv(run / party / "aligned.csv") for party in ("telco", "bank", "railway")]
    assert aligned[0].equals(aligned[1])
    assert aligned[0].equals(aligned[2])
    assert aligned[0]["id"].equals(learning.predictions()["id"])
    assert aligned[0]["id"].is_sorted()


def test_nobody_has_names_or_values_of_anothers_columns(learning: Any) -> None:
    learning.run(learning.plan())
    words = {"telco": ("calls", "tariff"), "bank": ("income", "buys"), "railway": ("trips", "card")}
    for party in (*words, "coordinator"):
        for path in filter(Path.is_file, (learning.root / "run" / party).rglob("*")):
            strange = [word for owner, own in words.items() if owner != party for word in own]
            assert not [word for word in strange if word.encode() in path.read_bytes()], path


def test_no_id_is_in_a_ledger_or_a_result(learning: Any) -> None:
    learning.run(learning.plan())
    with_ids = {
        path.name for path in (learning.root / "run").rglob("*") if path.is_file() and b"person-" in path.read_bytes()
    }
    assert with_ids == {"aligned.csv", "predictions.csv"}


@pytest.mark.parametrize("target", TASKS)
def test_predictions_have_a_line_for_each_row(learning: Any, target: str) -> None:
    plan = learning.plan(engine="plain", model={"classes": TASKS[target]})
    result = learning.run(plan, target=target).results["bank"]
    found = learning.predictions()
    if target == "group":
        shares = found.select("probability_high", "probability_low", "probability_middle").to_numpy()
        assert found.columns[3:] == ["prediction", *(f"probability_{name}" for name in result["class_names"])]
        assert np.allclose(shares.sum(axis=1), 1)
        assert found["prediction"].to_list() == [result["class_names"][place] for place in shares.argmax(axis=1)]
    else:
        assert found.columns[3:] == ["score"]
    assert found.columns[:3] == ["id", "set", "label"]
    truth = learning.tables(learning.plan(), target)["bank"].frame
    joined = found.join(truth, on="id", how="left", maintain_order="left")
    assert joined["label"].equals(joined[target])


def test_ids_that_are_called_like_a_column_of_the_file_keep_their_name(learning: Any) -> None:
    plan = learning.plan(engine="plain", parties=("telco", "bank"), model={"trees": 1})
    names = {"bank": "score", "telco": "label"}
    tables = {
        party: table_from_frame(table.frame.rename({"id": names[party]}), names[party], party)
        for party, table in learning.tables(plan).items()
    }
    learning.run(plan, tables=tables)
    assert learning.predictions().columns == ["score", "set", "label", "score_"]


def test_the_results_are_in_numbers_without_rows(learning: Any) -> None:
    results = learning.run(learning.plan()).results
    for party in ("telco", "bank", "railway"):
        result = results[party]
        read, rows = len(learning.frames[party]), len(learning.frames[party])
        assert (result["rows_read"], result["rows"], result["common"]) == (read, rows, 240)
        assert result["digest"] == results["bank"]["digest"]
        importance = [(-column["rows"], column["name"]) for column in result["importance"]]
        assert importance == sorted(importance)
        assert len(importance) == result["columns"]
        assert 0 < result["thresholds"] <= sum(column["splits"] for column in result["importance"])
    assert results["coordinator"].keys() == {"served_megabytes"}
    assert results["coordinator"]["served_megabytes"] > 0
    assert [results[party]["questions"] > 0 for party in ("telco", "bank", "railway")] == [True, False, True]
    bank = results["bank"]
    assert bank["parameters"] == {"trees": 3, "depth": 3}
    assert bank["gain_by_party"].keys() == {"telco", "bank", "railway"}
    own = sum(column["gain"] for column in bank["own_gains"])
    assert own == pytest.approx(bank["gain_by_party"]["bank"])
    assert bank["test_rows"] + bank["train_rows"] == 240
    assert bank["curves"]["roc"][0][0] == bank["curves"]["roc"][1][0] == 0
    assert bank["curves"]["roc"][0][-1] == bank["curves"]["roc"][1][-1] == 1
    assert len(bank["curves"]["precision_recall"]) == 2
    assert sum(group["rows"] for group in bank["calibration"]) == bank["test_rows"]
    assert json.loads(json.dumps(results)) == results


def test_how_far_min_rows_protects_is_said(learning: Any) -> None:
    def notes(**model: Any) -> str:
        parameters = parameters_of(learning.plan(model=model))
        assert isinstance(parameters, Parameters)
        return " ".join(notes_of(parameters))

    assert "also those of weight zero" in notes()
    assert "without bundle" not in notes()
    assert "every bin has at least 10 of all rows" in notes(hide_nodes=True)
    assert "a bin may have a single row" in notes(hide_nodes=True, min_rows=1)
    assert "weight zero" not in notes(hide_nodes=True) + notes(hide_bags=False)
    assert "without bundle" in notes(bundle=False)
    assert "without bundle" in notes(bundle=False, hide_nodes=True)
    assert "min_rows is 1" in notes(min_rows=1)
    assert "passive parties have seen which rows take part" in notes(hide_bags=False)
    result = learning.run(learning.plan(engine="plain", model={"hide_nodes": True})).results["bank"]
    assert result["notes"] == notes_of(parameters_of(learning.plan(model={"hide_nodes": True})))


# Errors


@pytest.mark.parametrize(
    ("settings", "model", "reason"),
    [
        ({"target": "age2"}, {}, "bank: data frame: column 'age2': target"),
        ({"weight": "w"}, {}, "bank: data frame: column 'w': weight"),
        ({"weight": "buys", "target": "age"}, {}, "column 'buys': .*weight.*category"),
        ({}, {"classes": 0}, "column 'buys': classes is 0.*category"),
        ({}, {"classes": 3}, "column 'buys': 2 .*classes is 3"),
        ({"target": "age"}, {}, r"column 'age': \d+ .*classes is 2"),
    ],
)
def test_a_wrong_target_or_weight_is_named(
    learning: Any, settings: dict[str, Any], model: dict[str, Any], reason: str
) -> None:
    plan = learning.plan(engine="plain", parties=("telco", "bank"), model=model)
    tables = learning.with_bank(plan, learning.bank().drop("counts"))
    with pytest.raises(InputError, match=reason) as caught:
        learning.run(plan, tables=tables, **settings)
    assert "yes" not in str(caught.value)
    assert "telco: bank stopped: its input was refused" in caught.value.__notes__[0], "and telco is told no more"
    assert not list(learning.root.rglob("model.json"))


@pytest.mark.parametrize("wrong", [-0.5, None])
def test_wrong_weights_are_named_by_the_rows_of_the_source(learning: Any, wrong: float | None) -> None:
    plan = learning.plan(engine="plain", parties=("telco", "bank"))
    frame = learning.bank()
    frame = pl.concat([frame.head(2), frame])  # two rows are there twice: rows are counted before that is mended
    weights = frame["counts"].scatter([6, 9], wrong)
    tables = learning.with_bank(plan, frame.with_columns(weights))
    with pytest.raises(InputError, match="bank: data frame: column 'counts': rows 7 and 10: "):
        learning.run(plan, weight="counts", tables=tables)


def test_a_class_of_one_row_is_kept_for_learning(learning: Any) -> None:
    plan = learning.plan(
        engine="plain", parties=("telco", "bank"), model={"classes": 3, "min_rows": 1}, test_fraction=0.9
    )
    frame = learning.bank()
    tables = learning.with_bank(plan, frame.with_columns(frame["buys"].scatter([100], "maybe")))
    assert learning.run(plan, tables=tables).results["bank"]["class_names"] == ["maybe", "no", "yes"]
    found = learning.predictions()
    assert found.filter(pl.col("label") == "maybe")["set"].to_list() == ["train"]


def test_a_target_without_any_value_is_refused(learning: Any) -> None:
    plan = learning.plan(engine="plain", parties=("telco", "bank"), model={"classes": 0})
    tables = learning.with_bank(plan, learning.bank().with_columns(age=pl.lit(None, pl.Float64)))
    with pytest.raises(InputError, match="column 'age': "):
        learning.run(plan, target="age", tables=tables)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"parties": ("telco", "bank")}, "engine: shares .*coordinator"),
        ({"parties": ("telco", "bank"), **PAILLIER}, "engine: paillier .*coordinator"),
        ({"parties": ("bank", "coordinator")}, "train .*passive"),
        ({"parties": ("telco", "railway", "bank"), "engine": "plain"}, "coordinator.* psi = 'blind-rsa'"),
        ({"engine": "paillier", "key_bits": 2049}, "key_bits: "),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_the_start(learning: Any, changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(PlanError, match=reason):
        outline_of(learning.plan(**changes))


@pytest.mark.parametrize("kind", ["train", "predict"])
def test_a_seeker_has_nothing_to_seek(kind: str) -> None:
    roles = {"bank": "active", "telco": "passive", "shop": "seeker", "coordinator": "coordinator"}
    plan = Plan.model_validate({"kind": kind, "parties": {name: {"role": role} for name, role in roles.items()}})
    with pytest.raises(PlanError, match=f"{kind} .*seeker"):
        outline_of(plan)


def test_a_target_is_looked_for_before_the_start(learning: Any) -> None:
    learning.frames["bank"].write_csv(learning.root / "bank.csv")
    table = {"path": learning.root / "bank.csv", "id": "id"}
    plan = learning.plan()
    found = preflight(checked(plan, "bank", Private.model_validate({"table": table, "target": "buys"})))
    assert found.not_features == {"target": "buys"}
    assert "age" in found.columns
    for change, reason in (
        ({"target": "bought"}, r"bank: .*bank\.csv: column 'bought': target"),
        ({"target": "buys", "weight": "group"}, "column 'group': .*weight"),
        ({"target": "buys", "table": table | {"columns": ["age"]}}, "column 'buys': target"),
    ):
        with pytest.raises(InputError, match=reason):
            preflight(checked(plan, "bank", Private.model_validate({"table": table} | change)))
    with pytest.raises(InputError, match="column 'buys': classes is 0"):
        preflight(
            checked(
                learning.plan(model={"classes": 0}), "bank", Private.model_validate({"table": table, "target": "buys"})
            )
        )
