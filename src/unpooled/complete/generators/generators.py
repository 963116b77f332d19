"""The generators that there are, as completers; their modules, which need JAX, are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from unpooled.arrays import Floats
from unpooled.complete.completers.completer import Completer
from unpooled.complete.completers.neural import Network, loaded, neural_completer
from unpooled.complete.generators.settings import (
    CtabGanSettings,
    CtganSettings,
    GeneratorSettings,
    TabDdpmSettings,
    TableGanSettings,
    TvaeSettings,
    VaeSettings,
)
from unpooled.data.coding import Column
from unpooled.networks.trained import Trained


class Model(Network, Protocol):
    """What the module of a generator has, or an `Autoencoder`."""

    def sample(
        self,
        settings: Any,
        columns: Sequence[Column],
        trained: Trained,
        rows: int,
        rng: np.random.Generator,
        *,
        missing: bool = ...,
    ) -> Floats:
        """So many whole rows, with missing cells as there were, or without."""


def _vae() -> Any:
    from unpooled.complete.generators.vae import VAE

    return VAE


def _tvae() -> Any:
    from unpooled.complete.generators.tvae import TVAE

    return TVAE


def _ctgan() -> Any:
    from unpooled.complete.generators import ctgan

    return ctgan


def _tablegan() -> Any:
    from unpooled.complete.generators import tablegan

    return tablegan


def _ctab_gan() -> Any:
    from unpooled.complete.generators import ctab_gan

    return ctab_gan


def _tabddpm() -> Any:
    from unpooled.complete.generators import tabddpm

    return tabddpm


_MODELS: Mapping[type[GeneratorSettings], Callable[[], Any]] = {
    VaeSettings: _vae,
    TvaeSettings: _tvae,
    CtganSettings: _ctgan,
    TableGanSettings: _tablegan,
    CtabGanSettings: _ctab_gan,
    TabDdpmSettings: _tabddpm,
}


def model_of(settings: GeneratorSettings) -> Model:
    """The module of the generator that these settings are for; InputError if what it needs is not installed."""
    model: Model = loaded(settings, next(load for kind, load in _MODELS.items() if isinstance(settings, kind)))
    return model


GENERATORS: tuple[Completer, ...] = tuple(neural_completer(settings, model_of) for settings in _MODELS)
