"""Arithmetic that gives the same bits on every processor, for all that decides how a model turns out.

numpy's `exp` and `log` differ between processors, and a sum of floats depends on its order. Here is only what IEEE 754
settles: + - * / and comparisons, number by number, rounding to whole numbers, and powers of two. Sums are those of
`math.fsum`, which rounds once, at the end.

>>> sigmoid(np.array([-1.0, 0.0, 1.0])).tolist()
[0.2689414213699951, 0.5, 0.7310585786300049]
>>> numbers, exponents = to_integers(np.array([[0.75, 3.0], [-1.0, 1000.0]]), bits=8)
>>> numbers.tolist(), exponents
([[96, 1], [-128, 250]], [7, -2])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.secure.fixedpoint import largest_sums

_LN2_HIGH = float.fromhex("0x1.62e42fep-1")  # the first 28 bits of ln 2: exact times a whole number of up to 25
_LN2_LOW = float.fromhex("0x1.f473de6af278fp-30")  # the rest of ln 2
_LN2_INVERSE = 1.0 / (_LN2_HIGH + _LN2_LOW)

_EXP_LEAST, _EXP_MOST = -708.0, 709.0
_FAR = 700.0
_BELOW_ONE = 1.0 - 2.0**-53

_RANGE_BITS = 500
_LARGEST = 2.0**_RANGE_BITS


def exp(x: Floats) -> Floats:
    """e^x, to a few units in the last place; 0 below -708, and above 709 what it is at 709: it never overflows.

    Between -708 and -745 the true values are not zero, but so small that some ways of running flush them to zero.
    x is a whole multiple of ln 2, which becomes a power of two, and a rest of at most ln 2 / 2, for which the Padé
    approximant of order 6 (whole coefficients, error below 10^-18) stands in.
    """
    if np.isnan(x).any():
        raise InputError("exp: a value is not a number")
    near = np.minimum(np.maximum(x, _EXP_LEAST), _EXP_MOST)
    powers = np.rint(near * _LN2_INVERSE)
    rest = (near - powers * _LN2_HIGH) - powers * _LN2_LOW
    square = rest * rest
    even = ((square + 840.0) * square + 75600.0) * square + 665280.0
    odd = rest * ((42.0 * square + 10080.0) * square + 332640.0)
    result: Floats = np.ldexp(1.0 + 2.0 * odd / (even - odd), powers.astype(np.int32))
    return np.where(x < _EXP_LEAST, 0.0, result)


def log(x: Floats) -> Floats:
    """The natural logarithm, to a few units in the last place; what is not a positive number is an error.

    x is a power of two times m between √½ and √2, and log m = 2 artanh s with s = (m - 1) / (m + 1), as a series.
    """
    if not ((x > 0.0) & (x < np.inf)).all():
        raise InputError("log: a value is not a positive number")
    part, powers = np.frexp(x)
    low = part < math.sqrt(0.5)
    part, whole = np.where(low, 2.0 * part, part), (powers - low).astype(np.float64)
    s = (part - 1.0) / (part + 1.0)
    square = s * s
    series = np.full_like(square, 1.0 / 21.0)
    for odd in range(19, 0, -2):
        series = series * square + 1.0 / odd
    return whole * _LN2_HIGH + (2.0 * s * series + whole * _LN2_LOW)


def sigmoid(x: Floats) -> Floats:
    """1 / (1 + e^-x), always between 0 and 1 and never one of them."""
    small = exp(-np.minimum(np.abs(x), _FAR))
    result: Floats = np.minimum(np.where(x < 0.0, small, 1.0) / (1.0 + small), _BELOW_ONE)
    return result


def softmax(scores: Floats) -> Floats:
    """For each row (of rows × classes) e^score over the sum of these, added up class by class; never 0."""
    _refuse_beyond_range(scores, "softmax")
    if scores.shape[1] == 0:
        raise InputError("softmax: there are no classes")
    by_class = np.ascontiguousarray(scores.T)  # numpy is slow along short rows
    top = by_class.max(axis=0)
    powers = np.stack([exp(np.maximum(one - top, -_FAR)) for one in by_class])
    total = powers[0].copy()
    for more in powers[1:]:
        total += more
    return np.ascontiguousarray((powers / total).T)


def to_integers(values: Floats, bits: int = 16) -> tuple[Ints, list[int]]:
    """Each column as whole numbers, the nearest to 2^e times its values, with the e of each column.

    e is the largest, up to 500, with which no number is beyond 2^bits - 1; it may be negative. For zeros alone it is 0.
    """
    if not 8 <= bits <= 31:
        raise InputError("whole numbers: 8 to 31 bits are possible")
    worst = np.abs(np.ascontiguousarray(values.T)).max(axis=1, initial=0.0)  # numpy is slow along short rows
    faulty = np.flatnonzero(~(worst <= _LARGEST))
    if faulty.size:
        raise InputError(f"whole numbers: column {faulty[0] + 1} holds what is not a number, or beyond 2^{_RANGE_BITS}")
    part, powers = np.frexp(worst)  # part × 2^bits is below 2^bits, but not always below 2^bits - 1
    exponents = np.minimum(bits - powers - (np.ldexp(part, bits) > 2.0**bits - 1.0), _RANGE_BITS)
    exponents[worst == 0.0] = 0
    return np.rint(values * np.ldexp(1.0, exponents)).astype(np.int64), exponents.tolist()


def to_short_integers(values: Floats, bits: int, most: int, draw: Callable[[], Floats]) -> tuple[Ints, list[int]]:
    """The same with smaller e where a sum of rows might be beyond `most`, upwards or downwards.

    Numbers of such a column are rounded up or down at random, so that sums of many are right on average however rough
    each is: by numbers between 0 and 1, which are drawn for each such column, one for each row. Whole numbers stay as
    they are.

    >>> to_short_integers(np.array([[0.75], [-1.0]]), bits=8, most=50, draw=lambda: np.random.default_rng().random(2))
    (array([[ 24],
           [-32]]), [5])
    """
    numbers, exponents = to_integers(values, bits)
    if most >= len(values) * (2**bits - 1):
        return numbers, exponents
    for column, total in enumerate(largest_sums(numbers)):
        above, each = np.empty(0), np.ascontiguousarray(values[:, column])
        while total > most:
            above = above if above.size else draw()
            exponents[column] -= (-(-total // most) - 1).bit_length()
            rounded = np.floor(each * np.ldexp(1.0, exponents[column]) + above).astype(np.int64)
            numbers[:, column] = rounded
            (total,) = largest_sums(rounded[:, np.newaxis])
    return numbers, exponents


def exact_sum(values: Floats) -> float:
    """The sum of all values, rounded once: the same in whichever order they stand."""
    _refuse_beyond_range(values, "sum")
    return math.fsum(values.ravel().tolist())


def mean_of(values: Floats, weights: Floats) -> float:
    """The weighted mean, Σ wv / Σ w: the same in whichever order the pairs stand."""
    _refuse_beyond_range(values, "mean")
    _refuse_beyond_range(weights, "mean: weights")
    if values.shape != weights.shape:
        raise InputError("mean: there must be as many weights as values")
    if (weights < 0.0).any():
        raise InputError("mean: a weight is negative")
    total = exact_sum(weights)
    if total == 0.0:
        raise InputError("mean: the weights sum to zero")
    return exact_sum(values * weights) / total


def _refuse_beyond_range(values: NDArray[np.float64], what: str) -> None:
    if not np.abs(values).max(initial=0.0) <= _LARGEST:  # so that not a number is refused as well
        raise InputError(f"{what}: a value is not a number, or lies beyond 2^{_RANGE_BITS}")


def mean_of_models(each: Sequence[Floats]) -> Floats:
    """The mean over models, added up in their order."""
    total = each[0]
    for found in each[1:]:
        total = total + found
    return total / len(each)
