"""What a passive party refuses if the active one goes its own way and asks for more than it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import unpacked
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import Inputs
from unpooled.secure.product import finish, product
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import apply_bins
from unpooled.vertical.trees.budget import groups_of
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.grower.products import layout_of, tree_call
from unpooled.vertical.trees.parameters import AnyTrees

Make = Callable[..., Any]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def asking(
    parameters: AnyTrees, ask: Callable[[Layout, np.ndarray, np.ndarray], list[messages.SplitRequest]]
) -> Callable[[Any, Any], None]:
    """AskedRows at a root, then ask for a split of it, given the layout and how the bins were shown."""

    def bank(team: Any, data: Any) -> None:
        session, rows = team.session, len(data.matrix)
        layout = layout_of(session.recv("telco", messages.LentColumns), "telco", parameters.bins)
        session.send("telco", messages.Begin(bytes(16), rows, groups_of(parameters, 1)))
        trees = messages.Trees(1, (f"{bytes(16).hex()} tree",), 2)
        session.send("telco", trees)
        session.send("telco", messages.Level(ints(0), ints(-1), ints(0), ints(0), np.empty(0, np.uint8)))
        call = tree_call(team, "telco", layout, parameters, trees, 0, (rows, 1), bins="")
        product(team.products, [(call, Inputs(y=np.zeros((rows, 2), np.int64), nodes=np.zeros(rows, np.int32)))])
        told = session.recv("telco", messages.Merged) if parameters.min_rows > 1 else None
        ends, joined = np.ones(layout.logical, bool), np.zeros(len(layout.features), bool)
        if told is not None:
            ends = unpacked(told.ends, layout.logical, "sides", "telco")
            joined = unpacked(told.missing_joined, len(layout.features), "sides", "telco")
        for request in ask(layout, ends, joined):
            session.send("telco", request)
            session.recv("telco", messages.SplitSides)
        session.send("telco", messages.Grown(1, trees.names))
        session.send("telco", messages.Finished())
        finish(team.products)

    return bank


def opens(feature: int, place: int, missing_left: int = 0) -> list[messages.SplitRequest]:
    return [messages.SplitRequest(ints(0), ints(0), ints(feature), ints(place), ints(missing_left))]


def after_a_group(layout: Layout, ends: np.ndarray, which: int) -> list[messages.SplitRequest]:
    """What may be asked."""
    feature = max(range(len(layout.features)), key=lambda number: layout.features[number].values)
    return opens(feature, int(np.flatnonzero(ends[layout.starts[feature] :])[which]))


def inside_a_group(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
    feature = max(range(len(layout.features)), key=lambda number: layout.features[number].values)
    inside = np.flatnonzero(~ends[layout.starts[feature] :][: layout.features[feature].values])
    return opens(feature, int(inside[len(inside) // 2]))


def joined_missing_left(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
    feature = int(np.flatnonzero(joined)[0])
    after = np.flatnonzero(ends[layout.starts[feature] :][: layout.features[feature].values - 1])
    return opens(feature, int(after[0]), 1)


def joined_missing_alone(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
    feature = int(np.flatnonzero(joined)[0])
    return opens(feature, layout.features[feature].values - 1)


@pytest.mark.parametrize("ask", [inside_a_group, joined_missing_left, joined_missing_alone])
@pytest.mark.parametrize("min_rows", [13, 20])
def test_no_split_goes_through_a_group(
    ask: Callable[..., list[messages.SplitRequest]], min_rows: int, scene: Make, parameters_for: Make, together: Make
) -> None:
    data, parameters = scene(missing=0.05), parameters_for("xgb", min_rows=min_rows)
    with pytest.raises(ProtocolError, match="SplitRequest from bank"):
        together(parameters, engine="plain", data=data, own={"bank": asking(parameters, ask)}, predicts=False)


def all_on_one_side(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
    feature = next(number for number, feature in enumerate(layout.features) if not feature.missing)
    return opens(feature, layout.features[feature].values - 1)


@pytest.mark.parametrize("engine", ["plain", "shares"])
@pytest.mark.parametrize("min_rows", [1, 6])
def test_no_split_leaves_few_rows_on_a_side(
    min_rows: int, engine: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Groups have enough rows, but behind the last one there are none."""
    data, parameters = scene(missing=0), parameters_for("xgb", min_rows=min_rows)
    with pytest.raises(RefusedError, match=rf"telco.* {min_rows}"):
        together(parameters, engine=engine, data=data, own={"bank": asking(parameters, all_on_one_side)})


def test_what_may_be_asked_is_answered(scene: Make, parameters_for: Make, together: Make) -> None:
    """So that what is refused above is refused for its own reason."""
    data, parameters, asked = scene(), parameters_for("xgb"), []

    def after_the_first_group(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
        asked.extend(after_a_group(layout, ends, 0))
        return asked

    own = {"bank": asking(parameters, after_the_first_group)}
    run = together(parameters, engine="plain", data=data, own=own, predicts=False)
    part, [feature], [place] = run.parts["telco"], asked[0].features.tolist(), asked[0].places.tolist()
    assert part.splits == ((feature, place, False),)
    [opened] = run.messages("bank", messages.SplitSides)
    bins = apply_bins(part.binning, data.matrix[:, list(run.team["telco"])], "telco")
    assert (unpacked(opened.sides, len(data.matrix), "sides", "telco") == (bins[:, feature] > place)).all()


def in_one_message(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
    [first], [second] = after_a_group(layout, ends, 0), after_a_group(layout, ends, 1)
    both = {name: np.concatenate([getattr(first, name), value]) for name, value in vars(second).items()}
    return [messages.SplitRequest(**both)]


def in_two_messages(layout: Layout, ends: np.ndarray, joined: np.ndarray) -> list[messages.SplitRequest]:
    return after_a_group(layout, ends, 0) + after_a_group(layout, ends, 1)


@pytest.mark.parametrize("ask", [in_one_message, in_two_messages])
@pytest.mark.parametrize("min_rows", [1, 6])
def test_a_node_is_opened_once(
    ask: Callable[..., list[messages.SplitRequest]], min_rows: int, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Or its rows could be asked about bin by bin."""
    parameters = parameters_for("xgb", min_rows=min_rows)
    with pytest.raises(ProtocolError, match="SplitRequest from bank"):
        together(parameters, engine="plain", data=scene(), own={"bank": asking(parameters, ask)}, predicts=False)


@pytest.mark.parametrize("hidden", [False, True])
def test_no_more_is_answered_than_the_rules_say(hidden: bool, parameters_for: Make, together: Make) -> None:
    parameters = parameters_for("xgb", 3, trees=2, hide_nodes=hidden)
    for engine in ("plain", "shares", "paillier"):
        with pytest.raises(RefusedError, match=r"telco.* 30 columns.* 160 rows"):
            together(parameters, engine=engine, rules={"questions": 30})
