"""Many results in one plaintext: the position of each.

A plaintext is the sum of v · 2^(bits · slot) over its slots; slots are signed. The columns of a row are far apart,
with room for the same column of other cells between them: cell k of a plaintext is a sum of rows, shifted by k slots.
Shifting is what takes time, by the bit, so a cell is shifted by one slot only, however many columns there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Ints
from unpooled.errors import ProtocolError


@dataclass(frozen=True)
class Layout:
    """Results are cells × columns: `beside` columns and `deep` cells to a plaintext, in slots of `bits` bits."""

    cells: int
    columns: int
    bits: int
    beside: int
    deep: int

    @property
    def words(self) -> int:
        """How many plaintexts a row takes."""
        return -(-self.columns // self.beside)

    @property
    def stacks(self) -> int:
        """How many plaintexts the cells take for each word."""
        return -(-self.cells // self.deep)

    @property
    def plaintexts(self) -> int:
        """How many all results take: stack by stack, word by word."""
        return self.stacks * self.words


def layout_for(cells: int, columns: int, bound: int, key_bits: int) -> Layout:
    """The narrowest slots that hold every sum up to `bound`; all together stay between -n/2 and n/2.

    A row's plaintexts do not depend on how many cells there are, so that they serve for products of several shapes.
    """
    bits = bound.bit_length() + 1
    slots = (key_bits - 1) // bits
    words = max(1, -(-columns // slots))
    beside = max(1, -(-columns // words))
    return Layout(cells, columns, bits, beside, slots // beside)


def row_words(values: Ints, layout: Layout) -> list[int]:
    """The plaintexts of rows × columns: row by row, word by word."""
    apart = layout.bits * layout.deep
    return [
        _stacked(row[start : start + layout.beside], apart)
        for row in values.tolist()
        for start in range(0, layout.columns, layout.beside)
    ]


def pack(values: Ints, layout: Layout) -> list[int]:
    """The plaintexts of cells × columns."""
    full = np.zeros((layout.stacks * layout.deep, layout.words * layout.beside), np.int64)
    full[: layout.cells, : layout.columns] = values
    slots = full.reshape(layout.stacks, layout.deep, layout.words, layout.beside).transpose(0, 2, 3, 1)
    lines = slots.reshape(layout.plaintexts, layout.beside * layout.deep)
    return [_stacked(numbers, layout.bits) for numbers in lines.tolist()]


def repeated(words: Sequence[int], layout: Layout) -> list[int]:
    """The plaintexts of cells that are all alike, from the words that one of them has."""
    full, rest = divmod(layout.cells, layout.deep)
    sizes = [layout.deep] * full + ([rest] if rest else [])
    return [_stacked([word] * size, layout.bits) for size in sizes for word in words]


def unpack(plaintexts: Sequence[int], layout: Layout) -> Ints:
    """The cells × columns in signed plaintexts.

    >>> layout = layout_for(cells=2, columns=3, bound=1000, key_bits=64)
    >>> unpack(pack(np.array([[-1000, 7, 999], [0, -1, 5]]), layout), layout).tolist()
    [[-1000, 7, 999], [0, -1, 5]]
    """
    bits, slots = layout.bits, layout.beside * layout.deep
    half, mask = 1 << bits - 1, (1 << bits) - 1
    lowest = _stacked([half] * slots, bits)
    lines = []
    for plaintext in plaintexts:
        rest = int(plaintext) + lowest
        if rest < 0 or rest.bit_length() > bits * slots:
            raise ProtocolError(_WRONG)
        lines.append([(rest >> bits * slot & mask) - half for slot in range(slots)])
    parts = np.array(lines, np.int64).reshape(layout.stacks, layout.words, layout.beside, layout.deep)
    full = parts.transpose(0, 3, 1, 2).reshape(layout.stacks * layout.deep, layout.words * layout.beside)
    if full[layout.cells :].any() or full[:, layout.columns :].any():
        raise ProtocolError(_WRONG)
    return np.ascontiguousarray(full[: layout.cells, : layout.columns])


_WRONG = "a product does not fit into its slots: a party or the coordinator sent a wrong share"


def _stacked(numbers: Sequence[int], bits: int) -> int:
    """The first number lowest, each of the others `bits` bits above the one before."""
    total = 0
    for number in reversed(numbers):
        total = (total << bits) + number
    return total
