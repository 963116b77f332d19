"""What the active party's grower works with: its context, what a tree is grown from, and trees while they grow."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Bools, Floats, Ints, Ints32
from unpooled.checkpoint import Notebook
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import rows_shown
from unpooled.vertical.trees.grower.node_bins import ByNode, NodeBins
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, ROOT, TreeRows, rows_in_bags, with_room
from unpooled.vertical.trees.grower.splitting import Space
from unpooled.vertical.trees.parameters import AnyTrees, LgbParameters
from unpooled.vertical.trees.prepared import Earlier, SplitKey
from unpooled.vertical.trees.split_table import SplitTable

LEAF = -1
_NODES_AT_FIRST = 64


@dataclass(frozen=True, eq=False)
class TreeSpec:
    """What a tree is grown from: gradients and, last, weights as whole numbers, scaled by powers of two (`exponents`).

    `taking_part` says which rows do, where that is no secret; with `cut` the others are left out, also from `y`. `draw`
    gives the features that each node may be split by, nodes × features, out of those that it can be split by. `sampled`
    says that few rows stand for many. Gradients that are `reused` keep their name when the tree is grown.
    """

    name: str
    y: Ints
    exponents: Sequence[int]
    taking_part: Bools | None = None
    cut: bool = False
    draw: Callable[[Bools], Bools] | None = None
    sampled: bool = False
    reused: bool = False


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree. For each node: its first child or LEAF, whose column splits it, that party's number of the split, the
    bin, what the split gained, and its totals. For each row in the tree its leaf, or outside.
    """

    first: Ints
    owner: Ints
    split: Ints
    best: Ints
    gains: Floats
    totals: Ints
    where: Ints

    def cover(self, weights: Floats) -> Floats:
        """How much the rows of each node weigh, inner nodes too: added up in the order of rows, then of nodes."""
        places = self.where.astype(np.int64) - OUTSIDE
        cover = np.bincount(places, weights, len(self.first) + 1).tolist()[1:]
        for node, first in reversed(list(enumerate(self.first.tolist()))):  # children come after their node
            if first != LEAF:
                cover[node] = cover[first] + cover[first + 1]
        return np.array(cover)


@dataclass(frozen=True, eq=False)
class FinishedTree:
    """A grown tree with the values of its nodes, nodes × outputs, and how much training rows weigh in each."""

    grown: GrownTree
    values: Floats
    cover: Floats


@dataclass(eq=False)
class Nodes:
    """The nodes of trees that grow together, trees × nodes, in the order in which each tree gets them.

    `left` are the totals on the left of a node's best split, by its histogram; `best` is -1 where it has none.
    """

    depth: Ints32
    rows: Ints
    totals: Ints
    left: Ints
    gain: Floats
    best: Ints
    missing_left: Bools
    first: Ints32
    owner: Ints32
    split: Ints32

    @classmethod
    def of(cls, trees: int, sums: int) -> Nodes:
        shape = trees, _NODES_AT_FIRST
        return cls(
            depth=np.zeros(shape, np.int32),
            rows=np.zeros(shape, np.int64),
            totals=np.zeros((*shape, sums), np.int64),
            left=np.zeros((*shape, sums), np.int64),
            gain=np.zeros(shape),
            best=np.full(shape, -1, np.int64),
            missing_left=np.zeros(shape, bool),
            first=np.full(shape, LEAF, np.int32),
            owner=np.full(shape, -1, np.int32),
            split=np.full(shape, -1, np.int32),
        )

    def make_room(self, nodes: int) -> None:
        """Have room for so many nodes in each tree."""
        if nodes > self.depth.shape[1]:
            for name, by_node in vars(self).items():
                setattr(self, name, with_room(by_node, nodes, -1 if name in ("best", "first", "owner", "split") else 0))


@dataclass(eq=False)
class GrowingTrees:
    """Trees that grow together: their rows, the gradients of these, `count` nodes each, and what is known of the bins.

    `leaves` counts splits that were dropped too: no more are opened than a tree has. `used` are splits by the active
    party's columns, and their rows: they count when the trees are done, so that an interruption leaves nothing of them.
    """

    specs: Sequence[TreeSpec]
    rows: TreeRows
    y: Ints32
    exponents: Ints
    nodes: Nodes
    count: Ints
    leaves: Ints
    bins: NodeBins
    sums: ByNode
    used: list[tuple[int, int]] = field(default_factory=list)

    @classmethod
    def at_roots(cls, context: GrowerContext, specs: Sequence[TreeSpec]) -> GrowingTrees:
        """Trees before their first split."""
        trees, last_only = len(specs), not isinstance(context.parameters, LgbParameters)
        rows = rows_in_bags(context.own, [spec.taking_part for spec in specs], _NODES_AT_FIRST, cut=specs[0].cut)
        y = np.concatenate([spec.y for spec in specs], dtype=np.int32)  # numbers of at most 31 bits
        nodes = Nodes.of(trees, y.shape[1])
        for tree, spec in enumerate(specs):
            inside = spec.y if spec.taking_part is None or spec.cut else spec.y[spec.taking_part]
            nodes.totals[tree, ROOT] = [column.sum() for column in inside.T]  # numpy is slow along short rows
        nodes.rows[:, ROOT] = rows.counts[:, ROOT]
        return cls(
            specs=specs,
            rows=rows,
            y=y,
            exponents=np.array([spec.exponents for spec in specs], np.int64),
            nodes=nodes,
            count=np.ones(trees, np.int64),
            leaves=np.ones(trees, np.int64),
            bins=NodeBins.of(context.rows_shown, rows, last_only=last_only),
            sums=ByNode.of(trees, _NODES_AT_FIRST, last_only=last_only),
        )

    def weight(self, trees: Ints32, numbers: Ints32) -> Floats:
        found: Floats = np.ldexp(self.nodes.totals[trees, numbers, -1].astype(float), -self.exponents[trees, -1])
        return found

    def grown(self) -> list[GrownTree]:
        nodes, found = self.nodes, list[GrownTree]()
        for tree, (count, where) in enumerate(zip(self.count.tolist(), self.rows.nodes_of_rows(), strict=True)):
            each = (nodes.first, nodes.owner, nodes.split, nodes.best)
            first, owner, split, best = (of_trees[tree, :count].astype(np.int64) for of_trees in each)
            gains, totals = nodes.gain[tree, :count].copy(), nodes.totals[tree, :count].copy()
            narrow = np.min_scalar_type(-count)  # since every row has a leaf in every tree
            found.append(GrownTree(first, owner, split, best, gains, totals, where.astype(narrow)))
        return found


@dataclass(frozen=True)
class DueSides:
    """Splits whose sides were asked for in this `question`, and how many splits may have numbers by then."""

    question: int
    keys: tuple[SplitKey, ...]
    most: int


Grow = Callable[[Sequence[TreeSpec], int], Generator[None, None, list[GrownTree]]]
"""Grows a group of trees, which has this number; yields where it would wait for an answer."""


@dataclass(eq=False)
class GrowerContext:
    """The features of all owners (`space`), the active party's own bins, and the splits by its own columns (`table`).

    `name` begins the names of gradients, which are never used twice. `opened` has numbers of splits and the sides of
    all rows, where passive parties tell these; `due` are those that each was asked for and has not told. Levels and
    requests are counted by `questions`, since answers come in their order. `notebook` keeps each group of trees;
    `known` says by the number of a group on which page it is, if it is from before an interruption. `groups` counts
    those begun or read, out of `total`. `numbered` says by owner how many splits it has numbered at the most. What
    need not be done at once is done `later`, while the others are at work.
    """

    team: Team
    parameters: AnyTrees
    space: Space
    own: Binned
    name: str
    total: int
    earlier: Earlier = field(default_factory=Earlier)
    table: SplitTable = field(default_factory=SplitTable)
    opened: dict[SplitKey, tuple[int, Bools]] = field(default_factory=dict)
    due: defaultdict[str, deque[DueSides]] = field(default_factory=lambda: defaultdict(deque))
    questions: int = 0
    notebook: Notebook | None = None
    groups: int = 0
    numbered: Counter[int] = field(default_factory=Counter)
    known: Mapping[int, int] = field(default_factory=dict)
    later: list[Callable[[], None]] = field(default_factory=list)

    @property
    def me(self) -> int:
        return self.team.owners.index(self.team.active)

    @property
    def rows_shown(self) -> int:
        return rows_shown(self.parameters)

    @property
    def helpers(self) -> list[tuple[int, str]]:
        """The passive parties that have columns, with their places among the owners."""
        others = [(place, owner) for place, owner in enumerate(self.team.owners) if owner != self.team.active]
        return [(place, owner) for place, owner in others if self.space.layouts[place].features]

    def catch_up(self) -> None:
        """Do what was left for later."""
        for do in self.later:
            do()
        self.later.clear()

    def next_question(self) -> int:
        """The number of a question to passive parties."""
        self.questions += 1
        return self.questions

    def tell(self, message: object, *, more: bool = False) -> None:
        for _, helper in self.helpers:
            self.team.session.send(helper, message, more=more)


def can_split(context: GrowerContext, growing: GrowingTrees, trees: Ints32, numbers: Ints32) -> Bools:
    """Whether each of these nodes is not too deep, too small or too light to be split."""
    nodes, parameters = growing.nodes, context.parameters
    found: Bools = (nodes.depth[trees, numbers] < parameters.depth) & (
        nodes.rows[trees, numbers] >= 2 * parameters.min_rows
    )
    found &= nodes.totals[trees, numbers, -1] > 0
    if parameters.minimum_child_weight:
        found &= growing.weight(trees, numbers) >= 2 * parameters.minimum_child_weight
    if isinstance(parameters, LgbParameters):
        found &= growing.leaves[trees] < parameters.leaves
    return found
