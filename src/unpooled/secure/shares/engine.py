"""Products by additive shares mod 2^64, with randomness that the coordinator deals; shapes are all that it sees.

Y's columns are packed into words first (`packing`). A mask V is dealt to the holder of Y, who opens F = Y - V. Where
the driver would be dealt nothing but seeds it chooses them itself, and tells the coordinator: that saves a message. For
products of the same shape again and again numbers are dealt ahead (`supply`, `stock`).

**Matrix triple.** A mask U is dealt to the holder of X, who opens E = X - U; W = UᵀV is dealt as two halves, random
numbers that add up to it. XᵀY = (XᵀF + the one half) + (EᵀV + the other half): each side computes one bracket. For
one-hot X the nodes are folded into Y: its holder alone needs to know them. Row by row it is the same, with each row's
product in place of the sum.

**Permute and share**, for one-hot X with nodes that both sides know. For each column the holder of X has the order π of
the rows by node and bin. It is dealt a random order ρ and Δ = V[ρ] - b, the other side b. It sends σ with ρ[σ] = π,
which is as random as ρ is. It holds F[π] + Δ[σ], the other side b[σ]; together that is Y[π], and each side sums up its
runs; rows outside all nodes come last and are in no run. The holder of Y is told how long the runs are. `permute` has
the arithmetic.

What a mask hides it hides once: U is bound to one X and V to one Y, and what was opened may serve again. Halves, Δ, b
and ρ serve once.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints, Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Inputs, OneHot, RowByRow, given
from unpooled.secure.engine import Engine, Rules, Stop
from unpooled.secure.evidence import digest_of
from unpooled.secure.mod64 import Places
from unpooled.secure.randomness import SEED_BYTES, expand
from unpooled.secure.service_limits import Serving
from unpooled.secure.shares import dealer, permutation
from unpooled.secure.shares.dealer import DealItem, Part, method_of
from unpooled.secure.shares.packing import RING_BITS, pack, unpack
from unpooled.secure.shares.supply import LAYOUT, ask_ahead, slots_of, supplied
from unpooled.session import ITEM_BYTES
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


@dataclass
class Mask:
    """A mask that was dealt; it is bound to the first matrix that it hides."""

    values: Ring
    seed: bytes
    bound_to: bytes = b""

    def bind(self, matrix: NDArray[Any], whose: str, sizes: tuple[int, ...] = ()) -> None:
        """Refuse a second matrix: the difference of what the mask hides would show."""
        digest = hashlib.sha256(f"{matrix.dtype} {matrix.shape} {sizes}".encode() + matrix.tobytes()).digest()
        if self.bound_to not in (b"", digest):
            raise ProtocolError(f"{whose}: a mask that has hidden one matrix cannot hide another")
        self.bound_to = digest


@dataclass(eq=False)
class Task:
    """One term of one call at one of its two parties: where in the batch, what is held, what was dealt, who else."""

    place: int
    call: Call
    inputs: Inputs
    tag: bytes
    item: DealItem
    part: Part
    peer: str
    is_left: bool
    rows: slice
    orders: Places | None = None
    places: Places | None = None
    lengths: Ints | None = None
    inside: int = 0

    def side(self, *, own: bool) -> str:
        """Whose matrix is meant, and which where two stand one above the other."""
        return ("x" if self.is_left is own else "y") + ("-below" if self.rows.start else "")


def share(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> list[Ring]:
    """Deal, open, multiply: at most two messages from each party to another, however many products there are.

    Everybody sends one message to each peer and then takes one from each, so that nobody waits in a circle.
    """
    tasks = _dealt_tasks(engine, batch, tags)
    peers = [peer for peer in engine.parties if any(task.peer == peer for task in tasks)]
    for peer in peers:
        _send_hidden(engine, peer, [task for task in tasks if task.peer == peer])
    for peer in peers:
        _take_hidden(engine, peer, [task for task in tasks if task.peer == peer])
    permuted = [task for task in tasks if task.item.method == "permute"]
    for peer in peers:
        _send_orders(engine, peer, [task for task in permuted if task.peer == peer and task.is_left])
    for peer in peers:
        _take_orders(engine, peer, [task for task in permuted if task.peer == peer and not task.is_left])
    held = [np.zeros(_shape(call), np.uint64) for call, _ in batch]
    for number, task in enumerate(tasks, start=1):
        engine.session.progress(number, len(tasks))
        held[task.place] += _left_share(engine, task) if task.is_left else _right_share(engine, task)
    _forget_unnamed(engine, tasks)
    return held


def _dealt_tasks(engine: Engine, batch: Sequence[tuple[Call, Inputs]], tags: Sequence[bytes]) -> list[Task]:
    """This party's terms, with what the coordinator dealt for them."""
    tasks = []
    for place, (item, rows, _), part in supplied(engine, [call for call, _ in batch], tags):
        is_left = item.left == engine.party
        peer, (call, inputs) = item.right if is_left else item.left, batch[place]
        tasks.append(
            Task(place, call, _rows_of(inputs, rows), tags[place], item, part, peer, is_left=is_left, rows=rows)
        )
        _keep_mask(engine, tasks[-1])
    return tasks


def _rows_of(inputs: Inputs, rows: slice) -> Inputs:
    """What is held of some rows: all, or one of two matrices that stand one above the other."""
    x, y = (None if matrix is None else matrix[rows] for matrix in (inputs.x, inputs.y))
    return replace(inputs, x=x, y=y)


def announce(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    ask_ahead(engine, batches)


def forget(engine: Engine, names: Iterable[str]) -> None:
    """Drop the masks and openings of matrices with these names, which must not be used again."""
    dropped = set(names)
    for key in [key for key in engine.prepared if key[-1].partition(LAYOUT)[0] in dropped]:
        del engine.prepared[key]


def _forget_unnamed(engine: Engine, tasks: Sequence[Task]) -> None:
    """Drop what was kept of matrices without a name, which serve one call."""
    kept = {task.item.y for task in tasks} | {task.item.x for task in tasks if task.item.method != "permute"}
    if unnamed := {name for name in kept if name.startswith("#")}:
        forget(engine, unnamed)
        engine.masked -= unnamed


def _send_hidden(engine: Engine, peer: str, tasks: Sequence[Task]) -> None:
    """Open to a peer what it has not had: matrices minus their masks."""
    hidden = []
    for task in tasks:
        left, item = task.call.left, task.item
        if task.is_left and item.method != "permute":
            x, mask = given(task.inputs.x), _mask(engine, "x", item.x, (item.rows, item.width))
            mask.bind(x, engine.party, left.sizes if isinstance(left, OneHot) else ())
            if _first_time(engine, "sent", peer, "x", item.x):
                _keep_opening(engine, task, mask.seed)
                full = mod64.one_hot(x, left.sizes) if isinstance(left, OneHot) else x.view(np.uint64)
                hidden.append((task.tag, full - mask.values))
        elif not task.is_left:
            words, mask = _words(task), _mask(engine, "y", item.y, (item.rows, item.words))
            mask.bind(words, engine.party)
            if _first_time(engine, "sent", peer, "y", item.y):
                _keep_opening(engine, task, mask.seed)
                hidden.append((task.tag, words - mask.values))
    if hidden:
        engine.session.send(peer, Hidden(tuple(tag for tag, _ in hidden), tuple(values for _, values in hidden)))


def _take_hidden(engine: Engine, peer: str, tasks: Sequence[Task]) -> None:
    """Receive the peer's hidden matrices that have not come before."""
    new: dict[tuple[str, str, str, str], Task] = {}
    for task in tasks:
        if task.is_left or task.item.method != "permute":
            side, name = ("y", task.item.y) if task.is_left else ("x", task.item.x)
            if ("opened", peer, side, name) not in engine.prepared:
                new.setdefault(("opened", peer, side, name), task)
    if not new:
        return
    cells = [task.item.rows * (task.item.words if task.is_left else task.item.width) for task in new.values()]
    hidden = engine.session.recv(peer, Hidden, at_most=sum(8 * count + 2 * ITEM_BYTES for count in cells))
    if hidden.tags != tuple(task.tag for task in new.values()) or len(hidden.values) != len(new):
        raise ProtocolError(f"{peer} sent Hidden matrices for other products than {engine.party} works on")
    for (key, task), values in zip(new.items(), hidden.values, strict=True):
        width = task.item.words if task.is_left else task.item.width
        engine.prepared[key] = _shaped(values, (task.item.rows, width), peer)
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


def _first_time(engine: Engine, *key: str) -> bool:
    first = key not in engine.prepared
    engine.prepared[key] = True
    return first


def _take_orders(engine: Engine, left: str, tasks: Sequence[Task]) -> None:
    if not tasks:
        return
    moves = sum(4 * task.item.width * task.item.rows + 3 * ITEM_BYTES for task in tasks)
    runs = sum(8 * task.call.left.nodes * task.call.left.bins for task in tasks if isinstance(task.call.left, OneHot))
    orders = engine.session.recv(left, Orders, at_most=moves + runs)
    if orders.tags != tuple(task.tag for task in tasks) or not len(tasks) == len(orders.places) == len(orders.lengths):
        raise ProtocolError(f"{left} sent Orders for other products than {engine.party} works on")
    for task, places, lengths in zip(tasks, orders.places, orders.lengths, strict=True):
        form, item = task.call.left, task.item
        if not isinstance(form, OneHot):
            raise TypeError("only one-hot matrices are permuted")
        if places.shape != (item.width, item.rows) or lengths.shape != (form.nodes * form.bins,):
            raise ProtocolError(f"{left} sent Orders of the wrong shape")
        inside = int(np.count_nonzero(given(task.inputs.nodes) >= 0))
        beyond = places.size and int(places.max()) >= item.rows
        if beyond or not permutation.lengths_fit(lengths, inside, form.sizes, form.nodes):
            raise ProtocolError(f"{left} sent Orders that are none")
        task.places, task.lengths, task.inside = places, lengths, inside
        _keep_received(engine, task, places, lengths)


def _left_share(engine: Engine, task: Task) -> Ring:
    left, item = task.call.left, task.item
    opened: Ring = engine.prepared["opened", item.right, "y", item.y]
    if isinstance(left, OneHot) and item.method == "permute":
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
    left, item = task.call.left, task.item
    if isinstance(left, OneHot) and item.method == "permute":
        seed, places, lengths = _seed(task.part.once, engine), given(task.places), given(task.lengths)
        return permutation.right_sums(seed, places, item.words, lengths, task.inside, left.sizes, left.nodes)
    opened: Ring = engine.prepared["opened", item.left, "x", item.x]
    mask: Mask = engine.prepared["mask", "y", item.y]
    half = _shaped(task.part.values, dealer.half_shape(item), engine.coordinator)
    if isinstance(left, RowByRow):
        return mod64.row_products(opened, mask.values) + half
    sums = mod64.product(opened, mask.values) + half
    return mod64.unfold(sums, left.nodes) if isinstance(left, OneHot) else sums


def _keep_mask(engine: Engine, task: Task) -> None:
    """A mask that was dealt under a name is there for every product of the batch, whichever comes first."""
    if task.part.mask:
        side, name = ("x", task.item.x) if task.is_left else ("y", task.item.y)
        shape = (task.item.rows, task.item.width if task.is_left else task.item.words)
        seed = _seed(task.part.mask, engine)
        engine.prepared["mask", side, name] = Mask(expand(seed, b"mask", shape), seed)


def _mask(engine: Engine, side: str, name: str, shape: tuple[int, int]) -> Mask:
    """The mask for this party's matrix, dealt now or under its name before."""
    mask: Mask | None = engine.prepared.get(("mask", side, name))
    if mask is None or mask.values.shape != shape:
        raise ProtocolError(f"{engine.coordinator} dealt no mask of shape {shape} for {engine.party}")
    return mask


def _words(task: Task) -> Ring:
    """Y as it is multiplied: packed, and with the nodes folded in for a triple."""
    words = pack(given(task.inputs.y), slots_of(task.call))
    if isinstance(task.call.left, OneHot) and task.item.method == "triple":
        return mod64.fold(words, given(task.inputs.nodes), task.call.left.nodes)
    return words


def _keep_opening(engine: Engine, task: Task, seed: bytes) -> None:
    """Keep what opens a hidden matrix, where the product is about something that can be checked."""
    if engine.evidence and task.inputs.about is not None:
        engine.evidence.keep_opening(task.side(own=True), task.tag, task.peer, dict(task.inputs.about), seed=seed.hex())


def _keep_received(engine: Engine, task: Task, *values: NDArray[Any]) -> None:
    """Keep a digest of a hidden matrix that arrived, and what is needed to hide one in the same way (`reopening`)."""
    if engine.evidence and task.inputs.about is not None:
        left = task.call.left
        engine.evidence.keep_received(
            task.side(own=False),
            task.tag,
            task.peer,
            dict(task.inputs.about),
            method=task.item.method,
            rows=task.item.rows,
            part=(task.rows.start or 0, task.rows.stop),
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
        raise ProtocolError(f"{engine.coordinator} dealt a seed of the wrong length")
    if seed in engine.seeds:
        raise ProtocolError(f"{engine.coordinator} dealt a seed twice: its numbers hide nothing the second time")
    engine.seeds.add(seed)
    return seed


def _shaped(values: Ring, shape: tuple[int, ...], sender: str | None) -> Ring:
    if values.shape != shape:
        raise ProtocolError(f"{sender} sent numbers of shape {values.shape}, expected {shape}")
    return values


def from_values(engine: Engine, call: Call, values: Ints) -> Ring:  # noqa: ARG001
    return pack(values, slots_of(call))


def add(engine: Engine, call: Call, parts: Sequence[Ring]) -> Ring:  # noqa: ARG001
    return sum(parts[1:], parts[0])


def masked(engine: Engine, call: Call, tag: bytes, held: Ring, others: Sequence[str]) -> Ring:
    """The share plus numbers that the others take off again."""
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
    """All bits of the words that travel, and how long the runs of rows are, where the holder of Y is told.

    Words are mod 2^64 whatever the bound on results is, so that nothing keeps their upper bits from being used.
    """
    bits = RING_BITS * math.prod(_shape(call))
    if method_of(call, rules) == "permute":
        bits += call.cells * call.rows.bit_length() * len(call.terms)
    return bits


def serve(engine: Engine, serving: Serving) -> int:
    return dealer.serve(engine.session, engine.driver, engine.parties, serving)


def finish(engine: Engine) -> None:
    if engine.party == engine.driver:
        engine.session.send(engine.coordinator or "", Stop())
