"""Where the rows stand in a tree that grows, at any party: the node of each row, and the bins as they may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Bytes, Ints, Ints32
from unpooled.errors import ProtocolError
from unpooled.vertical.trees.binning import Binned
from unpooled.vertical.trees.bundles import Bins, Layout, to_logical
from unpooled.vertical.trees.grower.min_rows import Groups, covered, merged, shown_bins, whole

T = TypeVar("T", bound=np.generic)

OUTSIDE = -1
ROOT = 0


@dataclass(eq=False)
class Standing:
    """One tree: its rows' bins, each row's node, and by node the groups of bins and how many rows each bin has.

    `min_rows` is the rule for bins that are shown; 1 shows them as they are. `opened` are nodes whose split this party
    has opened, `split` all that it knows to be split; `depths` are those of the nodes that were looked at, and `looked`
    counts for how many of them sums were shown.
    """

    own: Binned
    where: Ints32
    min_rows: int
    groups: dict[int, tuple[Bools, Bools]] = field(default_factory=dict)
    counts: dict[int, Ints] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    split: set[int] = field(default_factory=set)
    depths: dict[int, int] = field(default_factory=dict)
    looked: int = 0

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
    size = max(int(where.max(initial=0)), int(nodes.max(initial=0))) + 2
    slots = np.full(size, len(nodes), np.min_scalar_type(len(nodes)))  # numpy sorts 16 bits and fewer by counting
    slots[nodes] = np.arange(len(nodes))
    found = slots.take(where, mode="wrap")  # rows outside, whose node is -1, have the last one
    counts = np.bincount(found, minlength=len(nodes))[: len(nodes)]
    return found.argsort(kind="stable")[: int(counts.sum())], counts


@dataclass(frozen=True, eq=False)
class Look:
    """For a tree's families: the rows asked about, which family asks about each, and the places of their bins.

    Rows stand family by family. A product has either a place for each row of the tree, or just one for each that can be
    asked about: `laid_out` and `nodes_in` put them there.
    """

    rows: Ints
    families: Ints32
    places: Ints32

    def laid_out(self, values: NDArray[T], count: int, *, part: bool) -> NDArray[T]:
        """What the rows asked about have, in a product of so many rows; zero elsewhere."""
        if len(values) == count and part:
            return values
        found = np.zeros((count, *values.shape[1:]), values.dtype)
        found[slice(len(values)) if part else self.rows] = values
        return found

    def nodes_in(self, count: int, *, part: bool) -> Ints32:
        """Which family asks about each row of a product, or -1."""
        return self.laid_out(self.families + np.int32(1), count, part=part) - np.int32(1)


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


def shown(standings: Sequence[Standing], families: Sequence[Families]) -> list[tuple[Look, Bins]]:
    """A look at the families of each tree, and the bins of the rows asked about as they may be shown."""
    looks = look_at(standings, families)
    if standings[0].min_rows <= 1:
        return [
            (look, standing.own.columns.take(look.rows, axis=0))
            for standing, look in zip(standings, looks, strict=True)
        ]
    layout = standings[0].layout
    kept = [
        standing.groups[first] for standing, of in zip(standings, families, strict=True) for first in of.firsts.tolist()
    ]
    tables = shown_bins(layout, _stacked(kept))
    found, begin = [], 0
    for look, of in zip(looks, families, strict=True):
        found.append((look, tables[begin : begin + len(of)].reshape(-1).take(look.places)))
        begin += len(of)
    return found


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
    if node not in standing.depths:
        raise ProtocolError(f"invalid SplitRequest from {sender}: a node that it was shown nothing of")
    if node in standing.opened:
        raise ProtocolError(f"invalid SplitRequest from {sender}: a node that was opened before")
    if standing.min_rows > 1:
        ends, joined = standing.groups[node]
        parts_missing = missing_left or place == standing.layout.features[feature].values - 1
        if not ends[standing.layout.starts[feature] + place] or (joined[feature] and parts_missing):
            raise ProtocolError(f"invalid SplitRequest from {sender}: a split within bins that were shown as one")


def packed(sides: Bools) -> Bytes:
    return np.packbits(sides)


def unpacked(bits: Bytes, count: int, sender: str) -> Bools:
    """So many sides as they travelled."""
    if bits.ndim != 1 or len(bits) != (count + 7) // 8:
        raise ProtocolError(f"invalid sides from {sender}: another number of rows than there are")
    return np.unpackbits(bits, count=count).view(bool)


def _look(standing: Standing, families: Families) -> Look:
    rows, counts = members(standing.where, families.firsts + families.asked)
    of_rows = np.arange(len(families), dtype=np.int32).repeat(counts)
    places = standing.own.places.take(rows, axis=0)
    places += (of_rows * np.int32(standing.layout.bins))[:, np.newaxis]
    return Look(rows, of_rows, places)


def _counts(standing: Standing, families: Families, look: Look) -> Ints:
    """How many rows each node has in each bin, families × siblings × logical bins."""
    layout, siblings, every = standing.layout, families.siblings, np.arange(len(families))
    totals = np.bincount(look.families, minlength=len(families))
    asked = to_logical(layout, bin_sums(layout, look.places, len(families), None), totals[:, np.newaxis])[..., 0]
    counts = asked[:, np.newaxis]
    if siblings == 2:
        parents = np.array([standing.counts.pop(parent) for parent in families.parents.tolist()])
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
    return Groups(np.array([ends for ends, _ in kept]), np.array([joined for _, joined in kept]))
