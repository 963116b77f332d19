"""What each party really receives while trees are grown and used, message by message and byte by byte."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import unpacked
from unpooled.errors import ProtocolError
from unpooled.secure.shares.dealer import Deal
from unpooled.secure.shares.permuting import Orders
from unpooled.vertical.targets import Target
from unpooled.vertical.trees import messages

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")
OPTIONS: dict[str, dict[str, Any]] = {
    "default": {},
    "hide_nodes": {"hide_nodes": True},
    "hide_bags = false": {"hide_bags": False},
    "min_rows = 1": {"min_rows": 1},
}
COMMON = {"Begin", "Trees", "Grown", "Finished", "Sort", "Sorted"}
TO_PASSIVE: dict[str, set[str]] = {
    "default": COMMON | {"Level", "SplitRequest", "Reached"},
    "hide_nodes": COMMON | {"HiddenLevel", "SplitRequestForAll", "Needed"},
    "hide_bags = false": COMMON | {"Bags", "Level", "SplitRequest", "Reached"},
    "min_rows = 1": COMMON | {"Level", "SplitRequest", "Reached"},
}
TO_ACTIVE: dict[str, set[str]] = {
    "default": {"LentColumns", "Merged", "SplitSides", "Sides"},
    "hide_nodes": {"LentColumns", "SplitSidesForAll", "AllSides"},
    "hide_bags = false": {"LentColumns", "Merged", "SplitSides", "Sides"},
    "min_rows = 1": {"LentColumns", "SplitSides", "Sides"},
}
PRODUCTS: dict[str, dict[str, set[str]]] = {
    "shares": {
        "passive": {"MaskSeed", "Dealt", "Hidden"},
        "active": {
            "MaskSeed",
            "Dealt",
            "Hidden",
            "Orders",
            "Contribution",
        },
        "coordinator": {"Deal", "Stop"},
    },
    "paillier": {
        "passive": {"MaskSeed", "SharedKey", "EncryptedRows"},
        "active": {
            "MaskSeed",
            "SharedKey",
            "Decrypted",
            "Contribution",
        },
        "coordinator": {
            "Decrypt",
            "MaskedSums",
            "Stop",
        },
    },
}
TALK = {"PlanOffer", "Goodbye", "Waiting", "Working"}


def kinds(run: Any, party: str, peer: str = "") -> set[str]:
    """What a party received, from all or from one."""
    entries = [entry for entry in run.ledgers[party].entries if entry.way == "received"]
    return {entry.kind for entry in entries if not peer or entry.peer == peer} - TALK


@pytest.mark.parametrize(
    ("learner", "option", "engine"),
    [
        *((learner, option, "shares") for learner in ("xgb", "rf") for option in OPTIONS),
        *((learner, option, "shares") for learner in ("gbdt", "lgb") for option in ("default", "hide_nodes")),
        *(("xgb" if place % 2 else "rf", option, "paillier") for place, option in enumerate(OPTIONS)),
    ],
)
def test_everybody_receives_what_is_declared_and_nothing_else(
    learner: str, option: str, engine: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    more = {"column_fraction": 1.0} if learner == "rf" else {}
    parameters = parameters_for(learner, trees=1, depth=3, bins=6, **OPTIONS[option] | more)
    run = together(parameters, "the active in the middle", engine, data=scene(rows=60))
    products = PRODUCTS[engine]
    for passive, other in (("telco", "shop"), ("shop", "telco")):
        received = kinds(run, passive)
        assert received <= TO_PASSIVE[option] | products["passive"]
        assert received >= COMMON
        assert kinds(run, passive, other) <= {"MaskSeed"}
    assert kinds(run, "bank") <= TO_ACTIVE[option] | products["active"]
    assert kinds(run, "bank") & TO_ACTIVE[option] == TO_ACTIVE[option]
    assert kinds(run, "coordinator") <= products["coordinator"]
    assert kinds(run, "coordinator", "bank") >= {"Stop"}


# bytes


def patterns(values: np.ndarray) -> set[bytes]:
    """Numbers as they might travel; those that are in any frame, such as 0 and 1, left out."""
    numbers = {float(value) for value in values.ravel() if np.isfinite(value) and value != np.rint(2 * value) / 2}
    return {struct.pack(form, number) for number in numbers for form in ("<d", ">d")} | {
        repr(number).encode() for number in numbers
    }


@pytest.mark.parametrize(
    ("option", "engine"),
    [
        *((option, "shares") for option in OPTIONS),
        ("default", "plain"),
        ("default", "paillier"),
        ("hide_nodes", "paillier"),
    ],
)
def test_names_values_and_thresholds_never_leave(
    option: str, engine: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene(rows=90)
    parameters = parameters_for("gbdt", 0, trees=2, **OPTIONS[option])
    run = together(parameters, {"telco": (0, 5, 6, 4), "bank": (1,), "shop": (2, 3)}, engine, data=data)
    for owner in ("telco", "shop", "bank"):
        part = run.model.part if owner == "bank" else run.parts[owner]
        assert part.splits or owner == "bank"
        secret = {name.encode() for name in (feature.name for feature in part.binning.features)}
        secret |= patterns(np.concatenate([feature.edges for feature in part.binning.features]))
        secret |= patterns(data.matrix[:, list(run.team[owner])]) | patterns(data.new[:, list(run.team[owner])])
        if owner == "bank":
            secret |= patterns(data.truth[0]) | patterns(run.fitted.scores[0]) | patterns(run.predictions[0])
            secret |= patterns(np.array([value for tree in run.model.ensembles[0].trees for value in tree.values]))
        assert len(secret) > 100
        sent = b"\0".join(frame for sender, _, frame in run.frames if sender == owner)
        assert len(sent) > 1000
        assert not [pattern for pattern in secret if pattern in sent]


def test_the_search_finds_what_is_there(scene: Make, parameters_for: Make, together: Make, new_run: Any) -> None:
    """Frames that are told to carry a name or a value are noticed."""
    data = scene()
    leak = data.matrix[5, 0]

    def tamper(peer: str, message: Any) -> Any:
        if isinstance(message, messages.LentColumns):
            bits = np.frombuffer(struct.pack("<d", leak) + b"column no. 0 ...", np.int32)
            return replace(message, bundles=(*message.bundles, bits))
        return message

    with pytest.raises(ProtocolError, match="LentColumns from telco"):
        together(parameters_for("xgb"), data=data, tamper={"telco": tamper}, into=new_run)
    sent = b"".join(frame for sender, _, frame in new_run.frames if sender == "telco")
    assert b"column no. 0" in sent
    assert any(pattern in sent for pattern in patterns(np.array([leak])))


# columns


def test_columns_are_lent_in_an_order_that_their_owner_alone_knows(
    scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene(missing=0.0)
    rng = np.random.default_rng(1)
    matrix = np.stack([rng.permutation(np.arange(160) % (size + 2)) for size in range(9)], axis=1).astype(float)
    orders = []
    for seed in (1, 2, 3, 4, 1):
        run = together(
            parameters_for("xgb", bundle=False),
            data=replace(data, matrix=matrix),
            seeds={"telco": seed},
            engine="plain",
        )
        [lent] = run.messages("bank", messages.LentColumns)
        features = run.parts["telco"].binning.features
        assert lent.values.tolist() == [len(feature.edges) + 1 for feature in features]
        assert sorted(lent.values.tolist()) == [column + 2 for column in run.team["telco"]]
        orders.append(tuple(feature.column for feature in features))
    assert len(set(orders)) == 4
    assert orders[0] == orders[4]
    assert sum(order != tuple(range(6)) for order in orders) >= 4


def test_all_that_is_said_of_columns_are_numbers_of_bins(scene: Make, parameters_for: Make, together: Make) -> None:
    data = scene()
    run = together(parameters_for("xgb", bins=8), data=data, engine="plain")
    [lent] = run.messages("bank", messages.LentColumns)
    assert {field.name for field in fields(lent)} == {"rows", "values", "missing", "usual", "bundles"}
    assert lent.rows == 160
    assert max(lent.values) <= 8
    assert set(lent.missing.tolist()) <= {0, 1}


# nodes


@pytest.mark.parametrize("learner", LEARNERS)
def test_with_hidden_nodes_nothing_that_a_passive_party_receives_is_as_long_as_there_are_rows(
    learner: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Not even with a bit for each row."""
    rows = 800
    data = scene(rows=rows, new=rows)
    run = together(parameters_for(learner, 3, hide_nodes=True), data=data, engine="plain")
    received = [m for sender, m in run.received["telco"] if type(m).__module__ == messages.__name__]
    assert {type(message) for message in received} >= {
        messages.HiddenLevel,
        messages.SplitRequestForAll,
        messages.Needed,
    }
    for message in received:
        assert is_dataclass(message)
        for field in fields(message):
            value = getattr(message, field.name)
            assert not isinstance(value, np.ndarray) or value.nbytes < rows / 8
    open_run = together(parameters_for(learner, 3), data=data, engine="plain", predicts=False)
    levels = open_run.messages("telco", messages.Level)
    shown = [level.sides.nbytes / len(np.unique(level.trees)) for level in levels]
    assert max(shown) == rows / 8, "in the open the first split is told with a bit for each row"


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("depth", [1, 3])
def test_the_last_level_is_not_shown(
    learner: str, depth: int, scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene()
    parameters = parameters_for(learner, 3, depth=depth, min_rows=2, trees=2)
    run = together(parameters, data=data, engine="plain", predicts=False)
    depths: dict[tuple[int, int], int] = {}
    deepest = 0
    for message in run.messages("telco", messages.Trees, messages.Level):
        if isinstance(message, messages.Trees):
            depths = {(tree, 0): 0 for tree in range(len(message.names))}
            continue
        each = (values.tolist() for values in (message.trees, message.parents, message.firsts))
        for tree, parent, first in zip(*each, strict=True):
            if parent >= 0:
                depths[tree, first] = depths[tree, first + 1] = depths[tree, parent] + 1
                deepest = max(deepest, depths[tree, first])
    assert deepest == depth - 1
    grown = max(depth_of(tree) for tree in run.model.ensembles[0].trees)
    assert grown == depth


def depth_of(tree: Any) -> int:
    depths = [0] * len(tree.first)
    for place, first in enumerate(tree.first):
        if first != -1:
            depths[first] = depths[first + 1] = depths[place] + 1
    return max(depths)


def test_sides_are_told_of_the_rows_of_split_nodes_alone(scene: Make, parameters_for: Make, together: Make) -> None:
    """Also of those that the party itself has opened: it may not know which of them are split further."""
    data = scene(rows=250)
    run = together(parameters_for("xgb", depth=4), data=data, engine="plain", predicts=False)
    where: list[np.ndarray] = []
    for message in run.messages("telco", messages.Trees, messages.Level, messages.SplitRequest):
        if isinstance(message, messages.Trees):
            where = [np.zeros(250, int) for _ in message.names]
        elif isinstance(message, messages.Level):
            if message.parents[0] < 0:
                assert not message.sides.size
                continue
            each = list(zip(message.trees.tolist(), message.parents.tolist(), message.firsts.tolist(), strict=True))
            inside = [np.flatnonzero(where[tree] == parent) for tree, parent, _ in each]
            sides = unpacked(message.sides, sum(map(len, inside)), "sides", "bank")
            for (tree, _, first), rows in zip(each, inside, strict=True):
                where[tree][rows], sides = first + sides[: len(rows)], sides[len(rows) :]
        else:
            for tree, node in zip(message.trees.tolist(), message.nodes.tolist(), strict=True):
                assert (where[tree] == node).any()


# counts


@pytest.mark.parametrize("learner", LEARNERS)
def test_row_counts_are_those_of_groups(learner: str, scene: Make, parameters_for: Make, together: Make) -> None:
    """With `shares` the active party is told how many rows each node has in each bin, if that is faster."""
    k, data = 8, scene(rows=400)
    targets = [Target(data.truth[3])]
    run = together(
        parameters_for(learner, 3, min_rows=k, depth=5, bundle=False), data=data, targets=targets, predicts=False
    )
    orders = run.messages("bank", Orders)
    counted = [lengths for message in orders for lengths in message.lengths]
    assert counted, "the faster way was taken at least once"
    for lengths in counted:
        assert not ((lengths > 0) & (lengths < k)).any()
    silent = together(
        parameters_for(learner, 3, min_rows=k, depth=5, bundle=False),
        data=data,
        targets=targets,
        rules={"count_rows": False},
        predicts=False,
    )
    assert not silent.messages("bank", Orders)


# the coordinator


@pytest.mark.parametrize("learner", LEARNERS)
def test_what_the_coordinator_is_told_names_no_rows(
    learner: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Shapes, and names that count rounds, models and classes."""
    data = scene()
    weights = np.where(np.arange(160) % 2 == 0, 1.0, 0.0)
    for weigh in (None, weights):
        run = together(parameters_for(learner, 3), data=data, targets=[Target(data.truth[3], weigh)], predicts=False)
        items = [item for deal in run.messages("coordinator", Deal) for item in deal.items]
        assert items
        assert {item.rows for item in items} <= {160, 80}  # all, or the half of which the smaller siblings are a part
        assert {(item.left, item.right) for item in items} == {("telco", "bank")}
        for item in items:
            name = item.y.split("\n")[0]
            assert re.fullmatch(r"([0-9a-f]{32} (round|tree) \d+ model 0( class \d)?)?|#[0-9a-f]+", name)
            assert re.fullmatch(r"(bins [0-9a-f]{32})?|#[0-9a-f]+", item.x)
