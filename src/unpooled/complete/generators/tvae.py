"""TVAE, a variational autoencoder for tables (Xu, Skoularidou, Cuesta-Infante and Veeramachaneni 2019).

Numbers are coded by modes. A scalar's mean is a tanh, its spread one number for the column, learned between 0.01 and 1.
Modes and levels are drawn from their chances, and scalars from their normal distribution.

The preset `paper` is as published, but for numbers with few values, which are coded as levels, and for values that are
frequent by themselves, which are modes of width 0 (`modes`). Most of its hidden numbers end up ignored, and the others
are not distributed as the prior. The preset `fast` has fewer of them and the remedies that `autoencoder.Form` names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.generators.autoencoder import (
    Form,
    autoencoder_shapes,
    fill_autoencoder,
    fit_autoencoder,
    sample_autoencoder,
)
from unpooled.complete.generators.encoding import Layout
from unpooled.complete.generators.settings import Preset, TvaeSettings
from unpooled.complete.generators.trained import Shapes, Trained
from unpooled.complete.generators.training import Watch, unwatched
from unpooled.data.coding import Column

_PAPER = Form(
    way="modes",
    discrete_values=20,
    hidden=(128, 128),
    latent=128,
    factor=2.0,
    decay=1e-5,
    bounded=True,
    spread_by_row=False,
    narrowest=0.01,
    widest=1.0,
)
_FAST = replace(_PAPER, hidden=(256,), latent=24, warm_up=0.5, cooling=True, skips=True, hiding=0.25, prior_parts=40)
_FORMS: Mapping[Preset, Form] = {"fast": _FAST, "paper": _PAPER}


def fit(
    settings: TvaeSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
) -> Trained:
    """Learn from the known cells."""
    return fit_autoencoder(_FORMS[settings.preset], settings, columns, values, rng, watch, checkpoint)


def sample(
    settings: TvaeSettings,
    _: Sequence[Column],
    trained: Trained,
    rows: int,
    rng: np.random.Generator,
    *,
    missing: bool = True,
) -> Floats:
    """So many whole rows, with missing cells as there were, or without."""
    return sample_autoencoder(_FORMS[settings.preset], trained, rows, rng, missing=missing)


def fill(
    settings: TvaeSettings,
    _: Sequence[Column],
    trained: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Floats:
    """Values with the wanted cells drawn, given the known ones."""
    return fill_autoencoder(_FORMS[settings.preset], trained, values, wanted, settings.rounds, rng)


def shapes(settings: TvaeSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    return autoencoder_shapes(_FORMS[settings.preset], layout)
