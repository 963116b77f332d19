"""A passive party's part in growing trees: it shows sums over its bins, and opens the splits that are chosen.

It keeps its thresholds. Unless nodes are hidden it sees which rows a node has, and so can keep to `min_rows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from unpooled.arrays import Ints32, are_lists, unpacked
from unpooled.checkpoint import Notebook
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.engine import count_all_bits, count_bits, count_splits
from unpooled.secure.product import forget, product
from unpooled.session import ITEM_BYTES
from unpooled.vertical.inputs import COLUMNS
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.audit.trail import about_hidden_nodes, about_nodes, columns_kept
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import groups_of, merged_bits, rows_shown
from unpooled.vertical.trees.bundles import Bins
from unpooled.vertical.trees.checkpoint import known_in, page_of_splits, splits_from
from unpooled.vertical.trees.grower.asked_rows import asked_of, rows_in_product
from unpooled.vertical.trees.grower.limits import (
    Growth,
    HiddenGrowth,
    check_counts,
    check_growth,
    check_open,
    check_trees,
    count_splits_known,
    most_nodes,
)
from unpooled.vertical.trees.grower.node_bins import NodeBins, asked_bins
from unpooled.vertical.trees.grower.node_rows import (
    OUTSIDE,
    ROOT,
    Families,
    NodeRows,
    TreeRows,
    asked_rows,
    fill_sides,
    rows_in_bags,
)
from unpooled.vertical.trees.grower.products import NAME_BYTES, families_together, in_part, lent_columns, tree_call
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    LgbParameters,
    groups_at_once,
    outputs_of,
    reuses_gradients,
)
from unpooled.vertical.trees.prepared import Prepared
from unpooled.vertical.trees.split_table import SplitTable, right_of


def lend(
    team: Team,
    parameters: AnyTrees,
    prepared: Prepared,
    models: int,
    notebook: Notebook | None = None,
) -> tuple[bytes, SplitTable]:
    """Take part until the active party has finished; the name of its models, and the splits that are this party's.

    Groups of trees that are in the notebook have grown already.
    """
    session, active, own = team.session, team.active, prepared.own
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
    prepared.earlier.begin(begin.name.hex())
    lending = _Lending(
        team, parameters, own, prepared.earlier.name, begin, models * parameters.trees * outputs_of(parameters)
    )
    if notebook:
        lending.done = set(known_in(notebook))
        lending.left -= sum(int(page["trees"]) for page in notebook.pages())
        lending.table = splits_from(notebook.read(len(notebook) - 1))
    while not isinstance(told := lending.receive(), messages.Finished):
        match told:
            case messages.Trees():
                lending.begin_group(told)
            case messages.HiddenLevel():
                _show_hidden(lending.group(told), told)
            case messages.SplitRequestForAll():
                _open_for_all(lending.group(told), told)
            case messages.Level():
                _show(lending.group(told), told)
            case messages.SplitRequest():
                _open(lending.group(told), told)
            case messages.Grown():
                trees = lending.end_group(told)
                if notebook is not None:
                    notebook.write(**page_of_splits(told.group, trees, lending.table))
                session.progress(len(lending.done), begin.groups)
    if lending.growing:
        raise ProtocolError(f"invalid Finished from {active}: trees are still growing")
    return begin.name, lending.table


@dataclass(eq=False)
class _Group:
    """A group of trees that grow together at a passive party."""

    team: Team
    parameters: AnyTrees
    own: Binned
    bins_name: str
    table: SplitTable
    told: messages.Trees
    rows: TreeRows
    bins: NodeBins
    growth: Growth
    hidden: HiddenGrowth = field(default_factory=HiddenGrowth)

    @classmethod
    def of(
        cls,
        team: Team,
        parameters: AnyTrees,
        own: Binned,
        bins_name: str,
        table: SplitTable,
        told: messages.Trees,
    ) -> Self:
        rows = _rows_of_trees(team, parameters, own, len(told.names))
        last_only = not isinstance(parameters, LgbParameters)
        bins = NodeBins.of(rows_shown(parameters), rows, last_only=last_only)
        return cls(team, parameters, own, bins_name, table, told, rows, bins, Growth.of(*rows.begins.shape))

    def check_trees(self, trees: Ints32) -> None:
        """Refuse trees that do not grow."""
        if trees.min() < 0 or trees.max() >= self.rows.trees:
            raise ProtocolError(f"invalid number of a tree from {self.team.active}: {self.rows.trees} grow")

    def call(self, first: int, shapes: Sequence[tuple[int, int]], *, part: bool = False) -> Call:
        """The product that gives the histograms of some trees' nodes; the shapes are their rows and nodes."""
        me, layout, (shape, *others) = self.team.session.party, self.own.layout, shapes
        return tree_call(
            self.team,
            me,
            layout,
            self.parameters,
            self.told,
            first,
            shape,
            bins=self.bins_name,
            part=part,
            others=others,
        )

    def count_bits(self, rows: int, bits: int) -> None:
        count_bits(self.team.products, self.team.digest, rows, bits)


_Step = messages.HiddenLevel | messages.SplitRequestForAll | messages.Level | messages.SplitRequest
_Told = messages.Trees | _Step | messages.Grown | messages.Finished


@dataclass(eq=False)
class _Lending:
    """A passive party's part in a fit: how many trees are `left`, which groups are `growing`, and which are `done`."""

    team: Team
    parameters: AnyTrees
    own: Binned
    bins_name: str
    begun: messages.Begin
    left: int
    table: SplitTable = field(default_factory=SplitTable)
    growing: dict[int, _Group] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)

    def receive(self) -> _Told:
        """What the active party says next."""
        session, active = self.team.session, self.team.active
        if self.parameters.hide_nodes:
            steps = messages.HiddenLevel, messages.SplitRequestForAll
            told: _Told = session.recv(active, *steps, messages.Trees, messages.Grown, messages.Finished)
            return told
        if not self.growing:
            return session.recv(active, messages.Trees, messages.Finished)
        (group,) = self.growing.values()
        most = len(group.told.names) * (24 * len(self.own.columns) + 8 * ITEM_BYTES)  # no more nodes than rows
        return session.recv(active, messages.Level, messages.SplitRequest, messages.Grown, at_most=most)

    def begin_group(self, told: messages.Trees) -> None:
        """Take part in another group of trees, if the plan has it."""
        me, active, number = self.team.session.party, self.team.active, told.group
        self.left -= len(told.names)
        if self.left < 0 or len(self.done) + len(self.growing) == self.begun.groups:
            raise RefusedError(f"{me} takes part in the trees that the plan names, and {active} wants more")
        if len(self.growing) == groups_at_once(self.parameters):
            raise ProtocolError(f"invalid Trees from {active}: too many groups of trees at once")
        if not 1 <= number <= self.begun.groups or number in self.done or number in self.growing:
            raise ProtocolError(f"invalid Trees from {active}: unknown or repeated number of a group")
        check_trees(self.team, self.parameters, told, self.begun.name)
        self.growing[number] = _Group.of(self.team, self.parameters, self.own, self.bins_name, self.table, told)

    def group(self, told: _Step) -> _Group:
        """The group that a step is about."""
        number = getattr(told, "group", next(iter(self.growing), None))  # where nodes are shown, only one grows
        if number not in self.growing:
            raise ProtocolError(f"invalid {type(told).__name__} from {self.team.active}: no such group of trees grows")
        if self.team.evidence:
            self.team.evidence.group = number
        return self.growing[number]

    def end_group(self, told: messages.Grown) -> int:
        """Forget what only these trees need; how many they are."""
        active = self.team.active
        if told.group not in self.growing:
            raise ProtocolError(f"invalid Grown from {active}: no such group of trees grows")
        names = self.growing.pop(told.group).told.names
        self.done.add(told.group)
        if told.forget != (() if reuses_gradients(self.parameters) else names):
            raise ProtocolError(f"invalid Grown from {active}: other gradients than those of the group")
        forget(self.team.products, told.forget)
        return len(names)


def _rows_of_trees(team: Team, parameters: AnyTrees, own: Binned, trees: int) -> TreeRows:
    rows = len(own.columns)
    nodes = 1 if parameters.hide_nodes else most_nodes(parameters, rows)
    if parameters.hide_bags:
        return rows_in_bags(own, [None] * trees, nodes, cut=False)
    bags = team.session.recv(team.active, messages.Bags, at_most=trees * (rows // 8 + ITEM_BYTES))
    if len(bags.taking_part) != trees:
        raise ProtocolError(f"invalid Bags from {team.active}: for {len(bags.taking_part)} trees, where {trees} grow")
    parts = [unpacked(bits, rows, "Bags", team.active) for bits in bags.taking_part]
    return rows_in_bags(own, parts, nodes, cut=bags.cut)


def _show(group: _Group, level: messages.Level) -> None:
    """Follow the splits of the last level, then show the sums over the bins of the nodes that are asked about."""
    team, parameters, rows = group.team, group.parameters, group.rows
    families = _families(group, level)
    check_growth(team, parameters, group.growth, rows.sizes, families)
    if families.siblings == 2:
        parents = rows.of(families.trees, families.parents)
        sides = unpacked(level.sides, len(parents), "Level", team.active)
        check_counts(team, group.bins.min_rows, sides, parents.counts, "Level")
        rows.split(parents, families.trees, families.parents, families.firsts, sides)
    asked, part = asked_rows(rows, families), in_part(team, parameters, families)
    bins, groups = asked_bins(rows, group.bins, families, asked)
    batch, begin = [], 0
    for some in families_together(team, parameters, families, rows.sizes, len(group.own.columns)):
        of_some = asked.part(some)
        end = begin + len(of_some)
        batch.append(_asked_product(group, families[some], of_some, bins[begin:end], part=part))
        begin = end
    product(team.products, batch, more=groups is not None)
    if groups is not None:
        group.count_bits(int(rows.sizes[0]), len(families) * merged_bits(group.own.layout))
        team.session.send(team.active, messages.Merged(np.packbits(groups.ends), np.packbits(groups.missing_joined)))


def _asked_product(
    group: _Group, families: Families, asked: NodeRows, bins: Bins, *, part: bool
) -> tuple[Call, Inputs]:
    """A product about some trees, and this party's part of it: the bins of the rows asked about."""
    shapes = families.shapes(group.rows.sizes)
    call = group.call(int(families.trees[0]), shapes, part=part)
    for (_, some), (rows, _) in zip(families.by_tree, shapes, strict=True):
        if asked.counts[some].sum() > (asked_of(rows) if part else rows):
            raise ProtocolError(f"invalid Level from {group.team.active}: it asks about the larger of two siblings")
    together = rows_in_product(group.rows, families, asked)
    x = together.laid_out(bins, call.rows, part=part)
    about = about_nodes(group.team, families, together, part=part)
    return call, Inputs(x=x, nodes=together.nodes_in(call.rows, part=part), about=about)


def _families(group: _Group, level: messages.Level) -> Families:
    """The families of a level, if they can be."""
    wrong = f"invalid Level from {group.team.active}"
    trees, parents, firsts, asked = level.trees, level.parents, level.firsts, level.asked
    if not are_lists(trees, parents, firsts, asked) or not trees.size:
        raise ProtocolError(f"{wrong}: no nodes, or lists of different length")
    if (trees[1:] < trees[:-1]).any():
        raise ProtocolError(f"{wrong}: trees that are not in order")
    group.check_trees(trees)
    families = Families(trees, parents, firsts, asked)
    if (parents == OUTSIDE).any():
        roots = ((parents == OUTSIDE) & (firsts == ROOT) & (asked == 0)).all()
        if not roots or (trees[1:] == trees[:-1]).any() or level.sides.shape != (0,):
            raise ProtocolError(f"{wrong}: unknown or repeated nodes, or roots beside other nodes or with sides")
        return families
    nodes, counts = group.rows.begins.shape[1], group.rows.counts
    fits = parents.min() >= ROOT < firsts.min() and parents.max() < nodes and firsts.max() < nodes - 1
    fits = fits and ((asked == 0) | (asked == 1)).all() and counts[trees, parents].all()
    fits = fits and (group.bins.min_rows <= 1 or group.bins.ends.has(trees, parents))
    if fits:
        latest = (nodes - 1 - (counts[:, ::-1] > 0).argmax(axis=1))[trees]  # of the nodes that have rows
        before = trees * np.int64(nodes)
        once = (np.diff(before + parents) > 0).all() and (np.diff(before + firsts) > 1).all()  # in order, no two alike
        fits = once and (firsts > latest).all()
    if not fits:
        raise ProtocolError(f"{wrong}: unknown or repeated nodes, or not in order")
    return families


def _show_hidden(group: _Group, level: messages.HiddenLevel) -> None:
    """Show the sums over the bins of nodes whose rows this party does not know."""
    team, trees = group.team, level.trees.tolist()
    if not are_lists(level.trees, level.nodes) or not trees or len(set(trees)) < len(trees):
        raise ProtocolError(f"invalid HiddenLevel from {team.active}: repeated trees, or lists of different length")
    group.check_trees(level.trees)
    each = list(zip(trees, level.nodes.tolist(), strict=True))
    group.hidden.show(team, group.parameters, [(tree, nodes, int(group.rows.sizes[tree])) for tree, nodes in each])
    batch = []
    for tree, nodes in each:
        x = group.rows.columns if group.rows.source is None else group.rows.columns[group.rows.of_tree(tree)]
        inputs = Inputs(x=x, about=about_hidden_nodes(team, tree))
        batch.append((group.call(tree, [(len(x), nodes)]), inputs))
    product(team.products, batch)


def _open(group: _Group, request: messages.SplitRequest) -> None:
    """Say on which side the rows of each node fall, if both sides have enough of them."""
    team, parameters, table, rows = group.team, group.parameters, group.table, group.rows
    trees, nodes, features, places = request.trees, request.nodes, request.features, request.places
    _check_splits(group, "SplitRequest", features, places, trees, nodes, request.missing_left)
    group.check_trees(trees)
    if (trees[1:] < trees[:-1]).any():
        raise ProtocolError(f"invalid SplitRequest from {team.active}: not tree by tree")
    missing_left = request.missing_left.astype(bool)
    count_splits(team.products, team.digest, len(nodes))
    check_open(group.growth, group.bins, request, missing_left, team.active)
    count_splits_known(team, parameters, group.growth, rows.sizes, trees, nodes)
    of_nodes = rows.of(trees, nodes)
    shown = np.bincount(trees, of_nodes.counts, rows.trees).astype(np.int64)
    each = [(rows.sizes[tree], shown[tree]) for tree in np.unique(trees)]
    count_all_bits(team.products, team.digest, [(int(count), int(bits)) for count, bits in each])
    numbers = []
    splits = zip(features.tolist(), places.tolist(), missing_left.tolist(), of_nodes.counts.tolist(), strict=True)
    for *split, count in splits:
        numbers.append(table.number(*split))
        table.used(numbers[-1], count)
    right = np.empty(len(of_nodes), bool)
    fill_sides(table, rows, of_nodes, numbers, right)
    check_counts(team, parameters.min_rows, right, of_nodes.counts, "SplitRequest")
    team.session.send(team.active, messages.SplitSides(np.array(numbers, np.int32), np.packbits(right)))


def _open_for_all(group: _Group, request: messages.SplitRequestForAll) -> None:
    """Say on which side all rows fall: which node is split stays with the active party."""
    team, table, rows = group.team, group.table, len(group.own.columns)
    fields = request.features, request.places, request.missing_left
    _check_splits(group, "SplitRequestForAll", *fields)
    splits = list(zip(*(each.tolist() for each in fields), strict=True))
    if len(set(splits)) < len(splits) or not {split[2] for split in splits} <= {0, 1}:
        raise ProtocolError(
            f"invalid SplitRequestForAll from {team.active}: repeated splits, or no side for missing values"
        )
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


def _check_splits(group: _Group, kind: str, features: Ints32, places: Ints32, *more: Ints32) -> None:
    """Refuse splits of columns or bins that are not there."""
    if not are_lists(features, places, *more) or not features.size:
        raise ProtocolError(f"invalid {kind} from {group.team.active}: no splits, or lists of different length")
    values = group.own.layout.values
    fits = (features >= 0) & (features < len(values)) & (places >= 0)
    if not (fits & (places < values[features * fits])).all():
        raise ProtocolError(f"invalid {kind} from {group.team.active}: a split of a column or bin that is not there")
