"""A generator that has learned: how its table is coded, and its weights as arrays by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.data.coding import Column
from unpooled.networks.encoding import Encoding, Singles, encoding_from, is_encoding

_PREFIX = "weights."


@dataclass(frozen=True, eq=False)
class Trained:
    """All that drawing rows needs."""

    encoding: Encoding
    weights: Mapping[str, Singles]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """As a file has it."""
        return {**self.encoding.arrays(), **{f"{_PREFIX}{name}": array for name, array in self.weights.items()}}


Shapes = Mapping[str, tuple[int, ...]]


def as_weights(arrays: Mapping[str, Any]) -> dict[str, Singles]:
    """A network's arrays as they are kept."""
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


def encoding_in(columns: Sequence[Column], arrays: Mapping[str, NDArray[Any]]) -> Encoding:
    """The encoding among arrays of a file; ValueError if there is none that fits the columns."""
    return encoding_from(columns, {name: array for name, array in arrays.items() if is_encoding(name)})


def trained_from(encoding: Encoding, arrays: Mapping[str, NDArray[Any]], shapes: Shapes) -> Trained:
    """Weights of a file, which must be finite and have exactly these shapes; ValueError if they do not."""
    found = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if not is_encoding(name)}
    named = all(name.startswith(_PREFIX) for name in arrays if not is_encoding(name))
    if not named or {name: array.shape for name, array in found.items()} != dict(shapes):
        raise ValueError("weights have other shapes than the settings and columns need")
    if not all(array.dtype == np.float32 and np.isfinite(array).all() for array in found.values()):
        raise ValueError("weights are not finite numbers of 32 bits")
    return Trained(encoding, found)
