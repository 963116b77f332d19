"""The kind `train`: the model is that of pooled data, whatever the learner, the task, the engine and the labels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.errors import InputError
from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.private import Private
from unpooled.vertical.model_file import load
from unpooled.vertical.trees.model import Model, Part

TASKS = {"buys": 2, "group": 3, "amount": 0}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
TWO = ("telco", "bank", "coordinator")


# The model


@pytest.mark.parametrize("target", TASKS)
@pytest.mark.parametrize("learner", ["gbdt", "xgb", "lgb", "rf"])
def test_every_learner_learns_every_task_as_from_pooled_data(learning: Any, learner: str, target: str) -> None:
    plan = learning.plan(model={"learner": learner, "classes": TASKS[target]})
    results = learning.run(plan, target=target).results
    assert np.array_equal(learning.scores(), learning.pooled(plan, target))
    bank = results["bank"]
    assert (bank["learner"], bank["classes"]) == (learner, TASKS[target])
    assert bank["trees"] == 3 * (3 if TASKS[target] == 3 and learner != "rf" else 1)
    assert {"test", "train"} == bank["metrics"].keys()
    judged = bank["metrics"]["test"]
    assert judged.get("auc", judged.get("macro_auc", judged.get("r2", 0) + 0.4)) > 0.6


@pytest.mark.parametrize("target", ["group", "amount"])
def test_every_engine_gives_the_same_model(learning: Any, target: str) -> None:
    engines = {"shares": {}, "triples": {"count_rows": False}, "plain": {"engine": "plain"}, "paillier": PAILLIER}
    for name, settings in engines.items():
        plan = learning.plan(parties=TWO, model={"learner": "xgb", "classes": TASKS[target], "trees": 2}, **settings)
        learning.run(plan, name, target)
    assert all(learning.predictions(name).equals(learning.predictions("shares")) for name in engines)
    trees = {name: load(learning.root / name / "bank" / "model.json", Model).ensembles for name in engines}
    assert all(found == trees["shares"] for found in trees.values())


def test_the_same_seeds_give_the_same_model_and_others_another(learning: Any) -> None:
    plan = learning.plan(engine="plain", model={"learner": "rf"})
    for name, seed in (("first", 2), ("again", 2), ("other", 4)):
        learning.run(plan, name, bank={"seed": seed})
    assert learning.predictions("first").equals(learning.predictions("again"))
    assert not learning.predictions("first").equals(learning.predictions("other"))
    parts = [load(learning.root / name / "telco" / "model.json", Part) for name in ("first", "again")]
    assert parts[0].model_copy(update={"name": ""}) == parts[1].model_copy(update={"name": ""})
    assert parts[0].name != parts[1].name


def test_ids_written_differently_do_not_change_that(learning: Any) -> None:
    """All owners take the same order of rows from their ids, however each writes them."""
    plan = learning.plan(engine="plain", normalise="case")
    learning.run(plan)
    number = pl.col("id").str.slice(7).cast(pl.Int64)
    loud = {"bank": number % 2 == 0, "telco": number % 3 == 0, "railway": number < 0}
    tables = {
        party: replace(
            t, frame=t.frame.with_columns(id=pl.when(loud[party]).then(pl.col("id").str.to_uppercase()).otherwise("id"))
        )
        for party, t in learning.tables(plan).items()
    }
    learning.run(plan, "loud", tables=tables)
    assert np.array_equal(learning.scores(), learning.scores("loud"))
    assert learning.predictions("loud")["id"].str.to_lowercase().equals(learning.predictions()["id"])


@pytest.mark.parametrize(
    ("settings", "target"),
    [
        ({"hide_nodes": True}, "buys"),
        ({"hide_bags": False, "learner": "xgb"}, "buys"),
        ({"hide_bags": False, "learner": "rf", "classes": 3}, "group"),
        ({"min_rows": 1, "bundle": False}, "amount"),
        ({"patience": 1, "trees": 6, "balanced": True}, "buys"),
        ({"learner": "lgb", "row_fraction": 0.7, "column_fraction": 0.6}, "buys"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else value,
)
def test_options_do_not_change_that(learning: Any, settings: dict[str, Any], target: str) -> None:
    plan = learning.plan(model={"classes": TASKS[target]} | settings)
    learning.run(plan, target=target)
    expected, trained = learning.pooled(plan, target), (learning.predictions()["set"] == "train").to_numpy()
    if settings.get("hide_bags", True):
        assert np.array_equal(learning.scores(), expected)
    else:  # rows that take no part in a tree have no score there, but are scored afterwards
        assert np.isfinite(learning.scores()).all()
        if settings.get("learner") != "rf":
            assert np.array_equal(learning.scores()[trained], expected[trained])
            assert np.isnan(expected[~trained]).all()


@pytest.mark.parametrize("settings", [{}, PAILLIER, {"engine": "plain"}], ids=["shares", "paillier", "plain"])
def test_an_owner_may_have_no_columns(learning: Any, settings: dict[str, Any]) -> None:
    plan = learning.plan(model={"trees": 1, "depth": 2}, **settings)
    tables = learning.tables(plan)
    ids = {party: table_from_frame(tables[party].frame.select("id"), "id", party) for party in ("telco", "railway")}
    for name, without in (("one", {"railway": ids["railway"]}), ("all", ids)):
        results = learning.run(plan, name, tables=tables | without).results
        assert (results["railway"]["columns"], results["railway"]["questions"]) == (0, 0)
        assert results["bank"]["gain_by_party"]["railway"] == 0
        assert results["bank"]["metrics"]["train"]["auc"] > 0.6
    target_alone = table_from_frame(tables["bank"].frame.select("id", "buys"), "id", "bank")
    assert learning.run(plan, "lent", tables=tables | {"bank": target_alone}).results["bank"]["own_gains"] == []
    with pytest.raises(InputError, match="no party"):
        learning.run(plan, "none", tables=ids | {"bank": target_alone})


def test_two_parties_can_learn_in_a_line_of_python() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 2))
    bank = pl.DataFrame({"id": range(200), "a": x[:, 0], "good": x.sum(axis=1) > 0})
    members = {
        "bank": Member("active", bank, private=Private(target="good", seed=1)),
        "telco": Member("passive", pl.DataFrame({"id": range(200), "b": x[:, 1]})),
        "coordinator": Member("coordinator"),
    }
    outcome = simulate("train", members, model={"learner": "xgb", "trees": 10})
    result, rows = outcome.results["bank"], outcome.tables["bank"]["predictions"]
    assert (rows["label"].dtype, rows["score"].dtype, rows.height) == (pl.Boolean, pl.Float64, 200)
    assert result["learner"] == "xgb"
    assert result["class_names"] == ["false", "true"]
    assert result["metrics"]["test"]["auc"] > 0.8


# Labels and weights


def test_weights_count_and_are_no_feature(learning: Any) -> None:
    plan = learning.plan(model={"learner": "rf"})
    result = learning.run(plan, target="buys", weight="counts").results["bank"]
    assert np.array_equal(learning.scores(), learning.pooled(plan, "buys", "counts"))
    assert {column["name"] for column in result["importance"]} == {"age", "income"}
    without = learning.run(plan, "without").results["bank"]
    assert not np.array_equal(learning.scores(), learning.scores("without"))
    assert result["train_rows"] == without["train_rows"]


def test_rows_without_a_label_or_weight_are_scored(learning: Any) -> None:
    plan = learning.plan(model={"learner": "xgb"})
    frame = learning.bank()
    number = np.arange(len(frame))
    labels, weights = (
        frame["buys"].set(pl.Series(number % 5 == 0), None),
        pl.Series(np.where(number % 7 == 0, 0.0, 2.0)),
    )
    tables = learning.with_bank(plan, frame.with_columns(labels, w=weights))
    result = learning.run(plan, weight="w", tables=tables).results["bank"]
    found = learning.predictions().join(tables["bank"].frame, on="id", how="left", maintain_order="left")
    assert found["label"].equals(found["buys"])
    assert ((found["set"] == "unlabelled") == found["buys"].is_null()).all()
    assert ((found["set"] == "weight zero") == ((found["w"] == 0) & found["buys"].is_not_null())).all()
    assert np.isfinite(learning.scores()).all()
    counts = {f"{name.replace(' ', '_')}_rows": count for name, count in found["set"].value_counts().rows()}
    assert len(counts) == 4
    assert counts.items() <= result.items()
    assert sum(counts.values()) == result["common"] == 240


def test_rows_without_a_label_or_weight_teach_nothing(learning: Any) -> None:
    plan = learning.plan(engine="plain", model={"learner": "xgb"}, test_fraction=0.0)
    frame = learning.bank()
    some = pl.Series(np.arange(len(frame)) % 5 == 0)
    weightless = frame["counts"].set(some, 0.0)
    cases = {
        "no label": frame.with_columns(frame["buys"].set(some, None)),
        "a right label, no weight": frame.with_columns(weightless),
        "a wrong label, no weight": frame.with_columns(weightless, frame["buys"].set(some, "no")),
    }
    for name, changed in cases.items():
        learning.run(plan, name, weight="counts", tables=learning.with_bank(plan, changed))
    assert all(np.array_equal(learning.scores(name), learning.scores("no label")) for name in cases)


@pytest.mark.parametrize(
    ("yes", "no", "types", "names"),
    [
        (10.0, 2.0, {}, ["2", "10"]),
        (0.5, 1.0, {}, ["0.5", "1"]),
        (True, False, {}, ["false", "true"]),
        ("yes", "no", {}, ["no", "yes"]),
        ("yes", "no", {"y": ("yes", "no")}, ["yes", "no"]),
    ],
    ids=["numbers", "fractions", "booleans", "texts", "ordered"],
)
def test_classes_are_numbered_in_their_natural_order(
    learning: Any, yes: Any, no: Any, types: dict[str, Any], names: list[str]
) -> None:
    plan = learning.plan(engine="plain", parties=("telco", "bank"), model={"trees": 1})
    frame = learning.bank()
    labels = pl.Series([yes if bought == "yes" else no for bought in frame["buys"]])
    tables = learning.with_bank(plan, frame.drop("buys").with_columns(y=labels), types)
    assert learning.run(plan, target="y", tables=tables).results["bank"]["class_names"] == names
    found = learning.predictions()
    bought = found["label"] == yes
    second_is_yes = names[1] == ("10" if yes == 10.0 else str(yes).lower())
    scores = found["score"] if second_is_yes else 1 - found["score"]
    assert scores.filter(bought).mean() > scores.filter(~bought).mean()


def test_without_test_rows_there_is_nothing_to_judge_them_by(learning: Any) -> None:
    plan = learning.plan(engine="plain", test_fraction=0.0)
    result = learning.run(plan).results["bank"]
    assert (result["test_rows"], result["train_rows"]) == (0, 240)
    assert result["metrics"].keys() == {"train"}
    assert not {"curves", "calibration"} & result.keys()
    assert set(learning.predictions()["set"]) == {"train"}


def test_test_rows_are_drawn_from_each_class_alike(learning: Any) -> None:
    plan = learning.plan(engine="plain", model={"trees": 1, "classes": 3}, test_fraction=0.25)
    learning.run(plan, target="group")
    shares = learning.predictions().group_by("label").agg((pl.col("set") == "test").mean().alias("share"))["share"]
    assert len(shares) == 3
    assert ((shares - 0.25).abs() < 0.02).all()


def test_test_rows_teach_nothing(learning: Any) -> None:
    plan = learning.plan(engine="plain")
    learning.run(plan)
    test = learning.predictions().filter(pl.col("set") == "test")["id"].implode()
    frame = learning.bank()
    otherwise = pl.when(pl.col("buys") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes"))
    changed = frame.with_columns(
        buys=pl.when(pl.col("id").is_in(test)).then(otherwise).otherwise("buys"),
        w=pl.when(pl.col("id").is_in(test)).then(0.0).otherwise(1.0),
    )
    again = learning.plan(engine="plain", test_fraction=0.0)
    learning.run(again, "again", weight="w", tables=learning.with_bank(again, changed))
    assert np.array_equal(learning.scores(), learning.scores("again"))
