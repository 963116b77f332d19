"""A Gaussian copula for columns of all types.

Every cell stands for an interval of a hidden normal variable: from the fraction of its column's values below it to the
fraction up to it, as normal quantiles. Equal values share an interval, so that counts, booleans and levels need nothing
of their own. The levels of a category, which have no order, are sorted by the mean of the column they depend on most.

The correlation of the hidden variables is estimated by Gibbs sampling (Hoff, Annals of Applied Statistics 2007): each
variable is drawn, within its intervals, given the others, and the correlation is computed again. Missing cells have no
interval and are drawn too.

To fill a row, the hidden variables of its known cells are drawn in the same way, then those of the wanted cells, from
the normal distribution given the known ones. They become values by their columns' empirical quantiles, so every value
is one that was observed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats, Ints
from unpooled.complete.completers.completer import Completer, CompleterSettings, row_patterns, some_rows
from unpooled.complete.completers.simple import sorted_columns
from unpooled.data.coding import Column
from unpooled.data.normal import FARTHEST, cdf, quantile, truncated

_SWEEPS_PER_DRAW = 5
_LEVEL_ROWS = 5.0  # a level's mean counts as much as the overall mean if it has this many rows


class CopulaSettings(CompleterSettings):
    """Draws given the known cells, by a Gaussian copula."""

    completer: Literal["copula"] = Field("copula", description="draws given the known cells, by a Gaussian copula")
    sweeps: int = Field(30, description="sweeps of the sampler that correlations are estimated by", ge=2)
    rows: int = Field(20_000, description="the most rows that correlations are estimated from, drawn at random", ge=2)


@dataclass(frozen=True, eq=False)
class Copula:
    """Sorted values of each column by rank (`order` has the levels of a category by rank), and the correlation."""

    values: Floats
    order: Floats
    correlation: Floats


def _fit(settings: CopulaSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator) -> Copula:
    order = _level_order(columns, values)
    ranked = _by_rank(order, values)
    ordered = sorted_columns(ranked)
    low, high = _intervals(ordered, some_rows(ranked, settings.rows, rng))
    return Copula(ordered, order, _correlation(low, high, settings.sweeps, rng))


def _correlation(low: Floats, high: Floats, sweeps: int, rng: np.random.Generator) -> Floats:
    """The mean over the second half of the sweeps."""
    hidden = quantile((cdf(low) + cdf(high)) / 2.0)
    found = []
    for _ in range(sweeps):
        found.append(_shrunk_correlation(hidden))
        _sweep(hidden, low, high, found[-1], rng)
    mean: Floats = np.mean(found[len(found) // 2 :], axis=0)
    return mean


def _shrunk_correlation(hidden: Floats) -> Floats:
    """The sample's correlation, drawn towards none by as many rows as there are columns: it can always be inverted."""
    rows, columns = hidden.shape
    scale = hidden.std(axis=0)
    standard = (hidden - hidden.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    found: Floats = (standard.T @ standard) / (rows + columns)
    np.fill_diagonal(found, 1.0)
    return found


def _sweep(hidden: Floats, low: Floats, high: Floats, correlation: Floats, rng: np.random.Generator) -> None:
    """Draw each hidden variable anew, given the others."""
    precision = np.linalg.inv(correlation)
    for place in range(hidden.shape[1]):
        own = precision[place, place]
        means = hidden[:, place] - (hidden @ precision[:, place]) / own
        hidden[:, place] = truncated(means, own**-0.5, low[:, place], high[:, place], rng)


def _intervals(ordered: Floats, ranked: Floats) -> tuple[Floats, Floats]:
    """The interval of each cell; a value that was not seen has a narrow one between its neighbours."""
    low, high = np.full_like(ranked, -FARTHEST), np.full_like(ranked, FARTHEST)
    for place in range(ranked.shape[1]):
        known = ~np.isnan(ranked[:, place])
        values = ordered[~np.isnan(ordered[:, place]), place]
        below = np.searchsorted(values, ranked[known, place], "left").astype(np.float64)
        upto = np.searchsorted(values, ranked[known, place], "right").astype(np.float64)
        unseen = 0.5 * (below == upto)
        low[known, place] = quantile((below - unseen) / len(values))
        high[known, place] = quantile((upto + unseen) / len(values))
    return low, high


@dataclass(frozen=True, eq=False)
class _Link:
    """How wanted cells follow from known ones, by their places, where the same are known and wanted.

    Given the known hidden variables, with their `correlation`, the wanted have the means known @ weights, and their
    deviations are normal draws times `root`.
    """

    known: Ints
    wanted: Ints
    correlation: Floats
    weights: Floats
    root: Floats


def _link(correlation: Floats, pattern: Bools) -> _Link:
    known, wanted = (np.flatnonzero(half) for half in np.split(pattern, 2))
    among, across = correlation[np.ix_(known, known)], correlation[np.ix_(known, wanted)]
    weights = np.linalg.solve(among, across).astype(np.float64)
    rest = correlation[np.ix_(wanted, wanted)] - across.T @ weights
    root = np.linalg.cholesky(rest).astype(np.float64)
    return _Link(known, wanted, among, weights, root)


def _draw(
    _: CopulaSettings,
    __: Sequence[Column],
    state: Copula,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    low, high = _intervals(state.values, _by_rank(state.order, values))
    hidden = quantile((cdf(low) + cdf(high)) / 2.0)
    known = ~np.isnan(values)
    patterns = list(row_patterns(np.hstack([known, wanted])))
    counts = (~np.isnan(state.values)).sum(axis=0)
    while True:
        filled = values.copy()
        for pattern, rows in patterns:
            link = _link(state.correlation, pattern)
            cells = np.ix_(rows, link.known)
            given = hidden[cells]
            for _sweep_number in range(_SWEEPS_PER_DRAW if len(link.known) > 1 else 1):
                _sweep(given, low[cells], high[cells], link.correlation, rng)
            hidden[cells] = given
            drawn = given @ link.weights + rng.standard_normal((len(rows), len(link.wanted))) @ link.root.T
            places = (cdf(drawn) * counts[link.wanted]).astype(np.int64)
            ranks = state.values[np.minimum(places, counts[link.wanted] - 1), link.wanted]
            filled[np.ix_(rows, link.wanted)] = _by_level(state.order[:, link.wanted], ranks)
        yield filled


def _level_order(columns: Sequence[Column], values: Floats) -> Floats:
    """For each category its levels by rank; for other columns, which have an order, nothing."""
    order = np.full((max((len(column.levels) for column in columns), default=0), len(columns)), np.nan)
    standard = [_standard(cells) for column, cells in zip(columns, values.T, strict=True) if not column.nominal]
    for place, column in enumerate(columns):
        if column.nominal:
            means = _level_means(values[:, place], len(column.levels), standard)
            order[: len(column.levels), place] = np.argsort(means, kind="stable")
    return order


def _standard(cells: Floats) -> Floats:
    """Ranks with mean 0 and variance 1, 0 for missing cells."""
    known = ~np.isnan(cells)
    _, which, counts = np.unique(cells[known], return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2.0)[which]
    found = np.zeros(len(cells))
    found[known] = (ranks - ranks.mean()) / (ranks.std() or 1.0)
    return found


def _level_means(levels: Floats, count: int, standard: Sequence[Floats]) -> Floats:
    """The mean at each level of the column whose means vary most, drawn towards 0 at rare levels; else frequencies."""
    known = ~np.isnan(levels)
    which = levels[known].astype(np.int64)
    sizes = np.bincount(which, minlength=count).astype(np.float64)
    means = [np.bincount(which, cells[known], count) / (sizes + _LEVEL_ROWS) for cells in standard]
    return max(means, key=lambda one: float(np.sum(sizes * one**2)), default=sizes)


def _by_rank(order: Floats, values: Floats) -> Floats:
    """Values with the levels of categories replaced by their ranks."""
    ranked = values.copy()
    for place in np.flatnonzero(~np.isnan(order).all(axis=0) if len(order) else []):
        known = ~np.isnan(values[:, place])
        levels = order[~np.isnan(order[:, place]), place].astype(np.int64)
        ranked[known, place] = np.argsort(levels)[values[known, place].astype(np.int64)]
    return ranked


def _by_level(order: Floats, ranked: Floats) -> Floats:
    """What `_by_rank` did, undone."""
    values = ranked.copy()
    for place in np.flatnonzero(~np.isnan(order).all(axis=0) if len(order) else []):
        values[:, place] = order[ranked[:, place].astype(np.int64), place]
    return values


COPULA = Completer(CopulaSettings, Copula, _fit, _draw)
