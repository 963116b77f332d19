"""Matrices of products by shares as they travel: each party sends its own less a mask, and keeps what it receives.

A matrix goes to a peer once, however many products use it. One that is larger than a block takes several messages.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bytes, Ints
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Inputs, OneHot, given
from unpooled.secure.engine import Engine, recv_tagged
from unpooled.secure.evidence import digest_of_all
from unpooled.secure.mod64 import Places
from unpooled.secure.shares.blocks import portions, row_blocks
from unpooled.secure.shares.dealer import Part, in_portions
from unpooled.secure.shares.packing import pack
from unpooled.secure.shares.permutation import Blocks, blocks_of
from unpooled.secure.shares.state import Mask, Matrix
from unpooled.secure.shares.supply import Need, slots_of
from unpooled.wire import message


@message(discloses="nothing: matrices hidden by masks that only their owner and the coordinator know")
class Hidden:
    """Words without their upper bytes (`packing`)."""

    tags: tuple[bytes, ...]
    values: tuple[Bytes, ...]


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
    places: NDArray[Any] | None = None
    lengths: Ints | None = None

    @property
    def own(self) -> Matrix:
        return self.need.x if self.is_left else self.need.y

    @property
    def theirs(self) -> Matrix:
        return self.need.y if self.is_left else self.need.x

    @property
    def permutes(self) -> bool:
        return self.need.item.method == "permute"

    @property
    def large(self) -> bool:
        """Whether the product goes in portions of columns."""
        return in_portions(self.need.item) > 1

    @cached_property
    def blocks(self) -> Blocks:
        """The blocks of rows that are put in order by themselves."""
        return blocks_of(self.need.item.rows, self.nodes, self.call.blocks)

    @cached_property
    def inside(self) -> Ints:
        """How many rows of each block are in nodes."""
        return self.blocks.inside(given(self.inputs.nodes))

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many bins each column of X has; nothing where X is dense."""
        return self.call.left.sizes if isinstance(self.call.left, OneHot) else ()

    @property
    def nodes(self) -> int:
        return self.call.left.nodes if isinstance(self.call.left, OneHot) else 1

    @property
    def folds(self) -> bool:
        """Whether the nodes are folded into Y."""
        return isinstance(self.call.left, OneHot) and not self.permutes

    def shape_of(self, matrix: Matrix) -> tuple[int, int]:
        item = self.need.item
        return item.rows, item.width if matrix.side == "x" else item.words

    def evidence_side(self, matrix: Matrix) -> str:
        """The side of a matrix, and which of two stacked ones."""
        return matrix.side + ("-below" if self.need.rows.start else "")


def open_matrices(engine: Engine, tasks: Mapping[str, Sequence[Task]]) -> list[Task]:
    """Send each peer the masked matrices that it does not have yet, and take those of the peers, message by message.

    Returns the tasks whose matrices of peers are new.
    """
    awaited = {peer: _awaited(engine, peer, of_peer) for peer, of_peer in tasks.items()}
    sending = {peer: _hidden_for(engine, peer, of_peer) for peer, of_peer in tasks.items()}
    taking = {peer: iter(portions(task.shape_of(task.theirs) for task in of_peer)) for peer, of_peer in awaited.items()}
    while sending or taking:
        engine.session.progress(0, len(tasks))  # a sign of life
        for peer, messages in list(sending.items()):
            if hidden := next(messages, None):
                engine.session.send(peer, hidden)
            else:
                del sending[peer]
        for peer, expected in list(taking.items()):
            if portion := next(expected, None):
                _take_hidden(engine, peer, awaited[peer], portion)
            else:
                del taking[peer]
    return [task for of_peer in awaited.values() for task in of_peer]


def _hidden_for(engine: Engine, peer: str, tasks: Sequence[Task]) -> Iterator[Hidden]:
    """The messages with the masked matrices that a peer does not have yet."""
    new, bound = [], set[object]()
    for task in tasks:
        if task.is_left and task.permutes:
            continue
        mask, own = _mask(engine, task), _own(task)
        same = task.own, task.sizes, *((part.ctypes.data, part.shape, part.strides) for part in own)
        if task.own.name and same not in bound:  # one without a name serves a single call; trees share their X
            mask.bind(engine.party, *own, sizes=task.sizes if task.is_left else ())
            bound.add(same)
        if (peer, task.own) not in engine.shares.sent:
            engine.shares.sent.add((peer, task.own))
            keep_opening(engine, task, mask.seed)
            new.append((task, _masked_blocks(task, mask, own)))
    for portion in portions(task.shape_of(task.own) for task, _ in new):
        yield Hidden(
            tuple(new[place][0].tag for place, _ in portion), tuple(next(new[place][1]) for place, _ in portion)
        )


def _own(task: Task) -> tuple[NDArray[Any], ...]:
    """This party's matrix as it is kept: X, or packed Y, and the nodes where they are folded into Y."""
    if task.is_left:
        return (given(task.inputs.x),)
    words = pack(given(task.inputs.y), slots_of(task.call))
    return (words, given(task.inputs.nodes)) if task.folds else (words,)


def _masked_blocks(task: Task, mask: Mask, own: Sequence[NDArray[Any]]) -> Iterator[Bytes]:
    """This party's matrix as it is multiplied, less its mask: one-hot X, and Y with the nodes folded in."""
    cuts, sizes = row_blocks(*mask.shape), task.sizes
    for cut, hidden in zip(cuts, mask.blocks(cuts), strict=True):
        block, *nodes = (part[cut] for part in own)
        width = task.need.item.word_bytes
        if task.is_left:
            full = mod64.one_hot(block, sizes) if sizes else block.view(np.uint64)
            yield mod64.to_bytes(full - hidden, width)
        elif task.folds:
            yield mod64.folded_less(block, nodes[0], task.nodes, hidden, width)
        else:
            yield mod64.to_bytes(block - hidden, width)


def _awaited(engine: Engine, peer: str, tasks: Sequence[Task]) -> list[Task]:
    """The tasks with which a peer's matrices come that are not here yet; there is a place for each."""
    new: dict[Matrix, Task] = {}
    for task in tasks:
        if (task.is_left or not task.permutes) and (peer, task.theirs) not in engine.shares.opened:
            new[task.theirs] = task
            engine.shares.place_for(peer, task.theirs, task.shape_of(task.theirs))
    return list(new.values())


def _take_hidden(engine: Engine, peer: str, tasks: Sequence[Task], portion: Sequence[tuple[int, slice]]) -> None:
    shapes = [(rows.stop - rows.start, tasks[place].shape_of(tasks[place].theirs)[1]) for place, rows in portion]
    sizes = [tasks[place].need.item.word_bytes for place, _ in portion]
    most = sum(size * math.prod(shape) for size, shape in zip(sizes, shapes, strict=True))
    tags = [tasks[place].tag for place, _ in portion]
    hidden = recv_tagged(engine.session, peer, Hidden, tags, most)
    for (place, rows), shape, size, values in zip(portion, shapes, sizes, hidden.values, strict=True):
        engine.shares.opened[peer, tasks[place].theirs].put(rows, mod64.from_bytes(values, shape, peer, size))


def _mask(engine: Engine, task: Task) -> Mask:
    """The mask of this party's matrix, dealt now or earlier."""
    mask, shape = engine.shares.masks.get(task.own), task.shape_of(task.own)
    if mask is None or mask.shape != shape:
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: no mask of shape {shape} for {engine.party}")
    return mask


def keep_opening(engine: Engine, task: Task, seed: bytes) -> None:
    """Keep the seed that opens a hidden matrix, for audits."""
    if engine.evidence and task.inputs.about is not None:
        side, about = task.evidence_side(task.own), dict(task.inputs.about)
        engine.evidence.keep_opening(side, task.tag, task.peer, about, seed=seed.hex())


def keeps_evidence(engine: Engine, task: Task) -> bool:
    """Whether what arrives for a product is kept for audits."""
    return engine.evidence is not None and task.inputs.about is not None


def keep_received(engine: Engine, task: Task, values: Iterable[NDArray[Any]]) -> None:
    """Keep a digest of a hidden matrix that arrived."""
    if keeps_evidence(engine, task):
        keep_digest(engine, task, digest_of_all(values))


def keep_digest(engine: Engine, task: Task, digest: str) -> None:
    """Keep the digest of what arrived, and what it takes to hide a matrix in the same way (`reproduction`)."""
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
            blocks=task.call.blocks,
            seed=task.part.other.hex(),
            sha256=digest,
        )
