"""Names for the array types that the package uses, and arrays that travel."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.errors import ProtocolError

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Ring = NDArray[np.uint64]
"""Whole numbers mod 2^64."""


def unpacked(bits: Bytes, count: int, kind: str, sender: str) -> Bools:
    """The truth values that `numpy.packbits` packed into a message of this type, which must be so many."""
    if bits.shape != ((count + 7) // 8,):
        raise ProtocolError(f"invalid {kind} from {sender}: another number of rows than there are")
    return np.unpackbits(bits, count=count).view(bool)


def are_lists(*arrays: NDArray[Any]) -> bool:
    """Whether arrays that arrived are lists of the same length."""
    return all(array.ndim == 1 and len(array) == len(arrays[0]) for array in arrays)
