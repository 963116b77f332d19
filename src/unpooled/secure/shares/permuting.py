"""Permute and share between two parties: the orders that are sent, and each side's sums (`engine` explains them).

Small products travel together, in one message from each party to another, and then are added up. A large one goes in
portions of columns: each is dealt, put in order, sent and added up before the next, so that nobody ever holds all
columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import given
from unpooled.secure.engine import Engine, recv_tagged
from unpooled.secure.mod64 import Places
from unpooled.secure.shares import permutation
from unpooled.secure.shares.dealer import portions_of
from unpooled.secure.shares.opening import Task, keep_digest, keep_opening, keep_received, keeps_evidence
from unpooled.secure.shares.supply import new_to, next_portion
from unpooled.wire import message


@message(
    discloses="how many rows each node has in each bin of each column, columns without names; the orders are random",
    to="the holder of Y",
)
class Orders:
    """Positions have two bytes where no block of rows is longer than 2^16, and four otherwise."""

    tags: tuple[bytes, ...]
    places: tuple[Bytes, ...]
    lengths: tuple[Ints, ...]


def send_orders(engine: Engine, right: str, tasks: Sequence[Task]) -> None:
    """Send the holder of Y the orders of small products."""
    for task in tasks:
        seed = new_to(engine, task.part.once)
        task.orders, task.places, task.lengths = _in_order(task, seed, _all_columns(task))
        keep_opening(engine, task, seed)
    if tasks:
        places, lengths = [_sent(given(task.places)) for task in tasks], [given(task.lengths) for task in tasks]
        shown = any(task.call.receiver == right for task in tasks)  # then its contribution follows
        engine.session.send(right, Orders(tuple(task.tag for task in tasks), tuple(places), tuple(lengths)), more=shown)


def take_orders(engine: Engine, left: str, tasks: Sequence[Task]) -> None:
    """Take the orders of small products from the holder of X."""
    if tasks:
        taken = _taken(engine, left, [(task, _all_columns(task)) for task in tasks])
        for task, (places, lengths) in zip(tasks, taken, strict=True):
            task.places, task.lengths = places, lengths
            keep_received(engine, task, (places, lengths))


def share(engine: Engine, task: Task, alive: Callable[[], None]) -> Ring:
    """This party's share of a product."""
    if task.large:
        return (_left_in_portions if task.is_left else _right_in_portions)(engine, task, alive)
    columns, places, lengths = _all_columns(task), given(task.places), given(task.lengths)
    if not task.is_left:
        return _right_sums(task, new_to(engine, task.part.once), columns, places, lengths)
    item, opened = task.need.item, engine.shares.opened[task.peer, task.theirs].whole()
    shape = item.width, item.rows, item.words
    dealt = mod64.from_bytes(task.part.values, shape, engine.coordinator, item.word_bytes)
    return _left_sums(task, columns, opened, dealt, (given(task.orders), places, lengths))


def _left_in_portions(engine: Engine, task: Task, alive: Callable[[], None]) -> Ring:
    seed, opened = new_to(engine, task.part.once), engine.shares.opened[task.peer, task.theirs].whole()
    keep_opening(engine, task, seed)
    sums = []
    for columns in portions_of(task.need.item):
        alive()
        ordered = _in_order(task, seed, columns)
        engine.session.send(task.peer, Orders((task.tag,), (_sent(ordered[1]),), (ordered[2],)))
        dealt = next_portion(engine, task.need.item, columns)
        sums.append(_left_sums(task, columns, opened, dealt, ordered))
    return np.concatenate(sums, axis=1)


def _right_in_portions(engine: Engine, task: Task, alive: Callable[[], None]) -> Ring:
    seed, found = new_to(engine, task.part.once), hashlib.sha256()
    sums, all_lengths = [], []
    for columns in portions_of(task.need.item):
        alive()
        ((places, lengths),) = _taken(engine, task.peer, [(task, columns)])
        sums.append(_right_sums(task, seed, columns, places, lengths))
        all_lengths.append(lengths)
        if keeps_evidence(engine, task):
            found.update(np.ascontiguousarray(places).data)
    found.update(np.concatenate(all_lengths).data)  # the digest is the same as that of a small product
    keep_digest(engine, task, found.hexdigest())
    return np.concatenate(sums, axis=1)


def _in_order(task: Task, seed: bytes, columns: slice) -> tuple[Places, NDArray[Any], Ints]:
    """Of some columns of X: the order of the rows, the same as it is sent, and the lengths of the runs."""
    x, nodes = given(task.inputs.x), given(task.inputs.nodes)
    orders, lengths = mod64.sort_rows(x[:, columns], task.sizes[columns], nodes, task.nodes)
    return orders, permutation.hidden_places(seed, orders, nodes, task.blocks, columns.start), lengths


def _sent(places: NDArray[Any]) -> Bytes:
    return places.astype(places.dtype.newbyteorder("<"), copy=False).view(np.uint8)


def _taken(engine: Engine, left: str, wanted: Sequence[tuple[Task, slice]]) -> list[tuple[NDArray[Any], Ints]]:
    """The orders of some columns of products, and the lengths of their runs, checked."""
    shapes = []
    for task, columns in wanted:
        sizes, kind = task.sizes[columns], np.dtype(task.blocks.kind)
        shapes.append(((len(sizes), kind.itemsize * task.need.item.rows), (task.nodes * sum(sizes),)))
    most = sum(width * size + 8 * runs for (width, size), (runs,) in shapes)
    arrived = recv_tagged(engine.session, left, Orders, [task.tag for task, _ in wanted], most)
    taken = []
    for (task, columns), shape, data, lengths in zip(wanted, shapes, arrived.places, arrived.lengths, strict=True):
        if (data.shape, lengths.shape) != shape:
            raise ProtocolError(f"invalid Orders from {left}: wrong shape")
        little = np.dtype(task.blocks.kind).newbyteorder("<")
        places = data.view(little).astype(task.blocks.kind, copy=False)
        if not permutation.places_fit(places, task.blocks):
            raise ProtocolError(f"invalid Orders from {left}: a position is out of range")
        if not permutation.lengths_fit(lengths, task.inside, task.sizes[columns], task.blocks):
            raise ProtocolError(f"invalid Orders from {left}: the bins do not add up to the rows of the nodes")
        taken.append((places, lengths))
    return taken


def _left_sums(
    task: Task, columns: slice, opened: Ring, dealt: Ring, ordered: tuple[Places, NDArray[Any], Ints]
) -> Ring:
    orders, places, lengths = ordered
    return permutation.left_sums(dealt, opened, places, orders, lengths, task.inside, task.sizes[columns], task.blocks)


def _right_sums(task: Task, seed: bytes, columns: slice, places: NDArray[Any], lengths: Ints) -> Ring:
    words, sizes = task.need.item.words, task.sizes[columns]
    return permutation.right_sums(seed, places, words, lengths, task.inside, sizes, task.blocks, columns.start)


def _all_columns(task: Task) -> slice:
    return slice(0, task.need.item.width)
