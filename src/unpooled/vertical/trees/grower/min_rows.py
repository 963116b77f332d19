"""Neighbouring bins shown as one, so that the active party sees no sum over a few rows of a node.

With `min_rows` = k every node has at least k rows, or none, in each group of bins that is shown. Of two siblings one is
asked about and the other is what their parent has besides. So they share their groups, and these are unions of their
parent's: then no difference of two histograms is a sum over fewer than k rows of a group either. The bin for missing
values is a group of its own, or *joined* to the last group of its feature.

>>> from unpooled.vertical.trees.bundles import Feature
>>> layout = Layout((Feature(values=4, missing=True, usual=1),), ((0,),))
>>> groups = merged(layout, whole(layout, 1), np.array([[[5, 2, 4, 9, 3]]]), k=5)
>>> groups.ends.tolist(), groups.missing_joined.tolist()
([[True, False, True, True, False]], [[True]])
>>> representatives(layout, groups).tolist()
[[0, 1, 1, 3, 3]]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Ints
from unpooled.compiled import worthwhile
from unpooled.vertical.trees.bundles import Bins, Layout, narrow


@dataclass(frozen=True, eq=False)
class Groups:
    """The groups of several nodes, or pairs of siblings.

    `ends`, nodes × logical bins: whether a group ends at a bin; always at the last value of a feature, never at its bin
    for missing values. `missing_joined`, nodes × features: whether missing values belong to the last group.
    """

    ends: Bools
    missing_joined: Bools


@dataclass(frozen=True, eq=False)
class _Steps:
    """A way through all features at once: their first bins, then their second bins, and so on.

    Features with most bins come first, so that those that still have one at some step are at the front; a feature's
    rank is its place in this order. `bins` are the logical bins of values, `ranks` those of their features, `widths`
    how many bins each step has; `last` says, by rank, where in `bins` a feature's last one is. The rest is about
    features with missing values: which they are, their ranks, and those bins.
    """

    bins: Ints
    ranks: Ints
    widths: tuple[int, ...]
    last: Ints
    with_missing: Ints
    ranks_with_missing: Ints
    missing: Ints


@lru_cache(maxsize=64)
def _steps(layout: Layout) -> _Steps:
    values = layout.values
    order = np.argsort(-values, kind="stable")
    rank = np.argsort(order)
    of_values = np.flatnonzero(layout.place < values[layout.owner])
    bins = of_values[np.lexsort((rank[layout.owner[of_values]], layout.place[of_values]))]
    where = np.empty(layout.logical, np.int64)
    where[bins] = np.arange(len(bins))
    with_missing = np.flatnonzero([feature.missing for feature in layout.features])
    return _Steps(
        bins=bins,
        ranks=rank[layout.owner[bins]],
        widths=tuple(np.bincount(layout.place[bins]).tolist()),
        last=where[(layout.starts + values - 1)[order]],
        with_missing=with_missing,
        ranks_with_missing=rank[with_missing],
        missing=(layout.starts + values)[with_missing],
    )


def whole(layout: Layout, nodes: int) -> Groups:
    """Every bin a group of its own: above a root, and everywhere without `min_rows`."""
    ends = np.ones((nodes, layout.logical), bool)
    ends[:, _steps(layout).missing] = False
    return Groups(ends, np.zeros((nodes, len(layout.features)), bool))


def merged(layout: Layout, parents: Groups, counts: Ints, k: int) -> Groups:
    """The groups of the parents, merged until each sibling has at least k rows, or none, in each.

    `counts` are parents × siblings × logical bins: a root alone, or the two children of a split. From a feature's first
    bin up, a group ends as soon as it may. Missing values that are too few are joined to the last group; and as long as
    that has too few rows, it is merged with the one before it. Where all values together are too few, missing ones are
    joined as well, and there is nothing to split.
    """
    if k <= 1:
        return parents
    if worthwhile(counts.size):
        from unpooled.vertical.trees import kernels

        fields = layout.starts, layout.values, layout.missing
        return Groups(*kernels.merged(counts, parents.ends, parents.missing_joined, *fields, k))
    if not ((counts > 0) & (counts < k)).any():
        return parents
    steps = _steps(layout)
    # A sum of counts cut at k is 0, below k or not exactly when that of whole counts is, and small numbers are faster.
    narrow = np.min_scalar_type(k * (len(steps.widths) + 2))
    by_bin = np.ascontiguousarray(np.minimum(counts, k).astype(narrow).transpose(1, 2, 0))
    missing = by_bin[:, steps.missing]
    joined = parents.missing_joined.T[steps.with_missing] | _few(missing, k).any(axis=0)
    running = by_bin.take(steps.bins, axis=1)
    running[:, steps.last[steps.ranks_with_missing]] += missing * joined
    ends = parents.ends.T.take(steps.bins, axis=0)
    before = np.zeros((counts.shape[1], len(layout.features), len(counts)), narrow)  # rows in groups that have ended
    begin = previous = 0
    for width in steps.widths:
        rows, end = running[:, begin : begin + width], ends[begin : begin + width]
        if begin:
            rows += running[:, previous : previous + width]
        done = before[:, :width]
        few = _few(rows - done, k)
        np.greater(end, few[0] | few[-1], out=end)  # true where the one is and the other is not; `any` is slow
        np.maximum(done, rows * end, out=done)
        begin, previous = begin + width, begin
    # The groups before the last are in order: a last one with too few rows needs the latest group that has any.
    few = _few(running[:, steps.last] - before, k)
    limit = np.where(few, before, np.iinfo(narrow).max)
    ends &= (running < limit.take(steps.ranks, axis=1)).all(axis=0)
    ends[steps.last] = True
    joined |= (few & (before == 0)).any(axis=0)[steps.ranks_with_missing]
    found = Groups(np.zeros((len(counts), layout.logical), bool), np.zeros((len(counts), len(layout.features)), bool))
    found.ends.T[steps.bins] = ends
    found.missing_joined.T[steps.with_missing] = joined
    return found


def covered(layout: Layout, groups: Groups, counts: Ints, k: int) -> Groups:
    """Where a bundle's bin 0 would have too few rows, show less of its features, the smallest first, until it has more.

    Bin 0 has the rows in which every feature is in the group of its usual bin: what a level of a category with few rows
    is merged with, and what the other levels leave of the node's rows. `counts` are those of `merged`.
    """
    if layout.alone or not len(counts):
        return groups
    inside = _inside(layout, groups, counts)
    totals = counts[:, :, : layout.features[0].size].sum(axis=2)
    ends, joined = groups.ends.copy(), groups.missing_joined.copy()
    if worthwhile(counts.size):
        from unpooled.vertical.trees import kernels

        fields = layout.starts, layout.values, layout.missing
        for bundle in _shared(layout):
            kernels.cover(ends, joined, inside, totals, bundle, *fields, k)
        return Groups(ends, joined)
    for bundle in _shared(layout):
        away = totals[..., np.newaxis] - inside[:, :, bundle]
        rest = totals - away.sum(axis=2)
        for node in np.flatnonzero(((rest > 0) & (rest < k)).any(axis=1)).tolist():
            while ((rest[node] > 0) & (rest[node] < k)).any() and (sizes := away[node].sum(axis=0)).any():
                place = int(np.where(sizes > 0, sizes, np.iinfo(np.int64).max).argmin())
                feature, start = layout.features[bundle[place]], layout.starts[bundle[place]]
                ends[node, start : start + feature.values - 1] = False
                joined[node, bundle[place]] = feature.missing
                rest[node] += away[node, :, place]
                away[node, :, place] = 0
    return Groups(ends, joined)


@lru_cache(maxsize=64)
def _shared(layout: Layout) -> tuple[Ints, ...]:
    """The features of each bundle that has several."""
    return tuple(np.array(bundle) for bundle in layout.bundles if len(bundle) > 1)


def _inside(layout: Layout, groups: Groups, counts: Ints) -> Ints:
    """How many rows are in the group of each feature's usual bin, nodes × siblings × features."""
    shown = representatives(layout, groups)
    if worthwhile(counts.size):
        from unpooled.vertical.trees import kernels

        return kernels.rows_at(counts, shown, layout.owner, layout.usual)
    at_usual = shown == layout.usual[layout.owner]
    found: Ints = np.add.reduceat(counts * at_usual[:, np.newaxis], layout.starts, axis=2)
    return found


def _few(rows: NDArray[Any], k: int) -> Bools:
    """Where there are rows, but fewer than k: without a sign, none less one is the largest number."""
    return rows - 1 < k - 1


def representatives(layout: Layout, groups: Groups) -> Ints:
    """For each node and logical bin the one at which its rows are summed up.

    That is the feature's usual bin if the group has it, else the first bin of the group.
    """
    if worthwhile(groups.ends.size):
        from unpooled.vertical.trees import kernels

        fields = layout.starts, layout.values, layout.missing, layout.usual
        return kernels.representatives(groups.ends, groups.missing_joined, *fields)
    steps = _steps(layout)
    begins = np.empty(groups.ends.shape, bool)
    begins[:, 1:] = groups.ends[:, :-1]
    begins[:, layout.starts] = True
    begins[:, steps.missing] = ~groups.missing_joined[:, steps.with_missing]
    offset = np.arange(len(begins))[:, np.newaxis] * layout.logical
    first = np.flatnonzero(begins)
    usual = offset + layout.usual
    shown = first.copy()
    shown[np.searchsorted(first, usual, side="right") - 1] = usual
    return np.repeat(shown, np.diff(first, append=begins.size)).reshape(begins.shape) - offset


def shown_bins(layout: Layout, groups: Groups) -> Bins:
    """For each node and bin of all columns the bin within that column at which its rows are summed up.

    A group that has the usual bin of a feature in a bundle goes to bin 0, and bin 0 itself stays.
    """
    logical, inside = _columns(layout)
    return inside.take(representatives(layout, groups).take(logical, axis=1))


@lru_cache(maxsize=64)
def _columns(layout: Layout) -> tuple[Ints, Bins]:
    """For each bin of all columns its logical bin, and for each logical bin the bin within its column."""
    logical = np.empty(layout.bins, np.int64)
    logical[layout.physical] = np.arange(layout.logical)
    return logical, layout.inside.astype(narrow(layout.sizes))
