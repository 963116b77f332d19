"""Below the root products have half of the rows: of two siblings the smaller one is asked about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from unpooled.errors import ProtocolError
from unpooled.secure.engine import Rules
from unpooled.secure.shares.dealer import Deal
from unpooled.secure.shares.permuting import Orders
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.grower.asked_rows import AskedRows, rows_in_product, rows_together
from unpooled.vertical.trees.grower.node_rows import asked_rows, root_families, rows_in_bags
from unpooled.vertical.trees.grower.products import trees_together

Make = Callable[..., Any]


@pytest.mark.parametrize("learner", ["gbdt", "xgb", "lgb", "rf"])
@pytest.mark.parametrize("engine", ["plain", "shares"])
def test_whoever_asks_about_the_larger_siblings_is_refused(
    engine: str, learner: str, parameters_for: Make, together: Make
) -> None:
    def larger(peer: str, message: Any) -> Any:
        if not isinstance(message, messages.Level):
            return message
        return message if message.parents[0] < 0 else replace(message, asked=1 - message.asked)

    with pytest.raises(ProtocolError, match="Level from bank"):
        together(parameters_for(learner, 3), engine=engine, tamper={"bank": larger})


def test_the_coordinator_is_told_of_all_rows_for_a_root_and_of_half_of_them_below(
    parameters_for: Make, together: Make
) -> None:
    run = together(parameters_for("xgb", 2, trees=2), predicts=False)
    rows = [{item.rows for item in deal.items} for deal in run.messages("coordinator", Deal)]
    assert rows.count({160}) == 2
    assert rows.count({80}) == len(rows) - 2 > 0


def test_trees_share_a_product_that_has_no_more_rows_than_the_table(parameters_for: Make, together: Make) -> None:
    """A tree for each of three classes: their roots have all rows each, and below, halves of two fit into a product."""
    run = together(parameters_for("xgb", 3, trees=2), predicts=False)
    orders = run.messages("bank", Orders)
    products = [len(message.tags) for message in orders]
    assert products.count(3) == 2  # the roots
    assert products.count(2) == len(products) - 2
    assert max(places.shape[1] for message in orders for places in message.places) == 2 * 160


def test_which_trees_share_a_product_depends_on_rows_and_on_how_products_are_made(parameters_for: Make) -> None:
    def shared(
        rows: Sequence[int], *, part: bool, most: int = 100, learner: str = "xgb", **rules: Any
    ) -> list[list[int]]:
        team = SimpleNamespace(products=SimpleNamespace(rules=Rules(**({"engine": "shares"} | rules))))
        found = trees_together(cast(Team, team), parameters_for(learner, 2), rows, most, part=part)
        return [list(rows[some]) for some in found]

    assert shared([40, 50, 60, 200, 10, 10], part=False) == [[40, 50], [60], [200], [10, 10]]
    assert shared([40, 50, 60, 200, 10, 10], part=True) == [[40, 50, 60], [200], [10, 10]]
    assert (
        shared([10, 10], part=True, engine="paillier") == shared([10, 10], part=True, count_rows=False) == [[10], [10]]
    )


def test_rows_asked_about_come_first_or_stay_where_they_are() -> None:
    asked = AskedRows(np.array([4, 1, 3]), np.array([0, 1, 1], np.int32))
    values = np.array([[7], [8], [9]])
    assert asked.laid_out(values, 4, part=True)[:, 0].tolist() == [7, 8, 9, 0]
    assert asked.laid_out(values, 6, part=False)[:, 0].tolist() == [0, 8, 0, 9, 7, 0]
    assert asked.nodes_in(4, part=True).tolist() == [0, 1, 1, -1]
    assert asked.nodes_in(6, part=False).tolist() == [-1, 1, -1, 1, 0, -1]


def test_rows_of_trees_that_share_a_product_come_tree_by_tree() -> None:
    one = AskedRows(np.array([1, 0]), np.array([0, 1], np.int32))
    other = AskedRows(np.array([2]), np.array([0], np.int32))
    both = rows_together([one, other], [(7, 2), (3, 1)])
    assert (both.rows.tolist(), both.families.tolist()) == ([1, 0, 9], [0, 1, 2])
    assert both.nodes_in(10, part=False).tolist() == [1, 0, -1, -1, -1, -1, -1, -1, -1, 2]
    assert both.nodes_in(4, part=True).tolist() == [0, 1, -1, 2]  # three places for seven rows, and one for three
    assert (both.needed, one.needed) == (4, 2)


def test_rows_of_a_product_are_counted_over_its_own_trees() -> None:
    """Of three trees of four rows the second has no part in it."""
    own = Binned(*[np.zeros((4, 1), np.uint8)] * 2, Layout((Feature(1, missing=False, usual=0),), ((0,),)))
    trees = rows_in_bags(own, [None, None, np.array([False, True, True, False])], 3, cut=False)
    families = root_families(np.array([0, 2], np.int32))
    asked = rows_in_product(trees, families, asked_rows(trees, families))
    assert (asked.rows.tolist(), asked.families.tolist()) == ([0, 1, 2, 3, 5, 6], [0, 0, 0, 0, 1, 1])
