"""The kind `predict`: saved parts of a model score new rows together, or say before the start why they cannot."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Private
from unpooled.ledger import Record, reconcile_all
from unpooled.run.simulate import Outcome

TASKS = {"buys": 2, "group": 3, "amount": 0}
TWO = ("telco", "bank", "coordinator")


def said(ledgers: Mapping[str, Record]) -> set[tuple[str, str, str]]:
    return {(party, e.peer, e.kind) for party, record in ledgers.items() for e in record.entries if e.way == "sent"}


def predict(learning: Any, tables: Mapping[str, Table] | None = None, **settings: Any) -> Outcome[dict[str, Any]]:
    """Predict with the model in the folder `run`; what is kept is in `new`."""
    privates = {name: settings.pop(name) for name in ("telco", "bank", "railway") if name in settings}
    target = settings.pop("target", "buys")
    plan = learning.plan("predict", **settings)
    models = learning.models(plan)
    given = {party: models[party] | privates.get(party, {}) for party in plan.owners}
    return learning.run(plan, "new", target, tables=tables, **given)


def without_target(tables: Mapping[str, Table], target: str = "buys") -> dict[str, Table]:
    bank = tables["bank"]
    kinds = {name: kind for name, kind in bank.kinds.items() if name != target}
    return {**tables, "bank": replace(bank, kinds=kinds, frame=bank.frame.drop(target))}


# Scores


@pytest.mark.parametrize(
    ("target", "settings", "model"),
    [
        ("buys", {}, {"learner": "gbdt"}),
        ("group", {}, {"learner": "xgb"}),
        ("amount", {}, {"learner": "lgb"}),
        ("group", {}, {"learner": "rf"}),
        ("buys", {}, {"learner": "rf", "hide_nodes": True}),
        ("buys", {"engine": "plain"}, {"learner": "xgb", "hide_bags": False}),
    ],
)
def test_on_training_rows_they_are_those_of_the_training(
    learning: Any, target: str, settings: dict[str, Any], model: dict[str, Any]
) -> None:
    learning.run(learning.plan(model={"classes": TASKS[target]} | model, **settings), target=target)
    result = predict(learning, target=target).results["bank"]
    learned, found = learning.predictions(), learning.predictions("new")
    assert found.equals(learned.drop("set"))
    assert sum(result["scores"]["histogram"]["counts"]) == 240
    assert ("r2" if target == "amount" else "log_loss") in result["metrics"]["new"]
    assert result["learner"] == model["learner"]


def test_new_rows_are_scored_by_what_was_learned(learning: Any) -> None:
    """People in half of the training rows, in new tables in another order, get the scores that they had."""
    plan = learning.plan(model={"learner": "xgb"})
    learning.run(plan)
    tables = {party: replace(t, frame=t.frame.sort("id")[::2]) for party, t in learning.tables(plan).items()}
    result = predict(learning, without_target(tables)).results["bank"]
    learned, found = learning.predictions(), learning.predictions("new")
    assert 30 <= result["common"] == len(found) < 240
    assert found.columns == ["id", "score"]
    joined = found.join(learned, on="id", how="left", maintain_order="left")
    assert np.array_equal(joined["score"].to_numpy(), joined["score_right"].to_numpy())
    assert not {"metrics", "unknown_labels"} & result.keys()


def test_values_not_seen_in_training_have_their_place(learning: Any) -> None:
    plan = learning.plan(model={"learner": "xgb"})
    learning.run(plan)
    tables = learning.tables(plan)
    telco = tables["telco"].frame.with_columns(
        tariff=pl.Series(["new", None, *tables["telco"].frame["tariff"][2:]]), calls=pl.lit(1e9)
    )
    tables["telco"] = replace(tables["telco"], frame=telco)
    results = predict(learning, tables).results
    assert results["telco"]["unseen"] == {"tariff": 1}
    assert results["bank"]["unseen"] == {}
    assert np.isfinite(learning.scores("new")).all()


@pytest.mark.parametrize("target", TASKS)
def test_where_the_truth_is_known_predictions_are_judged(learning: Any, target: str) -> None:
    plan = learning.plan(engine="plain", model={"classes": TASKS[target], "trees": 10}, test_fraction=0.0)
    learned = learning.run(plan, target=target).results["bank"]
    tables = learning.tables(plan, target)
    judged = predict(learning, tables, target=target).results["bank"]
    assert judged["metrics"] == {"new": learned["metrics"]["train"]}
    assert learning.predictions("new").columns[:2] == ["id", "label"]


def test_weights_count_where_they_are_there(learning: Any) -> None:
    plan = learning.plan(engine="plain", test_fraction=0.0)
    learned = learning.run(plan, weight="counts").results["bank"]["metrics"]["train"]
    again = learning.plan("predict")
    models = learning.models(again)
    weighed = learning.run(again, "new", weight="counts", **models).results["bank"]["metrics"]["new"]
    tables = learning.tables(again, weight=None)
    alike = learning.run(again, "without", weight="counts", tables=tables, **models).results["bank"]["metrics"]["new"]
    assert weighed == learned
    assert alike != learned


def test_labels_that_the_model_does_not_know_are_counted_and_left_out(learning: Any) -> None:
    plan = learning.plan(engine="plain")
    learning.run(plan)
    tables = learning.tables(plan)
    common = pl.Series([f"person-{number:03}" for number in range(30, 33)])
    strange = pl.when(pl.col("id").is_in(common.implode())).then(pl.lit("maybe")).otherwise(pl.col("buys"))
    tables["bank"] = replace(tables["bank"], frame=tables["bank"].frame.with_columns(buys=strange))
    result = predict(learning, tables).results["bank"]
    assert result["unknown_labels"] == 3
    assert 0.5 < result["metrics"]["new"]["auc"] <= 1


# Files


def write_tables(learning: Any, plan: Plan) -> dict[str, dict[str, Any]]:
    """The owners' tables as CSV files, and private settings that name them."""
    settings = {}
    for party, table in learning.tables(plan).items():
        path = learning.root / f"{party}.csv"
        table.frame.write_csv(path)
        settings[party] = {"table": {"path": path, "id": "id"}}
    settings["bank"]["target"] = "buys"
    return settings


def test_new_rows_are_read_as_the_training_rows_were(learning: Any) -> None:
    """A column of codes is a category although the new file looks as if it were of numbers; others are not read."""
    plan = learning.plan("predict", parties=TWO)
    train = learning.plan(parties=TWO)
    tables = learning.tables(train)
    codes = tables["telco"].frame.with_columns(tariff=pl.col("tariff").replace({"basic": "007", "plus": "10"}))
    tables["telco"] = table_from_frame(codes, "id", "telco")
    learning.run(train, tables=tables)
    settings = write_tables(learning, plan)
    codes.filter(pl.col("tariff") == "10").with_columns(junk=pl.lit("x")).write_csv(learning.root / "telco.csv")
    privates = {party: own | {"model": learning.root / "run" / party} for party, own in settings.items()}
    found = preflight(checked(plan, "telco", Private.model_validate(privates["telco"])))
    assert found.columns == {"calls": "number", "data": "number", "tariff": "category"}
    found = preflight(checked(plan, "bank", Private.model_validate(privates["bank"])))
    assert (found.columns, found.not_features) == ({"age": "number", "income": "number"}, {"target": "buys"})
    outcome = learning.run(plan, "new", tables={}, **privates)
    assert outcome.results["telco"]["unseen"] == {}
    joined = learning.predictions("new").join(learning.predictions(), on="id", how="left", maintain_order="left")
    assert len(joined) >= 30
    assert np.array_equal(joined["score"].to_numpy(), joined["score_right"].to_numpy())


def test_a_target_that_the_new_rows_lack_is_not_missed(learning: Any) -> None:
    plan = learning.plan("predict", parties=TWO)
    learning.run(learning.plan(parties=TWO))
    settings = write_tables(learning, plan)
    pl.read_csv(learning.root / "bank.csv").drop("buys").write_csv(learning.root / "bank.csv")
    private = Private.model_validate(settings["bank"] | {"model": learning.root / "run" / "bank"})
    assert preflight(checked(plan, "bank", private)).columns == {"age": "number", "income": "number"}


def test_what_is_kept_is_for_its_owner_alone(learning: Any) -> None:
    learning.run(learning.plan())
    results = predict(learning).results
    modes = {
        f"{path.parent.name}/{path.name}": path.stat().st_mode & 0o777
        for path in (learning.root / "new").rglob("*")
        if path.name in ("aligned.csv", "predictions.csv", "model.json", "preparation.json")
    }
    owned = [f"{party}/aligned.csv" for party in ("telco", "bank", "railway")]
    assert modes == dict.fromkeys([*owned, "bank/predictions.csv"], 0o600)
    assert {party: result.get("file") for party, result in results.items()} == {
        "telco": "aligned.csv",
        "bank": "predictions.csv",
        "railway": "aligned.csv",
        "coordinator": None,
    }
    with_ids = {p.name for p in (learning.root / "new").rglob("*") if p.is_file() and b"person-" in p.read_bytes()}
    assert with_ids == {"aligned.csv", "predictions.csv"}


# Errors


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory, learning_in: Callable[[Path], Any]) -> Any:
    learning = learning_in(tmp_path_factory.mktemp("trained"))
    learning.run(learning.plan(engine="plain", model={"trees": 1}))
    return learning


@pytest.fixture
def trained(trained_once: Any, tmp_path: Path) -> Any:
    """A copy of what was trained once."""
    shutil.copytree(trained_once.root, tmp_path / "copy")
    return replace(trained_once, root=tmp_path / "copy")


def copied(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


@pytest.mark.parametrize("party", ["telco", "bank"])
def test_a_model_that_cannot_be_read_is_found_before_the_start(trained: Any, party: str) -> None:
    plan = trained.plan("predict")
    settings = write_tables(trained, plan)[party]
    own, other = trained.root / "run" / party, trained.root / "run" / ("bank" if party == "telco" else "telco")
    for name in ("model.json", "preparation.json"):
        for text in (None, '{"format": 1}', "nonsense"):
            folder = copied(own, trained.root / f"{name} {str(text)[:4]}")
            (folder / name).write_text(text) if text else (folder / name).unlink()
            with pytest.raises(InputError, match=rf"^{party}: .*{name}: "):
                preflight(checked(plan, party, Private.model_validate(settings | {"model": folder})))
    with pytest.raises(InputError, match=rf"^{party}: .*{name}: "):
        predict(trained, **{party: {"model": folder}})
    with pytest.raises(InputError, match=rf"^{party}: .*model.json: "):
        preflight(checked(plan, party, Private.model_validate(settings | {"model": other})))


def test_a_part_is_of_the_party_that_has_it(trained: Any) -> None:
    private = Private.model_validate(write_tables(trained, trained.plan())["telco"])
    with pytest.raises(InputError, match=r"telco: .*railway/model\.json: "):
        preflight(
            checked(
                trained.plan("predict"), "telco", private.model_copy(update={"model": trained.root / "run" / "railway"})
            )
        )
    mixed = copied(trained.root / "run" / "telco", trained.root / "mixed")
    shutil.copy(trained.root / "run" / "railway" / "preparation.json", mixed)
    with pytest.raises(InputError, match=r"telco: .*mixed: model\.json .*preparation\.json"):
        preflight(checked(trained.plan("predict"), "telco", private.model_copy(update={"model": mixed})))


def test_the_owners_are_those_of_the_training(trained: Any) -> None:
    private = Private.model_validate(
        write_tables(trained, trained.plan())["bank"] | {"model": trained.root / "run" / "bank"}
    )
    with pytest.raises(InputError, match=r"bank: .*railway"):
        preflight(checked(trained.plan("predict", parties=TWO), "bank", private))
    with pytest.raises(InputError, match=r"bank: .*railway"):
        predict(trained, parties=TWO)
    assert preflight(checked(trained.plan("predict"), "bank", private))
    roles = {"telco": "passive", "bank": "active", "railway": "passive", "gym": "passive", "coordinator": "coordinator"}
    plan = Plan.model_validate({"kind": "predict", "parties": {name: {"role": role} for name, role in roles.items()}})
    with pytest.raises(InputError, match=r"bank: .*gym"):
        preflight(checked(plan, "bank", private))


def test_parts_of_different_models_do_not_go_together(trained: Any) -> None:
    trained.run(trained.plan(engine="plain", model={"trees": 1}), "other")
    with pytest.raises(ProtocolError, match=r"bank .*telco"):
        predict(trained, telco={"model": trained.root / "other" / "telco"})
    assert not (trained.root / "new" / "bank" / "predictions.csv").exists()


def test_columns_must_be_as_in_training(trained: Any) -> None:
    tables = trained.tables(trained.plan())
    telco = tables["telco"]
    for frame in (telco.frame.drop("calls"), telco.frame.with_columns(calls=pl.lit("many"))):
        with pytest.raises(InputError, match="telco: data frame: column 'calls': "):
            predict(trained, tables | {"telco": table_from_frame(frame, "id", "telco")})
        shutil.rmtree(trained.root / "new")


def test_a_number_is_judged_by_numbers(learning: Any) -> None:
    learning.run(learning.plan(engine="plain", model={"classes": 0, "trees": 1}), target="amount")
    tables = learning.tables(learning.plan(), "amount")
    bank = table_from_frame(tables["bank"].frame.with_columns(amount=pl.lit("much")), "id", "bank")
    with pytest.raises(InputError, match="column 'amount': "):
        predict(learning, tables | {"bank": bank}, target="amount")


# What is said


@pytest.mark.parametrize("hidden", [False, True])
def test_the_outline_is_what_is_said(learning: Any, hidden: bool) -> None:
    learning.run(learning.plan(model={"hide_nodes": hidden}))
    outcome = predict(learning)
    exchanges = outline_of(learning.plan("predict"))
    certain, possible = (
        {(e.sender, e.receiver, e.kind) for e in exchanges if with_conditions or not e.only_if}
        for with_conditions in (False, True)
    )
    assert certain <= said(outcome.ledgers) <= possible
    rest = {kind for _, _, kind in said(outcome.ledgers) - certain}
    asked = {"Needed", "AllSides"} if hidden else {"Reached", "Sides"}
    assert rest == {"Sort", "Sorted"} | asked
    assert all(pair.differences == () for pair in reconcile_all(outcome.ledgers.values()))
    steps = {e.scope.split("/")[0] for record in outcome.ledgers.values() for e in record.entries}
    assert steps == {"plan", "align", "score", ""}


def test_two_owners_predict_without_a_coordinator(learning: Any) -> None:
    learning.run(learning.plan(parties=TWO))
    assert predict(learning, parties=("telco", "bank")).results["bank"]["common"] == 240
    assert learning.predictions("new").equals(learning.predictions().drop("set"))
    with pytest.raises(PlanError, match=r"predict .*passive"):
        outline_of(learning.plan("predict", parties=("bank", "coordinator")))


def test_a_policy_stops_what_it_forbids(trained: Any) -> None:
    kinds = ["Sides", "AllSides"]
    with pytest.raises(RefusedError, match=r"telco .*Sides"):
        predict(trained, telco={"policy": {"never_send": kinds}})
