"""The compiled loops of trees (`unpooled.compiled`); each gives what the function that calls it gives with numpy."""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Bools, Floats, Ints, Ints32
from unpooled.compiled import compiled
from unpooled.vertical.trees.bundles import Bins


@compiled
def members(node_of_row: Ints32, slots: Ints, count: int) -> tuple[Ints, Ints]:
    """The rows of nodes in the order of their slots, and how many each has; other nodes have the slot `count`.

    A row outside has the node -1, which is the last one.
    """
    counts = np.zeros(count + 1, np.int64)
    for node in node_of_row:
        counts[slots[node]] += 1
    ends = np.cumsum(counts) - counts
    rows = np.empty(len(node_of_row), np.int64)
    for row in range(len(node_of_row)):
        slot = slots[node_of_row[row]]
        rows[ends[slot]] = row
        ends[slot] += 1
    return rows[: len(rows) - counts[count]], counts[:count]


@compiled
def bin_counts(columns: Bins, first_bins: Ints, rows: Ints, families: Ints32, bins: int, count: int) -> Ints:
    """How many of the rows each family has in each bin."""
    counts = np.zeros(count * bins, np.int64)
    for place in range(len(rows)):
        row, offset = rows[place], families[place] * bins
        for column in range(columns.shape[1]):
            counts[offset + first_bins[column] + columns[row, column]] += 1
    return counts


@compiled
def bin_sums(
    columns: Bins, first_bins: Ints, rows: Ints, families: Ints32, bins: int, count: int, y: Ints
) -> tuple[Ints, Ints]:
    """The sums of y over the rows of each family in each bin, and how many rows these are."""
    width = y.shape[1]
    sums, counts = np.zeros((count * bins, width), np.int64), np.zeros(count * bins, np.int64)
    for place in range(len(rows)):
        row, offset = rows[place], families[place] * bins
        if width == 2:  # a loop over two columns of y takes twice as long
            one, two = y[row, 0], y[row, 1]
            for column in range(columns.shape[1]):
                at = offset + first_bins[column] + columns[row, column]
                sums[at, 0] += one
                sums[at, 1] += two
                counts[at] += 1
        else:
            for column in range(columns.shape[1]):
                at = offset + first_bins[column] + columns[row, column]
                counts[at] += 1
                for k in range(width):
                    sums[at, k] += y[row, k]
    return sums, counts


@compiled
def shown(columns: Bins, first_bins: Ints, rows: Ints, families: Ints32, bins: int, tables: Bins) -> Bins:
    """The bin of each row in each column, as the table of its family shows it."""
    found = np.empty((len(rows), columns.shape[1]), tables.dtype)
    for place in range(len(rows)):
        row, offset = rows[place], families[place] * bins
        for column in range(columns.shape[1]):
            found[place, column] = tables[offset + first_bins[column] + columns[row, column]]
    return found


@compiled
def right_of(features: Bins, rows: Ints, feature: int, place: int, end: int) -> Bools:
    """Whether the bin of each row is after `place`, and before `end`."""
    right = np.empty(len(rows), np.bool_)
    for at in range(len(rows)):
        found = features[rows[at], feature]
        right[at] = place < found < end
    return right


@compiled
def right_totals(y: Ints, rows: Ints, counts: Ints, sides: Bools) -> tuple[Ints, Ints]:
    """The sums of y on the right of each node, and how many rows are there."""
    width = y.shape[1]
    sums, on_the_right = np.zeros((len(counts), width), np.int64), np.zeros(len(counts), np.int64)
    place = 0
    for node in range(len(counts)):
        for _ in range(counts[node]):
            right = np.int64(sides[place])
            on_the_right[node] += right
            for k in range(width):
                sums[node, k] += y[rows[place], k] * right
            place += 1
    return sums, on_the_right


@compiled
def move_rows(node_of_row: Ints32, rows: Ints, counts: Ints, sides: Bools, firsts: Ints32) -> None:
    """Put the rows of each node into its children, if it has any."""
    place = 0
    for node in range(len(counts)):
        if firsts[node] >= 0:
            for at in range(place, place + counts[node]):
                node_of_row[rows[at]] = firsts[node] + sides[at]
        place += counts[node]


@compiled
def choices(
    sums: Ints,
    totals: Ints,
    scale: Floats,
    scaled: Floats,
    base: Floats,
    possible: Bools,
    joined: Bools,
    least: Floats,
    owners: Ints,
    missing_bins: Ints,
    l1: float,
    l2: float,
    minimum_child_weight: float,
) -> tuple[Floats, Ints, Bools, Ints]:
    """The best split of each node: its gain, the bin, whether missing values go left, and the sums on the left."""
    nodes, bins, width = sums.shape
    gains, chosen, goes_left = np.full(nodes, -np.inf), np.zeros(nodes, np.int64), np.zeros(nodes, np.bool_)
    sums_left = sums[:, 0].copy()
    running, left, right = np.empty(width, np.int64), np.empty(width), np.empty(width)
    for node in range(nodes):
        running[:] = 0
        for at in range(bins):
            for k in range(width):
                running[k] += sums[node, at, k]
            if not possible[node, at]:
                continue
            feature = owners[at]
            for k in range(width):
                left[k] = (running[k] - feature * totals[node, k]) * scale[node, k]
                right[k] = scaled[node, k] - left[k]
            gain = _gain(left, right, base[node], least[node], l1, l2, minimum_child_weight)
            missing, moved = missing_bins[feature], False
            if missing >= 0 and left[-1] > 0 and not joined[node, feature]:
                for k in range(width):
                    left[k] += sums[node, missing, k] * scale[node, k]
                    right[k] = scaled[node, k] - left[k]
                other = _gain(left, right, base[node], least[node], l1, l2, minimum_child_weight)
                if other > gain:
                    gain, moved = other, True
            if gain > gains[node]:
                gains[node], chosen[node], goes_left[node] = gain, at, moved
                for k in range(width):
                    sums_left[node, k] = running[k] - feature * totals[node, k]
    return gains, chosen, goes_left, sums_left


@compiled
def _gain(
    left: Floats, right: Floats, base: float, least: float, l1: float, l2: float, minimum_child_weight: float
) -> float:
    lightest = min(left[-1], right[-1])
    if (lightest < minimum_child_weight if minimum_child_weight else lightest <= 0.0) or lightest < least:
        return -np.inf
    return (_score(left, l1, l2) + _score(right, l1, l2) - base) * 0.5


@compiled
def _score(sums: Floats, l1: float, l2: float) -> float:
    squares = 0.0
    for k in range(len(sums) - 1):
        size = max(abs(sums[k]) - l1, 0.0)
        squares += size * size
    score: float = squares / (sums[-1] + l2)
    return score
