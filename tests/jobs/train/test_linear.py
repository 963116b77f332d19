"""The kinds `train` and `predict` with linear models: what is learned, kept and said, and what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Bools, Floats
from unpooled.data.prepare import load_preparation, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import outline_of, parameters_of
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Private
from unpooled.jobs.train.job import Parameters, notes_of
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.session import Session
from unpooled.vertical.linear import fitting, predictor
from unpooled.vertical.linear.descent import order_of
from unpooled.vertical.linear.learner import shown_test as set_aside
from unpooled.vertical.linear.model import LinearModels, LinearParts
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.model_file import load
from unpooled.vertical.numbers import sigmoid, softmax
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team

TASKS = {"buys": 2, "group": 3, "amount": 0}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
TWO = ("telco", "bank", "coordinator")
THREE = ("telco", "bank", "railway", "coordinator")
LINEAR = {"learner": "linear"}
SHOWN = {"reveal": "gradients"}
TINY = LINEAR | SHOWN | {"insecure_batch": True, "epochs": 2}


def matrices(learning: Any, plan: Any, target: str) -> dict[str, fitting.Columns]:
    """Each owner's prepared columns of the common rows, in the order of predictions."""
    ids, found = pl.DataFrame({"id": learning.predictions()["id"]}), {}
    for party, table in learning.tables(plan, target).items():
        rows = ids.join(table.frame.with_row_index("row"), on="id", how="left", maintain_order="left")["row"]
        home = learning.root / "run" / party
        prepared = transform(load_preparation(home / "preparation.json"), table.take(rows.to_numpy()))
        found[party] = fitting.Columns(prepared.matrix, prepared.names)
    return found


def labels_as_numbers(learning: Any) -> Floats:
    labels = learning.predictions()["label"]
    if labels.dtype == pl.String:
        known = sorted(labels.unique())
        labels = labels.replace_strict(dict(zip(known, range(len(known)), strict=True)))
    values: Floats = labels.cast(pl.Float64).to_numpy()
    return values


def learned_directly(plan: Any, columns: Mapping[str, fitting.Columns], values: Floats, test: Bools) -> Floats:
    """The scores of all rows by a model that the learner alone, without a job, makes of those that are no test."""
    parameters = LinearParameters.model_validate(plan.parameters["model"])

    def part(session: Session) -> Any:
        engine = open_engine(session, Rules("plain"), plan.owners, plan.active, None)
        team, own = Team(plan.active, plan.owners, engine, "rows"), columns[session.party]
        training = fitting.Columns(own.matrix[~test], own.names)
        if session.party != plan.active:
            predictor.help_predict(team, fitting.help_fit(team, parameters, training), own.matrix)
            return None
        model = fitting.fit(team, parameters, training, Target(values[~test])).model
        found = predictor.score(team, model, own.matrix)
        if not parameters.classes:
            return model.centre + model.scale * found
        return sigmoid(found) if parameters.classes == 2 else softmax(found)

    scores: Floats = simulate_roles(dict.fromkeys(plan.owners, part)).results[plan.active]
    return scores


# What is learned


@pytest.mark.parametrize(
    ("target", "parties"), [("buys", TWO), ("group", THREE), ("amount", THREE)], ids=["buys", "group", "amount"]
)
def test_training_is_what_the_learner_does_and_prediction_repeats_it(
    many: Any, target: str, parties: tuple[str, ...]
) -> None:
    plan = many.plan(parties=parties, model=LINEAR | SHOWN | {"classes": TASKS[target]})
    outcome = many.run(plan, target=target)
    test = (many.predictions()["set"] == "test").to_numpy()
    assert np.array_equal(test, set_aside(1540, 0.2))
    directly = learned_directly(plan, matrices(many, plan, target), labels_as_numbers(many), test)
    assert np.array_equal(many.scores(), directly)
    bank = outcome.results["bank"]
    assert (bank["learner"], bank["classes"], bank["test_rows"], bank["train_rows"]) == (
        "linear",
        TASKS[target],
        308,
        1232,
    )
    assert bank["epochs"] == len(bank["losses"]) <= 12
    assert bank["losses"][-1] < bank["losses"][0]
    judged = bank["metrics"]["test"]
    assert judged.get("auc", judged.get("macro_auc", judged.get("r2"))) > (0.6 if len(parties) == 4 else 0.3)
    assert ("curves" in bank, "calibration" in bank) == (target == "buys", target != "group")
    again = many.plan("predict", parties=parties)
    new = many.run(again, "new", target, **many.models(again)).results["bank"]
    assert many.predictions("new").equals(many.predictions().drop("set"))
    assert (new["learner"], new["common"], new["class_names"]) == ("linear", 1540, bank["class_names"])
    assert new["metrics"]["new"].keys() == judged.keys()


def test_every_engine_gives_the_same_model(learning: Any) -> None:
    engines: dict[str, dict[str, Any]] = {"shares": {}, "plain": {"engine": "plain"}, "paillier": PAILLIER}
    for name, settings in engines.items():
        learning.run(learning.plan(model=TINY, **settings), name)
    assert all(learning.predictions(name).equals(learning.predictions("shares")) for name in engines)
    weights = {
        name: load(learning.root / name / "telco" / "model.json", LinearParts).parts[0].weights for name in engines
    }
    assert set(map(str, weights.values())) == {str(weights["shares"])}


def test_weights_that_are_revealed_at_the_end_are_about_the_same(many: Any) -> None:
    """Steps without momentum lower the loss each time, so that the best weights are the last ones too."""
    model = LINEAR | {"optimiser": "plain", "learning_rate": 0.5}
    losses = many.run(many.plan(model=model | SHOWN | {"tolerance": 0})).results["bank"]["losses"]
    assert losses == sorted(losses, reverse=True)
    result = many.run(many.plan(model=model), "final").results["bank"]
    assert (result["epochs"], result["losses"], len(losses)) == (12, [], 12)
    assert np.abs(many.scores() - many.scores("final")).max() < 0.001
    assert many.scores().std() > 0.1
    assert not any("gradients of its own columns" in note for note in result["notes"])
    assert any("no gradient and no loss" in note for note in result["notes"])


# Rows


def test_test_rows_are_the_last_in_an_order_that_all_know() -> None:
    order = order_of(50)
    assert np.flatnonzero(set_aside(50, 0.3)).tolist() == sorted(order[-15:].tolist())
    assert not set_aside(50, 0.0).any()
    with pytest.raises(InputError, match=r"parameters\.test_fraction: .*\b2 common rows"):
        set_aside(2, 0.9)


def test_test_rows_teach_nothing(many: Any) -> None:
    plan = many.plan(engine="plain", model=LINEAR | SHOWN)
    many.run(plan)
    test = many.predictions().filter(pl.col("set") == "test")["id"].implode()
    otherwise = pl.when(pl.col("buys") == "yes").then(pl.lit("no")).otherwise(pl.lit("yes"))
    changed = (
        many.bank()
        .drop("counts")
        .with_columns(buys=pl.when(pl.col("id").is_in(test)).then(otherwise).otherwise("buys"))
    )
    many.run(plan, "changed", tables=many.with_bank(plan, changed))
    assert np.array_equal(many.scores(), many.scores("changed"))
    assert not many.predictions()["label"].equals(many.predictions("changed")["label"])


def unlabelled(many: Any) -> pl.DataFrame:
    """The bank's table with some labels missing, and some weights zero."""
    frame, number = many.bank(), np.arange(1570)
    labels = frame["buys"].set(pl.Series(number % 5 == 0), None)
    weights = pl.Series("counts", np.where(number % 7 == 0, 0.0, 1.0))
    return frame.with_columns(labels, weights)


@pytest.mark.parametrize(
    ("parties", "model"),
    [(TWO, SHOWN), (THREE, SHOWN | {"show_weights": True}), (THREE, SHOWN), (TWO, {})],
    ids=["hidden", "shown", "hidden from two", "hidden, weights in shares"],
)
def test_rows_without_a_label_or_weight_are_scored_and_not_judged(
    many: Any, parties: tuple[str, ...], model: dict[str, Any]
) -> None:
    plan = many.plan(parties=parties, model=LINEAR | model)
    tables = many.with_bank(plan, unlabelled(many))
    result = many.run(plan, weight="counts", tables=tables).results["bank"]
    found = many.predictions().join(tables["bank"].frame, on="id", how="left", maintain_order="left")
    assert ((found["set"] == "unlabelled") == found["buys"].is_null()).all()
    assert ((found["set"] == "weight zero") == ((found["counts"] == 0) & found["buys"].is_not_null())).all()
    aside = set_aside(1540, 0.2)
    assert np.array_equal((found["set"] == "test").to_numpy(), aside & found["set"].is_in(["test", "train"]).to_numpy())
    assert result["test_rows"] < 308
    counts = {f"{name.replace(' ', '_')}_rows": count for name, count in found["set"].value_counts().rows()}
    assert len(counts) == 4
    assert counts.items() <= result.items()
    assert np.isfinite(many.scores()).all()
    assert result["metrics"]["test"]["auc"] > 0.6


# What is kept


def test_each_party_keeps_its_own_part(many: Any) -> None:
    results = many.run(many.plan(model=LINEAR)).results
    run = many.root / "run"
    (model,) = load(run / "bank" / "model.json", LinearModels).models
    parts = {party: load(run / party / "model.json", LinearParts).parts[0] for party in ("telco", "railway")} | {
        "bank": model.part
    }
    assert {part.name for part in parts.values()} == {model.part.name}
    for party, part in parts.items():
        shown = results[party]["importance"]
        assert {one["name"]: one["weight"] for one in shown} == part.importance
        assert [one["weight"] for one in shown] == sorted(part.importance.values(), reverse=True)
        assert results[party]["columns"] == len(part.columns) > 0
        assert results[party]["questions"] == 0, "nobody is shown a sum"
        assert not {"thresholds", "own_gains", "gain_by_party", "trees"} & results[party].keys()
        files = {path.name: path.stat().st_mode & 0o777 for path in (run / party).iterdir()}
        assert files["model.json"] == files["preparation.json"] == 0o600
    words = {"telco": ("calls", "tariff"), "bank": ("income", "buys"), "railway": ("trips", "card")}
    for party in (*words, "coordinator"):
        strange = [word for owner, own in words.items() if owner != party for word in own]
        for path in filter(Path.is_file, (run / party).rglob("*")):
            assert not [word for word in strange if word.encode() in path.read_bytes()], path


def test_notes_say_what_the_others_saw(many: Any) -> None:
    def notes(test_fraction: float = 0.2, **model: Any) -> str:
        parameters = parameters_of(many.plan(model=LINEAR | model, test_fraction=test_fraction))
        assert isinstance(parameters, Parameters)
        return " ".join(notes_of(parameters))

    assert "All parties know which rows were set aside" in notes()
    assert "no gradient and no loss" in notes()
    assert "cuts other batches" in notes(**SHOWN)
    assert "bins" not in notes()
    assert "set aside" not in notes(0.0)
    assert "cuts other batches" not in notes()
    assert "seen how much each row counts" in notes(show_weights=True)
    assert "so small that labels can be worked out" in notes(insecure_batch=True, **SHOWN)
    assert " ".join(many.run(many.plan(engine="plain", model=LINEAR)).results["bank"]["notes"]) == notes()


# Errors


def test_small_batches_are_refused(learning: Any) -> None:
    with pytest.raises(RefusedError, match=r"\b1000 rows .*\b192\b"):
        learning.run(learning.plan(engine="plain", model=LINEAR | SHOWN))


def test_few_rows_for_many_columns_are_refused(learning: Any) -> None:
    with pytest.raises(RefusedError, match=r"telco .*at least 100 rows \(20 for each column\), and there are 96"):
        learning.run(learning.plan(engine="plain", model=LINEAR, test_fraction=0.6))


@pytest.mark.parametrize(
    ("settings", "model", "reason"),
    [
        (PAILLIER, {}, r"parameters\.model\.reveal: .*shares.* With reveal = 'gradients' it works, but"),
        ({}, {"optimiser": "adam"}, r"parameters\.model: reveal: .*final"),
        ({}, {"classes": 1}, r"parameters\.model: classes: "),
        ({}, {"trees": 5}, r"parameters\.model\.trees: "),
        ({"parties": ("telco", "bank")}, {}, "engine: .*coordinator"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_the_start(
    learning: Any, settings: dict[str, Any], model: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PlanError, match=reason):
        outline_of(learning.plan(model=LINEAR | model, **settings))


def with_a_gap(table: Table, column: str) -> Table:
    """A table in which some cells of a column are missing."""
    gaps = pl.Series(np.arange(table.frame.height) % 9 == 0)
    return replace(table, frame=table.frame.with_columns(table.frame[column].set(gaps, None)))


def test_missing_values_are_named(learning: Any) -> None:
    plan = learning.plan(engine="plain", model=TINY)
    with pytest.raises(InputError, match=r"telco: data frame: column 'data': .*prepare\.missing"):
        learning.run(plan, "kept", telco={"prepare": {"missing": "keep"}})
    assert not list(learning.root.rglob("model.json"))
    tables = learning.tables(plan)
    tables["telco"] = table_from_frame(tables["telco"].frame.drop("data"), "id", "telco")
    learning.run(plan, tables=tables, telco={"prepare": {"missing": "keep"}})
    again = learning.plan("predict")
    with pytest.raises(InputError, match=r"telco: data frame: column 'calls': .*missing"):
        learning.run(
            again, "new", tables=tables | {"telco": with_a_gap(tables["telco"], "calls")}, **learning.models(again)
        )


@pytest.fixture(scope="module")
def trained_once(tmp_path_factory: pytest.TempPathFactory, learning_in: Callable[[Path], Any]) -> Any:
    """In `run` a linear model, in `trees` one of trees."""
    learning = learning_in(tmp_path_factory.mktemp("trained"))
    learning.run(learning.plan(engine="plain", model=TINY))
    learning.run(learning.plan(engine="plain", model={"trees": 1}), "trees")
    return learning


@pytest.fixture
def trained(trained_once: Any, tmp_path: Path) -> Any:
    """A copy."""
    shutil.copytree(trained_once.root, tmp_path / "copy")
    return replace(trained_once, root=tmp_path / "copy")


@pytest.mark.parametrize(("odd", "active"), [("telco", "run"), ("railway", "trees")])
def test_parts_of_two_kinds_of_model_do_not_go_together(trained: Any, odd: str, active: str) -> None:
    plan, other = trained.plan("predict"), "trees" if active == "run" else "run"
    homes = {party: trained.root / (other if party == odd else active) / party for party in plan.owners}
    with pytest.raises(InputError, match=rf"^{odd}: .*bank"):
        trained.run(plan, "new", **{party: {"model": home} for party, home in homes.items()})
    assert not list((trained.root / "new").rglob("aligned.csv"))


def copied(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    return folder


def test_a_damaged_part_is_found_before_the_start(trained: Any) -> None:
    plan, table = trained.plan("predict"), trained.root / "telco.csv"
    trained.frames["telco"].write_csv(table)
    private = Private.model_validate({"table": {"path": table, "id": "id"}, "model": trained.root / "run" / "telco"})
    assert preflight(checked(plan, "telco", private)).columns.keys() == {"calls", "data", "tariff"}
    folder = copied(trained.root / "run" / "telco", trained.root / "damaged")
    whole = (folder / "model.json").read_text()
    for text in (whole.replace('"outputs":1', '"outputs":2'), whole.replace('"limit"', '"limits"'), whole[:-9]):
        (folder / "model.json").write_text(text)
        with pytest.raises(InputError, match=r"^telco: .*damaged/model\.json: "):
            preflight(checked(plan, "telco", private.model_copy(update={"model": folder})))
    for other in ("railway", "bank"):
        with pytest.raises(InputError, match=rf"^telco: .*{other}/model\.json: "):
            preflight(checked(plan, "telco", private.model_copy(update={"model": trained.root / "run" / other})))
    mixed = copied(trained.root / "run" / "telco", trained.root / "mixed")
    shutil.copy(trained.root / "run" / "railway" / "preparation.json", mixed)
    with pytest.raises(InputError, match=r"telco: .*mixed: model\.json .*preparation\.json"):
        preflight(checked(plan, "telco", private.model_copy(update={"model": mixed})))


def test_a_model_of_other_owners_is_found_before_the_start(trained: Any) -> None:
    table = trained.root / "bank.csv"
    trained.frames["bank"].write_csv(table)
    private = Private.model_validate({"table": {"path": table, "id": "id"}, "model": trained.root / "run" / "bank"})
    assert preflight(checked(trained.plan("predict"), "bank", private))
    with pytest.raises(InputError, match=r"bank: .*railway"):
        preflight(checked(trained.plan("predict", parties=TWO), "bank", private))
