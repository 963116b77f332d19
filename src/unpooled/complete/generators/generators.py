"""The generators that there are, as completers; their modules, which need JAX, are imported when they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Completer
from unpooled.complete.generators.encoding import Layout
from unpooled.complete.generators.settings import (
    CtabGanSettings,
    CtganSettings,
    GeneratorSettings,
    TabDdpmSettings,
    TableGanSettings,
    TvaeSettings,
    VaeSettings,
)
from unpooled.complete.generators.trained import Shapes, Trained, encoding_in, trained_from
from unpooled.complete.generators.watching import tell
from unpooled.data.coding import Column
from unpooled.errors import InputError

_NEEDED = ("jax", "jaxlib", "optax")
_ROWS = 10_000


class Model(Protocol):
    """What the module of a generator has."""

    def fit(
        self,
        settings: Any,
        columns: Sequence[Column],
        values: Floats,
        rng: np.random.Generator,
        watch: Any = ...,
        checkpoint: Path | None = ...,
    ) -> Trained:
        """Learn from the known cells."""

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

    def fill(
        self,
        settings: Any,
        columns: Sequence[Column],
        trained: Trained,
        values: Floats,
        wanted: Bools,
        rng: np.random.Generator,
    ) -> Floats:
        """Values with the wanted cells drawn, given the known ones."""

    def shapes(self, settings: Any, layout: Layout) -> Shapes:
        """The shapes of the weights that `sample` and `fill` need."""


def _vae() -> Any:
    from unpooled.complete.generators import vae

    return vae


def _tvae() -> Any:
    from unpooled.complete.generators import tvae

    return tvae


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
    load = next(load for kind, load in _MODELS.items() if isinstance(settings, kind))
    try:
        model: Model = load()
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        name = settings.completer
        raise InputError(f"the completer '{name}' needs: pip install 'unpooled[generate]'") from None
    return model


def _fit(settings: GeneratorSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator) -> Trained:
    def watch(progress: Any) -> None:
        tell(f"training {settings.completer}", progress.epoch, progress.epochs)

    return model_of(settings).fit(settings, columns, values, rng, watch)


def _draw(
    settings: GeneratorSettings,
    columns: Sequence[Column],
    state: Trained,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    fill = model_of(settings).fill
    rows = np.flatnonzero(wanted.any(axis=1))
    blocks = np.split(rows, range(_ROWS, len(rows), _ROWS))
    while True:
        filled = values.copy()
        for number, block in enumerate(blocks):
            tell(f"drawing cells by {settings.completer}", number, len(blocks))
            filled[block] = fill(settings, columns, state, values[block], wanted[block], rng)
        yield filled


def _restored(settings: GeneratorSettings, columns: Sequence[Column], arrays: Mapping[str, NDArray[Any]]) -> Trained:
    encoding = encoding_in(columns, arrays)
    return trained_from(encoding, arrays, model_of(settings).shapes(settings, encoding.layout))


GENERATORS: tuple[Completer, ...] = tuple(
    Completer(settings, Trained, _fit, _draw, arrays=Trained.arrays, restored=_restored, check=model_of)
    for settings in _MODELS
)
