"""Fractions as whole numbers: what products are made of, so that every engine gives the same result to the last bit.

A scale is a power of two. Multiplying by it is exact, and rounding (half to even) is the same on every processor.

>>> gradients = FixedPoint(fraction_bits=15, largest=1.0)
>>> gradients.encode(np.array([0.5, -1.0, 2**-16]), "g").tolist()
[16384, -32768, 0]
>>> gradients.bound
32768
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError

_MOST_BITS = 52


@dataclass(frozen=True)
class FixedPoint:
    """Numbers between -largest and largest, in steps of 2^-fraction_bits."""

    fraction_bits: int
    largest: float

    def __post_init__(self) -> None:
        if not (0 <= self.fraction_bits <= _MOST_BITS and math.isfinite(self.largest) and self.largest >= 0):
            raise InputError(f"fixed point: needs 0 to {_MOST_BITS} fractional bits and a positive largest value")
        if self.bound > 2**_MOST_BITS:
            raise InputError(f"fixed point: numbers up to {self.largest:g} at this precision take more than 53 bits")

    @property
    def bound(self) -> int:
        """The largest whole number that an encoded value becomes."""
        return round(self.largest * 2.0**self.fraction_bits)

    def encode(self, values: Floats, what: str) -> Ints:
        """Values as whole numbers; one that is not a number, or too large, is an error naming `what`."""
        if not np.isfinite(values).all() or (values.size and np.abs(values).max() > self.largest):
            raise InputError(f"{what}: a value is not a number or exceeds {self.largest:g}")
        return np.rint(values * 2.0**self.fraction_bits).astype(np.int64)

    def decode(self, numbers: Ints) -> Floats:
        """Whole numbers as the values they stand for."""
        return numbers / 2.0**self.fraction_bits


def largest_sums(numbers: Ints) -> list[int]:
    """For each column the largest absolute value that a sum of some of its rows can have.

    That is the sum of the positive numbers, or of the negative ones.

    >>> largest_sums(np.array([[3, 1], [-5, -1], [4, 0]]))
    [7, 1]
    """
    columns = np.ascontiguousarray(numbers.T)  # numpy is slow along short rows
    return [(int(np.abs(column).sum()) + abs(int(column.sum()))) // 2 for column in columns]
