"""No protection: the holder of X shows it to the holder of Y. For pooled runs and comparisons; never over a network."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from unpooled.arrays import Bytes, Ints, Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, Inputs, RowByRow, given
from unpooled.secure.engine import Engine, Rules, Serving, recv_tagged
from unpooled.wire import message

_EXACT = 2**53


@message(discloses="matrices X, as they are", to="the holder of Y")
class PlainMatrix:
    tags: tuple[bytes, ...]
    values: tuple[Ints, ...]


def begin(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> Callable[[], list[Ring]]:
    """The holder of Y has the whole product, everybody else zero."""
    session, me = engine.session, engine.party
    terms = [(place, left, right) for place, (call, _) in enumerate(batch) for left, right in call.terms]
    for peer in engine.parties:
        places = [place for place, left, right in terms if (left, right) == (me, peer)]
        if places:
            values = tuple(given(batch[place][1].x).astype(np.int64) for place in places)
            session.send(peer, PlainMatrix(tuple(tags[place] for place in places), values))
    return partial(_products, engine, batch, tags, terms)


def _products(
    engine: Engine,
    batch: Sequence[tuple[Call, Inputs]],
    tags: Sequence[bytes],
    terms: Sequence[tuple[int, str, str]],
) -> list[Ring]:
    session, me = engine.session, engine.party
    held = [np.zeros(call.shape, np.uint64) for call, _ in batch]
    for peer in engine.parties:
        places = [place for place, left, right in terms if (left, right) == (peer, me)]
        if not places:
            continue
        lefts = [batch[place][0].left for place in places]
        widths = [left.width if isinstance(left, Dense) else len(left.sizes) for left in lefts]
        shapes = [(batch[place][0].rows, width) for place, width in zip(places, widths, strict=True)]
        most = 8 * sum(map(math.prod, shapes))
        shown = recv_tagged(session, peer, PlainMatrix, [tags[place] for place in places], most)
        for place, shape, x in zip(places, shapes, shown.values, strict=True):
            if x.shape != shape:
                raise ProtocolError(f"invalid PlainMatrix from {peer}: wrong shape")
            held[place] += _product(batch[place][0], x, batch[place][1]).view(np.uint64)
    return held


def _product(call: Call, x: Ints, inputs: Inputs) -> Ints:
    y = given(inputs.y)
    if isinstance(call.left, RowByRow):
        return mod64.row_products(x.view(np.uint64), y.view(np.uint64)).view(np.int64)
    if isinstance(call.left, Dense):
        return mod64.product(x.view(np.uint64), y.view(np.uint64)).view(np.int64)
    result = np.zeros(call.shape, np.int64)
    nodes = given(inputs.nodes)
    inside = np.flatnonzero(nodes >= 0)
    node = nodes[inside].astype(np.int64)
    offset = 0
    for column, size in enumerate(call.left.sizes):
        place = node * size + x[inside, column]
        for k in range(call.columns):
            sums = _sums(place, y[inside, k], call.left.nodes * size, call.result_bound)
            result[:, offset : offset + size, k] = sums.reshape(call.left.nodes, size)
        offset += size
    return result


def _sums(place: Ints, values: Ints, length: int, bound: int) -> Ints:
    """Sums by place; numpy's own adds in floating point, which is exact as long as no sum passes 2^53."""
    if bound < _EXACT:
        return np.bincount(place, values, length).astype(np.int64)
    sums = np.zeros(length, np.int64)
    np.add.at(sums, place, values)
    return sums


def from_values(engine: Engine, call: Call, values: Ints) -> Ring:  # noqa: ARG001
    return values.view(np.uint64)


def add(engine: Engine, call: Call, parts: Sequence[Ring]) -> Ring:  # noqa: ARG001
    return sum(parts[1:], parts[0])


def masked(engine: Engine, call: Call, tag: bytes, held: Ring, others: Sequence[str]) -> Ring:  # noqa: ARG001
    """Nothing is protected."""
    return held


def to_bytes(engine: Engine, call: Call, held: Ring) -> Bytes:  # noqa: ARG001
    return mod64.to_bytes(held).reshape(-1)


def from_bytes(engine: Engine, call: Call, values: Bytes, sender: str) -> Ring:  # noqa: ARG001
    return mod64.listed(values, call.shape, sender)


def read(engine: Engine, call: Call, total: Ring) -> Ints:  # noqa: ARG001
    return total.view(np.int64)


def answer_bits(rules: Rules, call: Call) -> int:  # noqa: ARG001
    """As many as the words take; that the holder of Y is shown X besides is why this engine is for trials alone."""
    return 64 * math.prod(call.shape)


def announce(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    """Nothing can be made ahead."""


def serve(engine: Engine, serving: Serving) -> int:  # noqa: ARG001
    """The coordinator has nothing to do."""
    return 0
