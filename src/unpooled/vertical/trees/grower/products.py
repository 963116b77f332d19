"""What the two sides of a tree's products agree on: the passive party's columns, and the products themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Ints, are_lists
from unpooled.errors import InputError, ProtocolError
from unpooled.secure.calls import Call, OneHot
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import asks_anew
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.grower.asked_rows import asked_of
from unpooled.vertical.trees.grower.node_rows import Families
from unpooled.vertical.trees.parameters import AnyTrees, largest_sum

NAME_BYTES = 16
_MOST_COLUMNS = 2**16
_ROWS_TOGETHER = 2**16  # more would not stay in the caches


def lent_columns(own: Binned) -> messages.LentColumns:
    """What the active party is told of the columns."""
    features = own.layout.features
    return messages.LentColumns(
        rows=len(own.columns),
        values=np.array([feature.values for feature in features], np.int32),
        missing=np.array([feature.missing for feature in features], np.int32),
        usual=np.array([feature.usual for feature in features], np.int32),
        bundles=tuple(np.array(bundle, np.int32) for bundle in own.layout.bundles),
    )


def layout_of(lent: messages.LentColumns, sender: str, bins: int) -> Layout:
    """The layout that a party told, checked; its columns have at most so many bins for values."""
    wrong = f"invalid LentColumns from {sender}"
    if not are_lists(lent.values, lent.missing, lent.usual) or any(bundle.ndim != 1 for bundle in lent.bundles):
        raise ProtocolError(f"{wrong}: the lists differ in length")
    if len(lent.values) > _MOST_COLUMNS:
        raise ProtocolError(f"{wrong}: more than {_MOST_COLUMNS} columns")
    if int(lent.values.max(initial=1)) > bins:
        raise ProtocolError(f"{wrong}: more bins than the {bins} of the plan")
    features = zip(lent.values.tolist(), lent.missing.tolist(), lent.usual.tolist(), strict=True)
    layout = Layout(
        tuple(Feature(values, bool(missing), usual) for values, missing, usual in features),
        tuple(tuple(bundle.tolist()) for bundle in lent.bundles),
    )
    try:
        layout.check()
    except InputError as error:
        raise ProtocolError(f"{wrong}: {error}") from None
    return layout


def tree_call(
    team: Team,
    helper: str,
    layout: Layout,
    parameters: AnyTrees,
    group: messages.Trees,
    tree: int,
    shape: tuple[int, int],
    *,
    bins: str,
    part: bool = False,
    others: Sequence[tuple[int, int]] = (),
) -> Call:
    """The product that gives the histograms of a tree's nodes; its shape is the tree's rows, and nodes.

    `bins` is the name of the bins of all rows, which serve many products where nodes are hidden.
    It may be about a `part` of the rows: of two siblings the smaller one is asked about, so half of the rows are
    enough; how many it really has the coordinator is not told. It may be about other trees too, of which the shapes
    are given (`trees_together`): then it has the rows and nodes of all of them.
    """
    hidden, rows = parameters.hide_nodes, min(rows for rows, _ in (shape, *others))
    blocks = tuple((asked_of(rows) if part else rows, nodes) for rows, nodes in (shape, *others))
    return Call(
        terms=((helper, team.active),),
        receiver=team.active,
        rows=sum(rows for rows, _ in blocks),
        left=OneHot(layout.sizes, sum(nodes for _, nodes in blocks), hidden=hidden),
        columns=group.sums,
        bound=2**parameters.precision - 1,
        x=f"bins {bins}" if hidden and parameters.hide_bags else "",
        y="" if asks_anew(team.products.rules, parameters) else group.names[tree],
        digest=team.digest,
        among=rows if part or others else 0,
        most=largest_sum(parameters, rows) if hidden else 0,
        blocks=blocks if others else (),
    )


def trees_together(team: Team, parameters: AnyTrees, rows: Sequence[int], most: int, *, part: bool) -> list[slice]:
    """Which trees, given by their numbers of rows, share a product: a long one takes less than many short ones.

    A product has no more rows than `most`, those of the table, unless a single tree has.
    """
    shared = asks_anew(team.products.rules, parameters) and team.products.rules.count_rows
    most = min(most, _ROWS_TOGETHER) if shared else 0
    found, begin, total = list[slice](), 0, 0
    for place, each in enumerate(rows):
        asked = asked_of(each) if part else each
        if place > begin and total + asked > most:
            found.append(slice(begin, place))
            begin, total = place, 0
        total += asked
    return [*found, slice(begin, len(rows))]


def families_together(team: Team, parameters: AnyTrees, families: Families, sizes: Ints, most: int) -> list[slice]:
    """Which families share a product, given how many rows each tree has, and the table."""
    by_tree, part = families.by_tree, in_part(team, parameters, families)
    shared = trees_together(team, parameters, [int(sizes[tree]) for tree, _ in by_tree], most, part=part)
    return [slice(by_tree[some][0][1].start, by_tree[some][-1][1].stop) for some in shared]


def in_part(team: Team, parameters: AnyTrees, families: Families) -> bool:
    """Whether products have only the rows that are asked about, not all of the tree.

    Paillier uses all rows, which were encrypted once for the whole tree; so do products with hidden nodes.
    """
    return asks_anew(team.products.rules, parameters) and families.siblings == 2
