"""A passive party's part in growing trees: it shows sums over its bins, and opens the splits that are chosen.

It keeps its thresholds. Unless nodes are hidden it sees which rows a node has, and so can keep to `min_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unpooled.arrays import Ints32
from unpooled.checkpoint import Notebook
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import Inputs
from unpooled.secure.engine import count_bits, count_splits
from unpooled.secure.product import forget, product
from unpooled.session import ITEM_BYTES
from unpooled.vertical.inputs import COLUMNS
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import about_hidden_nodes, about_nodes, columns_kept
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import groups_of, merged_bits
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.checkpoint import page_of_splits, splits_from
from unpooled.vertical.trees.grower.limits import HiddenGrowth, check_counts, check_growth, check_trees, count_split
from unpooled.vertical.trees.grower.node_rows import (
    OUTSIDE,
    Families,
    Standing,
    check_open,
    members,
    packed,
    shown,
    standing_in_bag,
    unpacked,
)
from unpooled.vertical.trees.grower.products import NAME_BYTES, in_part, lent_columns, tree_call
from unpooled.vertical.trees.parameters import AnyTrees, outputs_of, serve_again
from unpooled.vertical.trees.split_table import SplitTable, right_of


def lend(
    team: Team, parameters: AnyTrees, own: Binned, models: int, notebook: Notebook | None = None
) -> tuple[bytes, SplitTable]:
    """Take part until the active party has finished; the name of its models, and the splits that are this party's.

    Groups of trees that are in the notebook have grown already.
    """
    session, table = team.session, SplitTable()
    session.send(team.active, lent_columns(own))
    if evidence := team.evidence:
        evidence.commit(session, [team.active], COLUMNS, columns_kept(own))
    begin = session.recv(team.active, messages.Begin)
    if begin.rows != len(own.columns):
        raise ProtocolError(f"{team.active} has {begin.rows} rows and {session.party} {len(own.columns)}: align first")
    if len(begin.name) != NAME_BYTES:
        raise ProtocolError(f"invalid Begin from {team.active}: the model's name is not {NAME_BYTES} bytes long")
    if begin.groups != groups_of(parameters, models):
        raise ProtocolError(
            f"invalid Begin from {team.active}: {begin.groups} groups of trees, where the plan has "
            f"{groups_of(parameters, models)}"
        )
    if evidence:
        evidence.take_commitment(session, team.active)
    done, left = 0, models * parameters.trees * outputs_of(parameters)
    if notebook:
        done, left = len(notebook), left - sum(int(page["trees"]) for page in notebook.pages())
        table = splits_from(notebook.read(done - 1))
    while isinstance(trees := session.recv(team.active, messages.Trees, messages.Finished), messages.Trees):
        left -= len(trees.names)
        if left < 0 or done == begin.groups:
            raise RefusedError(
                f"{session.party} takes part in the trees that the plan names, and {team.active} wants more"
            )
        check_trees(team, parameters, trees, begin.name)
        done += 1
        if evidence:
            evidence.group = done
        _grow(team, parameters, own, table, trees)
        if notebook is not None:
            notebook.write(**page_of_splits(table), trees=np.array(len(trees.names)))
        session.progress(done, begin.groups)
    return begin.name, table


def _grow(team: Team, parameters: AnyTrees, own: Binned, table: SplitTable, trees: messages.Trees) -> None:
    """Take part in one group of trees."""
    session, active = team.session, team.active
    standings, hidden = _standings(team, parameters, own, trees), HiddenGrowth()
    while True:
        most = len(trees.names) * (24 * len(own.columns) + 8 * ITEM_BYTES)  # there are no more nodes than rows
        request = (
            session.recv(active, messages.HiddenLevel, messages.SplitRequestForAll, messages.Grown)
            if parameters.hide_nodes
            else session.recv(active, messages.Level, messages.SplitRequest, messages.Grown, at_most=most)
        )
        match request:
            case messages.HiddenLevel():
                _show_hidden(team, parameters, standings, trees, request, hidden)
            case messages.SplitRequestForAll():
                _open_for_all(team, parameters, own, table, request, hidden)
            case messages.Level():
                _show(team, parameters, standings, trees, request)
            case messages.SplitRequest():
                _open(team, parameters, table, standings, request)
            case messages.Grown():
                if request.forget != (() if serve_again(parameters) else trees.names):
                    raise ProtocolError(
                        f"invalid Grown from {active}: it forgets other gradients than those of the group"
                    )
                return forget(team.products, request.forget)


def _standings(team: Team, parameters: AnyTrees, own: Binned, trees: messages.Trees) -> list[Standing]:
    rows, min_rows = len(own.columns), 1 if parameters.hide_nodes else parameters.min_rows
    if parameters.hide_bags:
        return [standing_in_bag(own, None, min_rows, cut=False) for _ in trees.names]
    bags = team.session.recv(team.active, messages.Bags, at_most=len(trees.names) * (rows // 8 + ITEM_BYTES))
    if len(bags.taking_part) != len(trees.names):
        raise ProtocolError(
            f"invalid Bags from {team.active}: for {len(bags.taking_part)} trees, where {len(trees.names)} grow"
        )
    return [
        standing_in_bag(own, unpacked(bits, rows, team.active), min_rows, cut=bags.cut) for bits in bags.taking_part
    ]


def _show(
    team: Team, parameters: AnyTrees, standings: Sequence[Standing], trees: messages.Trees, level: messages.Level
) -> None:
    """Follow the splits of the last level, then show the sums over the bins of the nodes that are asked about."""
    of_trees = [_standing_of(team, standings, level_of.tree) for level_of in level.trees]
    families = [_families(team, *each) for each in zip(of_trees, level.trees, strict=True)]
    if len({of_tree.tree for of_tree in level.trees}) < len(families) or len({f.siblings for f in families}) != 1:
        raise ProtocolError(f"invalid Level from {team.active}: repeated trees, or roots beside other nodes")
    for standing, level_of, of_tree in zip(of_trees, level.trees, families, strict=True):
        check_growth(team, parameters, standing, of_tree)
        if of_tree.siblings == 2:
            rows, counts = members(standing.where, of_tree.parents)
            sides = unpacked(level_of.sides, len(rows), team.active)
            check_counts(team, standing.min_rows, sides, counts, "Level")
            standing.where[rows] = np.repeat(of_tree.firsts, counts) + sides
    looks = shown(of_trees, families)
    part, batch = in_part(team, parameters, families), []
    for standing, (look, bins), level_of, of_tree in zip(of_trees, looks, level.trees, families, strict=True):
        party, shape = team.session.party, (len(standing.where), len(of_tree))
        call = tree_call(team, party, standing.layout, parameters, trees, level_of.tree, shape, part=part)
        if len(look.rows) > call.rows:
            raise ProtocolError(f"invalid Level from {team.active}: it asks about the larger of two siblings")
        x, nodes = look.laid_out(bins, call.rows, part=part), look.nodes_in(call.rows, part=part)
        about = about_nodes(team, level_of.tree, of_tree, look, part=part)
        batch.append((call, Inputs(x=x, nodes=nodes, about=about)))
    product(team.products, batch)
    if standings[0].min_rows > 1:
        bits = sum(map(len, families)) * merged_bits(standings[0].layout)
        count_bits(team.products, team.digest, len(standings[0].own.columns), bits)
        each = zip(of_trees, families, strict=True)
        groups = [standing.groups[first] for standing, of_tree in each for first in of_tree.firsts.tolist()]
        ends, joined = (packed(np.concatenate(bits)) for bits in zip(*groups, strict=True))
        team.session.send(team.active, messages.Merged(ends, joined))


def _families(team: Team, standing: Standing, level: messages.TreeLevel) -> Families:
    """The families of a level, if they can be."""
    families = Families(level.parents, level.firsts, level.asked)
    parents, firsts = level.parents.tolist(), level.firsts.tolist()
    fits = level.parents.ndim == 1 and level.parents.size > 0
    fits = fits and level.parents.shape == level.firsts.shape == level.asked.shape
    if fits and families.siblings == 1:
        fits = parents == [OUTSIDE] and firsts == [0] and level.asked.tolist() == [0]
    elif fits:
        known = set(standing.counts) if standing.min_rows > 1 else set(np.unique(standing.where).tolist())
        fits = (
            len(set(parents)) == len(parents)
            and set(parents) <= known - {OUTSIDE}
            and min(firsts) > int(standing.where.max(initial=0))
            and max(firsts) < 2 * len(standing.where)  # a tree has fewer nodes, since all its leaves have rows
            and len({*firsts, *(first + 1 for first in firsts)}) == 2 * len(firsts)
            and set(level.asked.tolist()) <= {0, 1}
        )
    if not fits:
        raise ProtocolError(f"invalid Level from {team.active}: unknown or repeated nodes")
    return families


def _show_hidden(
    team: Team,
    parameters: AnyTrees,
    standings: Sequence[Standing],
    trees: messages.Trees,
    level: messages.HiddenLevel,
    hidden: HiddenGrowth,
) -> None:
    """Show the sums over the bins of nodes whose rows this party does not know."""
    fits = level.trees.ndim == 1 and level.trees.size > 0 and level.trees.shape == level.nodes.shape
    if not fits or len(set(level.trees.tolist())) < level.trees.size:
        raise ProtocolError(f"invalid HiddenLevel from {team.active}: repeated trees, or lists of different length")
    batch, each = [], list(zip(level.trees.tolist(), level.nodes.tolist(), strict=True))
    hidden.look(
        team, parameters, [(tree, nodes, len(_standing_of(team, standings, tree).where)) for tree, nodes in each]
    )
    for tree, nodes in each:
        standing = standings[tree]
        shape = len(standing.own.columns), nodes
        call = tree_call(team, team.session.party, standing.layout, parameters, trees, tree, shape)
        batch.append((call, Inputs(x=standing.own.columns, about=about_hidden_nodes(team, tree))))
    product(team.products, batch)


def _open(
    team: Team, parameters: AnyTrees, table: SplitTable, standings: Sequence[Standing], request: messages.SplitRequest
) -> None:
    """Say on which side the rows of each node fall, if both sides have enough of them."""
    fields = request.trees, request.nodes, request.features, request.places, request.missing_left
    splits = _columns(team, "SplitRequest", *fields)
    numbers, sides = [], []
    count_splits(team.products, team.digest, len(splits))
    for tree in dict.fromkeys(split[0] for split in splits):  # the active party asks tree by tree
        standing, of_tree = _standing_of(team, standings, tree), [split for split in splits if split[0] == tree]
        for _, node, feature, place, missing_left in of_tree:
            _check_split(team, standing.layout, feature, place, "SplitRequest")
            check_open(standing, node, feature, place, bool(missing_left), team.active)
            standing.opened.add(node)
            numbers.append(table.number(feature, place, bool(missing_left)))
        count_split(team, parameters, standing, (split[1] for split in of_tree))
        rows, counts = members(standing.where, np.array([split[1] for split in of_tree], np.int32))
        count_bits(team.products, team.digest, len(standing.where), len(rows))
        of_rows = np.repeat(numbers[-len(of_tree) :], counts)
        right = right_of(table, standing.layout, standing.own.feature_bins, rows, of_rows)
        check_counts(team, parameters.min_rows, right, counts, "SplitRequest")
        for number, count in zip(numbers[-len(of_tree) :], counts.tolist(), strict=True):
            table.used(number, count)
        sides.append(right)
    team.session.send(team.active, messages.SplitSides(np.array(numbers, np.int32), packed(np.concatenate(sides))))


def _open_for_all(
    team: Team,
    parameters: AnyTrees,
    own: Binned,
    table: SplitTable,
    request: messages.SplitRequestForAll,
    hidden: HiddenGrowth,
) -> None:
    """Say on which side all rows fall: which node is split stays with the active party."""
    splits, rows = (
        _columns(team, "SplitRequestForAll", request.features, request.places, request.missing_left),
        len(own.columns),
    )
    if len(set(splits)) < len(splits) or not {split[2] for split in splits} <= {0, 1}:
        raise ProtocolError(
            f"invalid SplitRequestForAll from {team.active}: repeated splits, or no side for missing values"
        )
    for feature, place, _ in splits:
        _check_split(team, own.layout, feature, place, "SplitRequestForAll")
    hidden.open(team, parameters, len(splits), rows)
    known = len(table.splits)
    numbers = [table.number(feature, place, bool(missing_left)) for feature, place, missing_left in splits]
    count_splits(team.products, team.digest, len(table.splits) - known)  # the others were opened before
    count_bits(team.products, team.digest, rows, rows * (len(table.splits) - known))
    every, sides = np.arange(rows), []
    for number in numbers:
        if not table.uses[number]:  # a run that was resumed asks again what it has not kept
            table.used(number, 0)
        sides.append(right_of(table, own.layout, own.feature_bins, every, np.full(rows, number)))
    team.session.send(
        team.active, messages.SplitSidesForAll(np.array(numbers, np.int32), packed(np.concatenate(sides)))
    )


def _standing_of(team: Team, standings: Sequence[Standing], tree: int) -> Standing:
    if not 0 <= tree < len(standings):
        raise ProtocolError(f"invalid number of a tree from {team.active}: {len(standings)} grow")
    return standings[tree]


def _columns(team: Team, kind: str, *fields: Ints32) -> list[tuple[int, ...]]:
    """The splits that are asked for, one by one."""
    if len({field.shape for field in fields}) > 1 or not fields[0].size or fields[0].ndim != 1:
        raise ProtocolError(f"invalid {kind} from {team.active}: no splits, or lists of different length")
    return list(zip(*(field.tolist() for field in fields), strict=True))


def _check_split(team: Team, layout: Layout, feature: int, place: int, kind: str) -> None:
    if not (0 <= feature < len(layout.features) and 0 <= place < layout.features[feature].values):
        raise ProtocolError(f"invalid {kind} from {team.active}: a split of a column or bin that is not there")
