"""What trees grow on, and a tree that grows, at the active party."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from unpooled.arrays import Bools, Floats, Ints, Ints32
from unpooled.checkpoint import Notebook
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.grower.node_rows import Standing
from unpooled.vertical.trees.grower.splitting import Space
from unpooled.vertical.trees.parameters import AnyTrees, LgbParameters
from unpooled.vertical.trees.split_table import SplitTable

LEAF = -1


@dataclass(eq=False)
class Node:
    """A node of a tree that grows: its sums, how its bins are grouped, and the best split that was found for it.

    `left` are the totals on the left of that split, as the sums say.
    """

    depth: int
    rows: int
    totals: Ints
    sums: Ints | None = None
    groups: tuple[Bools, Bools] | None = None
    gain: float = 0.0
    best: int = -1
    missing_left: bool = False
    left: Ints | None = None
    first: int = LEAF
    owner: int = -1
    split: int = -1


@dataclass(frozen=True, eq=False)
class Seedling:
    """A tree to be grown: gradients and, last, weights as whole numbers, the power of two by which each was scaled.

    `taking_part` says which rows do, where that is no secret; the others are cut out if `cut`, and have no place in `y`
    either. `drawn` gives the features that nodes may be split by, nodes × features, out of those that they can be split
    by. `sampled` says that few rows stand for many. Gradients that `serve_again` keep their name afterwards.
    """

    name: str
    y: Ints
    exponents: Sequence[int]
    taking_part: Bools | None = None
    cut: bool = False
    drawn: Callable[[Bools], Bools] | None = None
    sampled: bool = False
    serve_again: bool = False


@dataclass(eq=False)
class Growing:
    """A seedling on its way."""

    seedling: Seedling
    y: Ints
    standing: Standing
    nodes: list[Node] = field(default_factory=list)
    leaves: int = 1

    @cached_property
    def weighing(self) -> Ints:
        """The rows that have any weight: those that were drawn, where rows are."""
        return np.flatnonzero(self.y[:, -1])

    @property
    def where(self) -> Ints32:
        """The leaf of each row that came along, outside those that did not."""
        return self.standing.where


@dataclass(frozen=True, eq=False)
class Grown:
    """A grown tree. For each node: its first child or LEAF, by whom and by which of their splits and bins it is split,
    what that gained, and its totals. For each row that came along: its leaf, or outside.
    """

    first: Ints
    owner: Ints
    split: Ints
    best: Ints
    gains: Floats
    totals: Ints
    where: Ints

    @classmethod
    def of(cls, tree: Growing) -> Grown:
        fields = np.array([(node.first, node.owner, node.split, node.best) for node in tree.nodes], np.int64)
        first, owner, split, best = fields.T.copy()
        gains, totals = np.array([node.gain for node in tree.nodes]), np.array([node.totals for node in tree.nodes])
        where = tree.where.astype(np.min_scalar_type(-len(tree.nodes)))  # narrow, since every row has one in every tree
        return cls(first, owner, split, best, gains, totals, where)


Grow = Callable[[Sequence[Seedling]], list[Grown]]
"""Grows trees together."""


@dataclass(eq=False)
class Ground:
    """What trees grow on: the features of all owners, the active party's own bins, and the splits made by those.

    `name` goes before those of gradients, which are never used twice. `opened` remembers the sides of all rows by owner
    and split, where passive parties say them for all. `notebook` keeps each group of trees, `known` of them from before
    an interruption; `groups` counts those that were grown or known, of a `total`. `numbered` says by owner how many
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

    def tell(self, message: object) -> None:
        """Say something to all who lend columns."""
        for _, lender in self.lenders:
            self.team.session.send(lender, message)


def can_split(ground: Ground, tree: Growing, number: int) -> bool:
    """Whether it is worth looking at a node: it is not too deep, too small or too light."""
    node, parameters = tree.nodes[number], ground.parameters
    weight = float(np.ldexp(float(node.totals[-1]), -tree.seedling.exponents[-1]))
    return (
        node.depth < parameters.depth
        and node.rows >= 2 * ground.min_rows
        and node.totals[-1] > 0
        and weight >= 2 * parameters.minimum_child_weight
        and (not isinstance(parameters, LgbParameters) or tree.leaves < parameters.leaves)
    )
