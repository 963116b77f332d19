"""VGAIN: GAIN whose generator has a variational encoder inside (Kingma and Welling 2014); all else is as in GAIN.

What the generator sees becomes a normal distribution of a few hidden numbers; these are drawn, and a decoder turns them
into cells. The loss has the distance of that distribution from the prior too. Without `sample` cells are filled from
the mean of the hidden numbers; with it, hidden numbers are drawn. There is no linear layer beside the others, which
would lead around the hidden numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.neural import Preset
from unpooled.complete.imputers import gain
from unpooled.complete.imputers.gain_network import Form
from unpooled.complete.imputers.settings import VgainSettings
from unpooled.data.coding import Column
from unpooled.networks.encoding import Layout
from unpooled.networks.trained import Shapes, Trained
from unpooled.networks.training import Watch, unwatched

FORMS: Mapping[Preset, Form] = {
    "fast": replace(gain.FORMS["fast"], skip=False, latent=32, strictness=0.05),
    "paper": replace(gain.FORMS["paper"], latent=32, strictness=0.05),
}


def fit(
    settings: VgainSettings,
    columns: Sequence[Column],
    values: Floats,
    rng: np.random.Generator,
    watch: Watch = unwatched,
    checkpoint: Path | None = None,
) -> Trained:
    """Learn from the known cells."""
    return gain.fit_gain(FORMS[settings.preset], settings, columns, values, rng, watch, checkpoint)


def fill(
    settings: VgainSettings,
    _: Sequence[Column],
    trained: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Floats:
    """Values with the wanted cells filled, given the known ones."""
    return gain.fill_gain(FORMS[settings.preset], settings, trained, values, wanted, rng)


def shapes(settings: VgainSettings, layout: Layout) -> Shapes:
    """The shapes of the weights."""
    return gain.gain_shapes(FORMS[settings.preset], layout)
