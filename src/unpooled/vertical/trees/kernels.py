"""The compiled loops of trees (`unpooled.compiled`); each gives what the function that calls it gives with numpy."""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Bools, Floats, Ints, Ints32
from unpooled.compiled import compiled
from unpooled.vertical.trees.bundles import Bins


@compiled
def members(node_of_row: Ints32, nodes: Ints32) -> tuple[Ints, Ints]:
    """The rows of some nodes, node by node, and how many each has."""
    count, size = len(nodes), 0
    for node in nodes:
        size = max(size, node)
    for node in node_of_row:
        size = max(size, node)
    slots = np.full(size + 2, count, np.int32)  # the last one is for rows outside, whose node is -1
    for place in range(count):
        slots[nodes[place]] = place
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
def right_of(features: Bins, rows: Ints, counts: Ints, splits: Ints32, right: Bools) -> None:
    """Whether the bin of each row is after the place of its node's split, and before its end.

    A split is a feature, -1 for none, a place and an end.
    """
    begin = 0
    for node in range(len(counts)):
        feature, place, end = splits[node]
        if feature >= 0:
            for at in range(begin, begin + counts[node]):
                found = features[rows[at], feature]
                right[at] = place < found < end
        begin += counts[node]


@compiled
def right_totals(y: Ints, rows: Ints, counts: Ints, sides: Bools) -> tuple[Ints, Ints]:
    """The sums of y on the right of each node, and how many rows are there."""
    width = y.shape[1]
    sums, on_the_right = np.zeros((len(counts), width), np.int64), np.zeros(len(counts), np.int64)
    begin = 0
    for node in range(len(counts)):
        end = begin + counts[node]
        for place in range(begin, end):
            on_the_right[node] += sides[place]
        for k in range(width):
            total = 0
            for place in range(begin, end):
                total += y[rows[place], k] * sides[place]
            sums[node, k] = total
        begin = end
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
    sums_left, left, nothing = sums[:, 0].copy(), np.empty(width, np.int64), np.zeros(width, np.int64)
    limits = (l1, l2, minimum_child_weight)
    for node in range(nodes):
        running = np.zeros(width, np.int64)
        whole, scales = scaled[node], scale[node]
        for at in range(bins):
            for k in range(width):
                running[k] += sums[node, at, k]
            if not possible[node, at]:
                continue
            feature = owners[at]
            for k in range(width):
                left[k] = running[k] - feature * totals[node, k]
            gain = _gain(left, nothing, scales, whole, base[node], least[node], limits)
            missing, moved = missing_bins[feature], False
            if missing >= 0 and left[-1] > 0 and not joined[node, feature]:
                other = _gain(left, sums[node, missing], scales, whole, base[node], least[node], limits)
                if other > gain:
                    gain, moved = other, True
            if gain > gains[node]:
                gains[node], chosen[node], goes_left[node] = gain, at, moved
                sums_left[node] = left
    return gains, chosen, goes_left, sums_left


@compiled
def _gain(
    left: Ints, more: Ints, scales: Floats, whole: Floats, base: float, least: float, limits: tuple[float, float, float]
) -> float:
    """The gain of a split with these sums on the left, and some more; minus infinity if a side weighs too little."""
    l1, l2, minimum_child_weight = limits
    weight = left[-1] * scales[-1] + more[-1] * scales[-1]
    rest = whole[-1] - weight
    lightest = min(weight, rest)
    if (lightest < minimum_child_weight if minimum_child_weight else lightest <= 0.0) or lightest < least:
        return -np.inf
    squares, others = 0.0, 0.0
    for k in range(len(left) - 1):
        gradients = left[k] * scales[k] + more[k] * scales[k]
        one, other = max(abs(gradients) - l1, 0.0), max(abs(whole[k] - gradients) - l1, 0.0)
        squares += one * one
        others += other * other
    gain: float = (squares / (weight + l2) + others / (rest + l2) - base) * 0.5
    return gain
