"""What a party keeps from one product under encryption to the next: the key, noise, rows that serve again."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import NamedTuple

from unpooled.arrays import Bytes
from unpooled.secure.paillier.keys import PublicKey
from unpooled.secure.paillier.limbs import Rows
from unpooled.secure.paillier.noise import NoiseStock


class RowsKey(NamedTuple):
    """What encrypted rows are kept under: the name of Y, or else the one product that they serve, and the layout."""

    name: str
    tag: bytes
    rows: int
    columns: int
    bits: int


@dataclass
class PaillierState:
    """One party's state; `noise` is by whether it covers other noise, `digests` are of matrices Y by name.

    `sent` and `received` are by peer and rows, and so are `limbs`, the received rows as compiled loops want them.
    """

    public: PublicKey | None = None
    noise: dict[bool, NoiseStock] = field(default_factory=dict)
    digests: dict[str, bytes] = field(default_factory=dict)
    sent: set[tuple[str, RowsKey]] = field(default_factory=set)
    received: dict[tuple[str, RowsKey], Bytes] = field(default_factory=dict)
    limbs: dict[tuple[str, RowsKey], Rows] = field(default_factory=dict)

    def forget(self, names: AbstractSet[str]) -> None:
        """Drop what is kept of matrices Y with these names; an empty name stands for those without one."""
        self.digests = {name: digest for name, digest in self.digests.items() if name not in names}
        self.sent = {(peer, rows) for peer, rows in self.sent if rows.name not in names}
        self.received = {key: rows for key, rows in self.received.items() if key[1].name not in names}
        self.limbs = {key: rows for key, rows in self.limbs.items() if key[1].name not in names}
