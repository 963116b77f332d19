"""Filling a table with further columns beside it: a completer sees them in every row, and none of them is filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers import filling
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import Completed, HeldOut
from unpooled.data.columns import Kind
from unpooled.data.table import Table

_NAME = "\0further {}"


def fill(
    settings: CompleterSettings,
    table: Table,
    rng: np.random.Generator,
    mask: Bools | None = None,
    *,
    further: Floats | None = None,
    draws: int = 1,
) -> tuple[Completed, Mapping[str, HeldOut]]:
    """Fill missing cells, or those under a mask; and what the completer made of known cells that were held out.

    `further` are numbers known in every row, rows × columns.
    """
    beside = np.empty((table.frame.height, 0)) if further is None else further
    names = [_NAME.format(place) for place in range(beside.shape[1])]
    cells = [pl.Series(name, values) for name, values in zip(names, beside.T, strict=True)]
    kinds: dict[str, Kind] = {**table.kinds, **dict.fromkeys(names, "number")}
    wide = replace(table, kinds=kinds, frame=table.frame.with_columns(cells))
    if mask is not None:
        mask = np.hstack([mask, np.zeros(beside.shape, np.bool_)])
    fitted = filling.fit(settings, wide, rng, mask)
    done = filling.complete(fitted, wide, rng, mask, draws=draws)
    own = len(table.kinds)
    narrow = Completed(
        _narrow(done.table, table),
        tuple(_narrow(draw, table) for draw in done.draws),
        done.filled[:, :own],
        done.trust[:, :own],
    )
    return narrow, {name: found for name, found in fitted.held_out.items() if name in table.kinds}


def _narrow(wide: Table, like: Table) -> Table:
    return replace(like, frame=wide.frame.select(like.frame.columns))
