"""Columns predicted by parties together are those predicted in the pooled columns."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.complete.federated import (
    Columns,
    NextRound,
    NoMoreRounds,
    Predicted,
    PredictedColumns,
    SelfTrainingSettings,
    Variable,
    check_groups,
    help_predict_columns,
    help_predict_new,
    predict_columns,
    predict_new,
    with_classes,
)
from unpooled.complete.variables import variable_of
from unpooled.data.coding import Column, seen
from unpooled.errors import InputError, ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.learner import LearnerParameters, Part
from unpooled.vertical.learners import learner_of
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.resume import Checkpoint
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters, LgbParameters, XgbParameters

ROWS, ALIGNED, SEED = 240, 120, 3
NAMES = ("a", "b", "c", "d")
ONE, TWO = {"registry": (0, 1, 2, 3)}, {"registry": (0, 2), "insurer": (1, 3)}
BASES: dict[str, LearnerParameters] = {
    "gbdt": GbdtParameters(trees=3, depth=2),
    "xgb": XgbParameters(trees=3, depth=2),
    "lgb": LgbParameters(trees=3, depth=3, leaves=4),
    "rf": ForestParameters(trees=3, depth=3),
}
SETTINGS = SelfTrainingSettings(rounds=3, folds=2, alpha=0.3, fraction=0.5)


def table() -> np.ndarray:
    return np.random.default_rng(3).normal(size=(ROWS, len(NAMES)))


def variable(name: str, kind: Any, values: np.ndarray) -> Variable:
    levels = ("a", "b", "c") if kind == "category" else ()
    column = Column(name=name, kind=kind, levels=levels, low=None, high=None, whole=False, spread=0.0)
    return variable_of(seen(column, values), values)


def variables() -> list[Variable]:
    """A number, two classes, and three classes, each with a known relation to the other parties' columns."""
    x = table()
    number = x[:, 0] + 0.5 * x[:, 1]
    two = (x[:, 2] > 0).astype(float)
    three = np.digitize(x[:, 3], [-0.5, 0.5]).astype(float)
    missing = np.arange(ROWS) >= ALIGNED
    values = {"number": number, "two": two, "three": three, "another": x[:, 3] ** 2}
    kinds = {"two": "category", "three": "category"}
    return [variable(name, kinds.get(name, "number"), np.where(missing, np.nan, each)) for name, each in values.items()]


def together(
    base: LearnerParameters,
    settings: SelfTrainingSettings = SETTINGS,
    owners: Mapping[str, tuple[int, ...]] = ONE,
    engine: str = "shares",
    active: Any = None,
    folder: Path | None = None,
) -> tuple[Predicted, dict[str, dict[Any, Part]]]:
    """The clinic predicts its columns from those of the others."""
    parties = ("clinic", *owners)
    models = settings.rounds * settings.folds * len(variables())
    questions = learner_of(base).questions(with_classes(base, 3), models)
    parts: dict[str, dict[Any, Part]] = {}

    def opened(session: Session) -> Engine:
        rules = Rules(engine, key_bits=512, insecure=True, questions=questions)  # type: ignore[arg-type]
        return open_engine(session, rules, parties, "clinic", "coordinator")

    def kept(session: Session) -> Any:
        return Checkpoint(folder / session.party) if folder else None

    def clinic(session: Session) -> Any:
        team = Team("clinic", parties, opened(session), "rows")
        if active is not None:
            return active(team)
        none = Columns(np.empty((ROWS, 0)), ())
        found = predict_columns(team, base, none, variables(), settings, SEED, checkpoint=kept(session))
        finish(team.products)
        return found

    def other(session: Session) -> None:
        team = Team("clinic", parties, opened(session), "rows")
        columns = Columns(table()[:, owners[session.party]], tuple(NAMES[place] for place in owners[session.party]))
        parts[session.party] = help_predict_columns(team, base, columns, settings, checkpoint=kept(session))
        finish(team.products)

    roles: dict[str, Any] = dict.fromkeys(owners, other) | {"clinic": clinic}
    roles["coordinator"] = lambda session: serve(opened(session))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")
        found = simulate_roles(roles, timeout=240).results["clinic"]
    return found, parts


def pooled(
    base: LearnerParameters, parts: Mapping[str, Mapping[Any, Any]], owners: Mapping[str, tuple[int, ...]]
) -> Predicted:
    """The same by one party with all columns, in the order in which the owners presented them."""
    order = [NAMES.index(feature.name) for owner in owners for feature in parts[owner][0, "values"].binning.features]
    columns = Columns(table()[:, order], tuple(NAMES[place] for place in order), tuple(map(len, owners.values())))
    return predict_columns(alone(), base, columns, variables(), SETTINGS, SEED)


@pytest.mark.parametrize("learner", BASES)
def test_together_as_pooled_with_every_tree_learner(learner: str) -> None:
    found, parts = together(BASES[learner])
    assert len(found.predictions) == 4
    same = pooled(BASES[learner], parts, ONE)
    for prediction, reference in zip(found.predictions, same.predictions, strict=True):
        for name in ("outputs", "values", "confidence", "rounds", "held_out"):
            np.testing.assert_array_equal(getattr(prediction, name), getattr(reference, name), err_msg=name)
    assert any((prediction.rounds > 1).any() for prediction in found.predictions), "a second round has promoted"


def test_together_as_pooled_with_two_passive_parties_and_shown_bags() -> None:
    base = BASES["gbdt"].model_copy(update={"hide_bags": False})
    found, parts = together(base, owners=TWO)
    for prediction, reference in zip(found.predictions, pooled(base, parts, TWO).predictions, strict=True):
        np.testing.assert_array_equal(prediction.outputs, reference.outputs)


def test_all_engines_give_the_same() -> None:
    base, once = GbdtParameters(trees=1, depth=1), SelfTrainingSettings(rounds=1, folds=2)
    results = [together(base, once, engine=engine)[0] for engine in ("plain", "shares", "paillier")]
    for other in results[1:]:
        for one, same in zip(results[0].predictions, other.predictions, strict=True):
            np.testing.assert_array_equal(one.outputs, same.outputs)


def test_linear_models_predict_too() -> None:
    base = LinearParameters(epochs=20, insecure_batch=True)
    found, _ = together(base, SelfTrainingSettings(rounds=1, folds=2))
    number = found.predictions[0]
    truth = table()[:, 0] + 0.5 * table()[:, 1]
    assert np.corrcoef(number.values[ALIGNED:], truth[ALIGNED:])[0, 1] > 0.95


def test_known_cells_stay_and_missing_ones_are_predicted() -> None:
    found, _ = together(BASES["gbdt"])
    for prediction, variable in zip(found.predictions, variables(), strict=True):
        assert (prediction.values[:ALIGNED] == variable.values[:ALIGNED]).all()
        assert np.isfinite(prediction.values).all()
        assert (prediction.rounds[:ALIGNED] == 0).all()
        assert (prediction.rounds[ALIGNED:] != 0).all()
        assert ((prediction.confidence >= 0) & (prediction.confidence <= 1)).all()


def test_an_interrupted_run_goes_on_and_gives_the_same(tmp_path: Path) -> None:
    base = BASES["gbdt"]
    whole, _ = together(base, folder=tmp_path / "whole")

    def stopped(team: Team) -> None:
        none, path = Columns(np.empty((ROWS, 0)), ()), tmp_path / "cut" / "clinic"
        rounds = 0
        send = team.session.send

        def counted(peer: str, message: Any, **how: Any) -> None:
            nonlocal rounds
            rounds += isinstance(message, NextRound)
            if rounds == 4:
                raise InputError("the power is cut")
            send(peer, message, **how)

        team.session.send = counted  # type: ignore[method-assign]
        predict_columns(team, base, none, variables(), SETTINGS, SEED, checkpoint=Checkpoint(path))

    with pytest.raises(InputError, match="power"):
        together(base, active=stopped, folder=tmp_path / "cut")
    resumed, parts = together(base, folder=tmp_path / "cut")
    assert set(parts["registry"]) == set(whole.models) == {(0, "values"), (0, "errors"), (2, "values"), (3, "values")}
    for one, same in zip(whole.predictions, resumed.predictions, strict=True):
        np.testing.assert_array_equal(one.outputs, same.outputs)
        np.testing.assert_array_equal(one.rounds, same.rounds)


@pytest.mark.parametrize(
    "told",
    [
        PredictedColumns((0, 0), (1, 1)),
        PredictedColumns((1,), (1,)),
        PredictedColumns((0,), (0,)),
        PredictedColumns((0, 2), (1,)),
        PredictedColumns((10**6,), (1,)),
    ],
)
def test_impossible_columns_are_refused(told: PredictedColumns) -> None:
    with pytest.raises(ProtocolError, match="PredictedColumns from clinic"):
        check_groups(told, "clinic")


@pytest.mark.parametrize("rounds", [-2, 0, 1, 3, 4])
def test_impossible_numbers_of_rounds_are_refused(rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a round values and their errors are learned, and the clinic ends after one of two."""
    send, base = Session.send, GbdtParameters(trees=1, depth=1)
    settings = SelfTrainingSettings(rounds=2, folds=2)

    def send_wrong(session: Session, peer: str, message: Any, **how: Any) -> None:
        send(session, peer, NoMoreRounds(rounds) if isinstance(message, NoMoreRounds) else message, **how)

    def clinic(team: Team) -> None:
        none = Columns(np.empty((ROWS, 0)), ())
        predict_columns(team, base, none, variables()[:1], settings.model_copy(update={"rounds": 1}), SEED)

    monkeypatch.setattr(Session, "send", send_wrong)
    with pytest.raises(ProtocolError, match=f"^invalid NoMoreRounds from clinic: {rounds} is no number of rounds"):
        together(base, settings, engine="plain", active=clinic)


def test_a_column_without_a_cell_for_each_row_is_refused() -> None:
    with pytest.raises(InputError, match="'short'"):
        predict_columns(
            alone(),
            BASES["gbdt"],
            Columns(table(), NAMES),
            [variable("short", "number", np.zeros(3))],
            SETTINGS,
            SEED,
        )


def test_without_columns_to_predict_nothing_is_asked() -> None:
    none = Columns(np.empty((ROWS, 0)), ())

    def nothing(team: Team) -> Predicted:
        found = predict_columns(team, BASES["gbdt"], none, [], SETTINGS, SEED)
        finish(team.products)
        return found

    found, parts = together(BASES["gbdt"], active=nothing)
    assert (found.predictions, found.models, parts["registry"]) == ((), {}, {})


@pytest.mark.parametrize("name", ["constant", "few"])
def test_columns_of_which_nothing_can_be_learned_are_refused(name: str) -> None:
    cells = {"constant": np.where(np.arange(ROWS) < ALIGNED, 1.0, np.nan), "few": np.full(ROWS, np.nan)}
    cells["few"][:2] = [1.0, 2.0]
    with pytest.raises(InputError, match=f"'{name}'"):
        predict_columns(
            alone(), BASES["gbdt"], Columns(table(), NAMES), [variable(name, "number", cells[name])], SETTINGS, SEED
        )


def test_without_missing_rows_nothing_is_promoted() -> None:
    whole = [variable("whole", "number", table()[:, 0])]
    found = predict_columns(alone(), BASES["gbdt"], Columns(table(), NAMES), whole, SETTINGS, SEED).predictions[0]
    assert (found.rounds == 0).all()
    assert (found.values == table()[:, 0]).all()


def test_self_training_as_in_the_paper_promotes_the_most_confident_fraction() -> None:
    settings = SelfTrainingSettings(rounds=2, folds=1, confidence="paper", alpha=0.7, fraction=0.2)
    found = predict_columns(alone(), BASES["gbdt"], Columns(table(), NAMES), variables()[:1], settings, SEED)
    prediction = found.predictions[0]
    once = SelfTrainingSettings(rounds=1, folds=1, confidence="paper", alpha=0.7, fraction=0.2)
    first = predict_columns(alone(), BASES["gbdt"], Columns(table(), NAMES), variables()[:1], once, SEED).predictions[0]
    trusted = (first.confidence >= 0.7) & (first.rounds != 0)
    assert (first.rounds == 1).sum() == round(0.2 * trusted.sum())
    assert first.confidence[first.rounds == 1].min() >= first.confidence[trusted & (first.rounds < 0)].max()
    assert (prediction.rounds == 1).sum() == (first.rounds == 1).sum()
    assert (prediction.values[prediction.rounds == 1] == first.values[prediction.rounds == 1]).all()
    assert set(found.models) == {(0, "values")}


def test_new_rows_are_completed_by_the_kept_models() -> None:
    base, once = BASES["gbdt"], SelfTrainingSettings(rounds=1, folds=2)
    columns, new = Columns(table(), NAMES), Columns(np.random.default_rng(9).normal(size=(50, 4)), NAMES)
    found = predict_columns(alone(), base, columns, variables(), once, SEED)
    learned = [prediction.column for prediction in found.predictions]
    again = predict_new(alone(), found.models, learned, once.folds, columns)
    for prediction, cells in zip(found.predictions, again, strict=True):
        np.testing.assert_array_equal(cells.values[ALIGNED:], prediction.values[ALIGNED:])
        np.testing.assert_array_equal(cells.confidence[ALIGNED:], prediction.confidence[ALIGNED:])
    later = predict_new(alone(), found.models, learned, once.folds, new)
    assert np.corrcoef(later[0].values, new.matrix[:, 0] + 0.5 * new.matrix[:, 1])[0, 1] > 0.7


def test_new_rows_together_as_pooled() -> None:
    base, once = BASES["gbdt"], SelfTrainingSettings(rounds=1, folds=2)
    found, parts = together(base, once)
    learned = [prediction.column for prediction in found.predictions]
    rules = Rules("shares", questions=0)

    def opened(session: Session) -> Engine:
        return open_engine(session, rules, ("clinic", "registry"), "clinic", "coordinator")

    def clinic(session: Session) -> Any:
        team = Team("clinic", ("clinic", "registry"), opened(session), "new rows")
        none = Columns(np.empty((ROWS, 0)), ())
        cells = predict_new(team, found.models, learned, once.folds, none)
        finish(team.products)
        return cells

    def registry(session: Session) -> None:
        team = Team("clinic", ("clinic", "registry"), opened(session), "new rows")
        help_predict_new(team, parts["registry"], Columns(table(), NAMES))
        finish(team.products)

    roles: dict[str, Any] = {"clinic": clinic, "registry": registry}
    roles["coordinator"] = lambda session: serve(opened(session))
    for cells, prediction in zip(simulate_roles(roles).results["clinic"], found.predictions, strict=True):
        np.testing.assert_array_equal(cells.values[ALIGNED:], prediction.values[ALIGNED:])
