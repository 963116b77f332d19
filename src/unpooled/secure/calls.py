"""A product as all its participants know it: who holds which matrix, shapes, bounds, and who receives the result.

A call asks for the sum, over pairs of parties, of XᵀY. One party of a pair holds X and the other Y, with the same
people in the same rows. X is either a dense matrix of whole numbers, or one-hot: a bin for each row and column, and a
node for each row (-1 for rows that are left out). Only the number of nodes depends on data. Participants of the same
calls make them in the same order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints, Ints32
from unpooled.errors import InputError
from unpooled.secure.fixedpoint import largest_sums

T = TypeVar("T")

LARGEST, RING = 2**63 - 1, 2**63
"""The largest result, and the bound of numbers mod 2^64 such as shares."""

_CELLS_BESIDE = 2**10


@dataclass(frozen=True)
class Dense:
    """X has `width` columns of whole numbers between -bound and bound."""

    width: int
    bound: int


@dataclass(frozen=True)
class RowByRow(Dense):
    """A dense X whose rows are not summed up: the result has each row of X times the same row of Y.

    Such results stay in shares (`product_shares`): shown, they would give Y away.
    """


@dataclass(frozen=True)
class OneHot:
    """X has a bin for each row and column; `sizes` says how many bins each column has. Rows are summed by node.

    The holder of Y knows every row's node. So does the holder of X, unless the nodes are `hidden` from it.
    """

    sizes: tuple[int, ...]
    nodes: int = 1
    hidden: bool = False

    @cached_property
    def bins(self) -> int:
        """The bins of all columns."""
        return sum(self.sizes)


@dataclass(frozen=True)
class Call:
    """One product, or sum of products, with one receiver.

    `terms` are pairs: the holder of X, the holder of Y. Y has `columns` of whole numbers between -bound and bound. The
    parties in `added` add a matrix of their own, with the bound given there, before the result is shown. A name `x` or
    `y` says that the matrix is the one used under that name before, so that earlier preparation is reused. With
    `fixed`, the rows are two matrices stacked: `x` names X of the first `fixed` rows, `y` names Y of the rest. `digest`
    is that of the aligned rows; `among` is their number where a call uses only some of them, or some several times.
    `blocks` are parts of the rows, one after the other, each with nodes of its own: how many rows and nodes each has.
    `most` is the largest result, where matrices are random shares, or where no rows of a column of Y add up to as much
    as its bound allows.
    """

    terms: tuple[tuple[str, str], ...]
    receiver: str
    rows: int
    left: Dense | OneHot
    columns: int
    bound: int
    added: tuple[tuple[str, int], ...] = ()
    x: str = ""
    y: str = ""
    digest: str = ""
    among: int = 0
    fixed: int = 0
    most: int = 0
    blocks: tuple[tuple[int, int], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the result: width × columns, row by row rows × width × columns, or nodes × bins × columns."""
        if isinstance(self.left, RowByRow):
            return self.rows, self.left.width, self.columns
        if isinstance(self.left, Dense):
            return self.left.width, self.columns
        return self.left.nodes, self.left.bins, self.columns

    @property
    def cells(self) -> int:
        """How many results there are for each column of Y."""
        return math.prod(self.shape[:-1])

    @cached_property
    def result_bound(self) -> int:
        """The largest absolute value that the result can have."""
        if self.most:
            return self.most
        each = self.left.bound if isinstance(self.left, Dense) else 1
        return len(self.terms) * self.rows_summed * each * self.bound + sum(bound for _, bound in self.added)

    @property
    def rows_summed(self) -> int:
        """The most rows that are in one sum."""
        return max((rows for rows, _ in self.blocks), default=self.rows)

    @cached_property
    def participants(self) -> tuple[str, ...]:
        """All who contribute, in order of first appearance."""
        parties = [party for term in self.terms for party in term] + [party for party, _ in self.added]
        return tuple(dict.fromkeys(parties))

    def tag(self, number: int) -> bytes:
        """The tag on this call's messages; `number` counts the calls with the same participants.

        Participants must make the same calls in the same order.
        """
        return hashlib.sha256(f"unpooled product {number} {self._text}".encode()).digest()[:16]

    @cached_property
    def _text(self) -> str:
        return repr(self)


@dataclass(frozen=True, eq=False)
class Inputs:
    """What one party holds for a call; None for what it does not hold.

    `about` describes the product for audits (`evidence`).
    """

    x: NDArray[Any] | None = None
    y: Ints | None = None
    nodes: Ints32 | None = None
    added: Ints | None = None
    about: Mapping[str, Any] | None = None


def check_call(call: Call, parties: Sequence[str]) -> None:
    """Refuse a call that names unknown parties or whose result might overflow, before anything is computed."""
    if not call.terms or call.receiver not in call.participants:
        raise InputError("a product needs at least one pair of parties, and its receiver must be one of them")
    if isinstance(call.left, RowByRow):
        raise InputError("a product row by row stays in secret shares and is shown to nobody")
    if any(left == right for left, right in call.terms):
        raise InputError("a product needs matrices of two different parties; a party adds its own matrix with `added`")
    if strangers := [party for party in call.participants if party not in parties]:
        raise InputError(f"a product names unknown parties: {', '.join(strangers)}")
    if not (call.x + call.y).isprintable():
        raise InputError("the names of matrices must be printable")
    if call.fixed and not (isinstance(call.left, Dense) and call.fixed < call.rows):
        raise InputError("with `fixed`, X must be dense and have more rows than that")
    numbers = [call.rows, call.columns, call.bound, call.among, call.fixed, call.most]
    numbers += [number for block in call.blocks for number in block] + [bound for _, bound in call.added]
    numbers += (
        [call.left.width, call.left.bound] if isinstance(call.left, Dense) else [*call.left.sizes, call.left.nodes]
    )
    if not all(isinstance(number, int) and number >= 0 for number in numbers):  # numpy's integers would wrap around
        raise InputError("the sizes and bounds of a product must be Python integers, not negative")
    if isinstance(call.left, OneHot) and not call.left.nodes:
        raise InputError("a product needs at least one node")
    if call.blocks and [*map(sum, zip(*call.blocks, strict=True))] != [call.rows, getattr(call.left, "nodes", None)]:
        raise InputError("the blocks of a product must have all its rows and nodes")
    if call.result_bound > LARGEST:
        raise InputError(
            f"a product over {call.rows} rows may take {call.result_bound.bit_length()} bits, and 63 is the most: "
            "use inputs with fewer bits"
        )


def check_inputs(call: Call, party: str, inputs: Inputs, seen: set[object] | None = None) -> None:
    """Refuse inputs of `party` that do not match the call.

    Bins that were `seen` in the same batch are not gone through again.
    """
    seen = set() if seen is None else seen
    if any(left == party for left, _ in call.terms):
        if isinstance(call.left, Dense):
            _check_matrix(inputs.x, (call.rows, call.left.width), call.left.bound, party, "X")
        else:
            bins = id(inputs.x), call.rows, call.left.sizes
            if bins not in seen:
                _check_bins(inputs.x, call.rows, call.left.sizes, party)
                seen.add(bins)
            if not call.left.hidden:
                _check_nodes(inputs.nodes, call, call.left.nodes, party)
    if any(right == party for _, right in call.terms):
        _check_matrix(inputs.y, (call.rows, call.columns), call.bound, party, "Y")
        if isinstance(call.left, OneHot):
            _check_nodes(inputs.nodes, call, call.left.nodes, party)
            _check_sums(given(inputs.y), call, party)
    for adder, bound in call.added:
        if adder == party:
            _check_matrix(inputs.added, call.shape, bound, party, "the matrix it adds")


def given(value: T | None) -> T:
    """An input that `check_inputs` has checked."""
    if value is None:
        raise ValueError("a checked input is missing")
    return value


def _check_matrix(values: NDArray[Any] | None, shape: tuple[int, ...], bound: int, party: str, what: str) -> None:
    if values is None or values.dtype != np.int64 or values.shape != shape:
        raise InputError(f"{party}: {what} must be whole numbers (int64) of shape {shape}")
    if values.size and (int(values.max()) > bound or int(values.min()) < -bound):
        raise InputError(f"{party}: {what} has a value beyond the bound of the call")


def _check_sums(y: Ints, call: Call, party: str) -> None:
    if call.most and max(largest_sums(y), default=0) > call.most:
        raise InputError(f"{party}: rows of a column of Y add up to more than the call's largest result")


def _check_bins(bins: NDArray[Any] | None, rows: int, sizes: tuple[int, ...], party: str) -> None:
    if bins is None or bins.dtype.kind not in "iu" or bins.shape != (rows, len(sizes)):
        raise InputError(f"{party}: X must be bins (whole numbers) of shape {(rows, len(sizes))}")
    if not bins.size:
        return
    within = int(bins.max()) < min(sizes) or bool((_largest_of_columns(bins) < np.array(sizes)).all())
    if not within or (bins.dtype.kind == "i" and int(bins.min()) < 0):
        raise InputError(f"{party}: X has a bin out of range")


def _largest_of_columns(values: NDArray[Any]) -> NDArray[Any]:
    """The largest number of each column: of many rows side by side first, since numpy is slow along short rows."""
    rows, columns = values.shape
    beside = min(_CELLS_BESIDE // columns, rows)
    if beside < 2 or not values.flags.c_contiguous:
        found: NDArray[Any] = values.max(axis=0)
        return found
    whole = rows - rows % beside
    found = values[:whole].reshape(-1, beside * columns).max(axis=0).reshape(beside, columns).max(axis=0)
    return np.maximum(found, values[whole:].max(axis=0)) if whole < rows else found


def _check_nodes(nodes: Ints32 | None, call: Call, count: int, party: str) -> None:
    if nodes is None or nodes.dtype != np.int32 or nodes.shape != (call.rows,):
        raise InputError(f"{party}: the nodes must be whole numbers (int32), one for each of {call.rows} rows")
    if call.rows and (int(nodes.min()) < -1 or int(nodes.max()) >= count):
        raise InputError(f"{party}: a row's node is neither -1 nor below {count}")
    if call.blocks and not _in_blocks(nodes, call.blocks):
        raise InputError(f"{party}: a row is in a node of another block of rows")


def _in_blocks(nodes: Ints32, blocks: Sequence[tuple[int, int]]) -> bool:
    rows, counts = np.array(blocks, np.int32).T
    ends = counts.cumsum(dtype=np.int32)
    firsts, ends = (ends - counts).repeat(rows), ends.repeat(rows)
    return bool(((nodes < 0) | ((nodes >= firsts) & (nodes < ends))).all())
