"""What a party keeps from one product by shares to the next: masks, opened matrices, numbers dealt ahead.

Random numbers that were dealt ahead for a shape serve any product of that shape, in the order of dealing. When the same
shape comes often, the driver asks for more than it needs now, so that the next products need no round trip to the
coordinator. Its partner counts along, and so knows what was asked for without being told.

>>> stock, shape = Stock(), Shape("telco", "bank", rows=100, width=3, words=1)
>>> [copies for _ in range(20) for _, copies in stock.lacking([shape])]
[1, 1, 1, 1, 1, 1, 1, 1, 8, 8]
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ring
from unpooled.errors import ProtocolError
from unpooled.secure.calls import Call
from unpooled.secure.shares.blocks import MEMORY_BYTES, Opened, mask_blocks

_MOST_AHEAD = 8
_MOST_SEEDS_AHEAD = 256
_MOST_KEPT = 2**20  # bytes of a mask
most_bytes_ahead = 2**22
"""A rehearsal, which has fewer rows, makes it less (`run.rehearsal`)."""


class Matrix(NamedTuple):
    """One party's matrix: side "x" or "y", the caller's name for it, and which one of that name.

    `variant` says how the matrix is packed. A matrix without a name serves one product, and `variant` says which.
    """

    side: str
    name: str
    variant: str = ""

    @property
    def label(self) -> str:
        """What the coordinator knows the matrix by; names are printable, so that labels are unambiguous."""
        return f"{self.name}\n{self.variant}"


@dataclass
class Mask:
    """A mask that was dealt. It is bound to the first matrix that it hides; small ones are made from the seed once."""

    seed: bytes
    shape: tuple[int, int]
    bound_to: bytes = b""
    _values: Ring | None = field(default=None, repr=False)
    _last: tuple[tuple[int, ...], tuple[NDArray[Any], ...]] = field(default=((), ()), repr=False)

    def bind(self, whose: str, *parts: NDArray[Any], sizes: tuple[int, ...] = ()) -> None:
        """Refuse a second matrix, given by its parts: the difference of what the mask hides would show.

        The same arrays are not gone through again if they cannot be written to.
        """
        last_sizes, last = self._last
        if sizes == last_sizes and len(parts) == len(last) and all(map(_same, parts, last)):
            return
        found = hashlib.sha256(str(sizes).encode())
        for part in parts:
            found.update(f"{part.dtype} {part.shape}".encode())
            found.update(np.ascontiguousarray(part).data)
        if self.bound_to not in (b"", found.digest()):
            raise ProtocolError(f"{whose}: a mask that has hidden one matrix must not hide another")
        self.bound_to = found.digest()
        self._last = sizes, parts

    def blocks(self, cuts: Iterable[slice]) -> Iterator[Ring]:
        """The mask in consecutive blocks, from its first row on."""
        rows, width = self.shape
        if 8 * rows * width > _MOST_KEPT:
            return mask_blocks(self.seed, width, cuts)
        if self._values is None:
            (self._values,) = mask_blocks(self.seed, width, [slice(0, rows)])
        return (self._values[cut] for cut in cuts)


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether these are the same numbers in memory, which nobody can change."""
    if _writable(one) or one.dtype != other.dtype:
        return False
    return (one.ctypes.data, one.shape, one.strides) == (other.ctypes.data, other.shape, other.strides)


def _writable(array: Any) -> bool:
    """Whether an array, or what it is a part of, can be written to."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return array is not None


class Shape(NamedTuple):
    """The parties and sizes that decide which random numbers a product needs; seeds, for any size, have none."""

    left: str
    right: str
    rows: int = 0
    width: int = 0
    words: int = 0
    word_bytes: int = 8
    blocks: tuple[int, ...] = ()

    def ahead(self, asked: int) -> int:
        """How many are asked for at a time, when so many were so far; few where each is large, since some may stay
        unused.
        """
        if not self.rows:
            return min(asked, _MOST_SEEDS_AHEAD)
        most = min(_MOST_AHEAD, most_bytes_ahead // max(self.word_bytes * self.rows * self.width * self.words, 1))
        return most if asked >= most else 0


@dataclass
class Stock:
    """By shape: what was asked for, how much of it is not yet assigned to a product, and what has been dealt."""

    asked: Counter[Shape] = field(default_factory=Counter)
    unpromised: Counter[Shape] = field(default_factory=Counter)
    parts: defaultdict[Shape, deque[Any]] = field(default_factory=lambda: defaultdict(deque), repr=False)

    def lacking(self, shapes: Iterable[Shape]) -> list[tuple[Shape, int]]:
        """Assign numbers to products of these shapes; what must be asked for."""
        found = []
        for shape, count in Counter(shapes).items():
            if (short := count - self.unpromised[shape]) > 0:
                copies = max(short, shape.ahead(self.asked[shape]))
                self.asked[shape] += copies
                self.unpromised[shape] += copies
                found.append((shape, copies))
            self.unpromised[shape] -= count
        return found

    def take(self, shape: Shape) -> Any:
        """The next numbers dealt for a shape."""
        if not self.parts[shape]:
            raise ProtocolError(f"a product of {shape.left} and {shape.right} has another shape than announced")
        return self.parts[shape].popleft()


@dataclass
class SharesState:
    """One party's state; `sent` and `opened` are by peer and matrix. Large files are in `folder`, else among temporary
    ones.

    `announced` are the batches for which numbers were asked ahead, each with the seed of those that the driver chose.
    `masked` are the matrices Y that have a mask, which stays the same even after `forget`; `seeds` are all dealt seeds.
    """

    masks: dict[Matrix, Mask] = field(default_factory=dict)
    sent: set[tuple[str, Matrix]] = field(default_factory=set)
    opened: dict[tuple[str, Matrix], Opened] = field(default_factory=dict)
    stock: Stock = field(default_factory=Stock)
    announced: deque[tuple[Sequence[Call], bytes]] = field(default_factory=deque)
    masked: set[Matrix] = field(default_factory=set)
    seeds: set[bytes] = field(default_factory=set)
    folder: Path | None = None

    def place_for(self, peer: str, matrix: Matrix, shape: tuple[int, int]) -> Opened:
        """Where a masked matrix of a peer is kept: in a file if there is much in memory already."""
        found = Opened(shape)
        if sum(other.memory for other in self.opened.values()) + found.memory > MEMORY_BYTES:
            found = Opened(shape, self.folder, in_file=True)
        self.opened[peer, matrix] = found
        return found

    def forget(self, names: AbstractSet[str]) -> None:
        """Drop masks and openings of matrices with these names."""
        self.masks = {matrix: mask for matrix, mask in self.masks.items() if matrix.name not in names}
        self.sent = {(peer, matrix) for peer, matrix in self.sent if matrix.name not in names}
        self.opened = {key: values for key, values in self.opened.items() if key[1].name not in names}

    def drop(self, matrices: AbstractSet[Matrix]) -> None:
        """Drop all that is known of matrices without names, each of which has served its one call."""
        self.masked -= matrices
        self.sent = {key for key in self.sent if key[1] not in matrices}
        for matrix in matrices:
            self.masks.pop(matrix, None)
        for key in [key for key in self.opened if key[1] in matrices]:
            del self.opened[key]
