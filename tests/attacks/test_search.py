"""Attacks on a search find the seeker's people where nodes or bags are shown, and do not where they are hidden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attacked import searching

from unpooled.attacks.audit import tree_scores
from unpooled.attacks.findings import BAGS, FEW_KNOWN, ID2GRAPH, LEAF_SIZES
from unpooled.attacks.simulation import View, views_of
from unpooled.attacks.stage import Stage
from unpooled.evaluate.metrics import auc

Search = Callable[..., tuple[Stage, View]]

NODES, HIDDEN, BAGS_SHOWN = {"hide_nodes": False}, {"hide_nodes": True}, {"hide_nodes": False, "hide_bags": False}
BY_CHANCE = 0.08
"""More than three times the spread of a guess at 150 people."""


def scores(search: Search, model: dict[str, Any]) -> dict[str, float]:
    stage, view = search(**model)
    return {attack.name: auc(truth.astype(float), found) for attack, (truth, found, _) in tree_scores(stage, view, 1)}


@pytest.mark.parametrize("attack", [LEAF_SIZES, FEW_KNOWN, ID2GRAPH])
def test_nodes_that_are_shown_give_the_seekers_people_away(search: Search, attack: Any) -> None:
    assert scores(search, NODES)[attack.name] > 0.75


def test_bags_that_are_shown_give_them_away_exactly(search: Search) -> None:
    assert scores(search, BAGS_SHOWN)[BAGS.name] > 0.99
    assert scores(search, NODES)[BAGS.name] == 0.5, "hidden bags: all rows are in all of them"


@pytest.mark.parametrize("attack", [BAGS, LEAF_SIZES, FEW_KNOWN, ID2GRAPH])
def test_hidden_nodes_leave_a_party_with_columns_of_noise_at_chance(search: Search, attack: Any) -> None:
    _, view = search(**HIDDEN)
    assert view.trees.hidden
    assert view.trees.opened, "it still sees which of its splits are asked for, and attacks go by these"
    assert abs(scores(search, HIDDEN)[attack.name] - 0.5) < BY_CHANCE


def test_nobody_else_is_told_anything_of_learning() -> None:
    views = views_of(searching(trees=2))
    assert set(views) == {"shop", "telco"}
    assert views["telco"].record.entries
    assert not views["shop"].record.entries


def test_what_is_found_comes_from_messages_and_not_from_own_columns(search: Search) -> None:
    stage, view = search(**NODES)
    known = dict(tree_scores(stage, view, 1))[FEW_KNOWN]
    truth, by_messages, by_columns = known
    assert by_columns is not None
    assert auc(truth.astype(float), by_messages) > 0.75
    assert abs(auc(truth.astype(float), by_columns) - 0.5) < BY_CHANCE
    assert np.isfinite(by_messages).all()
