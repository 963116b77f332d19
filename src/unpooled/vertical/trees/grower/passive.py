"""A passive party's part in growing trees: it shows sums over its bins, and opens the splits that are chosen.

It keeps its thresholds. Unless nodes are hidden it sees which rows a node has, and so can keep to `min_rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Ints32, are_lists, unpacked
from unpooled.checkpoint import Notebook
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.engine import count_bits, count_splits
from unpooled.secure.product import forget, product
from unpooled.session import ITEM_BYTES
from unpooled.vertical.inputs import COLUMNS
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import about_hidden_nodes, about_nodes, columns_kept
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import groups_of, merged_bits, rows_shown
from unpooled.vertical.trees.bundles import Bins
from unpooled.vertical.trees.checkpoint import page_of_splits, splits_from
from unpooled.vertical.trees.grower.limits import (
    HiddenGrowth,
    check_counts,
    check_growth,
    check_open,
    check_trees,
    count_split,
)
from unpooled.vertical.trees.grower.node_rows import (
    OUTSIDE,
    AskedRows,
    Families,
    TreeRows,
    asked_bins,
    family_groups,
    members,
    move_rows,
    rows_in_bag,
    rows_together,
)
from unpooled.vertical.trees.grower.products import NAME_BYTES, in_part, lent_columns, tree_call, trees_together
from unpooled.vertical.trees.parameters import AnyTrees, outputs_of, reuses_gradients
from unpooled.vertical.trees.split_table import SplitTable, fill_sides, right_of


def lend(
    team: Team, parameters: AnyTrees, own: Binned, models: int, notebook: Notebook | None = None
) -> tuple[bytes, SplitTable]:
    """Take part until the active party has finished; the name of its models, and the splits that are this party's.

    Groups of trees that are in the notebook have grown already.
    """
    session, active, table = team.session, team.active, SplitTable()
    session.send(active, lent_columns(own))
    if evidence := team.evidence:
        evidence.commit(session, [active], COLUMNS, columns_kept(own))
    begin, groups = session.recv(active, messages.Begin), groups_of(parameters, models)
    if begin.rows != len(own.columns):
        raise ProtocolError(f"{active} has {begin.rows} rows and {session.party} {len(own.columns)}: align first")
    if len(begin.name) != NAME_BYTES:
        raise ProtocolError(f"invalid Begin from {active}: the model's name is not {NAME_BYTES} bytes long")
    if begin.groups != groups:
        raise ProtocolError(f"invalid Begin from {active}: {begin.groups} groups of trees, where the plan has {groups}")
    if evidence:
        evidence.take_commitment(session, active)
    done, left = 0, models * parameters.trees * outputs_of(parameters)
    if notebook:
        done, left = len(notebook), left - sum(int(page["trees"]) for page in notebook.pages())
        table = splits_from(notebook.read(done - 1))
    while isinstance(told := session.recv(active, messages.Trees, messages.Finished), messages.Trees):
        left -= len(told.names)
        if left < 0 or done == begin.groups:
            raise RefusedError(f"{session.party} takes part in the trees that the plan names, and {active} wants more")
        check_trees(team, parameters, told, begin.name)
        done += 1
        if evidence:
            evidence.group = done
        _grow(team, parameters, own, table, told)
        if notebook is not None:
            notebook.write(**page_of_splits(table), trees=np.array(len(told.names)))
        session.progress(done, begin.groups)
    return begin.name, table


@dataclass(eq=False)
class _Group:
    """A group of trees that grow together at a passive party."""

    team: Team
    parameters: AnyTrees
    own: Binned
    table: SplitTable
    told: messages.Trees
    trees: list[TreeRows]
    hidden: HiddenGrowth = field(default_factory=HiddenGrowth)

    def tree(self, number: int) -> TreeRows:
        if not 0 <= number < len(self.trees):
            raise ProtocolError(f"invalid number of a tree from {self.team.active}: {len(self.trees)} grow")
        return self.trees[number]

    def call(self, nodes: Mapping[int, int], *, part: bool = False) -> Call:
        """The product that gives the histograms of so many nodes, by tree."""
        shape, *others = self.shapes(nodes)
        me, layout, first = self.team.session.party, self.own.layout, next(iter(nodes))
        return tree_call(self.team, me, layout, self.parameters, self.told, first, shape, part=part, others=others)

    def shapes(self, nodes: Mapping[int, int]) -> list[tuple[int, int]]:
        """By tree, how many rows it has, and how many nodes are asked about."""
        return [(len(self.tree(number).node_of_row), count) for number, count in nodes.items()]

    def count_bits(self, rows: int, bits: int) -> None:
        count_bits(self.team.products, self.team.digest, rows, bits)


def _grow(team: Team, parameters: AnyTrees, own: Binned, table: SplitTable, told: messages.Trees) -> None:
    session, active = team.session, team.active
    group = _Group(team, parameters, own, table, told, _rows_of_trees(team, parameters, own, len(told.names)))
    most = len(told.names) * (24 * len(own.columns) + 8 * ITEM_BYTES)  # there are no more nodes than rows
    while True:
        request = (
            session.recv(active, messages.HiddenLevel, messages.SplitRequestForAll, messages.Grown)
            if parameters.hide_nodes
            else session.recv(active, messages.Level, messages.SplitRequest, messages.Grown, at_most=most)
        )
        match request:
            case messages.HiddenLevel():
                _show_hidden(group, request)
            case messages.SplitRequestForAll():
                _open_for_all(group, request)
            case messages.Level():
                _show(group, request)
            case messages.SplitRequest():
                _open(group, request)
            case messages.Grown():
                if request.forget != (() if reuses_gradients(parameters) else told.names):
                    raise ProtocolError(f"invalid Grown from {active}: other gradients than those of the group")
                return forget(team.products, request.forget)


def _rows_of_trees(team: Team, parameters: AnyTrees, own: Binned, trees: int) -> list[TreeRows]:
    rows, min_rows = len(own.columns), rows_shown(parameters)
    if parameters.hide_bags:
        return [rows_in_bag(own, None, min_rows, cut=False) for _ in range(trees)]
    bags = team.session.recv(team.active, messages.Bags, at_most=trees * (rows // 8 + ITEM_BYTES))
    if len(bags.taking_part) != trees:
        raise ProtocolError(f"invalid Bags from {team.active}: for {len(bags.taking_part)} trees, where {trees} grow")
    parts = [unpacked(bits, rows, "Bags", team.active) for bits in bags.taking_part]
    return [rows_in_bag(own, part, min_rows, cut=bags.cut) for part in parts]


def _show(group: _Group, level: messages.Level) -> None:
    """Follow the splits of the last level, then show the sums over the bins of the nodes that are asked about."""
    team, parameters, active = group.team, group.parameters, group.team.active
    trees = [group.tree(of_tree.tree) for of_tree in level.trees]
    families = [_families(active, *each) for each in zip(trees, level.trees, strict=True)]
    if len({of_tree.tree for of_tree in level.trees}) < len(families) or len({f.siblings for f in families}) != 1:
        raise ProtocolError(f"invalid Level from {active}: repeated trees, or roots beside other nodes")
    for tree, told, of_tree in zip(trees, level.trees, families, strict=True):
        check_growth(team, parameters, tree, of_tree)
        if of_tree.siblings == 2:
            rows, counts = members(tree.node_of_row, of_tree.parents)
            sides = unpacked(told.sides, len(rows), "Level", active)
            check_counts(team, tree.min_rows, sides, counts, "Level")
            move_rows(tree.node_of_row, rows, counts, sides, of_tree.firsts)
    part, asked, batch = in_part(team, parameters, families), asked_bins(trees, families), []
    rows_of = [len(tree.node_of_row) for tree in trees]
    for some in trees_together(team, parameters, rows_of, len(group.own.columns), part=part):
        by_tree = dict(zip([told.tree for told in level.trees[some]], families[some], strict=True))
        batch.append(_asked_product(group, by_tree, asked[some], part=part))
    product(team.products, batch)
    if rows_shown(parameters) > 1:
        group.count_bits(len(group.trees[0].node_of_row), sum(map(len, families)) * merged_bits(group.own.layout))
        groups = family_groups(trees, families)
        team.session.send(active, messages.Merged(np.packbits(groups.ends), np.packbits(groups.missing_joined)))


def _asked_product(
    group: _Group, families: Mapping[int, Families], asked: Sequence[tuple[AskedRows, Bins]], *, part: bool
) -> tuple[Call, Inputs]:
    """A product about some trees, and this party's part of it: the bins of the rows asked about."""
    nodes, bins = {tree: len(of_tree) for tree, of_tree in families.items()}, [bins for _, bins in asked]
    call, shapes = group.call(nodes, part=part), group.shapes(nodes)
    if any(
        len(of_tree.rows) > (rows // 2 if part else rows) for (of_tree, _), (rows, _) in zip(asked, shapes, strict=True)
    ):
        raise ProtocolError(f"invalid Level from {group.team.active}: it asks about the larger of two siblings")
    together = rows_together([of_tree for of_tree, _ in asked], shapes)
    x = together.laid_out(bins[0] if len(bins) == 1 else np.concatenate(bins), call.rows, part=part)
    about = about_nodes(group.team, families, together, part=part)
    return call, Inputs(x=x, nodes=together.nodes_in(call.rows, part=part), about=about)


def _families(sender: str, tree: TreeRows, level: messages.TreeLevel) -> Families:
    """The families of a level, if they can be."""
    families = Families(level.parents, level.firsts, level.asked)
    parents, firsts = level.parents.tolist(), level.firsts.tolist()
    fits = are_lists(level.parents, level.firsts, level.asked) and level.parents.size > 0
    if fits and families.siblings == 1:
        fits = parents == [OUTSIDE] and firsts == [0] and level.asked.tolist() == [0]
    elif fits:
        known = set(tree.counts) if tree.min_rows > 1 else set(np.unique(tree.node_of_row).tolist())
        fits = (
            len(set(parents)) == len(parents)
            and set(parents) <= known - {OUTSIDE}
            and min(firsts) > int(tree.node_of_row.max(initial=0))
            and max(firsts) < 2 * len(tree.node_of_row)  # a tree has fewer nodes, since all its leaves have rows
            and len({*firsts, *(first + 1 for first in firsts)}) == 2 * len(firsts)
            and set(level.asked.tolist()) <= {0, 1}
        )
    if not fits:
        raise ProtocolError(f"invalid Level from {sender}: unknown or repeated nodes")
    return families


def _show_hidden(group: _Group, level: messages.HiddenLevel) -> None:
    """Show the sums over the bins of nodes whose rows this party does not know."""
    team, trees = group.team, level.trees.tolist()
    if not are_lists(level.trees, level.nodes) or not trees or len(set(trees)) < len(trees):
        raise ProtocolError(f"invalid HiddenLevel from {team.active}: repeated trees, or lists of different length")
    each = list(zip(trees, level.nodes.tolist(), strict=True))
    asked = [(tree, nodes, len(group.tree(tree).node_of_row)) for tree, nodes in each]
    group.hidden.show(team, group.parameters, asked)
    batch = []
    for tree, nodes in each:
        inputs = Inputs(x=group.trees[tree].own.columns, about=about_hidden_nodes(team, tree))
        batch.append((group.call({tree: nodes}), inputs))
    product(team.products, batch)


def _open(group: _Group, request: messages.SplitRequest) -> None:
    """Say on which side the rows of each node fall, if both sides have enough of them."""
    team, parameters, table = group.team, group.parameters, group.table
    fields = request.trees, request.nodes, request.features, request.places, request.missing_left
    splits = _splits_in(group, "SplitRequest", *fields)
    numbers, sides = [], []
    count_splits(team.products, team.digest, len(splits))
    for number in dict.fromkeys(split[0] for split in splits):  # the active party asks tree by tree
        tree, of_tree = group.tree(number), [split[1:] for split in splits if split[0] == number]
        for node, feature, place, missing_left in of_tree:
            _check_split(group, feature, place, "SplitRequest")
            check_open(tree, node, feature, place, bool(missing_left), team.active)
            tree.opened.add(node)
        nodes = [node for node, *_ in of_tree]
        count_split(team, parameters, tree, nodes)
        rows, counts = members(tree.node_of_row, np.array(nodes, np.int32))
        group.count_bits(len(tree.node_of_row), len(rows))
        found = [table.number(feature, place, bool(missing_left)) for _, feature, place, missing_left in of_tree]
        for split, count in zip(found, counts.tolist(), strict=True):
            table.used(split, count)
        right = np.empty(len(rows), bool)
        fill_sides(table, tree.own, rows, counts, found, right)
        check_counts(team, parameters.min_rows, right, counts, "SplitRequest")
        numbers += found
        sides.append(right)
    team.session.send(team.active, messages.SplitSides(np.array(numbers, np.int32), np.packbits(np.concatenate(sides))))


def _open_for_all(group: _Group, request: messages.SplitRequestForAll) -> None:
    """Say on which side all rows fall: which node is split stays with the active party."""
    team, table, rows = group.team, group.table, len(group.own.columns)
    splits = _splits_in(group, "SplitRequestForAll", request.features, request.places, request.missing_left)
    if len(set(splits)) < len(splits) or not {split[2] for split in splits} <= {0, 1}:
        raise ProtocolError(
            f"invalid SplitRequestForAll from {team.active}: repeated splits, or no side for missing values"
        )
    for feature, place, _ in splits:
        _check_split(group, feature, place, "SplitRequestForAll")
    group.hidden.open(team, group.parameters, len(splits), rows)
    known = len(table.splits)
    numbers = [table.number(feature, place, bool(missing_left)) for feature, place, missing_left in splits]
    count_splits(team.products, team.digest, len(table.splits) - known)  # the others were opened before
    group.count_bits(rows, rows * (len(table.splits) - known))
    sides = []
    for number in numbers:
        if not table.uses[number]:  # a run that was resumed asks again what it has not kept
            table.used(number, 0)
        sides.append(right_of(table, group.own.layout, group.own.feature_bins, slice(None), number))
    answer = messages.SplitSidesForAll(np.array(numbers, np.int32), np.packbits(np.concatenate(sides)))
    team.session.send(team.active, answer)


def _splits_in(group: _Group, kind: str, *fields: Ints32) -> list[tuple[int, ...]]:
    """The splits that are asked for, one by one."""
    if not are_lists(*fields) or not fields[0].size:
        raise ProtocolError(f"invalid {kind} from {group.team.active}: no splits, or lists of different length")
    return list(zip(*(field.tolist() for field in fields), strict=True))


def _check_split(group: _Group, feature: int, place: int, kind: str) -> None:
    features = group.own.layout.features
    if not (0 <= feature < len(features) and 0 <= place < features[feature].values):
        raise ProtocolError(f"invalid {kind} from {group.team.active}: a split of a column or bin that is not there")
