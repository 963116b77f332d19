"""The kind `lookalike`: the seeker's list is right, by every method, with every learner, on every engine."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.checkpoint import Notebook
from unpooled.data.table import table_from_frame
from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.kinds import outline_of, parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.secure.shares import blocks, state
from unpooled.vertical.linear.parameters import LinearParameters

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
PLAIN = {"engine": "plain"}
LINEAR = {"learner": "linear", "epochs": 3, "insecure_batch": True}
METHODS: dict[str, dict[str, Any]] = {
    "vfpu": {"name": "vfpu", "iterations": 2, "bags": 2, "fraction": 0.05},
    "bagging": {"name": "bagging", "bags": 3},
    "two-step": {"name": "two-step", "folds": 2},
    "naive": {"name": "naive", "folds": 2},
}
BASES: dict[str, dict[str, Any]] = {
    **{learner: {"learner": learner} for learner in ("gbdt", "xgb", "rf")},
    "lgb": {"learner": "lgb", "leaves": 3},
    "linear": LINEAR,
}
COMMON, KNOWN = 240, 41


def check_list(seeking: Any, name: str = "run") -> pl.DataFrame:
    """Assert what holds of every list, and hand it over."""
    found, ranking = seeking.reliable(name), seeking.ranking(name)
    assert found.columns == ["id", "rank", "score", "tier", "iteration"]
    assert found["rank"].to_list() == list(range(1, len(found) + 1))
    assert set(found["tier"]) <= {"first", "second", "third"}
    assert found["tier"].to_list() == sorted(found["tier"])
    in_common = set(seeking.frames["bank"]["id"]) & set(seeking.frames["telco"]["id"])
    assert set(found["id"]) <= in_common - set(seeking.frames["shop"]["id"])
    assert found["id"].is_unique().all()
    assert ranking["score"].is_sorted(descending=True, nulls_last=True)
    assert found.drop("tier").equals(ranking.head(len(found)))
    assert set(ranking["id"]) == in_common - set(seeking.frames["shop"]["id"])
    return found


# The list


@pytest.mark.parametrize(
    ("base", "method"),
    [
        *((base, method) for base in ("gbdt", "linear") for method in METHODS),
        *((base, method) for base in ("xgb", "rf", "lgb") for method in ("vfpu", "bagging")),
    ],
)
def test_every_method_finds_with_every_kind_of_learner(seeking: Any, base: str, method: str) -> None:
    results = seeking.run(seeking.plan(method=METHODS[method], model=BASES[base], **PLAIN)).results
    found, bank = check_list(seeking), results["bank"]
    assert (bank["method"], bank["learner"]) == (method, base)
    assert (bank["positives"], bank["unlabelled"], bank["listed"]) == (KNOWN, COMMON - KNOWN, len(found))
    assert (found["iteration"] > 0).any() == (method == "vfpu")
    assert results["shop"]["listed"] == len(found) > 0
    assert found["score"].is_between(0, 1).all()


def test_likely_people_come_first(seeking: Any) -> None:
    plan = seeking.plan(fraction=0.2, model={"trees": 20, "depth": 3}, method={"name": "bagging", "bags": 10}, **PLAIN)
    bank = seeking.run(plan, target="buys").results["bank"]
    buys = dict(seeking.frames["bank"].select("id", "buys").iter_rows())
    right = [buys[person] == "yes" for person in check_list(seeking)["id"]]
    assert np.mean(right) > bank["judged"]["fraction"] + 0.2
    assert bank["judged"]["listed"]["precision"] == pytest.approx(np.mean(right))
    assert {column["name"] for column in bank["importance"]} == {"age", "income"}, "the truth is no feature"


def test_every_engine_gives_the_same_list(seeking: Any) -> None:
    for name, settings in {"shares": {}, "triples": {"count_rows": False}, "plain": PLAIN}.items():
        seeking.run(seeking.plan(**settings), name)
        assert check_list(seeking, name).equals(seeking.reliable("shares"))
    small: dict[str, Any] = {"method": {"name": "bagging", "bags": 1}, "estimate": False, "top": 20}
    for name, settings in {"paillier": PAILLIER, "small": PLAIN}.items():
        seeking.run(seeking.plan(**small, **settings), name)
    assert check_list(seeking, "paillier").equals(seeking.reliable("small"))


def test_linear_models_find_with_shares(seeking: Any) -> None:
    plan = seeking.plan(model=LINEAR | {"reveal": "gradients"}, method={"name": "naive", "folds": 2})
    seeking.run(plan)
    seeking.run(plan.model_copy(update={"engine": "plain"}), "plain")
    assert check_list(seeking).equals(seeking.reliable("plain"))
    seeking.run(seeking.plan(model=LINEAR, method={"name": "naive", "folds": 2}), "default")
    scores = [seeking.ranking(name).sort("id")["score"].to_numpy() for name in ("run", "default")]
    np.testing.assert_allclose(*scores, atol=0.001)


def test_small_bags_have_defaults_of_their_own() -> None:
    """Unless the plan says otherwise; jobs that learn from whole tables keep theirs."""
    models = [{"learner": "linear"}, {"learner": "linear", "l2": 0.5}, {"learner": "gbdt"}, {"learner": "xgb"}]
    linear, told, gbdt, xgb = (parameters_of(bare_plan(model=model)).model for model in models)  # type: ignore[attr-defined]
    assert (linear.l2, told.l2, gbdt.depth, xgb.depth) == (0.01, 0.5, 3, 6)
    assert gbdt.hide_nodes
    assert xgb.hide_nodes
    assert LinearParameters().l2 == 0.0001


def test_hidden_bags_do_not_change_who_is_found(seeking: Any) -> None:
    """With hidden nodes they could: how exact gradients are depends on the rows of a product."""
    model = {"min_rows": 1, "hide_nodes": False}
    seeking.run(seeking.plan(model=model | {"hide_bags": False}, **PLAIN))
    seeking.run(seeking.plan(model=model, **PLAIN), "hidden")
    assert check_list(seeking).equals(seeking.reliable("hidden"))


def test_neither_do_blocks_and_files_of_large_matrices(seeking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"method": {"name": "bagging", "bags": 2}, "estimate": False, "top": 20}
    seeking.run(seeking.plan(**small), "at once")
    monkeypatch.setattr(blocks, "block_bytes", 4096)
    monkeypatch.setattr(state, "MEMORY_BYTES", 0)
    ledgers = seeking.run(seeking.plan(**small)).ledgers
    assert check_list(seeking).equals(seeking.reliable("at once"))
    hidden = [entry.bytes for entry in ledgers["bank"].entries if entry.kind == "Hidden" and entry.way == "received"]
    assert len(hidden) > 10
    assert max(hidden) < 4096 + 500
    kept = {path.name for path in (seeking.root / "run" / "bank" / ".working").iterdir()}
    assert kept == {path.name for path in (seeking.root / "at once" / "bank" / ".working").iterdir()}


def test_several_owners_may_lend_columns(seeking: Any) -> None:
    seeking.run(seeking.plan(("shop", "telco", "bank", "railway", "coordinator")))
    with_railway = check_list(seeking)
    seeking.run(seeking.plan(), "without")
    assert not with_railway.equals(seeking.reliable("without"))
    assert not list((seeking.root / "run").glob("railway/*reliable*"))


def test_the_same_seeds_give_the_same_list_and_another_of_the_banks_another(seeking: Any) -> None:
    plan = seeking.plan(**PLAIN)
    for name, seed in (("first", 2), ("again", 2), ("other", 4)):
        seeking.run(plan, name, bank={"seed": seed})
    assert seeking.reliable("first").equals(seeking.reliable("again"))
    assert not seeking.reliable("first").equals(seeking.reliable("other"))


# How many


@pytest.mark.parametrize(
    ("settings", "size"),
    [
        ({"top": 7}, 7),
        ({"top": 10_000}, COMMON - KNOWN),
        ({"fraction": 0.25}, 50),
        ({"fraction": 1e-9}, 1),
        ({}, 10 + 9),
        ({"method": {"iterations": 3, "fraction": 0.1}}, 20 + 18 + 16),
    ],
)
def test_the_list_is_as_long_as_was_asked_for(seeking: Any, settings: dict[str, Any], size: int) -> None:
    results = seeking.run(seeking.plan(**settings, **PLAIN)).results
    assert len(check_list(seeking)) == size == results["bank"]["listed"]


def test_without_promotions_as_many_as_the_estimate_suggests(seeking: Any) -> None:
    bank = seeking.run(seeking.plan(method=METHODS["bagging"], model={"trees": 10}, **PLAIN)).results["bank"]
    assert len(check_list(seeking)) == bank["advice"]["positives"] > 0
    assert bank["advice"]["fewest"] <= bank["advice"]["positives"] <= bank["advice"]["most"] <= COMMON - KNOWN
    assert bank["promotions"] == []


def test_promotions_are_told_iteration_by_iteration_and_can_order_the_list(seeking: Any) -> None:
    results = seeking.run(seeking.plan(estimate=False, method={"iterations": 2, "order": "promotion"}, **PLAIN)).results
    assert [each["rows"] for each in results["bank"]["promotions"]] == [10, 9]
    assert results["shop"]["iterations"] == [0, 10, 9]
    assert results["bank"]["estimates"] == {}
    assert seeking.reliable()["iteration"].to_list() == [1] * 10 + [2] * 9
    seeking.run(seeking.plan(estimate=False, **PLAIN), "by_score")
    by_score = check_list(seeking, "by_score")
    assert by_score.height == 19
    promoted = [dict(seeking.ranking(name).select("id", "iteration").iter_rows()) for name in ("run", "by_score")]
    assert promoted[0] == promoted[1], "the order does not change who is promoted"


def test_tiers_are_thirds(seeking: Any) -> None:
    seeking.run(seeking.plan(top=10, **PLAIN))
    assert check_list(seeking)["tier"].to_list() == ["first"] * 4 + ["second"] * 3 + ["third"] * 3


def test_with_spies_it_can_stop_early_and_names_nobody_whom_the_seeker_knows(seeking: Any) -> None:
    plan = seeking.plan(method={"iterations": 6, "fraction": 0.1}, stop=True, **PLAIN)
    bank = seeking.run(plan).results["bank"]
    check_list(seeking)
    assert bank["estimates"]["spies"] == 8
    assert 0 <= bank["estimates"]["spies_promoted"] <= 1
    assert len(bank["promotions"]) <= 6
    assert bank["positives"] == KNOWN


# Tables


def test_ids_of_several_columns_come_back_in_as_many(seeking: Any) -> None:
    plan = seeking.plan(top=12, **PLAIN)
    tables = {}
    names = {"shop": ("a", "b"), "telco": ("b", "a"), "bank": ("kind", "rank")}
    for party, table in seeking.tables(plan).items():
        first, second = pl.col("id").str.slice(0, 6), pl.col("id").str.slice(7)
        one, other = names[party]
        frame = table.frame.select(first.alias(one), second.alias(other), pl.exclude("id"))
        tables[party] = table_from_frame(frame, (one, other), party)
    seeking.run(plan, tables=tables)
    found = pl.read_csv(seeking.root / "run" / "shop" / "reliable.csv", infer_schema=False)
    assert found.columns == ["a", "b", "rank", "score", "tier", "iteration"]
    ranked = pl.read_csv(seeking.root / "run" / "bank" / "ranking.csv", infer_schema=False)
    assert ranked.columns == ["kind", "rank", "rank_", "score", "iteration"]
    assert found.select("a", "b").rows() == ranked.head(12).select("kind", "rank").rows()
    assert set(found["a"]) == {"person"}


def test_the_list_is_for_its_owner_alone(seeking: Any) -> None:
    seeking.run(seeking.plan(**PLAIN))
    home = seeking.root / "run"
    private = [home / "shop" / "reliable.csv", home / "bank" / "ranking.csv"]
    assert {path.stat().st_mode & 0o777 for path in private} == {0o600}


def test_a_shop_whose_people_nobody_else_has_is_told_so(seeking: Any) -> None:
    plan = seeking.plan(**PLAIN)
    strangers = pl.DataFrame({"id": [f"nobody-{number}" for number in range(50)]})
    tables = seeking.tables(plan) | {"shop": table_from_frame(strangers, "id", "shop")}
    with pytest.raises(RefusedError, match=r"\b30 ids .*bank.*shop"):
        seeking.run(plan, tables=tables)
    assert not list(seeking.root.rglob("model.json"))


def test_a_shop_that_knows_everybody_has_nobody_to_find(seeking: Any) -> None:
    plan = seeking.plan(**PLAIN)
    tables = seeking.tables(plan) | {"shop": table_from_frame(seeking.frames["bank"].select("id"), "id", "shop")}
    with pytest.raises(InputError, match=rf"^bank: .*shop knows all {COMMON} people"):
        seeking.run(plan, tables=tables)
    status = json.loads((seeking.root / "run" / "telco" / "status.json").read_text())
    assert "bank" in status["error"]
    assert str(COMMON) not in status["error"]
    assert not list(seeking.root.rglob("model.json"))


def test_a_truth_that_is_not_there_is_named(seeking: Any) -> None:
    plan = seeking.plan(**PLAIN)
    with pytest.raises(InputError, match=r"bank.*column 'bought': target"):
        seeking.run(plan, tables=seeking.tables(plan), target="bought")


def test_it_takes_a_line_of_python() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2))
    shop = pl.DataFrame({"id": np.flatnonzero((x.sum(axis=1) > 1) & (rng.random(400) < 0.5))})
    owner = Private.model_validate({"consent": {"found": True}, "seed": 1})
    members = {
        "shop": Member("seeker", shop, private=Private.model_validate({"consent": {"positives": True}})),
        "telco": Member("passive", pl.DataFrame({"id": range(400), "b": x[:, 1]}), private=owner),
        "bank": Member("active", pl.DataFrame({"id": range(400), "a": x[:, 0]}), private=owner),
        "coordinator": Member("coordinator"),
    }
    method = {"iterations": 1, "bags": 3}
    outcome = simulate("lookalike", members, top=30, method=method, model={"trees": 5})
    assert outcome.results["shop"]["listed"] == 30
    found, ranked = outcome.tables["shop"]["look-alikes"], outcome.tables["bank"]["ranking"]
    assert found.drop("tier").equals(ranked.head(30))
    assert ranked.height == 400 - shop.height


# Plans


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"top": 5, "fraction": 0.1}, "top and fraction"),
        ({"top": 0}, r"parameters\.top"),
        ({"fraction": 1.5}, r"parameters\.fraction"),
        ({"stop": True, "method": {"name": "naive"}}, "stop: .*vfpu"),
        ({"estimate": False, "method": {"name": "bagging"}}, "top or fraction"),
        ({"model": {"classes": 3}}, r"model\.classes: "),
        ({"method": {"name": "magic"}}, r"parameters\.method: .*'vfpu', 'bagging', 'two-step' or 'naive'"),
        ({"method": "magic"}, r"parameters\.method: .*'vfpu', 'bagging', 'two-step' or 'naive'"),
        ({"method": {"name": "bagging", "iterations": 2}}, r"parameters\.method\.iterations: "),
        ({"model": {"learner": "magic"}}, r"parameters\.model"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(settings: dict[str, Any], fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        parameters_of(bare_plan(**settings))


def bare_plan(parties: tuple[str, ...] = ("shop", "telco", "bank", "coordinator"), **parameters: Any) -> Plan:
    roles = {"shop": "seeker", "telco": "passive", "bank": "active", "coordinator": "coordinator"}
    content = {"kind": "lookalike", "parties": {name: {"role": roles[name]} for name in parties}}
    return Plan.model_validate(content | {"parameters": parameters})


@pytest.mark.parametrize(
    ("model", "depth"),
    [({"trees": 5}, 3), ({"learner": "gbdt"}, 3), ({"learner": "gbdt", "depth": 4}, 4), ({"learner": "xgb"}, 6)],
)
def test_a_section_for_gbdt_changes_the_jobs_default(model: dict[str, Any], depth: int) -> None:
    assert parameters_of(bare_plan(model=model)).model.depth == depth  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", METHODS)
def test_a_methods_name_stands_for_its_defaults(name: str) -> None:
    by_name, as_table = (parameters_of(bare_plan(method=method)) for method in (name, {"name": name}))
    assert by_name == as_table
    assert by_name.method.name == name  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("parties", "fault"),
    [
        (("telco", "bank", "coordinator"), "lookalike .*seeker"),
        (("shop", "bank", "coordinator"), "lookalike .*passive"),
        (("shop", "telco", "bank"), "coordinator"),
    ],
)
def test_parties_that_cannot_find_look_alikes_are_refused(parties: tuple[str, ...], fault: str) -> None:
    with pytest.raises(PlanError, match=fault):
        outline_of(bare_plan(parties))


# Later


@pytest.mark.parametrize("base", ["gbdt", "rf", "linear"])
def test_the_models_score_rows_later_as_they_did(learning: Any, seeking: Any, base: str) -> None:
    """What `predict` says of the same rows is the mean of what the last models said of them."""
    plan = seeking.plan(model=BASES[base], method={"iterations": 2, "bags": 3})
    seeking.run(plan)
    home = seeking.root / "run"
    kept = Notebook(home / "bank" / ".working" / "checkpoint" / "groups")
    said = kept.read(len(kept) - 1)["scores"][..., 0].astype(float)
    assert said.shape == (3, COMMON)
    expected = dict(zip(pl.read_csv(home / "bank" / "aligned.csv")["id"], said.mean(axis=0), strict=True))
    again = learning.plan("predict", parties=("telco", "bank", "coordinator"))
    tables = {party: table for party, table in seeking.tables(plan).items() if party != "shop"}
    models = {party: {"model": home / party, "target": None} for party in again.owners}
    result = learning.run(again, "new", tables=tables, **models).results["bank"]
    assert result["class_names"] == ["other", "positive"]
    scored = dict(learning.predictions("new").select("id", "score").iter_rows())
    assert scored.keys() == expected.keys()
    assert [scored[person] for person in expected] == pytest.approx(list(expected.values()), abs=1e-6)


def test_the_models_score_new_people(learning: Any, seeking: Any) -> None:
    plan = seeking.plan(("shop", "telco", "bank", "coordinator"), **PLAIN)
    seeking.run(plan)
    again = learning.plan("predict", parties=("telco", "bank", "coordinator"))
    new = {
        party: replace(table, frame=table.frame.head(150).with_columns(id=pl.format("new-{}", "id")))
        for party, table in seeking.tables(plan).items()
        if party != "shop"
    }
    models = {party: {"model": seeking.root / "run" / party, "target": None} for party in again.owners}
    common = learning.run(again, "new", tables=new, **models).results["bank"]["common"]
    scored = learning.predictions("new")
    assert len(scored) == common > 30
    assert scored["id"].str.starts_with("new-person-").all()
    assert scored["score"].is_between(0, 1).all()
