"""What is said before the start of nodes that are hidden or shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from unpooled.secure.engine import Rules
from unpooled.vertical.trees.node_choice import DEAR, hidden_cost, said_before
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters, LgbParameters, XgbParameters

SHARES = Rules("shares")


@pytest.mark.parametrize("kind", [GbdtParameters, XgbParameters, ForestParameters])
def test_hidden_nodes_cost_more_the_deeper_trees_are(kind: Any) -> None:
    costs = [hidden_cost(SHARES, kind(depth=depth)) for depth in range(1, 13)]
    assert all(one < other for one, other in pairwise(costs[2:]))
    assert costs[2] < 1.5, "the default depth of a search"
    assert costs[5] > DEAR, "the default depth of training"


def test_leaf_by_leaf_they_are_not_dear() -> None:
    assert hidden_cost(SHARES, LgbParameters()) < DEAR


def test_under_encryption_they_cost_an_encryption_for_each_step() -> None:
    assert hidden_cost(Rules("paillier"), GbdtParameters(depth=3)) == 3
    assert hidden_cost(Rules("plain"), GbdtParameters(depth=9)) == 1


def test_where_they_are_cheap_nothing_is_said() -> None:
    assert said_before(SHARES, GbdtParameters(depth=3, hide_nodes=True), True) == []


@pytest.mark.parametrize("engine", ["shares", "paillier"])
def test_where_they_are_dear_both_sides_of_the_choice_are_said(engine: Any) -> None:
    (line,) = said_before(Rules(engine), GbdtParameters(depth=6, hide_nodes=True), True)
    assert "6 times" in line if engine == "paillier" else "times as long" in line
    assert "hide_nodes = false" in line
    assert "0.79" in line


def test_shown_nodes_are_said_with_what_was_measured_where_labels_are_a_secret() -> None:
    (line,) = said_before(SHARES, GbdtParameters(depth=3), True)
    assert "see which rows are together" in line
    assert "0.85" in line
    (line,) = said_before(SHARES, GbdtParameters(depth=3), False)
    assert "0.85" not in line
