"""Filling the active party's cells with activations as further columns, known in every row, beside its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers import filling
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import Completed
from unpooled.complete.imputers.settings import GainSettings
from unpooled.data.table import Table

_NAME = "\0activation {}"


def fill_with_activations(
    table: Table,
    activations: Floats,
    rng: np.random.Generator,
    mask: Bools | None = None,
    *,
    completer: CompleterSettings | None = None,
    draws: int = 1,
) -> Completed:
    """Fill missing cells, or those under a mask, by a completer that sees the activations too; GAIN unless told."""
    names = [_NAME.format(place) for place in range(activations.shape[1])]
    further = [pl.Series(name, cells) for name, cells in zip(names, activations.T, strict=True)]
    frame = table.frame.with_columns(further)
    wide = replace(table, kinds={**table.kinds, **dict.fromkeys(names, "number")}, frame=frame)
    if mask is not None:
        mask = np.hstack([mask, np.zeros(activations.shape, np.bool_)])
    fitted = filling.fit(completer or GainSettings(), wide, rng, mask)
    done = filling.complete(fitted, wide, rng, mask, draws=draws)
    return Completed(
        _narrow(done.table, table),
        tuple(_narrow(draw, table) for draw in done.draws),
        done.filled[:, : len(table.kinds)],
        done.trust[:, : len(table.kinds)],
    )


def _narrow(wide: Table, like: Table) -> Table:
    return replace(like, frame=wide.frame.select(like.frame.columns))
