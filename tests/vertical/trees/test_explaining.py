"""What columns add to what trees say of a row: as with pooled columns, as `shap` has it, and told to owners alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.session import Session
from unpooled.vertical.explained import Contributions, Explain
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.explaining import contributions, help_contributions
from unpooled.vertical.trees.model import Model
from unpooled.vertical.trees.predictor import scores

Make = Callable[..., Any]
ACTIVE = "bank"
ROWS = np.array([0, 3, 7, 31, 39])


def explained(
    run: Any, rows: Ints, outputs: Ints, *, most: int = 5, tamper: Callable[[str, Any], Any] | None = None
) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """What each owner has at the end, and the messages that it received; `tamper` changes what a party sends."""
    received: dict[str, list[Any]] = {}

    def part(session: Session) -> Any:
        owners, recv, send = tuple(run.team), session.recv, session.send

        def watched(peer: str, *kinds: type, **limits: Any) -> Any:
            message = recv(peer, *kinds, **limits)
            received.setdefault(session.party, []).append(message)
            return message

        session.recv = watched  # type: ignore[method-assign]
        if tamper:
            session.send = lambda peer, message, **how: send(peer, tamper(session.party, message), **how)  # type: ignore[method-assign]
        team = Team(ACTIVE, owners, open_engine(session, Rules("plain"), owners, ACTIVE, None), "digest")
        matrix = run.scene.new[:, list(run.team[session.party])]
        if session.party == ACTIVE:
            return contributions(team, run.model, matrix, rows, outputs)
        return help_contributions(team, run.parts[session.party], matrix, most)

    return dict(simulate_roles(dict.fromkeys(run.team, part)).results), received


@pytest.fixture(scope="module")
def small(parameters_for: Make, together: Make) -> Any:
    return together(parameters_for("xgb"), team="two", engine="plain", predicts=False)


@pytest.mark.parametrize(
    ("learner", "classes", "options"),
    [
        ("gbdt", 2, {"hide_nodes": True}),
        ("xgb", 3, {}),
        ("lgb", 0, {"hide_bags": False}),
        ("rf", 3, {"hide_nodes": True}),
    ],
)
def test_each_owner_learns_what_pooled_columns_give_for_its_own(
    learner: str, classes: int, options: dict[str, Any], parameters_for: Make, together: Make, as_pooled: Make,
    pooled_order: Make, scene: Make,
) -> None:  # fmt: skip
    data = scene()
    targets = [Target(data.truth[classes], seed=seed) for seed in (1, 2)]
    parameters = parameters_for(learner, classes, **options)
    run = together(parameters, "the active in the middle", "plain", data=data, targets=targets, predicts=False)
    model, order, outputs = as_pooled(run).model, pooled_order(run), np.arange(len(ROWS)) % max(classes - 1, 1)
    pooled = contributions(alone(), model, data.new[:, order], ROWS, outputs)
    found, received = explained(run, ROWS, outputs)
    active: Contributions = found[ACTIVE]
    for owner, columns in run.team.items():
        own = pooled.own[:, [order.index(column) for column in columns]]
        if owner == ACTIVE:
            np.testing.assert_array_equal(active.own, own)
            continue
        rows, added = found[owner]
        np.testing.assert_array_equal(rows, ROWS)
        np.testing.assert_array_equal(added, own)
        np.testing.assert_allclose(active.others[owner], own.sum(axis=1), atol=1e-12)
        assert own.any(), "it should add something, or the test shows nothing"
        (told,) = (message.values for message in received[owner] if isinstance(message, messages.ColumnContributions))
        np.testing.assert_array_equal(np.sort(told.sum(axis=0)), np.sort(own[:, _used(run.parts[owner])].sum(axis=0)))
    np.testing.assert_array_equal(active.base, pooled.base)
    np.testing.assert_array_equal(active.margins, pooled.margins)
    np.testing.assert_allclose(pooled.base + pooled.own.sum(axis=1), pooled.margins, atol=1e-12)
    if learner in ("lgb", "rf"):  # a margin is then what is predicted
        predicted = np.mean(scores(alone(), model, data.new[:, order]), axis=0)[ROWS, outputs]
        np.testing.assert_allclose(pooled.margins, predicted, atol=1e-12)


def _used(part: Any) -> list[int]:
    return sorted({part.binning.features[feature].column for feature, _, _ in part.splits})


def test_of_one_model_margins_are_log_odds_of_its_scores(small: Any) -> None:
    found, _ = explained(small, ROWS, np.zeros(5, np.int64))
    model, data = small.fitted.model, small.scene
    pooled = fit(alone(), small.parameters, data.columns(range(9)), small.targets).model
    (chances,) = scores(alone(), pooled, data.new)
    assert model.ensembles[0].trees != pooled.ensembles[0].trees, "columns are in another order"
    np.testing.assert_allclose(1 / (1 + np.exp(-found[ACTIVE].margins)), chances[ROWS, 0], rtol=1e-12)


# As shap has it


def as_shap(model: Model) -> dict[str, Any]:
    """The first ensemble, of one output, in the format that shap takes for trees of any kind."""
    trees = []
    for tree in model.ensembles[0].trees:
        splits = [
            model.part.splits[split] if first >= 0 else None
            for first, split in zip(tree.first, tree.split, strict=True)
        ]
        features = [model.part.binning.features[split[0]] if split else None for split in splits]
        left, first = np.array(tree.first), np.array(tree.first)
        missing_left = np.array([bool(split and split[2]) for split in splits])
        edges = [
            (*feature.edges, np.inf)[split[1]] if feature and split else 0.0
            for feature, split in zip(features, splits, strict=True)
        ]
        trees.append(
            {
                "children_left": left,
                "children_right": np.where(first >= 0, first + 1, -1),
                "children_default": np.where(first >= 0, first + ~missing_left, -1),
                "features": np.array([feature.column if feature else -1 for feature in features]),
                "thresholds": np.array(edges),
                "values": np.array(tree.values),
                "node_sample_weight": np.array(tree.cover),
            }
        )
    settings = {
        "base_offset": model.ensembles[0].base[0],
        "tree_output": "raw_value",
        "objective": "binary_crossentropy",
    }
    return {"trees": trees, "internal_dtype": np.float64, "input_dtype": np.float64} | settings


@pytest.mark.parametrize("learner", ["xgb", "gbdt"])
def test_shap_finds_the_same(learner: str, parameters_for: Make, scene: Make) -> None:
    data = scene()
    parameters = parameters_for(learner, 2, trees=5, depth=4, hide_nodes=learner == "gbdt")
    model = fit(alone(), parameters, data.columns(range(9)), [Target(data.truth[2], seed=1)]).model
    rows = np.arange(len(data.new))
    found = contributions(alone(), model, data.new, rows, np.zeros_like(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of what it imports
        import shap

        explainer = shap.TreeExplainer(as_shap(model))
        theirs = explainer.shap_values(data.new, approximate=True)
    np.testing.assert_allclose(found.own, theirs, atol=1e-12)
    np.testing.assert_allclose(found.base, np.ravel(explainer.expected_value)[0], atol=1e-12)


# What is refused


def test_a_model_without_cover_says_so(small: Any) -> None:
    old = Model.model_validate_json(small.model.model_dump_json())
    trees = tuple(tree.model_copy(update={"cover": ()}) for tree in old.ensembles[0].trees)
    old = old.model_copy(update={"ensembles": (old.ensembles[0].model_copy(update={"trees": trees}),)})
    assert '"cover"' not in old.model_dump_json()
    with pytest.raises(InputError, match=r"the model lacks how many training rows .* train it again"):
        contributions(alone(), old, small.scene.new, ROWS, np.zeros(5, np.int64))


def test_a_passive_party_explains_no_more_rows_than_the_plan_says(small: Any) -> None:
    with pytest.raises(RefusedError, match="telco takes part in explaining 4 rows, and bank names more"):
        explained(small, ROWS, np.zeros(5, np.int64), most=4)


@pytest.mark.parametrize(
    ("kind", "change", "fault"),
    [
        (Explain, {"rows": ROWS[::-1].copy()}, "invalid Explain from bank: rows that are not there, or not in order"),
        (Explain, {"rows": np.array([0, 40])}, "invalid Explain from bank"),
        (Explain, {"rows": np.array([0, 2**63 - 1, -2, 5])}, "invalid Explain from bank"),
        (messages.SplitColumns, {"columns": np.array([0], np.int32)}, "invalid SplitColumns from telco: fewer splits"),
        (
            messages.SplitColumns,
            {"columns": np.full(50, -1, np.int32)},
            "invalid SplitColumns from telco: not a column",
        ),
        (messages.ColumnContributions, {"values": np.full((5, 1), np.nan)}, "invalid ColumnContributions from bank"),
    ],
)
def test_messages_that_cannot_be_right_are_refused(small: Any, kind: type, change: dict[str, Any], fault: str) -> None:
    def tamper(_party: str, message: Any) -> Any:
        return replace(message, **change) if isinstance(message, kind) else message

    with pytest.raises(ProtocolError, match=fault):
        explained(small, ROWS, np.zeros(5, np.int64), tamper=tamper)


def test_a_tree_without_splits_has_its_base_alone(parameters_for: Make) -> None:
    matrix: Floats = np.zeros((40, 1))
    matrix[20:] = 1.0
    truth = np.tile([0.0, 1.0], 20)
    model = fit(alone(), parameters_for("xgb", min_rows=40), Columns(matrix, ("a",)), [Target(truth, seed=1)]).model
    found = contributions(alone(), model, matrix, np.array([1]), np.array([0]))
    assert (found.own.tolist(), found.base.tolist()) == ([[0.0]], found.margins.tolist())
