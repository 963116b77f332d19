"""Whole rows from plain completers, to compare generators with; none of them needs JAX.

`marginal` draws every cell by itself, `copula` all cells of a row together, `hot-deck` a row of the table as it is, and
`smote` a row between one of the table and one of its nearest neighbours. Cells are missing as they are in the row that
was drawn; `marginal` and `copula`, which keep no rows, leave cells out by chance, in each column as many as there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from unpooled.arrays import Floats
from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.complete.completers.copula import COPULA, Copula, CopulaSettings
from unpooled.complete.completers.hot_deck import HOT_DECK, Deck, HotDeckSettings
from unpooled.complete.completers.simple import MARGINAL, Marginals, MarginalSettings
from unpooled.complete.completers.smote import SMOTE, Neighbours, SmoteSettings
from unpooled.data.coding import Column

PLAIN: tuple[Completer, ...] = (MARGINAL, COPULA, HOT_DECK, SMOTE)
_ROWS = 10_000

_Draw = Callable[[int], Floats]
"""So many rows."""


def fit_plain(settings: CompleterSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator) -> Any:
    """Learn from the known cells; the state says, where it keeps no rows, how many cells of each column are missing."""
    completer = next(one for one in PLAIN if isinstance(settings, one.settings))
    state = completer.fit(settings, columns, values, rng)
    if isinstance(state, Marginals | Copula):
        absent = np.full((len(values) - len(state.values), len(columns)), np.nan)
        state = replace(state, values=np.concatenate([state.values, absent]))
    return state


def sample_plain(
    settings: CompleterSettings, columns: Sequence[Column], state: Any, rows: int, rng: np.random.Generator
) -> Floats:
    """So many whole rows, with missing cells as there were."""
    draw = next(make for kind, make in _DRAWN.items() if isinstance(settings, kind))(settings, columns, state, rng)
    return np.concatenate([draw(count) for count in _blocks(rows)])


def _blocks(rows: int) -> Iterator[int]:
    yield from (_ROWS for _ in range(rows // _ROWS))
    yield rows % _ROWS


def _from_rows(_: Any, __: Sequence[Column], state: Deck, rng: np.random.Generator) -> _Draw:
    return lambda rows: state.donors[rng.integers(len(state.donors), size=rows)]


def _between_rows(settings: SmoteSettings, columns: Sequence[Column], state: Deck, rng: np.random.Generator) -> _Draw:
    neighbours = Neighbours(settings, columns, state.donors, rng)
    return lambda rows: neighbours.between(rng.integers(len(state.donors), size=rows), rng)


def _by_columns(
    settings: CompleterSettings, columns: Sequence[Column], state: Marginals | Copula, rng: np.random.Generator
) -> _Draw:
    completer = next(one for one in PLAIN if isinstance(settings, one.settings))
    missing = np.isnan(state.values).mean(axis=0)

    def draw(rows: int) -> Floats:
        shape = rows, len(columns)
        unknown, wanted = np.full(shape, np.nan), np.ones(shape, np.bool_)
        drawn = next(completer.draw(settings, columns, state, unknown, wanted, rng))
        return np.where(rng.random(shape) < missing, np.nan, drawn)

    return draw


_DRAWN: Mapping[type[CompleterSettings], Callable[..., _Draw]] = {
    MarginalSettings: _by_columns,
    CopulaSettings: _by_columns,
    HotDeckSettings: _from_rows,
    SmoteSettings: _between_rows,
}
