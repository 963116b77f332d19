"""Where the rows stand in a tree that grows, at any party: the node of each row, and the bins as they may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.codec import Bools, Bytes, Ints, Ints32
from unpooled.errors import ProtocolError
from unpooled.vertical.binning import Binned
from unpooled.vertical.groups import Groups, covered, merged, shown_bins, whole
from unpooled.vertical.layout import Bins, Layout, to_logical

OUTSIDE = -1
ROOT = 0


@dataclass(eq=False)
class Standing:
    """One tree: its rows' bins, each row's node, and by node the groups of bins and how many rows each bin has.

    `min_rows` is the rule for bins that are shown; 1 shows them as they are. `opened` are nodes that were split.
    """

    own: Binned
    where: Ints32
    min_rows: int
    groups: dict[int, tuple[Bools, Bools]] = field(default_factory=dict)
    counts: dict[int, Ints] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)

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


@dataclass(frozen=True, eq=False)
class Look:
    """For a tree's families: which of them asks about each row, or -1; the rows asked about, and their bins' places."""

    nodes: Ints32
    rows: Ints
    places: Ints32


def look_at(standings: Sequence[Standing], families: Sequence[Families]) -> list[Look]:
    """Look at the families of each tree, and find out how their bins are grouped.

    The groups of bins of all trees are found together, which costs little more than those of one.
    """
    looks = [_look(standing, of) for standing, of in zip(standings, families, strict=True)]
    if standings[0].min_rows > 1:
        layout = standings[0].layout
        counts = np.concatenate([_counts(*each) for each in zip(standings, families, looks, strict=True)])
        groups = merged(layout, _parents_groups(standings, families), counts, standings[0].min_rows)
        groups = covered(layout, groups, counts, standings[0].min_rows)
        each = [
            (standing, first) for standing, of in zip(standings, families, strict=True) for first in of.firsts.tolist()
        ]
        for (standing, first), ends, joined in zip(each, groups.ends, groups.missing_joined, strict=True):
            for child in range(first, first + families[0].siblings):
                standing.groups[child] = ends, joined
    return looks


def shown(standings: Sequence[Standing], families: Sequence[Families]) -> list[tuple[Bins, Ints32]]:
    """For each tree the columns as they may be shown for its families, and which family asks about each row, or -1."""
    looks = look_at(standings, families)
    if standings[0].min_rows <= 1:
        return [(standing.own.columns, look.nodes) for standing, look in zip(standings, looks, strict=True)]
    layout = standings[0].layout
    kept = [
        standing.groups[first] for standing, of in zip(standings, families, strict=True) for first in of.firsts.tolist()
    ]
    tables = shown_bins(layout, _stacked(kept))
    as_they_are = (tables == layout.as_it_is).all(axis=1)
    columns, begin = [], 0
    for standing, of, look in zip(standings, families, looks, strict=True):
        mine = slice(begin, begin + len(of))
        as_shown = standing.own.columns
        if not as_they_are[mine].all():
            as_shown = as_shown.copy()
            as_shown[look.rows] = tables[mine].reshape(-1).take(look.places)
        columns.append((as_shown, look.nodes))
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


def check_open(standing: Standing, node: int, feature: int, place: int, missing_left: bool, sender: str) -> None:
    """Refuse a split of a node of which nothing was shown, or one that goes through a group of bins."""
    known = standing.groups if standing.min_rows > 1 else range(int(standing.where.max(initial=0)) + 1)
    if node not in known:
        raise ProtocolError(f"{sender} asks to Open a node that it was shown nothing of")
    if node in standing.opened:
        raise ProtocolError(f"{sender} asks to Open a node that was opened before")
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


def _look(standing: Standing, families: Families) -> Look:
    size = max(int(standing.where.max(initial=0)), int(families.firsts.max(initial=0)) + 1) + 1
    family_of_node = np.full(size + 1, OUTSIDE, np.int32)  # the last is for rows outside, whose node is -1
    family_of_node[families.firsts + families.asked] = np.arange(len(families))
    nodes = family_of_node[standing.where]
    rows = np.flatnonzero(nodes != OUTSIDE)
    places = standing.own.places.take(rows, axis=0)
    places += (nodes[rows] * np.int32(standing.layout.bins))[:, np.newaxis]
    return Look(nodes, rows, places)


def _counts(standing: Standing, families: Families, look: Look) -> Ints:
    """How many rows each node has in each bin, families × siblings × logical bins."""
    layout, siblings, every = standing.layout, families.siblings, np.arange(len(families))
    totals = np.bincount(look.nodes[look.rows], minlength=len(families))
    asked = to_logical(layout, bin_sums(layout, look.places, len(families), None), totals[:, np.newaxis])[..., 0]
    counts = asked[:, np.newaxis]
    if siblings == 2:
        parents = np.stack([standing.counts.pop(parent) for parent in families.parents.tolist()])
        counts = np.empty((len(families), 2, layout.logical), np.int64)
        counts[every, families.asked], counts[every, 1 - families.asked] = asked, parents - asked
    for first, of_family in zip(families.firsts.tolist(), counts, strict=True):
        standing.counts.update(enumerate(of_family, first))
    return counts


def _parents_groups(standings: Sequence[Standing], families: Sequence[Families]) -> Groups:
    if families[0].siblings == 1:
        return whole(standings[0].layout, len(families))
    each = zip(standings, families, strict=True)
    return _stacked([standing.groups[parent] for standing, of in each for parent in of.parents.tolist()])


def _stacked(kept: Sequence[tuple[Bools, Bools]]) -> Groups:
    return Groups(np.stack([ends for ends, _ in kept]), np.stack([joined for _, joined in kept]))
