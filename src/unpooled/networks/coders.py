"""How one column's cells become units of a network and come back: at most one scalar, and at most one group of units.

Exactly one unit of a group is 1. If cells of the column were missing when it was learned, the last unit of its group
stands for that. Cells are numbers as `data.coding` has them, NaN for missing ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ints
from unpooled.data.coding import Column
from unpooled.data.normal import cdf, quantile
from unpooled.networks.modes import FREQUENT, fit_modes

Way = Literal["modes", "long tails", "quantiles", "range", "positions", "ranks"]
"""How numbers and dates are coded.

`long tails` are modes, of logarithms where a column needs it. `positions` are the range, and `ranks` the quantiles,
both with scalars for classes too.
"""

_WIDTHS = 4.0  # a mode's scalar is the distance to its mean in so many standard deviations
_FARTHEST = 0.99
_POINTS = 1000
_SKEWED = 2.0
_LARGEST = 700.0  # no logarithm is larger: its exponential is still a number


@dataclass(frozen=True, eq=False)
class OneHot:
    """A unit for each of the frequent values, and one for all `others`, which have `chances`."""

    scalar: ClassVar[bool] = False

    missing: bool
    levels: Floats
    others: Floats
    chances: Floats
    nominal: bool

    @property
    def units(self) -> int:
        """How many units the group has."""
        return len(self.levels) + (len(self.others) > 0) + self.missing


@dataclass(frozen=True, eq=False)
class Modes:
    """A unit for each mode (`modes.fit_modes`), and how far from the mode's mean the cell is (Xu and others 2019)."""

    scalar: ClassVar[bool] = True

    missing: bool
    means: Floats
    spreads: Floats
    weights: Floats

    @property
    def units(self) -> int:
        """How many units the group has."""
        return len(self.means) + self.missing


@dataclass(frozen=True, eq=False)
class LongTail(Modes):
    """Modes of the logarithms of how much cells are above `shift`, but for modes of width 0 (Zhao and others 2021)."""

    shift: Floats


@dataclass(frozen=True, eq=False)
class _ScalarAlone:
    """Coders with a scalar for every cell: there are two units if cells can be missing, otherwise none."""

    scalar: ClassVar[bool] = True

    missing: bool

    @property
    def units(self) -> int:
        """How many units the group has, 0 if there is none."""
        return 2 if self.missing else 0


@dataclass(frozen=True, eq=False)
class Quantiles(_ScalarAlone):
    """The normal quantile of a cell's rank among `points`, cells of the column; equal ones have the middle."""

    points: Floats


@dataclass(frozen=True, eq=False)
class Range(_ScalarAlone):
    """From -1 for the lowest cell to 1 for the highest."""

    ends: Floats


@dataclass(frozen=True, eq=False)
class Positions(_ScalarAlone):
    """Each of the values in order has its share of the range from -1 to 1."""

    positions: Floats
    shares: Floats


Coder = OneHot | Modes | Quantiles | Range | Positions


def choose(coder: Coder, cells: Floats, rng: np.random.Generator) -> Ints:
    """The unit of each known cell, -1 if none stands for it; all 0 where there is no group."""
    if isinstance(coder, OneHot):
        nearest = _nearest(coder.levels, cells)
        unit = np.where(coder.nominal & (coder.levels[nearest] != cells), -1, nearest)
        if len(coder.others):
            other = coder.others[_nearest(coder.others, cells)] == cells
            unit = np.where(other, len(coder.levels), unit)
        return unit
    if isinstance(coder, Modes):
        return _choose_mode(coder, cells, rng)
    return np.zeros(len(cells), np.int64)


def _choose_mode(coder: Modes, cells: Floats, rng: np.random.Generator) -> Ints:
    """A frequent value is its own mode; otherwise the mode is drawn by how likely each is for the cell."""
    wide = coder.spreads > 0
    if not wide.any():
        nearest: Ints = np.abs(cells[:, np.newaxis] - coder.means).argmin(axis=1)
        return nearest
    safe = np.where(wide, coder.spreads, 1.0)
    away = (_straight(coder, cells)[:, np.newaxis] - coder.means) / safe
    log = np.log(coder.weights / safe) - 0.5 * away**2
    log[:, ~wide] = -np.inf
    chosen = draw(np.exp(log - log.max(axis=1, keepdims=True)), rng)
    for place in np.flatnonzero(~wide):
        chosen[cells == coder.means[place]] = place
    return chosen


def _straight(coder: Modes, cells: Floats) -> Floats:
    """Cells, or their logarithms if modes are of these."""
    if not isinstance(coder, LongTail):
        return cells
    logarithms: Floats = np.log(np.maximum(cells - coder.shift[0], np.finfo(np.float64).tiny))
    return logarithms


def scalars_of(coder: Coder, cells: Floats, chosen: Ints) -> Floats:
    """The scalars of known cells whose units were chosen."""
    if isinstance(coder, Modes):
        spreads = coder.spreads[chosen]
        away = (_straight(coder, cells) - coder.means[chosen]) / (_WIDTHS * np.where(spreads > 0, spreads, 1.0))
        return np.where(spreads > 0, np.clip(away, -_FARTHEST, _FARTHEST), 0.0)
    if isinstance(coder, Quantiles):
        last = len(coder.points) - 1
        low, high = (np.searchsorted(coder.points, cells, side) for side in ("left", "right"))
        first, after = coder.points[np.clip(low - 1, 0, last)], coder.points[np.minimum(low, last)]
        between = low - 1 + (cells - first) / np.where(after > first, after - first, 1.0)
        ranks = np.clip(np.where(low == high, between, (low + high - 1) / 2.0), 0, last)
        return quantile((ranks + 0.5) / (last + 1))
    if isinstance(coder, Range):
        lowest, width = float(coder.ends[0]), float(np.ptp(coder.ends))
        return np.clip((cells - lowest) / width * 2.0 - 1.0, -1.0, 1.0) if width else np.zeros(len(cells))
    if isinstance(coder, Positions):
        middles = 2.0 * np.cumsum(coder.shares) - coder.shares - 1.0
        return middles[_nearest(coder.positions, cells)]
    return np.zeros(len(cells))


def cells_of(coder: Coder, scalars: Floats, chosen: Ints, rng: np.random.Generator) -> Floats:
    """The cells that scalars and chosen units stand for, none of them missing."""
    found: Floats
    if isinstance(coder, OneHot):
        other = chosen >= len(coder.levels)
        found = coder.levels[np.where(other, 0, chosen)]
        if other.any():
            found[other] = rng.choice(coder.others, int(other.sum()), p=coder.chances / coder.chances.sum())
    elif isinstance(coder, Modes):
        found = coder.means[chosen] + _WIDTHS * coder.spreads[chosen] * np.clip(scalars, -1.0, 1.0)
        if isinstance(coder, LongTail):
            wide = coder.spreads[chosen] > 0
            found[wide] = np.exp(np.minimum(found[wide], _LARGEST)) + coder.shift[0]
    elif isinstance(coder, Quantiles):
        ranks = cdf(scalars) * len(coder.points) - 0.5
        found = np.interp(ranks, np.arange(len(coder.points)), coder.points)
    elif isinstance(coder, Positions):
        ends = 2.0 * np.cumsum(coder.shares[:-1]) - 1.0
        found = coder.positions[np.searchsorted(ends, scalars, "right")]
    else:
        low, high = coder.ends
        found = low + (np.clip(scalars, -1.0, 1.0) + 1.0) / 2.0 * (high - low)
    return found


_ARRAYS: Mapping[type[Any], tuple[str, ...]] = {
    OneHot: ("levels", "others", "chances"),
    Modes: ("means", "spreads", "weights"),
    LongTail: ("means", "spreads", "weights", "shift"),
    Quantiles: ("points",),
    Range: ("ends",),
    Positions: ("positions", "shares"),
}
"""What each coder keeps besides `missing`; the names tell which coder it is."""


def learn_coder(column: Column, cells: Floats, way: Way, levels: int, discrete_values: int) -> Coder:
    """The coder of a column with at least one known cell."""
    known = cells[~np.isnan(cells)]
    missing = len(known) < len(cells)
    values, counts = np.unique(known, return_counts=True)
    few = len(values) <= discrete_values and (column.whole or 10 * len(values) <= len(known))
    if way in ("positions", "ranks") and (not column.is_number or few):
        shares = np.full(len(values), 1.0 / len(values)) if way == "positions" else counts / len(known)
        return Positions(missing, values, shares)
    if not column.is_number or few:
        order = np.argsort(-counts, kind="stable")
        own, others = np.sort(order[:levels]), np.sort(order[levels:])
        return OneHot(missing, values[own], values[others], counts[others] / len(known), column.nominal)
    if way == "long tails" and (shift := _long_tail(values, counts)) is not None:
        means, spreads, weights = fit_modes(np.log(known - shift))
        frequent = spreads == 0
        means[frequent] = values[_nearest(np.log(values - shift), means[frequent])]
        return LongTail(missing, means, spreads, weights, np.array([shift]))
    if way in ("modes", "long tails"):
        return Modes(missing, *fit_modes(known))
    if way in ("range", "positions"):
        return Range(missing, np.array([values[0], values[-1]]))
    if len(known) > _POINTS:
        known = np.sort(known)[np.rint(np.linspace(0, len(known) - 1, _POINTS)).astype(np.int64)]
    return Quantiles(missing, np.sort(known))


def _long_tail(values: Floats, counts: Ints) -> float | None:
    """What to subtract so that logarithms of a column's values have no long tail; None if it has none to begin with.

    Values that are frequent by themselves do not count.
    """
    rest = counts < max(FREQUENT * counts.sum(), 2)
    if rest.sum() < 2:
        return None
    away = values - values[0]
    shift = 0.0 if values[0] > 0 else float(values[0] - np.median(away[rest]) / 10.0)
    skewness = _skewness(values[rest], counts[rest])
    above = values - shift
    straight = above.min() > 0 and abs(_skewness(np.log(above[rest]), counts[rest])) < skewness
    return shift if skewness > _SKEWED and straight else None


def _skewness(values: Floats, counts: Ints) -> float:
    centre = np.average(values, weights=counts)
    second, third = (np.average((values - centre) ** power, weights=counts) for power in (2, 3))
    return float(third / second**1.5) if second > 0 else 0.0


def coder_arrays(coder: Coder) -> dict[str, Floats]:
    """What a coder keeps, by name."""
    kept = {name: getattr(coder, name) for name in _ARRAYS[type(coder)]}
    return {"missing": np.array([float(coder.missing)]), **kept}


def coder_from(column: Column, arrays: Mapping[str, NDArray[Any]]) -> Coder:
    """What `coder_arrays` was told of; ValueError if it cannot have been that."""
    names = set(arrays) - {"missing"}
    kind = next((kind for kind, own in _ARRAYS.items() if set(own) == names), None)
    fits = all(array.dtype == np.float64 and array.ndim == 1 and np.isfinite(array).all() for array in arrays.values())
    if kind is None or not fits or "missing" not in arrays or arrays["missing"].tolist() not in ([0.0], [1.0]):
        raise ValueError("these are not the arrays of a coder")
    missing = bool(arrays["missing"][0])
    more = {"nominal": column.nominal} if kind is OneHot else {}
    coder: Coder = kind(missing=missing, **{name: arrays[name] for name in names}, **more)
    if not (_possible(coder, column) and (column.is_number or kind in (OneHot, Positions))):
        raise ValueError("a coder does not fit its column")
    return coder


def _possible(coder: Coder, column: Column) -> bool:
    """Whether lengths, order and values are as they must be."""
    if isinstance(coder, Positions):
        ordered = bool((np.diff(coder.positions) > 0).all())
        shares = coder.shares.shape == coder.positions.shape and bool((coder.shares > 0).all())
        return len(coder.positions) > 0 and ordered and shares and _inside(coder.positions, column)
    if isinstance(coder, OneHot):
        inside = _inside(np.concatenate([coder.levels, coder.others]), column)
        ordered = all((np.diff(part) > 0).all() for part in (coder.levels, coder.others))
        chances = coder.chances.shape == coder.others.shape and (coder.chances > 0).all()
        return bool(len(coder.levels) > 0 and inside and ordered and chances)
    if isinstance(coder, Modes):
        alike = coder.means.shape == coder.spreads.shape == coder.weights.shape
        shift = not isinstance(coder, LongTail) or coder.shift.shape == (1,)
        positive = (coder.spreads >= 0).all() and (coder.weights > 0).all()
        return bool(alike and shift and len(coder.means) > 0 and positive)
    if isinstance(coder, Quantiles):
        return bool(len(coder.points) > 0 and (np.diff(coder.points) >= 0).all())
    return coder.ends.shape == (2,) and bool(coder.ends[0] <= coder.ends[1])


def _inside(values: Floats, column: Column) -> bool:
    """Whether these can be cells of the column."""
    classes = (values >= 0) & (values < _classes(column)) & (values == np.rint(values))
    return column.is_number or bool(classes.all())


def _classes(column: Column) -> int:
    if column.kind == "boolean":
        return 2
    return len(column.kind) if isinstance(column.kind, tuple) else len(column.levels)


def _nearest(values: Floats, cells: Floats) -> Ints:
    """Which of some values, in order, is nearest to each cell."""
    right = np.clip(np.searchsorted(values, cells), 0, len(values) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(values[left] - cells) <= np.abs(values[right] - cells), left, right)


def draw(chances: Floats, rng: np.random.Generator) -> Ints:
    """A place in each row, with chances that need not add up to 1; the first one where all are 0."""
    upto = np.cumsum(chances, axis=1)
    points = rng.random((len(chances), 1)) * upto[:, -1:]
    found = np.minimum((upto <= points).sum(axis=1), chances.shape[1] - 1)
    return np.where(upto[:, -1] > 0, found, 0)
