"""Large arrays in files instead of memory: memory maps of files that have no name, and so end with the process.

The system reads what is needed and drops what is not. What an array has mapped still counts as memory of the process,
until the process lets go of it, or the system needs the room.
"""

from __future__ import annotations

import math
import mmap
import tempfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from unpooled import atomic

T = TypeVar("T", bound=np.generic)


def empty(shape: tuple[int, ...], dtype: DTypeLike, folder: Path | None) -> NDArray[Any]:
    """An array to be filled: in a file in this folder, or without one in memory."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if folder is None or not size:
        return np.empty(shape, dtype)
    with atomic.naming(folder, "written to"):
        atomic.make_folder(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.truncate(size)
            mapped = mmap.mmap(file.fileno(), size)
    return np.frombuffer(mapped, dtype).reshape(shape)


def let_go(array: NDArray[Any]) -> None:
    """Give back the memory that an array in a file has taken; its values stay. An array in memory stays there."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, memoryview):
        base = base.obj
    if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        base.madvise(mmap.MADV_DONTNEED)
