"""Where the rows stand in a tree that grows, at any party: the node of each row, and the bins as they may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.codec import Bools, Bytes, Ints, Ints32
from unpooled.errors import ProtocolError
from unpooled.vertical.binning import Binned
from unpooled.vertical.groups import Groups, merged, shown_bins, whole
from unpooled.vertical.layout import Bins, Layout, to_logical

OUTSIDE = -1
ROOT = 0


@dataclass(eq=False)
class Standing:
    """One tree: its rows' bins, each row's node, and the groups of bins by node.

    `min_rows` is the rule for bins that are shown; 1 shows them as they are.
    """

    own: Binned
    where: Ints32
    min_rows: int
    groups: dict[int, tuple[Bools, Bools]] = field(default_factory=dict)

    @property
    def layout(self) -> Layout:
        return self.own.layout


@dataclass(frozen=True, eq=False)
class Families:
    """Nodes that are looked at together: the first child of each split, or the root; `asked` says about which."""

    parents: Ints32
    firsts: Ints32
    asked: Ints32

    @property
    def siblings(self) -> int:
        return 1 if self.parents.size and self.parents[0] < 0 else 2

    def __len__(self) -> int:
        return len(self.firsts)


def root_family() -> Families:
    return Families(np.array([OUTSIDE], np.int32), np.array([ROOT], np.int32), np.array([0], np.int32))


def standing_in_bag(own: Binned, taking_part: Bools | None, min_rows: int, *, cut: bool) -> Standing:
    """The beginning of a tree in which some rows take part, or all; the others are cut off, or stand outside."""
    if taking_part is None:
        return Standing(own, np.zeros(len(own.columns), np.int32), min_rows)
    if cut:
        part = Binned(own.feature_bins[taking_part], own.columns[taking_part], own.layout)
        return Standing(part, np.zeros(len(part.columns), np.int32), min_rows)
    return Standing(own, np.where(taking_part, np.int32(ROOT), np.int32(OUTSIDE)), min_rows)


def members(where: Ints32, nodes: Ints32) -> tuple[Ints, Ints]:
    """The rows of some nodes, node by node and in each in the order of rows, and how many each has."""
    slots = _slots(where, nodes, 1)
    inside = np.flatnonzero(slots >= 0)
    found = slots[inside]
    narrow = found.astype(np.uint16) if len(nodes) < 2**16 else found  # numpy sorts these by counting
    return inside[np.argsort(narrow, kind="stable")], np.bincount(found, minlength=len(nodes))


def shown(standings: Sequence[Standing], families: Sequence[Families]) -> list[tuple[Bins, Ints32]]:
    """For each tree the columns as they may be shown for its families, and which family asks about each row, or -1.

    The groups of bins of all trees are found together, which costs little more than those of one.
    """
    looks = [_look(standing, of) for standing, of in zip(standings, families, strict=True)]
    if standings[0].min_rows <= 1:
        return [(standing.own.columns, nodes) for standing, (_, nodes) in zip(standings, looks, strict=True)]
    layout, siblings = standings[0].layout, families[0].siblings
    counted = [
        _counts(standing, slots, len(of) * siblings)
        for standing, (slots, _), of in zip(standings, looks, families, strict=True)
    ]
    counts, totals = np.concatenate([counts for counts, _ in counted]), np.concatenate([total for _, total in counted])
    by_feature = to_logical(layout, counts, totals).reshape(len(counts) // siblings, siblings, layout.logical)
    groups = merged(layout, _parents_groups(standings, families), by_feature, standings[0].min_rows)
    tables = shown_bins(layout, groups)
    columns, begin = [], 0
    for standing, of, (_, nodes) in zip(standings, families, looks, strict=True):
        for place, first in enumerate(of.firsts.tolist(), begin):
            for child in range(first, first + siblings):
                standing.groups[child] = groups.ends[place], groups.missing_joined[place]
        table = tables[begin : begin + len(of)].reshape(-1)
        asked = np.flatnonzero(nodes != OUTSIDE)
        as_shown = standing.own.columns.copy()
        as_shown[asked] = table[_places(standing.own, asked, nodes[asked])]
        columns.append((as_shown, nodes))
        begin += len(of)
    return columns


def bin_sums(layout: Layout, places: Ints32, count: int, y: Ints | None) -> Ints:
    """The sums of y, or how many rows there are, by node and bin: nodes × bins × columns of y.

    `places` are those of each cell among nodes × bins. numpy adds in floating point, which is exact up to 2^53.
    """
    length, width = count * layout.bins, places.shape[1]
    if y is None:
        return np.bincount(places.reshape(-1), minlength=length).reshape(count, layout.bins, 1)
    flat, sums = places.reshape(-1).astype(np.intp), np.empty((length, y.shape[1]), np.int64)
    for k in range(y.shape[1]):
        sums[:, k] = np.bincount(flat, np.repeat(y[:, k].astype(float), width), length)
    return sums.reshape(count, layout.bins, y.shape[1])


def shown_places(layout: Layout, columns: Bins, nodes: Ints32) -> Ints32:
    """The places of shown bins among nodes × bins of all columns."""
    places: Ints32 = np.add(columns, layout.first_bins, dtype=np.int32, casting="unsafe")
    places += (nodes * np.int32(layout.bins))[:, np.newaxis]
    return places


def check_open(standing: Standing, node: int, feature: int, place: int, missing_left: bool, sender: str) -> None:
    """Refuse a split of a node of which nothing was shown, or one that goes through a group of bins."""
    known = standing.groups if standing.min_rows > 1 else range(int(standing.where.max(initial=0)) + 1)
    if node not in known:
        raise ProtocolError(f"{sender} asks to Open a node that it was shown nothing of")
    if standing.min_rows > 1:
        ends, joined = standing.groups[node]
        parts_missing = missing_left or place == standing.layout.features[feature].values - 1
        if not ends[standing.layout.starts[feature] + place] or (joined[feature] and parts_missing):
            raise ProtocolError(f"{sender} asks for a split that goes through a group of bins that were shown as one")


def packed(sides: Bools) -> Bytes:
    return np.packbits(sides)


def unpacked(bits: Bytes, count: int, sender: str) -> Bools:
    """So many sides as they travelled."""
    if bits.ndim != 1 or len(bits) != (count + 7) // 8:
        raise ProtocolError(f"{sender} sent sides for another number of rows than there are")
    return np.unpackbits(bits, count=count).view(bool)


def _slots(where: Ints32, firsts: Ints32, siblings: int) -> Ints:
    """For each row which of the nodes it is in, family by family, or -1."""
    size = max(int(where.max(initial=0)), int(firsts.max(initial=0)) + siblings - 1) + 1
    slot_of_node = np.full(size + 1, OUTSIDE, np.int64)  # the last is for rows outside, whose node is -1
    for sibling in range(siblings):
        slot_of_node[firsts + sibling] = np.arange(len(firsts)) * siblings + sibling
    return slot_of_node[where]


def _look(standing: Standing, families: Families) -> tuple[Ints, Ints32]:
    """For each row its place among the nodes of the families, and the family that asks about it; -1 for neither."""
    siblings = families.siblings
    slots = _slots(standing.where, families.firsts, siblings)
    asked = np.full(len(families) * siblings + 1, OUTSIDE, np.int32)  # the last is for rows in no family
    asked[np.arange(len(families)) * siblings + families.asked] = np.arange(len(families))
    return slots, asked[slots]


def _counts(standing: Standing, slots: Ints, nodes: int) -> tuple[Ints, Ints]:
    """How many rows each node has in each bin, and in all."""
    inside = np.flatnonzero(slots >= 0)
    found = slots[inside]
    counts = bin_sums(standing.layout, _places(standing.own, inside, found), nodes, None)
    return counts, np.bincount(found, minlength=nodes)[:, np.newaxis]


def _places(own: Binned, rows: Ints, nodes: Ints | Ints32) -> Ints32:
    """The places of some rows' bins among nodes × bins of all columns."""
    places = np.take(own.places, rows, axis=0)
    places += (nodes * own.layout.bins).astype(np.int32)[:, np.newaxis]
    return places


def _parents_groups(standings: Sequence[Standing], families: Sequence[Families]) -> Groups:
    if families[0].siblings == 1:
        return whole(standings[0].layout, len(families))
    each = zip(standings, families, strict=True)
    kept = [standing.groups[parent] for standing, of in each for parent in of.parents.tolist()]
    return Groups(np.stack([ends for ends, _ in kept]), np.stack([joined for _, joined in kept]))
