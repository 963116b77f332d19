"""A product as everybody knows it: who holds what, its shape and bounds, and who is shown the result.

A call asks for the sum, over pairs of parties, of XᵀY, where one party of a pair holds X and the other Y, row by row
the same people. X is either a dense matrix of whole numbers or one-hot: a bin for each row and column, and a node for
each row (-1 for a row that takes no part). Nothing in a call depends on data but the number of nodes. A party makes the
calls in which it takes part, and those who take part in the same calls make them in the same order.
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

T = TypeVar("T")

LARGEST, RING = 2**63 - 1, 2**63
"""The largest result, and the bound of numbers mod 2^64 such as shares."""


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
    """X has a bin for each row and column, `sizes` says how many bins a column has; rows are summed up by node.

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
    """One product, or sum of products, shown to one party.

    `terms` are pairs: the holder of X, the holder of Y. Y has `columns` of whole numbers between -bound and bound. The
    parties in `added` add a matrix of their own, with the bound given there, before anything is shown. Under the names
    `x` and `y` a party says that its X or Y is the one it used under that name before, so that what was prepared serves
    again. Where the rows are two matrices one above the other, the first of `fixed` rows, `x` names X of the first and
    `y` names Y of the second. `digest` is that of the aligned rows; `among` says how many these are where a call is
    about some of them. Where matrices are random shares, `most` says how large the result can become.
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

    @property
    def shape(self) -> tuple[int, ...]:
        """The result's: width × columns, row by row rows × width × columns, or nodes × bins × columns."""
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
        """How large the result can become."""
        if self.most:
            return self.most
        each = self.left.bound if isinstance(self.left, Dense) else 1
        return len(self.terms) * self.rows * each * self.bound + sum(bound for _, bound in self.added)

    @cached_property
    def participants(self) -> tuple[str, ...]:
        """Everybody who contributes, in order of first appearance."""
        parties = [party for term in self.terms for party in term] + [party for party, _ in self.added]
        return tuple(dict.fromkeys(parties))

    def tag(self, number: int) -> bytes:
        """What the messages of this call carry; `number` is its number among the calls of the same participants.

        Whoever takes part must make the same call, after as many others of the same participants.
        """
        return hashlib.sha256(f"unpooled product {number} {self._text}".encode()).digest()[:16]

    @cached_property
    def _text(self) -> str:
        return repr(self)


@dataclass(frozen=True, eq=False)
class Inputs:
    """What one party holds for a call, None for what it does not hold.

    `about` says what the product is about, where evidence of it is kept (`evidence`).
    """

    x: NDArray[Any] | None = None
    y: Ints | None = None
    nodes: Ints32 | None = None
    added: Ints | None = None
    about: Mapping[str, Any] | None = None


def check_call(call: Call, parties: Sequence[str]) -> None:
    """Refuse a call that names strangers, or whose result might not fit, before anything is computed."""
    if not call.terms or call.receiver not in call.participants:
        raise InputError("a product needs at least one pair of parties, and the one who is shown it must be among them")
    if isinstance(call.left, RowByRow):
        raise InputError("a product row by row stays in shares, and is shown to nobody")
    if any(left == right for left, right in call.terms):
        raise InputError("a product is of matrices that two different parties hold; a party adds its own as a term")
    if strangers := [party for party in call.participants if party not in parties]:
        raise InputError(f"a product names {', '.join(strangers)}, who takes no part")
    if any(name.startswith("#") or not name.isprintable() for name in (call.x, call.y)):
        raise InputError("the names of matrices are printable, and do not begin with #")
    if call.fixed and not (isinstance(call.left, Dense) and call.fixed < call.rows):
        raise InputError("the first of two matrices one above the other is dense, and has fewer rows than both")
    numbers = [call.rows, call.columns, call.bound, call.among, call.fixed, call.most]
    numbers += [bound for _, bound in call.added]
    numbers += (
        [call.left.width, call.left.bound] if isinstance(call.left, Dense) else [*call.left.sizes, call.left.nodes]
    )
    if not all(isinstance(number, int) and number >= 0 for number in numbers):  # numpy's integers would wrap around
        raise InputError("the sizes and bounds of a product are whole numbers of Python's own, none negative")
    if isinstance(call.left, OneHot) and not call.left.nodes:
        raise InputError("a product has at least one node")
    if call.result_bound > LARGEST:
        raise InputError(
            f"a product over {call.rows} rows may reach {call.result_bound.bit_length()} bits, and 63 are there: "
            "take fewer bits for its inputs"
        )


def check_inputs(call: Call, party: str, inputs: Inputs) -> None:
    """Refuse inputs that are not what the call says; `party` is whose they are."""
    if any(left == party for left, _ in call.terms):
        if isinstance(call.left, Dense):
            _check_matrix(inputs.x, (call.rows, call.left.width), call.left.bound, party, "X")
        else:
            _check_bins(inputs.x, call.rows, call.left.sizes, party)
            if not call.left.hidden:
                _check_nodes(inputs.nodes, call.rows, call.left.nodes, party)
    if any(right == party for _, right in call.terms):
        _check_matrix(inputs.y, (call.rows, call.columns), call.bound, party, "Y")
        if isinstance(call.left, OneHot):
            _check_nodes(inputs.nodes, call.rows, call.left.nodes, party)
    for adder, bound in call.added:
        if adder == party:
            _check_matrix(inputs.added, call.shape, bound, party, "the matrix it adds")


def given(value: T | None) -> T:
    """An input that `check_inputs` has made sure is there."""
    if value is None:
        raise ValueError("an input is missing that was checked before")
    return value


def _check_matrix(values: NDArray[Any] | None, shape: tuple[int, ...], bound: int, party: str, what: str) -> None:
    if values is None or values.dtype != np.int64 or values.shape != shape:
        raise InputError(f"{party}: {what} must be whole numbers (int64) of shape {shape}")
    if values.size and (int(values.max()) > bound or int(values.min()) < -bound):
        raise InputError(f"{party}: {what} has a value beyond the bound that the call states")


def _check_bins(bins: NDArray[Any] | None, rows: int, sizes: tuple[int, ...], party: str) -> None:
    if bins is None or bins.dtype.kind not in "iu" or bins.shape != (rows, len(sizes)):
        raise InputError(f"{party}: X must be bins (whole numbers) of shape {(rows, len(sizes))}")
    if not bins.size:
        return
    within = int(bins.max()) < min(sizes) or bool((bins.max(axis=0) < np.array(sizes)).all())
    if not within or (bins.dtype.kind == "i" and int(bins.min()) < 0):
        raise InputError(f"{party}: X has a bin that its column does not have")


def _check_nodes(nodes: Ints32 | None, rows: int, count: int, party: str) -> None:
    if nodes is None or nodes.dtype != np.int32 or nodes.shape != (rows,):
        raise InputError(f"{party}: the nodes must be whole numbers (int32), one for each of {rows} rows")
    if rows and (int(nodes.min()) < -1 or int(nodes.max()) >= count):
        raise InputError(f"{party}: a row's node is not one of {count}, nor -1")
