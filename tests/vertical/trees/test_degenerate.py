"""Input at the edge: a clear error, or a model that is known to be right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees.ensemble import Fitted, fit
from unpooled.vertical.trees.parameters import GbdtParameters, LgbParameters, XgbParameters
from unpooled.vertical.trees.predictor import scores

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")
every_learner = pytest.mark.parametrize("learner", LEARNERS)
engines_in_turn = pytest.mark.parametrize(
    ("learner", "engine"), [("gbdt", "shares"), ("xgb", "paillier"), ("lgb", "shares"), ("rf", "paillier")]
)


def names(columns: int) -> tuple[str, ...]:
    return tuple(f"c{number}" for number in range(columns))


def pooled(parameters: Any, matrix: Any, *targets: Target) -> Fitted:
    matrix = np.array(matrix, float)
    return fit(alone(), parameters, Columns(matrix, names(matrix.shape[1])), targets)


def leaves_of(fitted: Fitted) -> list[int]:
    return [tree.first.count(-1) for ensemble in fitted.model.ensembles for tree in ensemble.trees]


# targets


@engines_in_turn
def test_one_class_only(learner: str, engine: str, scene: Make, parameters_for: Make, together: Make) -> None:
    data = scene()
    with pytest.raises(InputError, match=r"target.*1 of 2") as caught:
        together(parameters_for(learner), engine=engine, data=data, targets=[Target(np.ones(160))])
    assert any("telco" in note and "bank" in note and "input" in note for note in caught.value.__notes__)
    rare = np.where(np.arange(160) == 7, 1.0, 0.0)
    with pytest.raises(InputError, match=r"target.*1 of 2"):
        together(parameters_for(learner), engine=engine, data=data, targets=[Target(rare, 1 - rare)])


@every_learner
def test_more_classes_than_rows(learner: str, parameters_for: Make) -> None:
    matrix = np.arange(6.0)[:, np.newaxis]
    with pytest.raises(InputError, match=r"target.*3 of 9"):
        pooled(parameters_for(learner, 9), matrix, Target(np.arange(6.0)))
    fitted = pooled(parameters_for(learner, 6, min_rows=1, minimum_child_weight=0.0), matrix, Target(np.arange(6.0)))
    assert fitted.scores[0].shape == (6, 6)
    np.testing.assert_allclose(fitted.scores[0].sum(axis=1), 1.0, rtol=1e-12)


@every_learner
def test_a_number_that_is_always_the_same(learner: str, scene: Make, parameters_for: Make, together: Make) -> None:
    for value in (0.0, 1e12):
        data = scene()
        run = together(parameters_for(learner, 0), engine="plain", data=data, targets=[Target(np.full(160, value))])
        assert set(leaves_of(run.fitted)) == {1}
        np.testing.assert_allclose(run.fitted.scores[0], value, rtol=1e-4)
        np.testing.assert_allclose(run.predictions[0], value, rtol=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_targets_and_weights_that_are_no_numbers(value: float, classes: int, scene: Make, parameters_for: Make) -> None:
    data, parameters = scene(), parameters_for("xgb", classes)
    truth, weights = data.truth[classes].copy(), np.ones(160)
    truth[11] = value
    with pytest.raises(InputError, match="target"):
        pooled(parameters, data.matrix, Target(truth))
    weights[11] = 0
    assert np.isfinite(pooled(parameters, data.matrix, Target(truth, weights)).scores[0]).all()
    weights[12] = value
    with pytest.raises(InputError, match="weights"):
        pooled(parameters, data.matrix, Target(truth, weights))


def test_nothing_to_learn_and_classes_of_another_number(scene: Make) -> None:
    data = scene()
    with pytest.raises(InputError, match="target"):
        fit(alone(), XgbParameters(), data.columns(range(9)), [])
    with pytest.raises(InputError, match=r"target.* 3 .* 2"):
        fit(alone(), XgbParameters(), data.columns(range(9)), [Target(data.truth[2])], ("a", "b", "c"))


# numbers of any size


@every_learner
@pytest.mark.parametrize("power", [-40, 200, -200])
def test_numbers_of_any_size_give_the_same_trees(learner: str, power: int, scene: Make, parameters_for: Make) -> None:
    """Times a power of two, to the last bit."""
    data, factor = scene(), 2.0**power
    parameters = parameters_for(learner, 0)
    plain = fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0], seed=1)])
    scaled = fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0] * factor, seed=1)])
    np.testing.assert_array_equal(scaled.scores[0], plain.scores[0] * factor)
    assert [t.first for t in scaled.model.ensembles[0].trees] == [t.first for t in plain.model.ensembles[0].trees]
    assert min(leaves_of(plain)) > 2


@every_learner
@pytest.mark.parametrize("size", [1e12, 1e-12])
def test_large_and_small_numbers_among_several_parties(
    learner: str, size: float, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data = scene(rows=100)
    run = together(parameters_for(learner, 0), data=data, targets=[Target(data.truth[0] * size + size)])
    as_pooled(run)
    spread = run.fitted.scores[0].max() - run.fitted.scores[0].min()
    assert 0.1 * size < spread < 20 * size


@every_learner
def test_numbers_far_from_zero_are_learned_as_well(learner: str, scene: Make, parameters_for: Make) -> None:
    data = scene()
    parameters = parameters_for(learner, 0, trees=6, min_rows=2)
    near, far = (
        fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[0] + offset)]).scores[0][:, 0] - offset
        for offset in (0.0, 1e7)
    )
    np.testing.assert_allclose(far, near, atol=0.05)


def test_numbers_beyond_range_are_refused(scene: Make) -> None:
    data = scene()
    with pytest.raises(InputError, match=r"2\^500"):
        fit(alone(), GbdtParameters(classes=0), data.columns(range(9)), [Target(data.truth[0] * 1e200)])


# weights


@every_learner
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_every_row_twice_is_as_every_row_with_double_weight(learner: str, classes: int, parameters_for: Make) -> None:
    rng = np.random.default_rng(4)
    matrix = rng.integers(0, 6, (80, 4)).astype(float)
    number = matrix[:, 0] * matrix[:, 1] + rng.normal(size=80)
    truth = np.digitize(number, [3, 8]).clip(max=classes - 1).astype(float) if classes else number
    more = (
        {"bootstrap": False, "row_fraction": 1.0, "column_fraction": 1.0} if learner == "rf" else {"top_fraction": 1.0}
    )
    more = more if learner in ("rf", "lgb") else {}
    parameters = parameters_for(learner, classes, min_rows=1, **more)
    double = pooled(parameters, matrix, Target(truth, np.full(80, 2.0)))
    twice = pooled(parameters, np.tile(matrix, (2, 1)), Target(np.tile(truth, 2)))
    np.testing.assert_array_equal(twice.scores[0], np.tile(double.scores[0], (2, 1)))
    assert min(leaves_of(double)) > 2


@every_learner
def test_rows_of_weight_zero_change_nothing(learner: str, scene: Make, parameters_for: Make) -> None:
    """Where bins do not depend on them: few values, and as many rows as needed in each."""
    rng = np.random.default_rng(4)
    matrix = np.tile(rng.integers(0, 4, (60, 3)).astype(float), (3, 1))
    truth = matrix[:, 0] + matrix[:, 1] * matrix[:, 2] + rng.normal(size=180)
    weights = np.where(np.arange(180) < 120, 1.0, 0.0)
    more = {"bootstrap": False, "row_fraction": 1.0, "column_fraction": 1.0} if learner == "rf" else {}
    parameters = parameters_for(learner, 0, min_rows=1, **more)
    some = pooled(parameters, matrix[:120], Target(truth[:120]))
    others = pooled(parameters, matrix, Target(np.where(weights > 0, truth, np.nan), weights))
    np.testing.assert_array_equal(others.scores[0][:120], some.scores[0])
    np.testing.assert_array_equal(others.scores[0], scores(alone(), some.model, matrix)[0])


@every_learner
def test_weights_that_differ_by_a_million_millions(
    learner: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    """Where few rows have all the weight, they are learned, and the others hardly."""
    data = scene()
    weights = 10.0 ** np.random.default_rng(1).choice([-6.0, 0.0, 6.0], 160)
    for classes in (3, 0):
        run = together(parameters_for(learner, classes), data=data, targets=[Target(data.truth[classes], weights)])
        as_pooled(run)
        assert np.isfinite(run.fitted.scores[0]).all()
    heavy = weights == 1e6
    found = run.fitted.scores[0][heavy, 0]
    assert np.corrcoef(found, data.truth[0][heavy])[0, 1] > 0.7
    assert abs(found.mean() - data.truth[0][heavy].mean()) < 0.3


@every_learner
def test_all_weights_zero(learner: str, scene: Make, parameters_for: Make, together: Make) -> None:
    data = scene()
    with pytest.raises(InputError, match="weights"):
        together(parameters_for(learner), data=data, targets=[Target(data.truth[2], np.zeros(160))])


# columns


@engines_in_turn
@pytest.mark.parametrize("kind", ["constant", "missing"])
def test_columns_that_tell_nothing(
    learner: str, kind: str, engine: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    """There is nothing to split, and every row gets what the target is like on the whole."""
    data = scene(rows=40)
    data = replace(data, matrix=np.full_like(data.matrix, 3.25 if kind == "constant" else np.nan))
    more = {"bootstrap": False, "row_fraction": 1.0} if learner == "rf" else {}
    classes = 2 if kind == "constant" else 0
    run = together(parameters_for(learner, classes, trees=1, **more), engine=engine, data=data)
    as_pooled(run)
    assert leaves_of(run.fitted) == [1]
    np.testing.assert_allclose(run.predictions[0], data.truth[classes].mean(), rtol=1e-4)


@every_learner
def test_columns_that_tell_nothing_beside_others_are_never_used(
    learner: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data = scene()
    matrix = data.matrix.copy()
    matrix[:, [0, 2]] = np.nan, -7.0
    run = together(parameters_for(learner), data=replace(data, matrix=matrix))
    as_pooled(run)
    assert run.parts["telco"].importance["column no. 0"]["splits"] == 0
    assert run.model.part.importance["column no. 2"]["splits"] == 0


@every_learner
@pytest.mark.parametrize("hidden", [False, True])
def test_whether_a_value_is_missing_may_be_all_that_counts(
    learner: str, hidden: bool, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data = scene()
    matrix, truth = np.full_like(data.matrix, 1.0), np.where(np.arange(160) % 3 == 0, 1.0, 0.0)
    matrix[truth == 1, 3] = np.nan
    more = {"column_fraction": 1.0} if learner == "rf" else {}
    run = together(
        parameters_for(learner, hide_nodes=hidden, **more),
        data=replace(data, matrix=matrix, new=matrix[:40]),
        targets=[Target(truth)],
    )
    as_pooled(run)
    assert set(run.parts["telco"].splits) == {(0, 0, False)} or len(run.parts["telco"].splits) == 1
    assert ((run.predictions[0][:, 0] > truth.mean()) == (truth[:40] == 1)).all()


@pytest.mark.parametrize(
    "team",
    [{"telco": (), "shop": (), "bank": (0,)}, {"bank": (0, 1, 2)}],
    ids=["two", "nobody else"],
)
@pytest.mark.parametrize("engine", ["shares", "paillier"])
def test_no_passive_columns(
    team: dict[str, tuple[int, ...]], engine: str, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    """Nothing is multiplied, and the model is that of the active party alone."""
    for learner in LEARNERS:
        run = together(parameters_for(learner), team, engine)
        as_pooled(run)
        assert all(not part.splits for part in run.parts.values())
        assert not any(engine.answered for engine in run.engines.values())


@pytest.mark.parametrize("engine", ["shares", "paillier"])
def test_no_columns_at_all(engine: str, parameters_for: Make, together: Make) -> None:
    for learner in LEARNERS:
        with pytest.raises(InputError, match="columns"):
            together(parameters_for(learner), {"telco": (), "bank": ()}, engine)
    with pytest.raises(InputError, match="columns"):
        fit(alone(), XgbParameters(), Columns(np.empty((5, 0)), ()), [Target(np.arange(5) % 2.0)])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize(("party", "column"), [("bank", 1), ("telco", 3)])
def test_infinite_values_are_named(
    value: float, party: str, column: int, scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene()
    data.matrix[41, column] = value
    with pytest.raises(InputError, match=rf"{party}.*column no. {column}.*row 42") as caught:
        together(parameters_for("xgb"), data=data)
    assert "column no." not in "\n".join(caught.value.__notes__), "others are not told"


@every_learner
def test_columns_of_any_size(learner: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make) -> None:
    """Only the order of values counts."""
    data = scene(missing=0.0)
    order = data.matrix.argsort(axis=0, kind="stable").argsort(axis=0).astype(float)
    wide = replace(data, matrix=np.sign(data.matrix) * 10.0 ** (3 * np.abs(data.matrix) + 100), new=data.new * 1e300)
    narrow = replace(data, matrix=data.matrix * 1e-300)
    parameters = parameters_for(learner, 0, bins=8)
    runs = [together(parameters, engine="plain", data=each) for each in (data, wide, narrow)]
    for run in runs:
        as_pooled(run)
        np.testing.assert_array_equal(run.fitted.scores[0], runs[0].fitted.scores[0])
    assert len(np.unique(order[:, 0])) == 160


@every_learner
def test_as_many_bins_as_can_be(
    learner: str, scene: Make, parameters_for: Make, together: Make, as_pooled: Make
) -> None:
    data = scene(rows=600)
    run = together(parameters_for(learner, 0, bins=256, min_rows=1), data=data)
    as_pooled(run)
    assert max(len(feature.edges) for feature in run.parts["telco"].binning.features) == 255


# few rows


@engines_in_turn
@pytest.mark.parametrize("min_rows", [1, 10])
def test_one_row(learner: str, min_rows: int, engine: str, parameters_for: Make, together: Make, scene: Make) -> None:
    data = scene(rows=1, missing=0.0)
    parameters = parameters_for(learner, 0, min_rows=min_rows)
    run = together(parameters, engine=engine, data=data, targets=[Target(np.array([4.5]))])
    assert set(leaves_of(run.fitted)) == {1}
    np.testing.assert_allclose(run.predictions[0], 4.5, rtol=1e-4)
    with pytest.raises(InputError, match="1 of 2"):
        together(parameters_for(learner, 2), engine=engine, data=data, targets=[Target(np.array([1.0]))])


@engines_in_turn
def test_two_rows(
    learner: str, engine: str, parameters_for: Make, together: Make, scene: Make, as_pooled: Make
) -> None:
    data = replace(scene(rows=2, missing=0.0), matrix=np.array([np.zeros(9), np.ones(9)]))
    more = {"bootstrap": False, "row_fraction": 1.0} if learner == "rf" else {"learning_rate": 1.0, "trees": 1}
    parameters = parameters_for(learner, 0, min_rows=1, l2=0.0, **more)
    run = together(parameters, engine=engine, data=data, targets=[Target(np.array([1.0, 3.0]))])
    as_pooled(run)
    np.testing.assert_allclose(run.fitted.scores[0][:, 0], [1.0, 3.0], rtol=1e-4)
    careful = together(parameters_for(learner, 0, **more), engine=engine, data=data, targets=run.targets)
    as_pooled(careful)
    np.testing.assert_allclose(careful.fitted.scores[0][:, 0], [2.0, 2.0], rtol=1e-4)


def test_no_rows() -> None:
    with pytest.raises(InputError, match="weights"):
        fit(alone(), XgbParameters(), Columns(np.empty((0, 2)), ("a", "b")), [Target(np.empty(0))])


@every_learner
def test_rows_that_are_all_the_same(learner: str, parameters_for: Make) -> None:
    matrix = np.tile([1.0, np.nan, 3.0], (50, 1))
    more = {"bootstrap": False, "row_fraction": 1.0} if learner == "rf" else {"trees": 1}
    fitted = pooled(parameters_for(learner, 3, **more), matrix, Target(np.arange(50) % 3.0))
    assert set(leaves_of(fitted)) == {1}
    assert fitted.scores[0] == pytest.approx(np.tile([17 / 50, 17 / 50, 16 / 50], (50, 1)), rel=1e-3)


@every_learner
def test_patience_with_few_rows(learner: str, parameters_for: Make, scene: Make) -> None:
    if learner == "rf":
        return
    parameters = parameters_for(learner, 0, patience=1, min_rows=1)
    with pytest.raises(InputError, match="patience"):
        pooled(parameters, [[1.0]], Target(np.ones(1)))
    fitted = pooled(parameters, [[1.0], [2.0]], Target(np.array([5.0, 7.0])))
    assert fitted.scores[0][0] == fitted.scores[0][1]
    assert fitted.scores[0][0, 0] in (5.0, 7.0)


# long and deep


@every_learner
@pytest.mark.parametrize("classes", [2, 3, 0])
def test_what_is_learned_by_heart_stays_finite(learner: str, classes: int, scene: Make, parameters_for: Make) -> None:
    data = scene(rows=60)
    more = (
        {"column_fraction": 1.0, "bootstrap": False, "row_fraction": 1.0} if learner == "rf" else {"learning_rate": 1.0}
    )
    more |= {"leaves": 60, "top_fraction": 1.0} if learner == "lgb" else {}
    limits = {"min_rows": 1, "minimum_child_weight": 0.0, "l2": 0.0, "depth": 30, "bins": 256, "trees": 10}
    fitted = fit(
        alone(),
        parameters_for(learner, classes, **limits | more),
        data.columns(range(9)),
        [Target(data.truth[classes])],
    )
    found, truth = fitted.scores[0], data.truth[classes]
    assert np.isfinite(found).all()
    if classes == 2:
        assert ((found[:, 0] > 0.5) == (truth == 1)).all()
    elif classes == 3:
        assert (found.argmax(axis=1) == truth).all()
    else:
        np.testing.assert_allclose(found[:, 0], truth, atol=1e-2)


def test_leaves_and_depth_are_limits_not_aims() -> None:
    matrix = np.arange(8.0)[:, np.newaxis]
    parameters = LgbParameters(
        classes=0, trees=1, leaves=1000, depth=30, min_rows=1, minimum_child_weight=0.0, learning_rate=1.0
    )
    fitted = pooled(parameters, matrix, Target(np.array([1.0, 2, 4, 8, 16, 32, 64, 128])))
    assert leaves_of(fitted) == [8]
    np.testing.assert_allclose(fitted.scores[0][:, 0], [1, 2, 4, 8, 16, 32, 64, 128], atol=1e-2)


def test_rows_of_another_number_are_noticed(scene: Make, parameters_for: Make, together: Make) -> None:
    data = scene()

    def telco(team: Any, scene: Any) -> None:
        from unpooled.vertical.trees.ensemble import help_fit

        help_fit(team, parameters_for("xgb"), Columns(scene.matrix[1:, :2], ("a", "b")))

    with pytest.raises(ProtocolError, match=r"telco.* 159 .*bank.* 160"):
        together(parameters_for("xgb"), engine="plain", data=data, own={"telco": telco})
