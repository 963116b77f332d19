"""Where the rows stand in a tree that grows, at any party: the node of each row, and the bins as they may be shown."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from unpooled.codec import Bools, Bytes, Ints, Ints32
from unpooled.errors import ProtocolError
from unpooled.vertical.groups import Groups, merged, shown_bins, whole
from unpooled.vertical.layout import Bins, Layout, to_logical

OUTSIDE = -1
ROOT = 0


@dataclass(eq=False)
class Standing:
    """One tree: the bins of its rows by column and by feature, each row's node, and the groups of bins by node.

    `min_rows` is the rule for bins that are shown; 1 shows them as they are.
    """

    layout: Layout
    columns: Bins
    features: Bins
    where: Ints32
    min_rows: int
    groups: dict[int, tuple[Bools, Bools]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Families:
    """Nodes that are looked at together: the first child of each split, or the root; `asked` says about which."""

    parents: Ints32
    firsts: Ints32
    asked: Ints32

    @property
    def siblings(self) -> int:
        return 1 if self.parents.size and self.parents[0] < 0 else 2


def root_family() -> Families:
    return Families(np.array([OUTSIDE], np.int32), np.array([ROOT], np.int32), np.array([0], np.int32))


def members(where: Ints32, nodes: Ints32) -> tuple[Ints, Ints]:
    """The rows of some nodes, node by node and in each in the order of rows, and how many each has."""
    slots = _slots(where, nodes, 1)
    inside = np.flatnonzero(slots >= 0)
    found = slots[inside]
    narrow = found.astype(np.uint16) if len(nodes) < 2**16 else found  # numpy sorts these by counting
    return inside[np.argsort(narrow, kind="stable")], np.bincount(found, minlength=len(nodes))


def divide(where: Ints32, parents: Ints32, firsts: Ints32, sides: Bools) -> None:
    """Move the rows of each parent into its children; sides are given in the order of `members`, true is right."""
    rows, counts = members(where, parents)
    if len(sides) != len(rows):
        raise ProtocolError("sides are given for other rows than the split nodes have")
    where[rows] = np.repeat(firsts, counts) + sides


def shown(standing: Standing, families: Families) -> tuple[Bins, Ints32]:
    """The columns as they may be shown for these families, and for each row which family asks about it, or -1."""
    siblings, count = families.siblings, len(families.firsts)
    slots = _slots(standing.where, families.firsts, siblings)
    family, sibling = slots // siblings, slots % siblings
    asked = (slots >= 0) & (sibling == families.asked[family])
    nodes = np.where(asked, family, OUTSIDE).astype(np.int32)
    if standing.min_rows <= 1:
        return standing.columns, nodes
    layout = standing.layout
    inside = np.flatnonzero(slots >= 0)
    totals = np.bincount(slots[inside], minlength=count * siblings)[:, np.newaxis]
    counts = bin_sums(layout, standing.columns[inside], slots[inside], count * siblings, None)
    by_feature = to_logical(layout, counts, totals).reshape(count, siblings, layout.logical)
    groups = merged(layout, _parents_groups(standing, families), by_feature, standing.min_rows)
    for place, first in enumerate(families.firsts.tolist()):
        for child in range(first, first + siblings):
            standing.groups[child] = groups.ends[place], groups.missing_joined[place]
    rows = np.flatnonzero(asked)
    table = shown_bins(layout, groups).reshape(-1)
    columns = standing.columns.copy()
    columns[rows] = table[_flat(layout, columns[rows], family[rows])]
    return columns, nodes


def bin_sums(layout: Layout, columns: Bins, nodes: Ints, count: int, y: Ints | None) -> Ints:
    """The sums of y, or how many rows there are, by node and bin: nodes × bins × columns of y.

    numpy adds in floating point, which is exact as long as no sum passes 2^53.
    """
    places, length = _flat(layout, columns, nodes), count * layout.bins
    if y is None:
        return np.bincount(places.reshape(-1), minlength=length).reshape(count, layout.bins, 1)
    sums = np.empty((length, y.shape[1]), np.int64)
    for k in range(y.shape[1]):
        weights = np.repeat(y[:, k].astype(float), columns.shape[1])
        sums[:, k] = np.bincount(places.reshape(-1), weights, length)
    return sums.reshape(count, layout.bins, y.shape[1])


def check_open(standing: Standing, node: int, feature: int, place: int, missing_left: bool) -> None:
    """Refuse a split that goes through a group of bins."""
    if standing.min_rows > 1:
        ends, joined = standing.groups[node]
        if not ends[standing.layout.starts[feature] + place] or (missing_left and joined[feature]):
            raise ProtocolError("a split goes through a group of bins that were shown as one")


def packed(sides: Bools) -> Bytes:
    return np.packbits(sides)


def unpacked(bits: Bytes, count: int, sender: str) -> Bools:
    """So many sides as they travelled."""
    if bits.ndim != 1 or len(bits) != (count + 7) // 8:
        raise ProtocolError(f"{sender} sent sides for another number of rows than there are")
    return np.unpackbits(bits, count=count).astype(bool)


def _slots(where: Ints32, firsts: Ints32, siblings: int) -> Ints:
    """For each row which of the nodes it is in, family by family, or -1."""
    size = max(int(where.max(initial=0)), int(firsts.max(initial=0)) + siblings - 1) + 1
    slot_of_node = np.full(size + 1, OUTSIDE, np.int64)  # the last is for rows outside, whose node is -1
    for sibling in range(siblings):
        slot_of_node[firsts + sibling] = np.arange(len(firsts)) * siblings + sibling
    return slot_of_node[where]


def _flat(layout: Layout, columns: Bins, nodes: Ints) -> Ints:
    """The place of each cell among nodes × bins of all columns."""
    offsets = np.cumsum([0, *layout.sizes[:-1]]) if layout.sizes else np.empty(0, np.int64)
    places: Ints = columns + offsets
    places += (nodes * layout.bins)[:, np.newaxis]
    return places


def _parents_groups(standing: Standing, families: Families) -> Groups:
    if families.siblings == 1:
        return whole(standing.layout, len(families.firsts))
    kept = [standing.groups[parent] for parent in families.parents.tolist()]
    return Groups(np.stack([ends for ends, _ in kept]), np.stack([joined for _, joined in kept]))
