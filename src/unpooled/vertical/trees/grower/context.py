"""What the active party's grower works with: its context, what a tree is grown from, and a tree while it grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ldexp

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.checkpoint import Notebook
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.budget import rows_shown
from unpooled.vertical.trees.grower.min_rows import NodeGroups
from unpooled.vertical.trees.grower.node_rows import OUTSIDE, TreeRows
from unpooled.vertical.trees.grower.splitting import Space
from unpooled.vertical.trees.parameters import AnyTrees, LgbParameters
from unpooled.vertical.trees.split_table import SplitTable

LEAF = -1


@dataclass(eq=False)
class Node:
    """A node while its tree grows: its histogram (`sums`), how its bins are grouped, and its best split.

    `left` are the totals on the left of that split, by the histogram.
    """

    depth: int
    rows: int
    totals: Ints
    sums: Ints | None = None
    groups: NodeGroups | None = None
    gain: float = 0.0
    best: int = -1
    missing_left: bool = False
    left: Ints | None = None
    first: int = LEAF
    owner: int = -1
    split: int = -1


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


@dataclass(eq=False)
class GrowingTree:
    spec: TreeSpec
    rows: TreeRows
    nodes: list[Node]
    leaves: int = 1

    def weight(self, node: int) -> float:
        return ldexp(self.nodes[node].totals[-1], -self.spec.exponents[-1])


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

    @classmethod
    def of(cls, tree: GrowingTree) -> GrownTree:
        fields = np.array([(node.first, node.owner, node.split, node.best) for node in tree.nodes], np.int64)
        gains, totals = np.array([node.gain for node in tree.nodes]), np.array([node.totals for node in tree.nodes])
        narrow = np.min_scalar_type(-len(tree.nodes))  # since every row has a leaf in every tree
        first, owner, split, best = fields.T.copy()
        return cls(first, owner, split, best, gains, totals, tree.rows.node_of_row.astype(narrow))

    def cover(self, weights: Floats) -> Floats:
        """How much the rows of each node weigh, inner nodes too: added up in the order of rows, then of nodes."""
        inside = self.where != OUTSIDE
        cover = np.bincount(self.where[inside], weights[inside], len(self.first)).astype(float)
        for node in np.flatnonzero(self.first != LEAF)[::-1].tolist():  # children come after their node
            cover[node] = cover[self.first[node]] + cover[self.first[node] + 1]
        return cover


@dataclass(frozen=True, eq=False)
class FinishedTree:
    """A grown tree with the values of its nodes, nodes × outputs, and how much training rows weigh in each."""

    grown: GrownTree
    values: Floats
    cover: Floats


Grow = Callable[[Sequence[TreeSpec]], list[GrownTree]]
"""Grows trees together."""


@dataclass(eq=False)
class GrowerContext:
    """The features of all owners (`space`), the active party's own bins, and the splits by its own columns (`table`).

    `name` begins the names of gradients, which are never used twice. `opened` has the sides of all rows by owner and
    split, where passive parties tell them for all rows. `notebook` keeps each group of trees; `known` of them are from
    before an interruption, `groups` counts those grown or read, out of `total`. `numbered` says by owner how many
    splits it has numbered.
    """

    team: Team
    parameters: AnyTrees
    space: Space
    own: Binned
    name: str
    total: int
    table: SplitTable = field(default_factory=SplitTable)
    opened: dict[tuple[int, int, int, bool], tuple[int, Bools]] = field(default_factory=dict)
    notebook: Notebook | None = None
    known: int = 0
    groups: int = 0
    numbered: dict[int, int] = field(default_factory=dict)

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

    def tell(self, message: object) -> None:
        for _, helper in self.helpers:
            self.team.session.send(helper, message)


def can_split(context: GrowerContext, tree: GrowingTree, number: int) -> bool:
    """Whether a node is not too deep, too small or too light to be split."""
    node, parameters = tree.nodes[number], context.parameters
    return (
        node.depth < parameters.depth
        and node.rows >= 2 * parameters.min_rows
        and node.totals[-1] > 0
        and tree.weight(number) >= 2 * parameters.minimum_child_weight
        and (not isinstance(parameters, LgbParameters) or tree.leaves < parameters.leaves)
    )
