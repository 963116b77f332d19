"""Products by additive shares mod 2^64, with random numbers that the coordinator deals; it sees nothing but shapes.

Y's columns are packed into words first (`packing`). The holder of Y is dealt a mask V and opens F = Y - V. Where the
driver would be dealt only seeds, it chooses them itself and tells the coordinator, which saves a message. For products
of the same shape, numbers are dealt ahead (`supply`, `state`).

**Matrix triple.** The holder of X is dealt a mask U and opens E = X - U. W = UᵀV is dealt as two random halves. XᵀY =
(XᵀF + one half) + (EᵀV + other half): each side computes one bracket. For one-hot X the nodes are folded into Y, so
that only its holder needs to know them. Row by row it is the same, with the product of each row in place of the sum.

**Permute and share**, for one-hot X with nodes that both sides know. For each column the holder of X has the order π of
the rows by node and bin. It is dealt a random order ρ and Δ = V[ρ] - b; the other side is dealt b. It sends σ with ρ[σ]
= π, which is as random as ρ. It holds F[π] + Δ[σ], the other side b[σ]; together that is Y[π], and each side sums its
runs. Rows outside all nodes come last and are in no run. The holder of Y learns the lengths of the runs. `permutation`
has the arithmetic.

A mask hides one matrix only: U is bound to one X and V to one Y, and what was opened may be used again. Halves, Δ, b
and ρ are used once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Inputs, OneHot, RowByRow, given
from unpooled.secure.engine import Engine, Rules, Serving, recv_tagged
from unpooled.secure.evidence import digest_of
from unpooled.secure.mod64 import Places
from unpooled.secure.randomness import SEED_BYTES, expand
from unpooled.secure.shares import dealer, permutation
from unpooled.secure.shares.dealer import Part
from unpooled.secure.shares.packing import RING_BITS, pack, unpack
from unpooled.secure.shares.state import Mask, Matrix
from unpooled.secure.shares.supply import Need, ask_ahead, method_of, slots_of, supplied
from unpooled.wire import message


@message(discloses="nothing: matrices hidden by masks that only their owner and the coordinator know")
class Hidden:
    tags: tuple[bytes, ...]
    values: tuple[Ring, ...]


@message(
    discloses="how many rows each node has in each bin of each column, columns without names; the orders are random",
    to="the holder of Y",
)
class Orders:
    tags: tuple[bytes, ...]
    places: tuple[Places, ...]
    lengths: tuple[Ints, ...]


@dataclass(eq=False)
class Task:
    """One term of one call at one of its two parties."""

    place: int
    call: Call
    inputs: Inputs
    tag: bytes
    need: Need
    part: Part
    peer: str
    is_left: bool
    orders: Places | None = None
    places: Places | None = None
    lengths: Ints | None = None
    inside: int = 0

    @property
    def own(self) -> Matrix:
        return self.need.x if self.is_left else self.need.y

    @property
    def theirs(self) -> Matrix:
        return self.need.y if self.is_left else self.need.x

    @property
    def permutes(self) -> bool:
        return self.need.item.method == "permute"

    def shape_of(self, matrix: Matrix) -> tuple[int, int]:
        item = self.need.item
        return item.rows, item.width if matrix.side == "x" else item.words

    def evidence_side(self, matrix: Matrix) -> str:
        """The side of a matrix, and which of two stacked ones."""
        return matrix.side + ("-below" if self.need.rows.start else "")


def share(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> list[Ring]:
    """Deal, open, multiply: at most two messages from each party to another, however many products there are.

    Every party sends to all peers before it receives, so that no cycle of parties waits.
    """
    tasks = _dealt_tasks(engine, batch, tags)
    peers = [peer for peer in engine.parties if any(task.peer == peer for task in tasks)]
    for peer in peers:
        _send_hidden(engine, peer, [task for task in tasks if task.peer == peer])
    for peer in peers:
        _take_hidden(engine, peer, [task for task in tasks if task.peer == peer])
    permuted = [task for task in tasks if task.permutes]
    for peer in peers:
        _send_orders(engine, peer, [task for task in permuted if task.peer == peer and task.is_left])
    for peer in peers:
        _take_orders(engine, peer, [task for task in permuted if task.peer == peer and not task.is_left])
    held = [np.zeros(_shape(call), np.uint64) for call, _ in batch]
    for number, task in enumerate(tasks, start=1):
        engine.session.progress(number, len(tasks))
        held[task.place] += _left_share(engine, task) if task.is_left else _right_share(engine, task)
    engine.shares.forget({""})  # a matrix without a name serves one call
    return held


def _dealt_tasks(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> list[Task]:
    """This party's terms, with what the coordinator dealt for them; new masks are kept for the whole batch."""
    tasks = []
    for place, need, part in supplied(engine, [call for call, _ in batch], tags):
        is_left = need.item.left == engine.party
        peer, (call, inputs) = need.item.right if is_left else need.item.left, batch[place]
        x, y = (None if matrix is None else matrix[need.rows] for matrix in (inputs.x, inputs.y))
        task = Task(place, call, replace(inputs, x=x, y=y), tags[place], need, part, peer, is_left)
        if part.mask:
            seed = _seed(part.mask, engine)
            engine.shares.masks[task.own] = Mask(expand(seed, b"mask", task.shape_of(task.own)), seed)
        tasks.append(task)
    return tasks


def announce(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    ask_ahead(engine, batches)


def _send_hidden(engine: Engine, peer: str, tasks: Sequence[Task]) -> None:
    """Send a peer the masked matrices that it does not have yet."""
    hidden = []
    for task in tasks:
        if task.is_left and task.permutes:
            continue
        mask, left = _mask(engine, task), task.call.left
        own = given(task.inputs.x) if task.is_left else _words(task)
        sizes = left.sizes if task.is_left and isinstance(left, OneHot) else ()
        mask.bind(own, engine.party, sizes)
        if (peer, task.own) not in engine.shares.sent:
            engine.shares.sent.add((peer, task.own))
            _keep_opening(engine, task, mask.seed)
            full = mod64.one_hot(own, sizes) if sizes else own.view(np.uint64)
            hidden.append((task.tag, full - mask.values))
    if hidden:
        engine.session.send(peer, Hidden(tuple(tag for tag, _ in hidden), tuple(values for _, values in hidden)))


def _take_hidden(engine: Engine, peer: str, tasks: Sequence[Task]) -> None:
    new: dict[Matrix, Task] = {}
    for task in tasks:
        if (task.is_left or not task.permutes) and (peer, task.theirs) not in engine.shares.opened:
            new.setdefault(task.theirs, task)
    if not new:
        return
    most = 8 * sum(math.prod(task.shape_of(matrix)) for matrix, task in new.items())
    hidden = recv_tagged(engine.session, peer, Hidden, [task.tag for task in new.values()], most)
    for (matrix, task), values in zip(new.items(), hidden.values, strict=True):
        engine.shares.opened[peer, matrix] = _shaped(values, task.shape_of(matrix), peer)
        _keep_received(engine, task, values)


def _send_orders(engine: Engine, right: str, tasks: Sequence[Task]) -> None:
    for task in tasks:
        left = task.call.left
        if isinstance(left, OneHot):
            x, nodes = given(task.inputs.x), given(task.inputs.nodes)
            task.orders, task.lengths = mod64.sort_rows(x, left.sizes, nodes, left.nodes)
            task.places = permutation.hidden_places(_seed(task.part.once, engine), task.orders, nodes)
            _keep_opening(engine, task, task.part.once)
    if tasks:
        places, lengths = [given(task.places) for task in tasks], [given(task.lengths) for task in tasks]
        engine.session.send(right, Orders(tuple(task.tag for task in tasks), tuple(places), tuple(lengths)))


def _take_orders(engine: Engine, left: str, tasks: Sequence[Task]) -> None:
    if not tasks:
        return
    moves = sum(4 * task.need.item.width * task.need.item.rows for task in tasks)
    runs = sum(8 * task.call.left.nodes * task.call.left.bins for task in tasks if isinstance(task.call.left, OneHot))
    orders = recv_tagged(engine.session, left, Orders, [task.tag for task in tasks], moves + runs)
    for task, places, lengths in zip(tasks, orders.places, orders.lengths, strict=True):
        form, item = task.call.left, task.need.item
        if not isinstance(form, OneHot):
            raise TypeError("only one-hot matrices are permuted")
        if places.shape != (item.width, item.rows) or lengths.shape != (form.nodes * form.bins,):
            raise ProtocolError(f"invalid Orders from {left}: wrong shape")
        inside = int(np.count_nonzero(given(task.inputs.nodes) >= 0))
        if places.size and int(places.max()) >= item.rows:
            raise ProtocolError(f"invalid Orders from {left}: a position is out of range")
        if not permutation.lengths_fit(lengths, inside, form.sizes, form.nodes):
            raise ProtocolError(f"invalid Orders from {left}: the bins do not add up to the rows of the nodes")
        task.places, task.lengths, task.inside = places, lengths, inside
        _keep_received(engine, task, places, lengths)


def _left_share(engine: Engine, task: Task) -> Ring:
    left, item = task.call.left, task.need.item
    opened = engine.shares.opened[task.peer, task.theirs]
    if isinstance(left, OneHot) and task.permutes:
        dealt = _shaped(task.part.values, (item.width, item.rows, item.words), engine.coordinator)
        places, orders, lengths = given(task.places), given(task.orders), given(task.lengths)
        return permutation.left_sums(dealt, opened, places, orders, lengths, left.sizes, left.nodes)
    half = expand(_seed(task.part.once, engine), b"half", dealer.half_shape(item))
    x = given(task.inputs.x)
    if isinstance(left, RowByRow):
        return mod64.row_products(x.view(np.uint64), opened) + half
    if isinstance(left, OneHot):
        return mod64.unfold(mod64.bin_sums(x, left.sizes, opened) + half, left.nodes)
    return mod64.product(x.view(np.uint64), opened) + half


def _right_share(engine: Engine, task: Task) -> Ring:
    left, item = task.call.left, task.need.item
    if isinstance(left, OneHot) and task.permutes:
        seed, places, lengths = _seed(task.part.once, engine), given(task.places), given(task.lengths)
        return permutation.right_sums(seed, places, item.words, lengths, task.inside, left.sizes, left.nodes)
    opened, mask = engine.shares.opened[task.peer, task.theirs], engine.shares.masks[task.own]
    half = _shaped(task.part.values, dealer.half_shape(item), engine.coordinator)
    if isinstance(left, RowByRow):
        return mod64.row_products(opened, mask.values) + half
    sums = mod64.product(opened, mask.values) + half
    return mod64.unfold(sums, left.nodes) if isinstance(left, OneHot) else sums


def _mask(engine: Engine, task: Task) -> Mask:
    """The mask of this party's matrix, dealt now or earlier."""
    mask, shape = engine.shares.masks.get(task.own), task.shape_of(task.own)
    if mask is None or mask.values.shape != shape:
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: no mask of shape {shape} for {engine.party}")
    return mask


def _words(task: Task) -> Ring:
    """Y as it is multiplied: packed, and for a triple with the nodes folded in."""
    words = pack(given(task.inputs.y), slots_of(task.call))
    if isinstance(task.call.left, OneHot) and not task.permutes:
        return mod64.fold(words, given(task.inputs.nodes), task.call.left.nodes)
    return words


def _keep_opening(engine: Engine, task: Task, seed: bytes) -> None:
    """Keep the seed that opens a hidden matrix, for audits."""
    if engine.evidence and task.inputs.about is not None:
        side, about = task.evidence_side(task.own), dict(task.inputs.about)
        engine.evidence.keep_opening(side, task.tag, task.peer, about, seed=seed.hex())


def _keep_received(engine: Engine, task: Task, *values: NDArray[Any]) -> None:
    """Keep a digest of a hidden matrix that arrived, and what it takes to hide one in the same way (`reproduction`)."""
    if engine.evidence and task.inputs.about is not None:
        left, item = task.call.left, task.need.item
        engine.evidence.keep_received(
            task.evidence_side(task.theirs),
            task.tag,
            task.peer,
            dict(task.inputs.about),
            method=item.method,
            rows=item.rows,
            part=(task.need.rows.start or 0, task.need.rows.stop),
            slots=astuple(slots_of(task.call)),
            sizes=left.sizes if isinstance(left, OneHot) else (),
            nodes=left.nodes if isinstance(left, OneHot) else 0,
            seed=task.part.other.hex(),
            sha256=digest_of(*values),
        )


def _shape(call: Call) -> tuple[int, ...]:
    return (*call.shape[:-1], slots_of(call).words)


def _seed(seed: bytes, engine: Engine) -> bytes:
    if len(seed) != SEED_BYTES:
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: a seed has the wrong length")
    if seed in engine.shares.seeds:
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: a seed was dealt before and would hide nothing")
    engine.shares.seeds.add(seed)
    return seed


def _shaped(values: Ring, shape: tuple[int, ...], sender: str | None) -> Ring:
    if values.shape != shape:
        raise ProtocolError(f"invalid numbers from {sender}: shape {values.shape}, expected {shape}")
    return values


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


def to_bytes(engine: Engine, held: Ring) -> Bytes:  # noqa: ARG001
    return mod64.to_bytes(held)


def from_bytes(engine: Engine, call: Call, values: Bytes, sender: str) -> Ring:  # noqa: ARG001
    return mod64.from_bytes(values, _shape(call), sender)


def read(engine: Engine, call: Call, total: Ring) -> Ints:  # noqa: ARG001
    return unpack(total, slots_of(call))


def answer_bits(rules: Rules, call: Call) -> int:
    """All bits of the words that are sent, plus the lengths of runs where the holder of Y learns them.

    Words are mod 2^64 whatever the bound on results is, so that a deviating party could use their upper bits too.
    """
    bits = RING_BITS * math.prod(_shape(call))
    if method_of(call, rules) == "permute":
        bits += call.cells * call.rows.bit_length() * len(call.terms)
    return bits


def serve(engine: Engine, serving: Serving) -> int:
    return dealer.serve(engine.session, engine.driver, engine.parties, serving)
