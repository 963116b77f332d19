"""Neural networks as completers: what their settings and modules have in common.

Their modules need JAX, so they are imported when they are used. Nothing here needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Completer, CompleterSettings
from unpooled.data.coding import Column
from unpooled.errors import InputError
from unpooled.networks.encoding import Layout
from unpooled.networks.trained import Shapes, Trained, encoding_in, trained_from
from unpooled.networks.watching import tell

Preset = Literal["fast", "paper"]

_NEEDED = ("jax", "jaxlib", "optax")
_ROWS = 10_000


class NeuralSettings(CompleterSettings):
    """What all neural networks have in common."""

    preset: Preset = Field(
        "fast", description="fast: chosen for two processor cores; paper: the settings of the model's authors"
    )
    batch_rows: int | None = Field(None, description="rows in a step of training, if not as the preset has it", ge=10)
    learning_rate: float | None = Field(
        None, description="the step size of training, if not as the preset has it", gt=0, le=1
    )
    levels: int = Field(
        100, description="how many levels of a category are learned one by one; rarer ones share one place", ge=1
    )
    rows: int = Field(100_000, description="the most rows that are learned from, drawn at random", ge=1)


class Network(Protocol):
    """What the module of a network has."""

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

    def fill(
        self,
        settings: Any,
        columns: Sequence[Column],
        trained: Trained,
        values: Floats,
        wanted: Bools,
        rng: np.random.Generator,
    ) -> Floats:
        """Values with the wanted cells filled, given the known ones."""

    def shapes(self, settings: Any, layout: Layout) -> Shapes:
        """The shapes of the weights that are kept."""


def loaded(settings: NeuralSettings, load: Callable[[], Any]) -> Any:
    """The module that these settings are for; InputError if what it needs is not installed."""
    try:
        return load()
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        name = settings.completer
        raise InputError(f"the completer '{name}' needs: pip install 'unpooled[generate]'") from None


def neural_completer(kind: type[NeuralSettings], module: Callable[[Any], Network]) -> Completer:
    """The completer with these settings, for which `module` finds the network, or says what it needs."""

    def fit(settings: NeuralSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator) -> Trained:
        def watch(progress: Any) -> None:
            tell(f"training {settings.completer}", progress.epoch, progress.epochs)

        return module(settings).fit(settings, columns, values, rng, watch)

    def draw(
        settings: NeuralSettings,
        columns: Sequence[Column],
        state: Trained,
        values: Floats,
        wanted: Bools,
        rng: np.random.Generator,
    ) -> Iterator[Floats]:
        fill = module(settings).fill
        rows = np.flatnonzero(wanted.any(axis=1))
        blocks = np.split(rows, range(_ROWS, len(rows), _ROWS))
        while True:
            filled = values.copy()
            for number, block in enumerate(blocks):
                tell(f"drawing cells by {settings.completer}", number, len(blocks))
                filled[block] = fill(settings, columns, state, values[block], wanted[block], rng)
            yield filled

    def restored(settings: NeuralSettings, columns: Sequence[Column], arrays: Mapping[str, NDArray[Any]]) -> Trained:
        encoding = encoding_in(columns, arrays)
        return trained_from(encoding, arrays, module(settings).shapes(settings, encoding.layout))

    return Completer(kind, Trained, fit, draw, arrays=Trained.arrays, restored=restored, check=module)
