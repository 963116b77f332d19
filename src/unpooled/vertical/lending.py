"""A passive party's part in growing trees: it shows sums over its bins, and opens the splits that are chosen.

It keeps its thresholds. Unless nodes are hidden it sees which rows a node has, and so can keep to `min_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.codec import Bools, Ints32
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import Call, Inputs, OneHot
from unpooled.secure.product import forget, product
from unpooled.vertical import messages
from unpooled.vertical.binning import Binned
from unpooled.vertical.layout import Feature, Layout
from unpooled.vertical.parameters import AnyTrees
from unpooled.vertical.splits import SplitTable, right_of
from unpooled.vertical.standing import OUTSIDE, Families, Standing, check_open, divide, members, packed, shown, unpacked
from unpooled.vertical.team import Team


def lend(team: Team, parameters: AnyTrees, own: Binned) -> tuple[bytes, SplitTable]:
    """Take part until the active party has finished; the model's name, and the splits that are this party's."""
    session, table = team.session, SplitTable()
    session.send(team.active, lent_columns(own))
    begin = session.recv(team.active, messages.Begin)
    if begin.rows != len(own.columns):
        raise ProtocolError(f"{team.active} has {begin.rows} rows and {session.party} {len(own.columns)}: align first")
    done = 0
    while isinstance(trees := session.recv(team.active, messages.Trees, messages.Finished), messages.Trees):
        _grow(team, parameters, own, table, trees)
        done += 1
        session.progress(min(done, begin.groups), begin.groups)
    return begin.name, table


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


def layout_of(lent: messages.LentColumns, sender: str) -> Layout:
    """The layout that a party tells of."""
    if not len(lent.values) == len(lent.missing) == len(lent.usual):
        raise ProtocolError(f"{sender} sent LentColumns that do not fit together")
    features = zip(lent.values.tolist(), lent.missing.tolist(), lent.usual.tolist(), strict=True)
    layout = Layout(
        tuple(Feature(values, bool(missing), usual) for values, missing, usual in features),
        tuple(tuple(bundle.tolist()) for bundle in lent.bundles),
    )
    layout.check()
    return layout


def tree_call(
    team: Team,
    lender: str,
    layout: Layout,
    parameters: AnyTrees,
    trees: messages.Trees,
    tree: int,
    shape: tuple[int, int],
) -> Call:
    """The product that gives the histograms of a tree's nodes; its shape is rows and nodes."""
    rows, nodes = shape
    hidden = parameters.hide_nodes
    return Call(
        terms=((lender, team.active),),
        receiver=team.active,
        rows=rows,
        left=OneHot(layout.sizes, nodes, hidden=hidden),
        columns=trees.sums,
        bound=2**parameters.precision - 1,
        x="bins" if hidden and parameters.hide_bags else "",
        y=trees.names[tree],
        digest=team.digest,
    )


def _grow(team: Team, parameters: AnyTrees, own: Binned, table: SplitTable, trees: messages.Trees) -> None:
    """Take part in one group of trees."""
    session, active = team.session, team.active
    standings = _standings(team, parameters, own, trees)
    while True:
        if parameters.hide_nodes:
            hidden = session.recv(active, messages.HiddenLevel, messages.OpenForAll, messages.Grown)
            if isinstance(hidden, messages.Grown):
                return forget(team.products, hidden.forget)
            if isinstance(hidden, messages.HiddenLevel):
                _show_hidden(team, parameters, standings, trees, hidden)
            else:
                _open_for_all(team, own, table, hidden)
        else:
            request = session.recv(active, messages.Level, messages.Open, messages.Grown)
            if isinstance(request, messages.Grown):
                return forget(team.products, request.forget)
            if isinstance(request, messages.Level):
                _show(team, parameters, standings, trees, request)
            else:
                _open(team, parameters, table, standings, request)


def _standings(team: Team, parameters: AnyTrees, own: Binned, trees: messages.Trees) -> list[Standing]:
    rows, min_rows, layout = len(own.columns), 1 if parameters.hide_nodes else parameters.min_rows, own.layout
    if parameters.hide_bags:
        return [
            Standing(layout, own.columns, own.feature_bins, np.zeros(rows, np.int32), min_rows) for _ in trees.names
        ]
    bags = team.session.recv(team.active, messages.Bags)
    if len(bags.taking_part) != len(trees.names):
        raise ProtocolError(f"{team.active} sent Bags for another number of trees than grow")
    return [
        standing_in_bag(own, unpacked(bits, rows, team.active), min_rows, cut=bags.cut) for bits in bags.taking_part
    ]


def standing_in_bag(own: Binned, taking_part: Bools, min_rows: int, *, cut: bool) -> Standing:
    """The beginning of a tree in which some rows take part; the others are cut off, or stand outside."""
    if cut:
        where = np.zeros(int(taking_part.sum()), np.int32)
        return Standing(own.layout, own.columns[taking_part], own.feature_bins[taking_part], where, min_rows)
    where = np.where(taking_part, 0, OUTSIDE).astype(np.int32)
    return Standing(own.layout, own.columns, own.feature_bins, where, min_rows)


def _show(
    team: Team, parameters: AnyTrees, standings: Sequence[Standing], trees: messages.Trees, level: messages.Level
) -> None:
    """Follow the splits of the last level, then show the sums over the bins of the nodes that are asked about."""
    batch, groups = [], []
    for of_tree in level.trees:
        standing = _standing_of(team, standings, of_tree.tree)
        families = _families(team, standing, of_tree)
        if families.siblings == 2:
            rows, _ = members(standing.where, families.parents)
            sides = unpacked(of_tree.sides, len(rows), team.active)
            divide(standing.where, families.parents, families.firsts, sides)
        columns, nodes = shown(standing, families)
        shape = len(nodes), len(families.firsts)
        call = tree_call(team, team.session.party, standing.layout, parameters, trees, of_tree.tree, shape)
        batch.append((call, Inputs(x=columns, nodes=nodes)))
        groups += [standing.groups[first] for first in families.firsts.tolist() if standing.min_rows > 1]
    if parameters.min_rows > 1:
        ends, joined = (packed(np.concatenate(bits)) for bits in zip(*groups, strict=True))
        team.session.send(team.active, messages.Merged(ends, joined))
    product(team.products, batch)


def _families(team: Team, standing: Standing, level: messages.TreeLevel) -> Families:
    """The families of a level, if they can be."""
    families = Families(level.parents, level.firsts, level.asked)
    parents, firsts = level.parents.tolist(), level.firsts.tolist()
    fits = len(parents) == len(firsts) == len(level.asked) > 0
    if fits and families.siblings == 1:
        fits = parents == [OUTSIDE] and firsts == [0] and level.asked.tolist() == [0]
    elif fits:
        known = set(standing.groups) if standing.min_rows > 1 else set(np.unique(standing.where).tolist())
        fits = (
            len(set(parents)) == len(parents)
            and set(parents) <= known - {OUTSIDE}
            and min(firsts) > int(standing.where.max(initial=0))
            and len({*firsts, *(first + 1 for first in firsts)}) == 2 * len(firsts)
            and set(level.asked.tolist()) <= {0, 1}
        )
    if not fits:
        raise ProtocolError(f"{team.active} sent a Level with nodes that cannot be")
    return families


def _show_hidden(
    team: Team, parameters: AnyTrees, standings: Sequence[Standing], trees: messages.Trees, level: messages.HiddenLevel
) -> None:
    """Show the sums over the bins of nodes whose rows this party does not know."""
    batch = []
    for tree, nodes in zip(level.trees.tolist(), level.nodes.tolist(), strict=True):
        standing = _standing_of(team, standings, tree)
        shape = len(standing.columns), nodes
        call = tree_call(team, team.session.party, standing.layout, parameters, trees, tree, shape)
        batch.append((call, Inputs(x=standing.columns)))
    product(team.products, batch)


def _open(
    team: Team, parameters: AnyTrees, table: SplitTable, standings: Sequence[Standing], request: messages.Open
) -> None:
    """Say on which side the rows of each node fall, if both sides have enough of them."""
    numbers, sides = [], []
    splits = _columns(team, request.trees, request.nodes, request.features, request.places, request.missing_left)
    for tree, node, feature, place, missing_left in splits:
        standing = _standing_of(team, standings, tree)
        _check_split(team, standing.layout, feature, place)
        if standing.min_rows > 1 and node not in standing.groups:
            raise ProtocolError(f"{team.active} asks to Open a node that it was shown nothing of")
        rows, _ = members(standing.where, np.array([node], np.int32))
        check_open(standing, node, feature, place, bool(missing_left))
        number = table.number(feature, place, bool(missing_left))
        right = right_of(table, standing.layout, standing.features, rows, np.full(len(rows), number))
        if min(int(right.sum()), int((~right).sum())) < parameters.min_rows:
            raise RefusedError(
                f"{team.session.party} opens no split that leaves fewer than {parameters.min_rows} rows on a side"
            )
        table.used(number, len(rows))
        numbers.append(number)
        sides.append(right)
    team.session.send(team.active, messages.Opened(np.array(numbers, np.int32), packed(np.concatenate(sides))))


def _open_for_all(team: Team, own: Binned, table: SplitTable, request: messages.OpenForAll) -> None:
    """Say on which side all rows fall: which node is split stays with the active party."""
    rows, numbers, sides = np.arange(len(own.columns)), [], []
    for feature, place, missing_left in _columns(team, request.features, request.places, request.missing_left):
        _check_split(team, own.layout, feature, place)
        number = table.number(feature, place, bool(missing_left))
        table.used(number, 0)
        numbers.append(number)
        sides.append(right_of(table, own.layout, own.feature_bins, rows, np.full(len(rows), number)))
    team.session.send(team.active, messages.OpenedForAll(np.array(numbers, np.int32), packed(np.concatenate(sides))))


def _standing_of(team: Team, standings: Sequence[Standing], tree: int) -> Standing:
    if not 0 <= tree < len(standings):
        raise ProtocolError(f"{team.active} speaks of a tree that does not grow")
    return standings[tree]


def _columns(team: Team, *fields: Ints32) -> list[tuple[int, ...]]:
    """The splits that are asked for, one by one."""
    if len({field.shape for field in fields}) > 1 or not fields[0].size or fields[0].ndim != 1:
        raise ProtocolError(f"{team.active} asks to open splits, and what it says of them does not fit together")
    return list(zip(*(field.tolist() for field in fields), strict=True))


def _check_split(team: Team, layout: Layout, feature: int, place: int) -> None:
    if not (0 <= feature < len(layout.features) and 0 <= place < layout.features[feature].values):
        raise ProtocolError(f"{team.active} asks to open a split of a column or bin that is not there")
