"""Filling the active party's cells with activations as further columns, known in every row, beside its own."""

from __future__ import annotations

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.beside import fill
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import Completed
from unpooled.complete.imputers.settings import GainSettings
from unpooled.data.table import Table


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
    return fill(completer or GainSettings(), table, rng, mask, further=activations, draws=draws)[0]
