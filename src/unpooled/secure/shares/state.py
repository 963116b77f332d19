"""What a party keeps from one product by shares to the next: masks, opened matrices, numbers dealt ahead."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from numpy.typing import NDArray

from unpooled.arrays import Ring
from unpooled.errors import ProtocolError
from unpooled.secure.calls import Call
from unpooled.secure.shares.stock import Stock


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
    """A mask that was dealt. It is bound to the first matrix that it hides."""

    values: Ring
    seed: bytes
    bound_to: bytes = b""

    def bind(self, matrix: NDArray[Any], whose: str, sizes: tuple[int, ...] = ()) -> None:
        """Refuse a second matrix: the difference of what the mask hides would show."""
        digest = hashlib.sha256(f"{matrix.dtype} {matrix.shape} {sizes}".encode() + matrix.tobytes()).digest()
        if self.bound_to not in (b"", digest):
            raise ProtocolError(f"{whose}: a mask that has hidden one matrix must not hide another")
        self.bound_to = digest


@dataclass
class SharesState:
    """One party's state; `sent` and `opened` are by peer and matrix.

    `announced` are the batches for which numbers were asked ahead, each with the seed of those that the driver chose.
    `masked` are the matrices Y that have a mask, which stays the same even after `forget`; `seeds` are all dealt seeds.
    """

    masks: dict[Matrix, Mask] = field(default_factory=dict)
    sent: set[tuple[str, Matrix]] = field(default_factory=set)
    opened: dict[tuple[str, Matrix], Ring] = field(default_factory=dict)
    stock: Stock = field(default_factory=Stock)
    announced: deque[tuple[Sequence[Call], bytes]] = field(default_factory=deque)
    masked: set[Matrix] = field(default_factory=set)
    seeds: set[bytes] = field(default_factory=set)

    def forget(self, names: AbstractSet[str]) -> None:
        """Drop masks and openings of matrices with these names; an empty name stands for those without one."""
        self.masks = {matrix: mask for matrix, mask in self.masks.items() if matrix.name not in names}
        self.sent = {(peer, matrix) for peer, matrix in self.sent if matrix.name not in names}
        self.opened = {key: values for key, values in self.opened.items() if key[1].name not in names}
        self.masked = {matrix for matrix in self.masked if matrix.name}
