"""Products by additive shares mod 2^64, with random numbers that the coordinator deals; it sees nothing but shapes.

Y's columns are packed into words first (`packing`). The holder of Y is dealt a mask V and opens F = Y - V. Where the
driver would be dealt only seeds, it chooses them itself and tells the coordinator, which saves a message. For products
of the same shape, numbers are dealt ahead (`supply`, `state`); for triples of any shape, seeds, so that only the
driver's half is on its way while the others work.

**Matrix triple.** The holder of X is dealt a mask U and opens E = X - U. W = UᵀV is dealt as two random halves. XᵀY =
(XᵀF + one half) + (EᵀV + other half): each side computes one bracket. For one-hot X the nodes are folded into Y, so
that only its holder needs to know them. Row by row it is the same, with the product of each row in place of the sum.

**Permute and share**, for one-hot X with nodes that both sides know. For each column the holder of X has the order π of
the rows by node and bin. It is dealt a random order ρ and Δ = V[ρ] - b; the other side is dealt b. It sends σ with ρ[σ]
= π, which is as random as ρ. It holds F[π] + Δ[σ], the other side b[σ]; together that is Y[π], and each side sums its
runs. Rows outside all nodes come last and are in no run. The holder of Y learns the lengths of the runs. `permuting`
has the messages, and `permutation` the arithmetic.

A mask hides one matrix only: U is bound to one X and V to one Y, and what was opened may be used again. Halves, Δ, b
and ρ are used once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ring
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Inputs, RowByRow, given
from unpooled.secure.engine import Engine, Rules, Serving
from unpooled.secure.randomness import expand
from unpooled.secure.shares import dealer, permuting
from unpooled.secure.shares.blocks import row_blocks, summed, watched
from unpooled.secure.shares.dealer import DealItem, seeded
from unpooled.secure.shares.opening import Task, keep_received, open_matrices
from unpooled.secure.shares.packing import pack, unpack
from unpooled.secure.shares.state import Mask
from unpooled.secure.shares.supply import ask_ahead, method_of, new_to, slots_of, supplied, take_late, with_values


def begin(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> Callable[[], list[Ring]]:
    """Deal and open, then multiply: at most two messages from each party to another, however many products there are,
    and more only where matrices are large (`blocks`).

    Every party sends to all peers before it receives, and all go through large permutations in the same order, so that
    no cycle of parties waits.
    """
    tasks, late = _dealt_tasks(engine, batch, tags)
    peers = [peer for peer in engine.parties if any(task.peer == peer for task in tasks)]
    opened = open_matrices(engine, {peer: [task for task in tasks if task.peer == peer] for peer in peers})
    return partial(_multiplied, engine, batch, tasks, peers, opened, late)


def _multiplied(
    engine: Engine,
    batch: Sequence[tuple[Call, Inputs]],
    tasks: Sequence[Task],
    peers: Sequence[str],
    opened: Sequence[Task],
    late: Sequence[DealItem],
) -> list[Ring]:
    if late:
        dealt = take_late(engine, late)
        for task in tasks:
            if seeded(task.need.item):
                task.part = with_values(task.part, next(dealt))
    for task in opened:
        keep_received(engine, task, engine.shares.opened[task.peer, task.theirs].blocks())
    permuted = [task for task in tasks if task.permutes and not task.large]
    for peer in peers:
        permuting.send_orders(engine, peer, [task for task in permuted if task.peer == peer and task.is_left])
    for peer in peers:
        permuting.take_orders(engine, peer, [task for task in permuted if task.peer == peer and not task.is_left])
    held = [np.zeros(_shape(call), np.uint64) for call, _ in batch]
    groups = _by_x(sorted(tasks, key=lambda task: not task.large))
    for number, group in enumerate(groups):
        alive = partial(engine.session.progress, number, len(groups))
        if group[0].permutes:
            shares = [permuting.share(engine, group[0], alive)]
        else:
            shares = (_left_shares if group[0].is_left else _right_shares)(engine, group, alive)
        for task, values in zip(group, shares, strict=True):
            held[task.place] += values
    unnamed = {matrix for task in tasks for matrix in (task.own, task.theirs) if not matrix.name}
    engine.shares.drop(unnamed)  # each serves one call
    return held


def _dealt_tasks(
    engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]
) -> tuple[list[Task], list[DealItem]]:
    """This party's terms, with what the coordinator dealt for them; new masks are kept for the whole batch.

    Of the items that are returned too, the numbers come later.
    """
    tasks = []
    terms, late = supplied(engine, [call for call, _ in batch], tags)
    for place, need, part in terms:
        is_left = need.item.left == engine.party
        peer, (call, inputs) = need.item.right if is_left else need.item.left, batch[place]
        x, y = (None if matrix is None else matrix[need.rows] for matrix in (inputs.x, inputs.y))
        task = Task(place, call, replace(inputs, x=x, y=y), tags[place], need, part, peer, is_left)
        if part.mask:
            seed = new_to(engine, part.mask)
            engine.shares.masks[task.own] = Mask(seed, task.shape_of(task.own))
        tasks.append(task)
    return tasks, late


def announce(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    ask_ahead(engine, batches)


def _by_x(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks in groups that multiply the same X, so that it is gone through once; others by themselves."""
    groups: dict[object, list[Task]] = {}
    for task in tasks:
        together = task.need.item.method == "triple"
        groups.setdefault((task.peer, task.is_left, task.need.x) if together else id(task), []).append(task)
    return list(groups.values())


def _left_shares(engine: Engine, tasks: Sequence[Task], alive: Callable[[], None]) -> list[Ring]:
    task, opened = tasks[0], [engine.shares.opened[each.peer, each.theirs] for each in tasks]
    left, item, x = task.call.left, task.need.item, given(task.inputs.x)
    halves = [_left_half(engine, each) for each in tasks]
    if isinstance(left, RowByRow):
        return [mod64.row_products(x.view(np.uint64), opened[0].whole()) + halves[0]]
    cuts = row_blocks(item.rows, item.width + sum(each.shape[1] for each in opened))
    blocks = ((x[cut], [each.block(cut) for each in opened]) for cut in watched(cuts, alive))
    sums = summed(blocks, partial(multiply_block, task.sizes), spread=bool(task.sizes))  # bins are short to send
    return _each(tasks, sums, halves)


def multiply_block(sizes: tuple[int, ...], block: NDArray[Any], ys: Ring) -> Ring:
    """XᵀY of some rows: of bins where there are `sizes` of columns, or else of numbers."""
    return mod64.bin_sums(block, sizes, ys) if sizes else mod64.product(block.view(np.uint64), ys)


def _right_shares(engine: Engine, tasks: Sequence[Task], alive: Callable[[], None]) -> list[Ring]:
    task = tasks[0]
    left, item = task.call.left, task.need.item
    opened, masks = engine.shares.opened[task.peer, task.theirs], [engine.shares.masks[each.own] for each in tasks]
    halves = [_dealt_numbers(engine, each, dealer.half_shape(each.need.item)) for each in tasks]
    if isinstance(left, RowByRow):
        (values,) = masks[0].blocks([slice(0, item.rows)])
        return [mod64.row_products(opened.whole(), values) + halves[0]]
    cuts = row_blocks(item.rows, item.width + sum(mask.shape[1] for mask in masks))
    ys = zip(*(mask.blocks(cuts) for mask in masks), strict=True)
    sums = summed(((opened.block(cut), next(ys)) for cut in watched(cuts, alive)), mod64.product)
    return _each(tasks, sums, halves)


def _dealt_numbers(engine: Engine, task: Task, shape: tuple[int, ...]) -> Ring:
    return mod64.from_bytes(task.part.values, shape, engine.coordinator, task.need.item.word_bytes)


def _left_half(engine: Engine, task: Task) -> Ring:
    return expand(new_to(engine, task.part.once), b"half", dealer.half_shape(task.need.item))


def _each(tasks: Sequence[Task], sums: Ring, halves: Sequence[Ring]) -> list[Ring]:
    """The shares of products that were computed side by side."""
    ends = np.cumsum([task.need.item.words for task in tasks])[:-1]
    shares = [part + half for part, half in zip(np.split(sums, ends, axis=1), halves, strict=True)]
    return [mod64.unfold(share, task.nodes) if task.folds else share for share, task in zip(shares, tasks, strict=True)]


def _shape(call: Call) -> tuple[int, ...]:
    return (*call.shape[:-1], slots_of(call).words)


def from_values(engine: Engine, call: Call, values: Ints) -> Ring:  # noqa: ARG001
    return pack(values, slots_of(call))


def add(engine: Engine, call: Call, parts: Sequence[Ring]) -> Ring:  # noqa: ARG001
    return sum(parts[1:], parts[0])


def masked(engine: Engine, call: Call, tag: bytes, held: Ring, others: Sequence[str]) -> Ring:
    """The share plus random numbers that cancel against those of the others."""
    for other in others:
        numbers = expand(engine.mask_seeds[other], b"cancel" + tag, _shape(call))
        held = held + numbers if engine.comes_before(other) else held - numbers
    return held


def to_bytes(engine: Engine, call: Call, held: Ring) -> Bytes:  # noqa: ARG001
    return mod64.to_bytes(held, slots_of(call).word_bytes).reshape(-1)


def from_bytes(engine: Engine, call: Call, values: Bytes, sender: str) -> Ring:  # noqa: ARG001
    return mod64.listed(values, _shape(call), sender, slots_of(call).word_bytes)


def read(engine: Engine, call: Call, total: Ring) -> Ints:  # noqa: ARG001
    return unpack(total, slots_of(call))


def answer_bits(rules: Rules, call: Call) -> int:
    """All bits of the words that are sent, plus the lengths of runs where the holder of Y learns them.

    A deviating party could use every bit of a word, also those that the bound on results leaves over.
    """
    bits = 8 * slots_of(call).word_bytes * math.prod(_shape(call))
    if method_of(call, rules) == "permute":
        bits += call.cells * call.rows_summed.bit_length() * len(call.terms)
    return bits


def serve(engine: Engine, serving: Serving) -> int:
    return dealer.serve(engine.session, engine.driver, engine.parties, serving)
