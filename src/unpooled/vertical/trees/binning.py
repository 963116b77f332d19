"""Numbers as bins: edges learned from training rows, the bins of any rows, and bundles of features that never collide.

Bins are ranges of values with about as many rows each (`vertical.edges`), the same everywhere for the same rows.
Missing values (not-a-number) have a bin of their own if there were any in training.

With `min_rows` = k no bin has fewer than k rows: edges that would leave fewer are left out, and missing values, or all
others, that are fewer join the feature's usual, most frequent bin. That suits those who show bins without seeing nodes.

Features of which no two are away from their usual bin in the same training row, such as the levels of a
category written as columns of 0 and 1, are bundled: they cost as much as one column, and nothing is lost.

>>> ages = np.array([[30.0], [50.0], [40.0], [np.nan]])
>>> binning = fit_bins(ages, ["age"], bins=8, party="clinic")
>>> binning.features[0].edges
(35.0, 45.0)
>>> apply_bins(binning, np.array([[35.0], [99.0], [np.nan]]), "clinic").tolist()
[[0], [2], [3]]
>>> fit_bins(ages, ["age"], bins=8, min_rows=2, party="clinic").features[0]
FeatureBins(name='age', column=0, edges=(), missing='usual', usual=0)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from unpooled import on_disk
from unpooled.arrays import Bytes, Floats, Ints
from unpooled.errors import InputError
from unpooled.vertical.edges import edges_of
from unpooled.vertical.model_file import Saved
from unpooled.vertical.trees.bundles import Bins, Feature, Layout, narrow, to_physical_bins
from unpooled.workers import on_cluster

LEAST_BINS, MOST_BINS = 2, 256
_ROWS_AT_ONCE = 2**16
MISSING = 2**16 - 1
"""Stands in place of a bin where a value is missing and none was in training."""


class FeatureBins(Saved, strict=True, hide_input_in_errors=True):
    """One feature: bin b holds values up to edges[b], the last one the rest; `column` is its place in the matrix.

    `missing`: whether missing values have a bin of their own, after the others; or they are in the `usual` one.
    """

    name: str
    column: Annotated[int, Field(ge=0)]
    edges: Annotated[tuple[FiniteFloat, ...], Field(max_length=MOST_BINS - 1)]
    missing: bool | Literal["usual"]
    usual: int

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if any(one >= other for one, other in pairwise(self.edges)):
            raise ValueError("the edges do not rise")
        if not 0 <= self.usual < self.feature.size:
            raise ValueError("the usual bin is not there")
        return self

    @property
    def feature(self) -> Feature:
        """What of it is public."""
        return Feature(len(self.edges) + 1, self.missing is True, self.usual)

    def bins_of(self, values: Floats) -> Bins:
        """The bins of any values, `MISSING` where one is missing and none was in training."""
        last = len(self.edges) + 1
        bins = np.searchsorted(np.array(self.edges, np.float64), values).astype(np.uint16)
        bins[np.isnan(values)] = last if self.missing is True else self.usual if self.missing else MISSING
        return bins

    def in_one_bin(self) -> FeatureBins:
        """The same with everything in one bin."""
        return self.model_copy(update={"edges": (), "missing": "usual" if self.missing else False, "usual": 0})


class Binning(Saved, strict=True, hide_input_in_errors=True):
    """A party's features in the order in which it presents them, and which of them share a column; part of a model."""

    features: tuple[FeatureBins, ...]
    bundles: tuple[tuple[int, ...], ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if sorted(feature.column for feature in self.features) != list(range(len(self.features))):
            raise ValueError("the features are not the columns of one matrix, each once")
        try:
            self.layout.check()
        except InputError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def layout(self) -> Layout:
        """What of it is public."""
        return Layout(tuple(feature.feature for feature in self.features), self.bundles)


@dataclass(frozen=True, eq=False)
class Binned:
    """Training rows: their bins by feature, and by column as they are multiplied."""

    feature_bins: Bins
    columns: Bins
    layout: Layout


def fit_bins(
    matrix: Floats,
    names: Sequence[str],
    *,
    bins: int | Sequence[int],
    order: Ints | None = None,
    bundle: bool = True,
    blocks: Sequence[int] = (),
    most_thresholds: int | None = None,
    min_rows: int = 1,
    party: str,
) -> Binning:
    """Learn bins from training rows, at most so many of each column of the matrix.

    Feature i is the matrix's column `order[i]`, if an order is given: others see features in that order alone. All
    features together get no more edges than `most_thresholds`, shared out evenly. Only features of the same block are
    bundled; `blocks` are the lengths of runs of features. Every bin has at least `min_rows` rows, also the one that the
    features of a bundle leave over.
    """
    most_bins = [bins] * len(names) if isinstance(bins, int) else bins
    columns = _checked_order(matrix, names, most_bins, order, most_thresholds, party)
    wanted = ((_finite(matrix, column, names[column], party), most_bins[column], min_rows) for column in columns)
    edges = list(on_cluster(_edges_from, wanted, matrix.size))
    if most_thresholds is not None:
        shares = _shared_out([len(each) for each in edges], most_thresholds)
        edges = [
            each if share >= len(each) else edges_of(_column(matrix, column), share + 1, min_rows)
            for each, share, column in zip(edges, shares, columns, strict=True)
        ]
    pairs = zip(columns, edges, strict=True)
    work = ((names[column], column, _column(matrix, column), each, min_rows) for column, each in pairs)
    features, away = list[FeatureBins](), list[Bytes]()
    for feature, bits in on_cluster(_feature_of, work, matrix.size):
        features.append(feature)
        away.append(bits)
    lengths = list(blocks) or [len(features)]
    if sum(lengths) != len(features):
        raise InputError(f"{party}: the blocks have other columns than there are")
    bundles = _bundles_in(away, len(matrix), features, lengths if bundle else [1] * len(features))
    return Binning(features=_covered(away, len(matrix), features, bundles, min_rows), bundles=bundles)


def _feature_of(work: tuple[str, int, Floats, Floats, int]) -> tuple[FeatureBins, Bytes]:
    """A feature with these edges, and a bit for each row that is away from its usual bin.

    Where too few values are missing, or too few are not, all share the usual bin.
    """
    name, column, values, edges, min_rows = work
    missing = np.isnan(values)
    gone = int(missing.sum())
    few = any(0 < rows < min_rows for rows in (gone, len(values) - gone))
    bins = np.searchsorted(edges, values[~missing])
    if gone and not few:
        bins = np.append(bins, np.full(gone, len(edges) + 1))
    usual = int(np.bincount(bins, minlength=1).argmax())
    kept: bool | Literal["usual"] = "usual" if gone and few else bool(gone)
    feature = FeatureBins(name=name, column=column, edges=tuple(edges.tolist()), missing=kept, usual=usual)
    return feature, np.packbits(feature.bins_of(values) != usual)


def _covered(
    masks: Sequence[Bytes], rows: int, features: Sequence[FeatureBins], bundles: Sequence[Sequence[int]], min_rows: int
) -> tuple[FeatureBins, ...]:
    """Where a bundle's features leave too few rows over, show less of them, the smallest first, until it has more."""
    kept = list(features)
    for bundle in bundles:
        away = {place: _ones(masks[place]) for place in bundle}
        rest = rows - sum(away.values())  # since no row is away in two of them
        for place in sorted(bundle, key=lambda place: away[place]) if len(bundle) > 1 else ():
            if 0 < rest < min_rows and away[place]:
                kept[place] = features[place].in_one_bin()
                rest += away[place]
    return tuple(kept)


def _checked_order(
    matrix: Floats,
    names: Sequence[str],
    bins: Sequence[int],
    order: Ints | None,
    most_thresholds: int | None,
    party: str,
) -> list[int]:
    """The columns in the order of features, if bins can be learned from them."""
    if not all(LEAST_BINS <= most <= MOST_BINS for most in bins):
        raise InputError(f"{party}: a column has {LEAST_BINS} to {MOST_BINS} bins")
    if not matrix.shape[1] == len(names) == len(bins):
        raise InputError(f"{party}: {len(names)} names for {matrix.shape[1]} columns")
    if not len(matrix):
        raise InputError(f"{party}: there are no rows to learn bins from")
    if most_thresholds is not None and most_thresholds < 0:
        raise InputError(f"{party}: the most thresholds must not be negative")
    columns = list(range(len(names))) if order is None else [int(column) for column in order]
    if sorted(columns) != list(range(len(names))):
        raise InputError(f"{party}: the order of the columns does not name each of them once")
    return columns


def _bundles_in(
    masks: Sequence[Bytes], rows: int, features: Sequence[FeatureBins], lengths: Sequence[int]
) -> tuple[tuple[int, ...], ...]:
    """The bundles of features within runs of so many features each."""
    ends = list(accumulate(lengths))
    return tuple(
        tuple(begin + place for place in together)
        for begin, end in zip([0, *ends], ends, strict=False)
        for together in _bundles(masks[begin:end], rows, features[begin:end])
    )


def apply_bins(binning: Binning, matrix: Floats, party: str) -> Bins:
    """The bins of any rows, by feature, from a matrix whose columns are those that the bins were learned from.

    A missing value is `MISSING` where training had none.
    """
    found = np.empty((len(matrix), len(binning.features)), np.uint16)
    for place, bins in enumerate(_bins_by_feature(binning, matrix, party)):
        found[:, place] = bins
    return found


def binned(binning: Binning, matrix: Floats, party: str, folder: Path | None = None) -> Binned:
    """The bins of the training rows, or of some of them; in files in a folder, if one is given."""
    layout = binning.layout
    feature_bins = _by_row(_training_bins(binning, matrix, party), len(matrix), layout, folder)
    columns = to_physical_bins(layout, feature_bins)
    for bins in (feature_bins, columns):
        bins.setflags(write=False)  # so that one mask may hide them again and again without a look at all of them
    return Binned(feature_bins, columns, layout)


def _bins_by_feature(binning: Binning, matrix: Floats, party: str) -> Iterator[Bins]:
    """The bins of one feature after the other."""
    _check_columns(binning, matrix, party)
    work = ((feature, _finite(matrix, feature.column, feature.name, party)) for feature in binning.features)
    return on_cluster(_bins_of, work, matrix.size)


def _training_bins(binning: Binning, matrix: Floats, party: str) -> Iterator[Bins]:
    """The same for rows in which no more is missing than when bins were learned."""
    for bins in _bins_by_feature(binning, matrix, party):
        if (bins == MISSING).any():
            reason = "a value is missing in a column that had none missing when its bins were learned"
            raise InputError(f"{party}: {reason}")
        yield bins


def _by_row(columns: Iterator[Bins], rows: int, layout: Layout, folder: Path | None) -> Bins:
    """Columns as rows × features; a file of rows is written from one of columns, block by block."""
    width, kind = len(layout.features), narrow(feature.size for feature in layout.features)
    if folder is None:
        found = np.empty((rows, width), kind)
        for place, bins in enumerate(columns):
            found[:, place] = bins
        return found
    by_column = on_disk.empty((width, rows), kind, folder)
    for place, bins in enumerate(columns):
        by_column[place] = bins
        on_disk.let_go(by_column)
    found = on_disk.empty((rows, width), kind, folder)
    for begin in range(0, rows, _ROWS_AT_ONCE):
        block = slice(begin, begin + _ROWS_AT_ONCE)
        found[block] = by_column[:, block].T
    on_disk.let_go(by_column)
    return found


def _check_columns(binning: Binning, matrix: Floats, party: str) -> None:
    """Refuse other columns than those that the bins were learned from."""
    if matrix.shape[1] != len(binning.features):
        raise InputError(f"{party}: {matrix.shape[1]} columns, where there were {len(binning.features)} in training")


def _finite(matrix: Floats, column: int, name: str, party: str) -> Floats:
    """A column of a matrix, if no value of it is infinite."""
    values = _column(matrix, column)
    infinite = np.flatnonzero(np.isinf(values))
    if len(infinite):
        raise InputError(f"{party}: column '{name}': row {infinite[0] + 1}: an infinite value")
    return values


def _column(matrix: Floats, column: int) -> Floats:
    """A column of a matrix, copied, so that it can lie in a file."""
    values = matrix[:, column].copy()
    on_disk.let_go(matrix)
    return values


def _ones(bits: Bytes) -> int:
    return int(np.bitwise_count(bits).sum())


def _bins_of(work: tuple[FeatureBins, Floats]) -> Bins:
    feature, values = work
    return feature.bins_of(values)


def _edges_from(work: tuple[Floats, int, int]) -> Floats:
    return edges_of(*work)


def _shared_out(wanted: Sequence[int], most: int) -> list[int]:
    """What each gets if all together get at most so many: evenly, and the first ones get what is left over."""
    shares = [0] * len(wanted)
    while open_ones := [place for place, share in enumerate(shares) if share < wanted[place]]:
        each, left = divmod(most - sum(shares), len(open_ones))
        if each == 0:
            for place in open_ones[:left]:
                shares[place] += 1
            break
        for place in open_ones:
            shares[place] = min(wanted[place], shares[place] + each)
    return shares


def _bundles(masks: Sequence[Bytes], rows: int, features: Sequence[FeatureBins]) -> tuple[tuple[int, ...], ...]:
    """Put features together of which no two are away from their usual bin in the same row, the fullest ones first."""
    away = [_ones(mask) for mask in masks]
    bundles: list[list[int]] = []
    taken: list[Bytes] = []
    free: list[int] = []
    for place in sorted(range(len(features)), key=lambda place: -away[place]):
        extra = features[place].feature.size - 1
        for number, mask in enumerate(taken):
            if extra <= free[number] and not (mask & masks[place]).any():
                bundles[number].append(place)
                mask |= masks[place]
                free[number] -= extra
                break
        else:
            bundles.append([place])
            taken.append(masks[place].copy())
            free.append(MOST_BINS - 1 - extra if 2 * away[place] <= rows else -1)
    return tuple(sorted(tuple(sorted(bundle)) for bundle in bundles))
