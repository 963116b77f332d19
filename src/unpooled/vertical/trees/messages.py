"""What passes when trees are grown and used, besides products. `docs/privacy.md` explains what follows from it."""

from __future__ import annotations

from unpooled.arrays import Bytes, Floats, Ints32
from unpooled.wire import message


@message(
    discloses="how many columns a party lends, in random order and without names: how many bins each has, whether "
    "values are missing, which bin is its most frequent, and which columns never stand out together",
    to="the active party",
)
class LentColumns:
    rows: int
    values: Ints32
    missing: Ints32
    usual: Ints32
    bundles: tuple[Ints32, ...]


@message(discloses="a random name for the model, and how many groups of trees it takes", to="a passive party")
class Begin:
    name: bytes
    rows: int
    groups: int


@message(discloses="how many trees grow together now, and the names of their gradients", to="a passive party")
class Trees:
    """A group of trees, and its number; where nodes are hidden, steps of several groups alternate."""

    group: int
    names: tuple[str, ...]
    sums: int


@message(discloses="which rows take part in each tree", to="a passive party")
class Bags:
    """A bit for each row; if `cut`, the others are left out of the tree's products altogether."""

    taking_part: tuple[Bytes, ...]
    cut: bool


@message(
    discloses="on which side of a split each row of its node fell, and which nodes are looked at", to="a passive party"
)
class Level:
    """The nodes that were split, tree by tree: their trees, the first child of each, and which child is asked about.

    `sides` has a bit for each of their rows, node by node.
    """

    trees: Ints32
    parents: Ints32
    firsts: Ints32
    asked: Ints32
    sides: Bytes


@message(discloses="how many nodes of each tree are looked at, not which rows they have", to="a passive party")
class HiddenLevel:
    group: int
    trees: Ints32
    nodes: Ints32


@message(
    discloses="which neighbouring bins of a node are shown as one, because one of them has too few rows",
    to="the active party",
)
class Merged:
    """For each node or pair of siblings a bit for each bin, whether a group ends there, and one for each column."""

    ends: Bytes
    missing_joined: Bytes


@message(
    discloses="by which of its columns a node is split, after which bin, and where missing values go",
    to="the passive party whose column it is",
)
class SplitRequest:
    trees: Ints32
    nodes: Ints32
    features: Ints32
    places: Ints32
    missing_left: Ints32


@message(
    discloses="on which side of a split each row of its node falls, and which splits are the same",
    to="the active party",
)
class SplitSides:
    numbers: Ints32
    sides: Bytes


@message(
    discloses="by which of its columns nodes are split, after which bins, and where missing values go; not which nodes",
    to="the passive party whose columns they are",
)
class SplitRequestForAll:
    group: int
    features: Ints32
    places: Ints32
    missing_left: Ints32


@message(
    discloses="on which side of a split every row falls, also those outside its node, and which splits are the same",
    to="the active party",
)
class SplitSidesForAll:
    numbers: Ints32
    sides: Bytes


@message(discloses="that these trees are grown, and which gradients are needed no more", to="a passive party")
class Grown:
    group: int
    forget: tuple[str, ...]


@message(discloses="nothing: no more trees come", to="a passive party")
class Finished:
    pass


@message(discloses="the random name of a model, and that new rows are to be sorted by it", to="a passive party")
class Sort:
    name: bytes
    rows: int


@message(discloses="which of the new rows reach which of its splits", to="a passive party")
class Reached:
    """A run of rows, the splits by number, and a bit for each split and row."""

    begin: int
    count: int
    numbers: Ints32
    reach: Bytes


@message(discloses="which of its splits are needed, not which rows reach them", to="a passive party")
class Needed:
    begin: int
    count: int
    numbers: Ints32


@message(discloses="on which side of its splits the rows fall that reach them", to="the active party")
class Sides:
    sides: Bytes


@message(discloses="on which side of its splits all new rows fall", to="the active party")
class AllSides:
    sides: Bytes


@message(discloses="nothing: no more rows come", to="a passive party")
class Sorted:
    pass


@message(
    discloses="which of its splits are of the same column, as the active party saw when trees were grown",
    to="the active party",
)
class SplitColumns:
    """For each of its splits the column, by its place in the random order."""

    columns: Ints32


@message(discloses="how much each of its own columns adds to the scores of the explained rows", to="a passive party")
class ColumnContributions:
    """Rows × those of its columns that have splits, in the random order."""

    values: Floats
