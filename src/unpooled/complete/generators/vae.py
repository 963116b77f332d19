"""The plain variational autoencoder (Kingma and Welling 2014), with numbers by their normal quantiles."""

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
from unpooled.complete.generators.settings import Preset, VaeSettings
from unpooled.complete.generators.trained import Shapes, Trained
from unpooled.complete.generators.training import Watch, unwatched
from unpooled.data.coding import Column

_PAPER = Form(
    way="quantiles",
    discrete_values=20,
    hidden=(500,),
    latent=20,
    factor=1.0,
    decay=0.0,
    bounded=False,
    spread_by_row=True,
    narrowest=0.02,
    widest=2.0,
)
_FAST = replace(_PAPER, hidden=(128,), latent=32, warm_up=0.5, cooling=True, hiding=0.25)
_FORMS: Mapping[Preset, Form] = {"fast": _FAST, "paper": _PAPER}


def fit(
    settings: VaeSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
) -> Trained:
    """Learn from the known cells."""
    return fit_autoencoder(_FORMS[settings.preset], settings, columns, values, rng, watch, checkpoint)


def sample(
    settings: VaeSettings,
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
    settings: VaeSettings,
    _: Sequence[Column],
    trained: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Floats:
    """Values with the wanted cells drawn, given the known ones."""
    return fill_autoencoder(_FORMS[settings.preset], trained, values, wanted, settings.rounds, rng)


def shapes(settings: VaeSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    return autoencoder_shapes(_FORMS[settings.preset], layout)
