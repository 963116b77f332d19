"""Below the root products have half of the rows: of two siblings the smaller one is asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError
from unpooled.secure.shares.dealer import Deal
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.grower.node_rows import AskedRows, Families

Make = Callable[..., Any]


@pytest.mark.parametrize("learner", ["gbdt", "xgb", "lgb", "rf"])
@pytest.mark.parametrize("engine", ["plain", "shares"])
def test_whoever_asks_about_the_larger_siblings_is_refused(
    engine: str, learner: str, parameters_for: Make, together: Make
) -> None:
    def larger(peer: str, message: Any) -> Any:
        if not isinstance(message, messages.Level):
            return message
        return messages.Level(tuple(replace(tree, asked=_other(tree)) for tree in message.trees))

    def _other(tree: messages.TreeLevel) -> Any:
        return tree.asked if Families(tree.parents, tree.firsts, tree.asked).siblings == 1 else 1 - tree.asked

    with pytest.raises(ProtocolError, match="Level from bank"):
        together(parameters_for(learner, 3), engine=engine, tamper={"bank": larger})


def test_the_coordinator_is_told_of_all_rows_for_a_root_and_of_half_of_them_below(
    parameters_for: Make, together: Make
) -> None:
    run = together(parameters_for("xgb", 3, trees=2), predicts=False)
    rows = [{item.rows for item in deal.items} for deal in run.messages("coordinator", Deal)]
    assert rows.count({160}) == 2
    assert rows.count({80}) == len(rows) - 2 > 0


def test_rows_asked_about_come_first_or_stay_where_they_are() -> None:
    asked = AskedRows(np.array([4, 1, 3]), np.array([0, 1, 1], np.int32))
    values = np.array([[7], [8], [9]])
    assert asked.laid_out(values, 4, part=True)[:, 0].tolist() == [7, 8, 9, 0]
    assert asked.laid_out(values, 6, part=False)[:, 0].tolist() == [0, 8, 0, 9, 7, 0]
    assert asked.nodes_in(4, part=True).tolist() == [0, 1, 1, -1]
    assert asked.nodes_in(6, part=False).tolist() == [-1, 1, -1, 1, 0, -1]
