"""The largest trees that a plan allows, and so the most that growing them asks of a passive party.

Everything here is known before the first tree: the plan, the party's own layout, how many rows there are. What a party
answers is counted in bits, since made-up gradients can pack many rows into one sum.
"""

from __future__ import annotations

from math import ceil, log2

from unpooled.secure.calls import Call, OneHot
from unpooled.secure.engine import Rules
from unpooled.secure.product import answer_bits
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    LgbParameters,
    group_size,
    largest_sum,
    outputs_of,
    sums_of,
)


def groups_of(parameters: AnyTrees, models: int) -> int:
    """How many groups of trees grow, if no model stops early."""
    size = group_size(parameters, models)
    if isinstance(parameters, ForestParameters):
        return ceil(models * parameters.trees / size)
    return ceil(models * outputs_of(parameters) / size) * parameters.trees


def rows_shown(parameters: AnyTrees) -> int:
    """How few rows of a node are in bins that are shown as one; where nodes are hidden nobody can count these."""
    return 1 if parameters.hide_nodes else parameters.min_rows


def leaves_of(parameters: AnyTrees, rows: int) -> int:
    """The most leaves of a tree; it has one split less."""
    leaves = min(1 << parameters.depth, max(rows // parameters.min_rows, 1))
    return min(leaves, parameters.leaves) if isinstance(parameters, LgbParameters) else leaves


def nodes_asked(parameters: AnyTrees, rows: int) -> list[int]:
    """Step by step the most nodes of a tree that sums are asked for: the root, then one child of each split.

    Both children have rows enough, and one of them enough to be split again: three times what a leaf needs.
    """
    if isinstance(parameters, LgbParameters):
        return [1] * max(min(2 ** (parameters.depth - 1), leaves_of(parameters, rows) - 1), 1)
    most = max(rows // (3 * parameters.min_rows), 1)
    return [1, *(min(2**level, most) for level in range(parameters.depth - 1))]


def merged_bits(layout: Layout) -> int:
    """How many bits say for one node which of its bins are shown as one."""
    return layout.logical + len(layout.features)


def table_bits(layout: Layout, rows: int) -> int:
    """How many bits so many rows have in bins."""
    return round(rows * sum(log2(feature.size) for feature in layout.features))


def bits_needed(rules: Rules, parameters: AnyTrees, layout: Layout, rows: int, models: int) -> int:
    """The most bits that a party with this layout answers about its rows while so many models are fitted together."""
    trees = models * parameters.trees * outputs_of(parameters)
    each = splits_of(parameters, rows)
    opened = min(trees * each, _distinct(layout)) if parameters.hide_nodes else trees * each
    sums = trees * sums_bits(rules, parameters, layout, rows)
    return sums + rows * opened + sorting_bits(parameters, layout, rows, models)


def tree_bits(rules: Rules, parameters: AnyTrees, layout: Layout, rows: int) -> int:
    """The most bits that one tree asks for."""
    return sums_bits(rules, parameters, layout, rows) + rows * splits_of(parameters, rows)


def sorting_bits(parameters: AnyTrees, layout: Layout, rows: int, models: int) -> int:
    """The most bits that are answered when all rows are sorted by the grown trees once more, which open bags need."""
    trees = models * parameters.trees * outputs_of(parameters)
    return 0 if parameters.hide_bags else rows * min(trees * splits_of(parameters, rows), _distinct(layout))


def splits_of(parameters: AnyTrees, rows: int) -> int:
    """The most splits of a tree of which a row's side is told: those on its way, or of hidden nodes all."""
    splits = leaves_of(parameters, rows) - 1
    return splits if parameters.hide_nodes else min(parameters.depth, splits)


def _distinct(layout: Layout) -> int:
    """How many different splits there are; missing values go left or right. The same one is not asked for twice."""
    return 2 * sum(feature.values for feature in layout.features)


def sums_bits(rules: Rules, parameters: AnyTrees, layout: Layout, rows: int) -> int:
    """The most bits of a tree's sums, and of how its bins were merged."""
    if not layout.features:
        return 0
    total, asked = 0, nodes_asked(parameters, rows)
    for step, nodes in enumerate(asked):
        call = Call(
            terms=(("passive", "active"),),
            receiver="active",
            rows=rows // 2 if step and asks_anew(rules, parameters) else rows,
            left=OneHot(layout.sizes, nodes, hidden=parameters.hide_nodes),
            columns=sums_of(parameters),
            bound=2**parameters.precision - 1,
            most=largest_sum(parameters, rows) if parameters.hide_nodes else 0,
        )
        total += answer_bits(rules, call)
    return total + (sum(asked) * merged_bits(layout) if rows_shown(parameters) > 1 else 0)


def asks_anew(rules: Rules, parameters: AnyTrees) -> bool:
    """Whether each product has gradients of its own, so that they have no name to be used again under."""
    return not parameters.hide_nodes and rules.engine != "paillier"
