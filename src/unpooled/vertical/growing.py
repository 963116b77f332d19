"""The active party's part in growing trees: many at once, so that they share each round trip.

A step looks at some nodes of every tree:
1. the passive parties are told on which side the rows of the last splits fell
2. they show sums of the gradients over their bins of one child of each split; the other child has what is left of the
   parent's sums
3. the active party finds each node's best split, and chooses: all of a level, or of each tree the leaf that gains most
4. whoever has the column says on which side the rows of the node fall
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.codec import Bools, Ints, Ints32
from unpooled.errors import ProtocolError
from unpooled.secure.calls import Inputs
from unpooled.secure.product import announce, forget, product
from unpooled.vertical import messages
from unpooled.vertical.binning import Binned
from unpooled.vertical.groups import Groups
from unpooled.vertical.layout import to_logical
from unpooled.vertical.lending import standing_in_bag, tree_call
from unpooled.vertical.parameters import AnyTrees, LgbParameters
from unpooled.vertical.splits import SplitTable, right_of
from unpooled.vertical.splitting import Space, best_splits
from unpooled.vertical.standing import (
    OUTSIDE,
    Families,
    Standing,
    bin_sums,
    divide,
    members,
    packed,
    root_family,
    shown,
    unpacked,
)
from unpooled.vertical.team import Team

LEAF = -1


@dataclass(eq=False)
class Node:
    """A node of a tree that grows: its sums, and the best split that was found for it."""

    depth: int
    rows: int
    totals: Ints
    sums: Ints | None = None
    groups: tuple[Bools, Bools] | None = None
    gain: float = 0.0
    best: int = -1
    missing_left: bool = False
    first: int = LEAF
    owner: int = -1
    split: int = -1


@dataclass(frozen=True, eq=False)
class Seedling:
    """A tree to be grown: gradients and, last, weights as whole numbers, the power of two by which each was scaled.

    `taking_part` says which rows do, where that is no secret; they are cut out if `cut`. `drawn` gives for a number of
    nodes the features that each may be split by. One that `serves_again` is not forgotten afterwards.
    """

    name: str
    y: Ints
    exponents: Sequence[int]
    taking_part: Bools | None = None
    cut: bool = False
    drawn: Callable[[int], Bools] | None = None
    serves_again: bool = False


@dataclass(eq=False)
class Growing:
    """A seedling on its way."""

    seedling: Seedling
    y: Ints
    standing: Standing
    nodes: list[Node] = field(default_factory=list)
    leaves: int = 1

    @property
    def where(self) -> Ints32:
        """The leaf of each row that took part, outside those that did not."""
        return self.standing.where


@dataclass(eq=False)
class Ground:
    """What trees grow on: the features of all owners, the active party's own bins, and the splits made by those.

    `opened` remembers the sides of all rows by owner and split, where passive parties say them for all.
    """

    team: Team
    parameters: AnyTrees
    space: Space
    own: Binned
    table: SplitTable = field(default_factory=SplitTable)
    opened: dict[tuple[int, int, int, bool], tuple[int, Bools]] = field(default_factory=dict)

    @property
    def me(self) -> int:
        return self.team.owners.index(self.team.active)

    @property
    def min_rows(self) -> int:
        """Without a view of the nodes nobody can keep to it."""
        return 1 if self.parameters.hide_nodes else self.parameters.min_rows

    @property
    def lenders(self) -> list[tuple[int, str]]:
        """The passive parties that lend any column, with their places among the owners."""
        return [
            (place, owner)
            for place, owner in enumerate(self.team.owners)
            if owner != self.team.active and self.space.layouts[place].features
        ]


def grow(ground: Ground, seedlings: Sequence[Seedling]) -> list[Growing]:
    """Grow these trees together."""
    trees = messages.Trees(tuple(seedling.name for seedling in seedlings), seedlings[0].y.shape[1])
    _tell(ground, trees)
    if not ground.parameters.hide_bags:
        parts = [seedling.taking_part for seedling in seedlings]
        bags = tuple(packed(np.ones(len(ground.own.columns), bool) if part is None else part) for part in parts)
        _tell(ground, messages.Bags(bags, seedlings[0].cut))
    growing = [_planted(ground, seedling) for seedling in seedlings]
    steps = {number: root_family() for number, tree in enumerate(growing) if _can_split(ground, tree, 0)}
    sides: dict[int, Bools] = {}
    while True:
        if steps:
            _look(ground, trees, growing, steps, sides)
        chosen = _choose(ground, growing, steps)
        if not chosen:
            break
        steps, sides = _split(ground, growing, chosen, _open(ground, growing, chosen))
    done = tuple(seedling.name for seedling in seedlings if not seedling.serves_again)
    _tell(ground, messages.Grown(done))
    if ground.lenders:
        forget(ground.team.products, done)
    for tree in growing:
        for node in tree.nodes:
            node.sums = node.groups = None
    return growing


def _tell(ground: Ground, message: object) -> None:
    for _, lender in ground.lenders:
        ground.team.session.send(lender, message)


def _planted(ground: Ground, seedling: Seedling) -> Growing:
    """The root, with all rows that take part."""
    own, rows = ground.own, len(ground.own.columns)
    part = np.ones(rows, bool) if seedling.taking_part is None else seedling.taking_part
    standing = standing_in_bag(own, part, ground.min_rows, cut=seedling.cut)
    y = seedling.y[part] if seedling.cut else seedling.y
    inside = standing.where != OUTSIDE
    root = Node(0, int(inside.sum()), y[inside].sum(axis=0))
    return Growing(seedling, y, standing, [root])


def _can_split(ground: Ground, tree: Growing, number: int) -> bool:
    """Whether it is worth looking at a node: it is not too deep, too small or too light."""
    node, parameters = tree.nodes[number], ground.parameters
    weight = float(np.ldexp(float(node.totals[-1]), -tree.seedling.exponents[-1]))
    return (
        node.depth < parameters.depth
        and node.rows >= 2 * max(ground.min_rows, 1)
        and node.totals[-1] > 0
        and weight >= 2 * parameters.minimum_child_weight
        and (not isinstance(parameters, LgbParameters) or tree.leaves < parameters.leaves)
    )


def _look(
    ground: Ground,
    trees: messages.Trees,
    growing: Sequence[Growing],
    steps: dict[int, Families],
    sides: dict[int, Bools],
) -> None:
    """1, 2 and 3: sums for the nodes of these families, and the best split of each."""
    team, parameters, lenders = ground.team, ground.parameters, ground.lenders
    if lenders:
        _tell(ground, _level(parameters.hide_nodes, steps, sides))
    calls = [
        tree_call(
            team,
            lender,
            ground.space.layouts[place],
            parameters,
            trees,
            number,
            (len(growing[number].y), len(f.firsts)),
        )
        for place, lender in lenders
        for number, f in steps.items()
    ]
    if lenders:
        announce(team.products, [calls])
    looks = {number: shown(growing[number].standing, families) for number, families in steps.items()}
    inputs = [Inputs(y=growing[number].y, nodes=looks[number][1]) for _ in lenders for number in steps]
    own_sums = [
        _own_sums(ground, growing[number], looks[number][0], looks[number][1], len(f.firsts))
        for number, f in steps.items()
    ]
    if ground.min_rows > 1:
        _keep_groups(ground, growing, steps)
    products = product(team.products, list(zip(calls, inputs, strict=True))) if lenders else []
    totals = np.concatenate([_asked_totals(growing[number], families) for number, families in steps.items()])
    parts = {ground.me: np.concatenate(own_sums)}
    for order, (place, _) in enumerate(lenders):
        theirs = [sums for sums in products[order * len(steps) : (order + 1) * len(steps)] if sums is not None]
        parts[place] = np.concatenate(theirs)
    layouts = ground.space.layouts
    logical = [to_logical(layouts[place], parts[place], totals) for place in sorted(parts)]
    _keep_sums(growing, steps, np.concatenate(logical, axis=1))
    _find(ground, growing, steps)


def _keep_groups(ground: Ground, growing: Sequence[Growing], steps: dict[int, Families]) -> None:
    """How the bins of each family's nodes are grouped, at all owners."""
    families = [(number, first) for number, f in steps.items() for first in f.firsts.tolist()]
    own = [growing[number].standing.groups[first] for number, first in families]
    parts = {ground.me: (np.stack([ends for ends, _ in own]), np.stack([joined for _, joined in own]))}
    for place, lender in ground.lenders:
        layout, merged = ground.space.layouts[place], ground.team.session.recv(lender, messages.Merged)
        shapes = (len(families), layout.logical), (len(families), len(layout.features))
        bits = zip((merged.ends, merged.missing_joined), shapes, strict=True)
        ends, joined = (unpacked(sent, rows * width, lender).reshape(rows, width) for sent, (rows, width) in bits)
        parts[place] = ends, joined
    all_ends = np.concatenate([parts[place][0] for place in sorted(parts)], axis=1)
    all_joined = np.concatenate([parts[place][1] for place in sorted(parts)], axis=1)
    for (number, first), ends, joined in zip(families, all_ends, all_joined, strict=True):
        for child in range(first, first + steps[number].siblings):
            growing[number].nodes[child].groups = ends, joined


def _level(hidden: bool, steps: dict[int, Families], sides: dict[int, Bools]) -> messages.Level | messages.HiddenLevel:
    if hidden:
        counts = [len(families.firsts) for families in steps.values()]
        return messages.HiddenLevel(np.array(list(steps), np.int32), np.array(counts, np.int32))
    nothing = np.empty(0, bool)
    return messages.Level(
        tuple(
            messages.TreeLevel(number, f.parents, f.firsts, f.asked, packed(sides.get(number, nothing)))
            for number, f in steps.items()
        )
    )


def _own_sums(ground: Ground, tree: Growing, columns: np.ndarray, nodes: Ints32, count: int) -> Ints:
    asked = np.flatnonzero(nodes >= 0)
    return bin_sums(ground.own.layout, columns[asked], nodes[asked].astype(np.int64), count, tree.y[asked])


def _asked_totals(tree: Growing, families: Families) -> Ints:
    return np.stack([tree.nodes[node].totals for node in (families.firsts + families.asked).tolist()])


def _keep_sums(growing: Sequence[Growing], steps: dict[int, Families], sums: Ints) -> None:
    """The asked child has what came; its sibling what is left of the parent's, which is needed no more."""
    place = 0
    for number, families in steps.items():
        nodes = growing[number].nodes
        each = zip(families.parents.tolist(), families.firsts.tolist(), families.asked.tolist(), strict=True)
        for parent, first, asked in each:
            nodes[first + asked].sums = sums[place]
            if parent != OUTSIDE:
                parents_sums = nodes[parent].sums
                nodes[first + 1 - asked].sums = None if parents_sums is None else parents_sums - sums[place]
                nodes[parent].sums = None
            place += 1


def _new_nodes(ground: Ground, growing: Sequence[Growing], steps: dict[int, Families]) -> list[tuple[int, int]]:
    """The nodes of these families that may be split, by tree."""
    return [
        (number, node)
        for number, families in steps.items()
        for first in families.firsts.tolist()
        for node in range(first, first + families.siblings)
        if _can_split(ground, growing[number], node)
    ]


def _find(ground: Ground, growing: Sequence[Growing], steps: dict[int, Families]) -> None:
    """3: the best split of each node that may be split."""
    new = _new_nodes(ground, growing, steps)
    nodes = [growing[number].nodes[node] for number, node in new]
    sums = np.stack([node.sums for node in nodes if node.sums is not None])
    exponents = np.array([growing[number].seedling.exponents for number, _ in new], np.int64)
    kept = [node.groups for node in nodes if node.groups is not None]
    groups = Groups(np.stack([ends for ends, _ in kept]), np.stack([joined for _, joined in kept])) if kept else None
    totals = np.stack([node.totals for node in nodes])
    best = best_splits(ground.space, sums, totals, exponents, ground.parameters, groups, _drawn(growing, new))
    for place, node in enumerate(nodes):
        node.gain, node.best = float(best.gains[place]), int(best.bins[place])
        node.missing_left = bool(best.missing_left[place])
        if node.best < 0:
            node.sums = None


def _drawn(growing: Sequence[Growing], new: Sequence[tuple[int, int]]) -> Bools | None:
    """The features that each node may be split by, drawn tree by tree."""
    parts = []
    for number in dict.fromkeys(number for number, _ in new):
        draw = growing[number].seedling.drawn
        if draw is None:
            return None
        parts.append(draw(sum(other == number for other, _ in new)))
    return np.concatenate(parts)


def _choose(ground: Ground, growing: Sequence[Growing], steps: dict[int, Families]) -> list[tuple[int, int]]:
    """Which nodes are split now: level by level all that gain, leaf by leaf the one that gains most."""
    if not isinstance(ground.parameters, LgbParameters):
        new = _new_nodes(ground, growing, steps)
        return [(number, node) for number, node in new if growing[number].nodes[node].best >= 0]
    chosen = []
    for number, tree in enumerate(growing):
        open_leaves = [place for place, node in enumerate(tree.nodes) if node.first == LEAF and node.best >= 0]
        if open_leaves and tree.leaves < ground.parameters.leaves:
            chosen.append((number, max(open_leaves, key=lambda place: (tree.nodes[place].gain, -place))))
    return chosen


def _open(ground: Ground, growing: Sequence[Growing], chosen: Sequence[tuple[int, int]]) -> list[Bools]:
    """4: for each chosen node on which side its rows fall, in the order of rows."""
    places = [ground.space.place_of(growing[number].nodes[node].best) for number, node in chosen]
    for (number, node), (owner, _, _) in zip(chosen, places, strict=True):
        growing[number].nodes[node].owner = owner
    lenders = [(place, lender) for place, lender in ground.lenders if any(owner == place for owner, _, _ in places)]
    asked = {place: [i for i, (owner, _, _) in enumerate(places) if owner == place] for place, _ in lenders}
    sides: list[Bools] = [np.empty(0, bool)] * len(chosen)
    if ground.parameters.hide_nodes:
        for place, lender in lenders:
            _open_for_all(
                ground, growing, (place, lender), [(i, *chosen[i], *places[i][1:]) for i in asked[place]], sides
            )
    else:
        for place, lender in lenders:
            each = [
                (*chosen[i], *places[i][1:], growing[chosen[i][0]].nodes[chosen[i][1]].missing_left)
                for i in asked[place]
            ]
            fields = np.array(each, np.int32).T
            ground.team.session.send(lender, messages.Open(*np.ascontiguousarray(fields)))
        for place, lender in lenders:
            opened = ground.team.session.recv(lender, messages.Opened)
            _take_opened(growing, opened, [(i, *chosen[i]) for i in asked[place]], lender, sides)
    for i, ((number, node), (owner, feature, place)) in enumerate(zip(chosen, places, strict=True)):
        if owner == ground.me:
            sides[i] = _open_own(ground, growing[number], node, feature, place)
    return sides


def _open_own(ground: Ground, tree: Growing, node: int, feature: int, place: int) -> Bools:
    standing, table = tree.standing, ground.table
    rows, _ = members(standing.where, np.array([node], np.int32))
    number = table.number(feature, place, tree.nodes[node].missing_left)
    table.used(number, len(rows))
    tree.nodes[node].split = number
    return right_of(table, standing.layout, standing.features, rows, np.full(len(rows), number))


def _take_opened(
    growing: Sequence[Growing],
    opened: messages.Opened,
    asked: Sequence[tuple[int, int, int]],
    lender: str,
    sides: list[Bools],
) -> None:
    if len(opened.numbers) != len(asked) or (opened.numbers < 0).any():
        raise ProtocolError(f"{lender} Opened other splits than were asked for")
    lengths = [growing[number].nodes[node].rows for _, number, node in asked]
    bits = np.split(unpacked(opened.sides, sum(lengths), lender), np.cumsum(lengths)[:-1])
    for (i, number, node), split, right in zip(asked, opened.numbers.tolist(), bits, strict=True):
        growing[number].nodes[node].split = split
        sides[i] = right


def _open_for_all(
    ground: Ground,
    growing: Sequence[Growing],
    lender: tuple[int, str],
    asked: Sequence[tuple[int, int, int, int, int]],
    sides: list[Bools],
) -> None:
    """With hidden nodes: the sides of all rows, asked for once for each split that is new."""
    place, name = lender
    keys = {i: (place, feature, at, growing[number].nodes[node].missing_left) for i, number, node, feature, at in asked}
    new = sorted(set(keys.values()) - set(ground.opened))
    rows = len(ground.own.columns)
    if new:
        fields = np.array([key[1:] for key in new], np.int32).T
        ground.team.session.send(name, messages.OpenForAll(*np.ascontiguousarray(fields)))
        opened = ground.team.session.recv(name, messages.OpenedForAll)
        if len(opened.numbers) != len(new) or (opened.numbers < 0).any():
            raise ProtocolError(f"{name} OpenedForAll other splits than were asked for")
        bits = unpacked(opened.sides, rows * len(new), name).reshape(len(new), rows)
        for key, split, right in zip(new, opened.numbers.tolist(), bits, strict=True):
            ground.opened[key] = split, right
    for i, number, node, _, _ in asked:
        tree = growing[number]
        split, right = ground.opened[keys[i]]
        members_of, _ = members(tree.where, np.array([node], np.int32))
        part = tree.seedling.taking_part
        right = right[part] if tree.seedling.cut and part is not None else right
        tree.nodes[node].split = split
        sides[i] = right[members_of]


def _split(
    ground: Ground, growing: Sequence[Growing], chosen: Sequence[tuple[int, int]], opened: Sequence[Bools]
) -> tuple[dict[int, Families], dict[int, Bools]]:
    """Make the children, and say which families are to be looked at next, with the sides of their rows."""
    steps: dict[int, Families] = {}
    kept_sides: dict[int, Bools] = {}
    for number in dict.fromkeys(number for number, _ in chosen):
        tree = growing[number]
        mine = [(node, right) for (other, node), right in zip(chosen, opened, strict=True) if other == number]
        families: list[tuple[int, int, int]] = []
        sides: list[Bools] = []
        for node, right in mine:
            _make_children(tree, node, right)
        for node, right in mine:
            first = tree.nodes[node].first
            worth = [_can_split(ground, tree, child) for child in (first, first + 1)]
            if any(worth):
                smaller = int(tree.nodes[first + 1].rows < tree.nodes[first].rows)
                families.append((node, first, smaller if all(worth) else int(worth[1])))
                sides.append(right)
            else:
                tree.nodes[node].sums = None
        if families:
            steps[number] = Families(*np.ascontiguousarray(np.array(families, np.int32).T))
            kept_sides[number] = np.concatenate(sides)
    return steps, kept_sides


def _make_children(tree: Growing, node: int, right: Bools) -> None:
    parent = tree.nodes[node]
    parents, firsts = np.array([node], np.int32), np.array([len(tree.nodes)], np.int32)
    rows, _ = members(tree.where, parents)
    divide(tree.where, parents, firsts, right)
    totals = tree.y[rows[right]].sum(axis=0)
    count = int(right.sum())
    parent.first = len(tree.nodes)
    tree.nodes.append(Node(parent.depth + 1, parent.rows - count, parent.totals - totals))
    tree.nodes.append(Node(parent.depth + 1, count, totals))
    tree.leaves += 1
