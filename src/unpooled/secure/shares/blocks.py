"""Large matrices in blocks of rows, or portions of columns, so that nobody holds a whole one of them in memory.

With hidden nodes X is as wide as all bins together, so it is far larger than the table that it comes from. A mask is
made from its seed block by block, and masked matrices travel in several messages. What has arrived is needed again for
every tree: it stays in memory up to a limit, and beyond that in a file that has no name and so ends with the process.
It holds masked numbers alone, which mean nothing to its owner. Where rows are permuted, every column has an order of
its own, so there columns are divided. Shapes decide where blocks and portions begin, never data.

>>> [(block.start, block.stop) for block in row_blocks(5, block_bytes // 16)]
[(0, 2), (2, 4), (4, 5)]
>>> [[(place, block.stop) for place, block in message] for message in portions([(3, block_bytes // 16), (1, 1)])]
[[(0, 2)], [(0, 3), (1, 1)]]
"""

from __future__ import annotations

import math
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import IO, TypeVar

import numpy as np

from unpooled import atomic
from unpooled.arrays import Ring
from unpooled.secure.randomness import expansions
from unpooled.workers import on_cluster

T = TypeVar("T")

_WORD = 8
block_bytes = 2**23
"""What is worked on, and sent, at once. A rehearsal, which has fewer rows, makes it less (`run.rehearsal`)."""
MEMORY_BYTES = 2**28
"""How much of what has arrived a party keeps in memory."""


def row_blocks(rows: int, width: int) -> list[slice]:
    """The blocks of a matrix, or of several side by side; there is one even without rows."""
    step = max(block_bytes // (_WORD * max(width, 1)), 1)
    return [slice(start, min(start + step, rows)) for start in range(0, max(rows, 1), step)]


def columns_at_once(numbers: int) -> int:
    """How many columns of so many numbers each make a portion of about a block."""
    return max(block_bytes // _WORD // max(numbers, 1), 1)


def portions(shapes: Iterable[tuple[int, int]]) -> list[list[tuple[int, slice]]]:
    """Matrices of these shapes in messages of about a block each: by message, which matrix and which rows of it."""
    found, room = list[list[tuple[int, slice]]](), 0
    for place, (rows, width) in enumerate(shapes):
        for block in row_blocks(rows, width):
            size = _WORD * (block.stop - block.start) * width
            if not found or size > room:
                found.append([])
                room = block_bytes
            found[-1].append((place, block))
            room -= size
    return found


def mask_blocks(seed: bytes, width: int, cuts: Iterable[slice]) -> Iterator[Ring]:
    """A mask in consecutive blocks, from its first row on."""
    return expansions(seed, b"mask", ((cut.stop - cut.start, width) for cut in cuts))


def mask_block(seed: bytes, width: int, cut: slice) -> Ring:
    """One block of a mask."""
    return next(expansions(seed, b"mask", [(cut.stop - cut.start, width)], skip=cut.start * width))


def watched(cuts: Sequence[slice], alive: Callable[[], None]) -> Iterator[slice]:
    """Blocks, with a sign of life before each."""
    for cut in cuts:
        alive()
        yield cut


def summed(
    blocks: Iterable[tuple[T, Sequence[Ring]]], multiply: Callable[[T, Ring], Ring], *, spread: bool = False
) -> Ring:
    """XᵀY as a sum over blocks of rows: each has a block of X, and those of several matrices Y, put side by side.

    They are `spread` over the party's cluster, if it has one, where multiplying takes longer than sending would.
    """
    return reduce(np.add, (on_cluster if spread else map)(partial(_multiplied, multiply), blocks))


def _multiplied(multiply: Callable[[T, Ring], Ring], block: tuple[T, Sequence[Ring]]) -> Ring:
    x, ys = block
    return multiply(x, ys[0] if len(ys) == 1 else np.concatenate(ys, axis=1))


class Opened:
    """A masked matrix that arrives in blocks; it is kept in memory, or in a file that has no name."""

    def __init__(self, shape: tuple[int, int], folder: Path | None = None, *, in_file: bool = False) -> None:
        self.shape = shape
        self._values: Ring | None = None
        self._file: IO[bytes] | None = None
        self._folder = Path(tempfile.gettempdir()) if folder is None else folder
        if in_file:
            with atomic.naming(self._folder, "written to"):
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
            weakref.finalize(self, self._file.close)

    @property
    def memory(self) -> int:
        """How many bytes it takes in memory."""
        return 0 if self._file else _WORD * math.prod(self.shape)

    def put(self, block: slice, values: Ring) -> None:
        """Keep a block; one that is the whole matrix is not copied."""
        if self._file:
            with atomic.naming(self._folder, "written to"):
                self._file.seek(_WORD * self.shape[1] * block.start)
                self._file.write(np.ascontiguousarray(values).data)
        elif values.shape == self.shape:
            self._values = values
        else:
            if self._values is None:
                self._values = np.empty(self.shape, np.uint64)
            self._values[block] = values

    def block(self, cut: slice) -> Ring:
        """Some consecutive rows."""
        if self._file:
            found = np.empty((cut.stop - cut.start, self.shape[1]), np.uint64)
            with atomic.naming(self._folder, "read from"):
                self._file.seek(_WORD * self.shape[1] * cut.start)
                self._file.readinto(found.data)  # type: ignore[attr-defined]
            return found
        if self._values is None:
            raise ValueError("nothing has arrived")
        return self._values[cut]

    def blocks(self) -> Iterator[Ring]:
        """All rows, in blocks."""
        return (self.block(cut) for cut in row_blocks(*self.shape))

    def whole(self) -> Ring:
        return self.block(slice(0, self.shape[0]))
