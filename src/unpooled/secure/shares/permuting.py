"""Permute and share between two parties: the orders that are sent, and each side's sums (`engine` explains them).

Small products travel together, in one message from each party to another, and then are added up. A large one goes in
portions of columns: each is dealt, put in order, sent and added up before the next, so that nobody ever holds all
columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from unpooled.arrays import Ints, Ring
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
    tags: tuple[bytes, ...]
    places: tuple[Places, ...]
    lengths: tuple[Ints, ...]


def send_orders(engine: Engine, right: str, tasks: Sequence[Task]) -> None:
    """Send the holder of Y the orders of small products."""
    for task in tasks:
        seed = new_to(engine, task.part.once)
        task.orders, task.places, task.lengths = _in_order(task, seed, _all_columns(task))
        keep_opening(engine, task, seed)
    if tasks:
        places, lengths = [given(task.places) for task in tasks], [given(task.lengths) for task in tasks]
        engine.session.send(right, Orders(tuple(task.tag for task in tasks), tuple(places), tuple(lengths)))


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
    return permutation.left_sums(dealt, opened, places, given(task.orders), lengths, *_runs(task, columns))


def _left_in_portions(engine: Engine, task: Task, alive: Callable[[], None]) -> Ring:
    seed, opened = new_to(engine, task.part.once), engine.shares.opened[task.peer, task.theirs].whole()
    keep_opening(engine, task, seed)
    sums = []
    for columns in portions_of(task.need.item):
        alive()
        orders, places, lengths = _in_order(task, seed, columns)
        engine.session.send(task.peer, Orders((task.tag,), (places,), (lengths,)))
        dealt = next_portion(engine, task.need.item, columns)
        sums.append(permutation.left_sums(dealt, opened, places, orders, lengths, *_runs(task, columns)))
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


def _in_order(task: Task, seed: bytes, columns: slice) -> tuple[Places, Places, Ints]:
    """Of some columns of X: the order of the rows, the same as it is sent, and the lengths of the runs."""
    x, nodes, (sizes, count) = given(task.inputs.x), given(task.inputs.nodes), _runs(task, columns)
    orders, lengths = mod64.sort_rows(x[:, columns], sizes, nodes, count)
    return orders, permutation.hidden_places(seed, orders, nodes, columns.start), lengths


def _taken(engine: Engine, left: str, wanted: Sequence[tuple[Task, slice]]) -> list[tuple[Places, Ints]]:
    """The orders of some columns of products, and the lengths of their runs, checked."""
    shapes = []
    for task, columns in wanted:
        sizes, nodes = _runs(task, columns)
        shapes.append(((len(sizes), task.need.item.rows), (nodes * sum(sizes),)))
    most = sum(4 * width * rows + 8 * runs for (width, rows), (runs,) in shapes)
    arrived = recv_tagged(engine.session, left, Orders, [task.tag for task, _ in wanted], most)
    taken = list(zip(arrived.places, arrived.lengths, strict=True))
    for (task, columns), shape, (places, lengths) in zip(wanted, shapes, taken, strict=True):
        if (places.shape, lengths.shape) != shape:
            raise ProtocolError(f"invalid Orders from {left}: wrong shape")
        if places.size and int(places.max()) >= task.need.item.rows:
            raise ProtocolError(f"invalid Orders from {left}: a position is out of range")
        if not permutation.lengths_fit(lengths, task.inside, *_runs(task, columns)):
            raise ProtocolError(f"invalid Orders from {left}: the bins do not add up to the rows of the nodes")
    return taken


def _right_sums(task: Task, seed: bytes, columns: slice, places: Places, lengths: Ints) -> Ring:
    words, runs = task.need.item.words, _runs(task, columns)
    return permutation.right_sums(seed, places, words, lengths, task.inside, *runs, columns.start)


def _all_columns(task: Task) -> slice:
    return slice(0, task.need.item.width)


def _runs(task: Task, columns: slice) -> tuple[tuple[int, ...], int]:
    """How many bins some columns have, and how many nodes there are: every bin of a node is a run."""
    return task.sizes[columns], task.nodes
