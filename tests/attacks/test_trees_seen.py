"""Trees are followed by messages alone, and come out as the passive party itself has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from attacked import ROWS, searching

from unpooled.arrays import Ints32
from unpooled.attacks.reconstruction import cells_known, sides_of
from unpooled.attacks.simulation import View, views_of
from unpooled.attacks.stage import Stage
from unpooled.vertical.trees.grower import passive
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, TreeRows

Search = Callable[..., tuple[Stage, View]]


@pytest.mark.parametrize("hide_bags", [True, False])
def test_leaves_are_those_that_the_party_keeps_or_finer(monkeypatch: pytest.MonkeyPatch, *, hide_bags: bool) -> None:
    """Finer where the party's own split is the last of a branch: of that it is told no more."""
    groups, begin = list[tuple[Any, TreeRows]](), passive.rows_in_bags

    def noted(own: Any, parts: Any, *others: Any, **more: Any) -> TreeRows:
        groups.append((parts, begin(own, parts, *others, **more)))
        return groups[-1][1]

    monkeypatch.setattr(passive, "rows_in_bags", noted)
    seen = views_of(searching(trees=3, hide_nodes=False, hide_bags=hide_bags))["telco"].trees
    kept = [each for parts, rows in groups for each in zip(parts, rows.nodes_of_rows(), strict=True)]
    assert len(seen.leaves) == len(kept) == 12
    for leaves, (part, rows) in zip(seen.leaves, kept, strict=True):
        inside = np.ones(ROWS, bool) if part is None else part
        assert ((leaves == OUTSIDE) == ~inside).all()
        known = rows if len(rows) == inside.sum() else rows[inside]
        _refines(leaves[inside], known)
    assert len(seen.bags) == (0 if hide_bags else 12)


def _refines(finer: Ints32, coarser: Ints32) -> None:
    pairs = set(zip(finer.tolist(), coarser.tolist(), strict=True))
    assert len(pairs) == len(set(finer.tolist()))
    assert len(set(coarser.tolist())) > 1


@pytest.mark.parametrize("hide_nodes", [True, False])
def test_bounds_of_cells_hold_and_close_in(search: Search, *, hide_nodes: bool) -> None:
    """Opened splits bound each cell; the bounds never contradict the order of the real values."""
    stage, view = search(hide_nodes=hide_nodes)
    sides = sides_of(view.trees, ROWS)
    low, high = sides.low, sides.high
    assert (low <= high).all(), "no value is missing"
    assert 0 < cells_known(view.trees, ROWS) < 1
    values, agree = view.columns, 0
    for feature in range(low.shape[1]):  # presented in an order that only the telco knows
        orders = [_in_order(low[:, feature], high[:, feature], values[:, column]) for column in range(values.shape[1])]
        agree += any(orders)
    assert agree == low.shape[1] == stage.tables["telco"].frame.width - 1


def _in_order(low: Any, high: Any, values: Any) -> bool:
    """Whether rows whose bins are surely higher than those of others have higher values too."""
    edges = np.unique(low)
    if len(edges) < 2:
        return True
    return all(values[low >= edge].min() >= values[high < edge].max() for edge in edges[1:] if (high < edge).any())
