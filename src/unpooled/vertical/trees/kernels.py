"""The compiled loops of trees (`unpooled.compiled`); each gives what the function that calls it gives with numpy.

Rows of nodes are parts of an order: where each begins, how many rows it has, and what a row's number is more than its
place among the bins. Places without a sign spare a check for negative ones.
"""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Bools, Bytes, Floats, Ints, Ints32, Ring
from unpooled.compiled import compiled
from unpooled.vertical.trees.bundles import Bins


@compiled
def bin_counts(columns: Bins, firsts: Ring, order: Ints, begins: Ints, counts: Ints, shifts: Ints, bins: int) -> Ints:
    """How many rows each node has in each bin."""
    found = np.zeros(len(begins) * bins, np.int64)
    for node in range(len(begins)):
        of_node = found[node * bins : (node + 1) * bins]
        for at in range(begins[node], begins[node] + counts[node]):
            row = np.uint64(order[at] - shifts[node])
            for column in range(columns.shape[1]):
                of_node[firsts[column] + np.uint64(columns[row, column])] += 1
    return found


@compiled
def bin_sums(
    columns: Bins, firsts: Ring, order: Ints, begins: Ints, counts: Ints, shifts: Ints, bins: int, y: Ints32
) -> tuple[Ints, Ints]:
    """The sums of y over the rows of each node in each bin, and how many rows these are."""
    width = y.shape[1]
    sums, found = np.zeros((len(begins) * bins, width), np.int64), np.zeros(len(begins) * bins, np.int64)
    for node in range(len(begins)):
        for place in range(begins[node], begins[node] + counts[node]):
            row = np.uint64(order[place] - shifts[node])
            for column in range(columns.shape[1]):
                at = np.uint64(node * bins) + firsts[column] + np.uint64(columns[row, column])
                found[at] += 1
                for k in range(width):
                    sums[at, k] += y[order[place], k]
    return sums, found


@compiled
def bin_sums_of_pairs(
    columns: Bins,
    firsts: Ring,
    order: Ints,
    begins: Ints,
    counts: Ints,
    shifts: Ints,
    bins: int,
    y: Ints32,
    at_once: int,
    below_one: int,
    below_other: int,
) -> tuple[Ints, Ints]:
    """The same where y has two columns: both sums and the count of so many rows are one word, with so many bits below.

    So a row is added to a bin in one step, and a node's bins take little room while its rows are added.
    """
    sums, found = np.zeros((len(begins) * bins, 2), np.int64), np.zeros(len(begins) * bins, np.int64)
    words = np.empty(bins, np.int64)
    for node in range(len(begins)):
        end = begins[node] + counts[node]
        for begin in range(begins[node], end, at_once):
            words[:] = 0
            for place in range(begin, min(begin + at_once, end)):
                number = np.uint64(order[place])
                row = np.uint64(order[place] - shifts[node])
                word = (np.int64(y[number, 0]) << below_one) + (np.int64(y[number, 1]) << below_other) + 1
                for column in range(columns.shape[1]):
                    words[firsts[column] + np.uint64(columns[row, column])] += word
            for at in range(bins):
                word = words[at]
                rows = word & ((1 << below_other) - 1)
                rest = ((word - rows) << (64 - below_one)) >> (64 - below_one)  # with its sign
                found[node * bins + at] += rows
                sums[node * bins + at, 0] += (word - rows - rest) >> below_one
                sums[node * bins + at, 1] += rest >> below_other
    return sums, found


@compiled
def shown(
    columns: Bins, firsts: Ring, order: Ints, begins: Ints, counts: Ints, shifts: Ints, bins: int, tables: Bins
) -> Bins:
    """The bin of each row in each column, as the table of its node shows it."""
    found = np.empty((counts.sum(), columns.shape[1]), tables.dtype)
    place = 0
    for node in range(len(begins)):
        table = tables[node * bins : (node + 1) * bins]
        for at in range(begins[node], begins[node] + counts[node]):
            row = np.uint64(order[at] - shifts[node])
            for column in range(columns.shape[1]):
                found[place, column] = table[firsts[column] + np.uint64(columns[row, column])]
            place += 1
    return found


@compiled
def right_of(
    features: Bins, order: Ints, begins: Ints, counts: Ints, shifts: Ints, splits: Ints32, right: Bools
) -> None:
    """Whether the bin of each row is after the place of its node's split, and before its end.

    A split is a feature, -1 for none, a place and an end.
    """
    at = 0
    for node in range(len(begins)):
        feature, place, end = splits[node]
        if feature >= 0:
            for number in range(counts[node]):
                found = features[np.uint64(order[begins[node] + number] - shifts[node]), np.uint64(feature)]
                right[at + number] = (found > place) & (found < end)
        at += counts[node]


@compiled
def right_totals(y: Ints32, order: Ints, begins: Ints, counts: Ints, sides: Bools) -> tuple[Ints, Ints]:
    """The sums of y on the right of each node, and how many rows are there."""
    width = y.shape[1]
    sums, on_the_right = np.zeros((len(begins), width), np.int64), np.zeros(len(begins), np.int64)
    at = 0
    for node in range(len(begins)):
        if width == 2:  # a loop over two columns of y takes twice as long
            one, two, rows = np.int64(0), np.int64(0), np.int64(0)
            for place in range(counts[node]):
                number, side = np.uint64(order[begins[node] + place]), np.int64(sides[at + place])
                one += np.int64(y[number, 0]) * side
                two += np.int64(y[number, 1]) * side
                rows += side
            sums[node, 0], sums[node, 1], on_the_right[node] = one, two, rows
        else:
            for place in range(counts[node]):
                number, side = np.uint64(order[begins[node] + place]), np.int64(sides[at + place])
                on_the_right[node] += side
                for k in range(width):
                    sums[node, k] += np.int64(y[number, k]) * side
        at += counts[node]
    return sums, on_the_right


@compiled
def move_apart(order: Ints, begins: Ints, counts: Ints, sides: Bools) -> Ints:
    """Move the rows of each node that are on the left to its front; how many are on the right."""
    on_the_right = np.empty(len(begins), np.int64)
    right = np.empty(counts.max() if len(counts) else 0, order.dtype)
    at = 0
    for node in range(len(begins)):
        left, behind = begins[node], 0
        for place in range(begins[node], begins[node] + counts[node]):
            row, side = order[place], sides[at]
            order[left] = row  # without a branch, which would often be guessed wrongly
            right[behind] = row
            left += not side
            behind += side
            at += 1
        order[left : left + behind] = right[:behind]
        on_the_right[node] = behind
    return on_the_right


@compiled
def merged(
    counts: Ints, ends: Bools, joined: Bools, starts: Ints, values: Ints, missing: Bools, k: int
) -> tuple[Bools, Bools]:
    """The groups of the parents of families, whose rows in each bin are counted, merged until none has few rows."""
    families, siblings, _ = counts.shape
    found, found_joined = ends.copy(), joined.copy()
    before, rows = np.zeros(siblings, np.int64), np.zeros(siblings, np.int64)
    for family in range(families):
        for feature in range(len(starts)):
            first, last = starts[feature], starts[feature] + values[feature] - 1
            joins = joined[family, feature]
            for sibling in range(siblings):
                before[sibling] = rows[sibling] = 0
                if missing[feature]:
                    joins |= 0 < counts[family, sibling, last + 1] < k
            for at in range(first, last + 1):
                few = False
                for sibling in range(siblings):
                    rows[sibling] += counts[family, sibling, at]
                    if at == last and missing[feature] and joins:
                        rows[sibling] += counts[family, sibling, last + 1]
                    few |= 0 < rows[sibling] - before[sibling] < k
                found[family, at] = ends[family, at] and not few
                if found[family, at]:
                    before[:] = rows
            for sibling in range(siblings):  # a last group with too few rows needs the latest one that has any
                if 0 < rows[sibling] - before[sibling] < k:
                    joins |= missing[feature] and before[sibling] == 0
                    at, running = first, 0
                    while at < last:
                        running += counts[family, sibling, at]
                        if running >= before[sibling]:
                            found[family, at] = False
                        at += 1
            found[family, last] = True
            found_joined[family, feature] = joins
    return found, found_joined


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
        if width == 2:  # by far the most frequent, and a loop over two columns takes twice as long
            found = _choice_of_pair(
                sums[node], totals[node], scale[node], scaled[node], base[node], possible[node], joined[node],
                least[node], owners, missing_bins, limits, sums_left[node],
            )  # fmt: skip
            gains[node], chosen[node], goes_left[node] = found
            continue
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


@compiled
def _choice_of_pair(
    sums: Ints,
    totals: Ints,
    scale: Floats,
    whole: Floats,
    base: float,
    possible: Bools,
    joined: Bools,
    least: float,
    owners: Ints,
    missing_bins: Ints,
    limits: tuple[float, float, float],
    sums_left: Ints,
) -> tuple[float, int, bool]:
    """The best split of one node where there are gradients and weights alone."""
    l1, l2, minimum_child_weight = limits
    best, chosen, goes_left = -np.inf, 0, False
    one, other = np.int64(0), np.int64(0)
    for at in range(len(possible)):
        one += sums[at, 0]
        other += sums[at, 1]
        if not possible[at]:
            continue
        feature = owners[at]
        g, h = one - feature * totals[0], other - feature * totals[1]
        gradients, weight = g * scale[0], h * scale[1]
        missing = missing_bins[feature]
        moves = missing >= 0 and h > 0 and not joined[feature]
        for moved in range(1 + moves):
            if moved:
                gradients += sums[missing, 0] * scale[0]
                weight += sums[missing, 1] * scale[1]
            rest = whole[1] - weight
            lightest = min(weight, rest)
            if (lightest < minimum_child_weight if minimum_child_weight else lightest <= 0.0) or lightest < least:
                continue
            left, right = max(abs(gradients) - l1, 0.0), max(abs(whole[0] - gradients) - l1, 0.0)
            gain = (left * left / (weight + l2) + right * right / (rest + l2) - base) * 0.5
            if gain > best:
                best, chosen, goes_left = gain, at, moved == 1
                sums_left[0], sums_left[1] = g, h
    return best, chosen, goes_left


@compiled
def representatives(ends: Bools, joined: Bools, starts: Ints, values: Ints, missing: Bools, usual: Ints) -> Ints:
    """For each node and logical bin the usual bin of its feature if that is in the same group, or the group's first."""
    found = np.empty(ends.shape, np.int64)
    for node in range(ends.shape[0]):
        for feature in range(len(starts)):
            begin, past = starts[feature], starts[feature] + values[feature]
            end = past + missing[feature]
            for at in range(begin + 1, end + 1):
                if at == end or (not joined[node, feature] if at == past else ends[node, at - 1]):
                    found[node, begin:at] = usual[feature] if begin <= usual[feature] < at else begin
                    begin = at
    return found


@compiled
def rows_at(counts: Ints, shown: Ints, owner: Ints, usual: Ints) -> Ints:
    """How many rows are in bins that are shown as the usual one of their feature, nodes × siblings × features."""
    found = np.zeros((counts.shape[0], counts.shape[1], len(usual)), np.int64)
    for node in range(counts.shape[0]):
        for sibling in range(counts.shape[1]):
            for at in range(counts.shape[2]):
                if shown[node, at] == usual[owner[at]]:
                    found[node, sibling, owner[at]] += counts[node, sibling, at]
    return found


@compiled
def cover(
    ends: Bools,
    joined: Bools,
    inside: Ints,
    totals: Ints,
    bundle: Ints,
    starts: Ints,
    values: Ints,
    missing: Bools,
    k: int,
) -> None:
    """Show less of a bundle's features, those with the fewest rows away from bin 0 first, until that has rows enough.

    `inside` and `totals` say how many rows each sibling has in the group of each feature's usual bin, and in all.
    """
    for node in range(len(ends)):
        away = totals[node] - inside[node][:, bundle].T
        rest = totals[node] - away.sum(axis=0)
        sizes = away.sum(axis=1)
        while ((rest > 0) & (rest < k)).any() and sizes.any():
            least = -1
            for place in range(len(bundle)):
                if sizes[place] > 0 and (least < 0 or sizes[place] < sizes[least]):
                    least = place
            feature = bundle[least]
            ends[node, starts[feature] : starts[feature] + values[feature] - 1] = False
            joined[node, feature] = missing[feature]
            rest += away[least]
            sizes[least] = 0


@compiled
def reached(split: Ints32, at: Ints32, reach: Bools) -> None:
    """Which splits × rows are reached, where each tree has each row at a node."""
    for tree in range(at.shape[0]):
        for row in range(at.shape[1]):
            reach[split[at[tree, row]], row] = True


@compiled
def spread(values: Bytes, places: Bytes, into: Bytes) -> None:
    """Put values, 0 or 1, one after the other where `places` has a 1, and `into` a 0. There is at least one."""
    place, last = 0, len(values) - 1
    for at in range(places.shape[0]):
        for row in range(places.shape[1]):
            into[at, row] |= places[at, row] & values[min(place, last)]  # without a branch, which would be guessed
            place += places[at, row]


@compiled
def go_on(first: Ints32, split: Ints32, at: Ints32, sides: Bools) -> None:
    """Send each row in each tree to the next node."""
    for tree in range(at.shape[0]):
        for row in range(at.shape[1]):
            node = at[tree, row]
            at[tree, row] = first[node] + sides[split[node], row]
