"""What the coordinator deals for products by shares: correlated random numbers.

It learns shapes, and sees nothing but its own random numbers. It must not collude with a party: together they could
remove the masks. `engine` explains what each number is for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Literal, get_args

import numpy as np

from unpooled.arrays import Bytes, Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.engine import HowFar, Serving, Stop, follow
from unpooled.secure.evidence import digest_of_seed
from unpooled.secure.randomness import SEED_BYTES, expand, new_seed
from unpooled.secure.shares import permutation
from unpooled.secure.shares.blocks import mask_blocks, row_blocks, summed
from unpooled.session import Session
from unpooled.wire import message

NOTHING: Bytes = np.empty(0, np.uint8)

Method = Literal["triple", "row by row", "permute"]

_WORD = 8
_MOST_KEPT = 2**26  # bytes of a mask


@message(
    discloses="a product's shape (of trees, how many nodes are looked at) and bound, the names of its matrices, and "
    "whose they are",
    to="the coordinator",
)
class DealItem:
    """One product between two parties, mod 2^(8·word_bytes); `x` and `y` name the masks, which are dealt when first
    named.

    Without names it is any product of that shape, and several `copies` may be asked for ahead.
    """

    left: str
    right: str
    method: str
    rows: int
    width: int
    words: int
    word_bytes: int
    x: str
    y: str
    copies: int


@message(
    discloses="products' shapes (of trees, how many nodes are looked at) and bounds, the names of matrices, and "
    "whose they are",
    to="the coordinator",
)
class Deal:
    """The seed is for the numbers that the driver chooses itself (`chooses`)."""

    items: tuple[DealItem, ...]
    seed: bytes


@message(discloses="nothing: random numbers")
class Part:
    """For one product: a seed for a new mask, a seed for one-time numbers, and numbers that complement the other
    side's.

    `other` is a digest of the seed of the other side's mask, for audits (`evidence`).
    """

    mask: bytes
    once: bytes
    values: Bytes
    other: bytes = b""


@message(discloses="nothing: random numbers")
class Dealt:
    digest: bytes
    parts: tuple[Part, ...]


@dataclass
class Dealer:
    """The coordinator's state: seeds and shapes of masks, by party and name."""

    masks: dict[tuple[str, str, str], tuple[bytes, tuple[int, int]]] = field(default_factory=dict, repr=False)
    last_u: tuple[bytes, Ring] = field(default=(b"", np.empty(0, np.uint64)), repr=False)

    def mask(self, side: str, party: str, name: str, shape: tuple[int, int], chosen: bytes = b"") -> tuple[bytes, bool]:
        """The seed of a mask (the chosen one if it is new), and whether it is new."""
        new = (side, party, name) not in self.masks
        seed, known = self.masks.setdefault((side, party, name), (chosen or new_seed(), shape))
        if known != shape:
            raise ProtocolError(f"invalid Deal: a mask of {party} has shape {known}, and {shape} was asked for")
        return seed, new


def serve(session: Session, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """Deal what the driver asks for until it says stop; the number of bytes dealt."""
    dealer, total = Dealer(), 0
    while not isinstance(request := session.recv(driver, Deal, HowFar, Stop), Stop):
        if isinstance(request, HowFar):
            follow(session, driver, request)
            continue
        total += checked(request, session.party, driver, parties, serving)
        _answer(session, driver, parties, dealer, request)
    return total


def _answer(session: Session, driver: str, parties: Sequence[str], dealer: Dealer, request: Deal) -> None:
    """Deal what a request asks for; numbers may be large, and nothing of them is kept."""
    parts: dict[str, list[Part]] = {party: [] for party in parties}
    items: dict[str, list[DealItem]] = {party: [] for party in parties}
    copies = [item for item in request.items for _ in range(item.copies)]
    groups = groupby(enumerate(copies), lambda each: _u_of(each[1]) or each[0])
    for group in (list(same_u) for _, same_u in groups):  # those with the same mask U, or a single one
        (number, item), *_ = group
        alive = partial(session.progress, number, len(copies))
        alive()
        if item.method == "permute":
            chosen = chosen_seeds(request.seed, number) if chooses(driver, item) else None
            dealt = [_permutation(dealer, item, chosen)]
        else:
            dealt = _triples(dealer, [item for _, item in group], alive)
        for (_, item), (left, right) in zip(group, dealt, strict=True):
            parts[item.left].append(left)
            if not chooses(driver, item):
                parts[item.right].append(right)
    for item in request.items:
        items[item.left].append(item)
        if not chooses(driver, item):
            items[item.right].append(item)
    for party, theirs in parts.items():
        if theirs:
            session.send(party, Dealt(digest_of(items[party]), tuple(theirs)))


def bytes_of(items: Sequence[DealItem]) -> tuple[int, int]:
    """How many bytes a request sends, and how much memory it takes with the largest masks."""
    sent, largest = 0, 0
    for item in items:
        rows, width, words, kept = item.rows, item.width, item.words, numbers_bytes(item)
        sent += item.copies * (kept + 4 * SEED_BYTES)
        largest = max(largest, _WORD * (rows * width + rows * words + -(-kept // item.word_bytes)))
    return sent, sent + largest


def numbers_bytes(item: DealItem) -> int:
    """How many bytes the numbers have that one side of a product is dealt, besides seeds."""
    return item.word_bytes * item.width * item.words * (1 if item.method == "triple" else item.rows)


def checked(request: Deal, party: str, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """Refuse an invalid or too large request; the number of bytes to be sent."""
    if len(request.seed) != SEED_BYTES:
        raise ProtocolError(f"invalid Deal from {driver}: the seed has the wrong length")
    for item in request.items:
        if item.left not in parties or item.right not in parties or item.left == item.right:
            raise ProtocolError(f"invalid Deal from {driver}: unknown parties")
        if (
            min(item.rows, item.width, item.words) < 0
            or not 1 <= item.word_bytes <= _WORD
            or item.method not in get_args(Method)
        ):
            raise ProtocolError(f"invalid Deal from {driver}: shape or method out of range")
        if item.copies != 1 and (item.copies < 1 or item.y or not chooses(driver, item)):
            raise ProtocolError(f"invalid Deal from {driver}: several copies of what serves a single product")
    sent, size = bytes_of(request.items)
    products, rows = sum(item.copies for item in request.items), max((item.rows for item in request.items), default=0)
    serving.check(party, driver, size, products, rows)
    return sent


def chooses(driver: str, item: DealItem) -> bool:
    """Whether the driver chooses the random numbers of its own side of a product, and need not wait for them.

    The coordinator is told the seed, and deals the other side numbers that complement them.
    """
    return item.method == "permute" and item.right == driver


def chosen_seeds(seed: bytes, number: int) -> tuple[bytes, bytes]:
    """The seeds that the driver chooses for a product: for a new mask, and for one-time numbers."""
    mask, once = (hashlib.sha256(seed + f"{use} {number}".encode()).digest() for use in ("mask", "once"))
    return mask[:SEED_BYTES], once[:SEED_BYTES]


def digest_of(items: Sequence[DealItem]) -> bytes:
    """Binds dealt numbers to the items that they are for."""
    return hashlib.sha256(repr(items).encode()).digest()


def _u_of(item: DealItem) -> tuple[object, ...] | None:
    """What says which mask U a triple is for; None for what is dealt by itself."""
    return (item.left, item.x, item.rows, item.width) if item.method == "triple" else None


def _triples(dealer: Dealer, items: Sequence[DealItem], alive: Callable[[], None]) -> list[tuple[Part, Part]]:
    """Triples with the same mask U, which is gone through once, in blocks of rows."""
    first = items[0]
    u_seed, u_new = dealer.mask("x", first.left, first.x, (first.rows, first.width))
    masks = [dealer.mask("y", item.right, item.y, (item.rows, item.words)) for item in items]
    if first.method == "triple":
        ws = _products(dealer, u_seed, [seed for seed, _ in masks], items, alive)
    else:
        u, v = (
            expand(seed, b"mask", (first.rows, width))
            for seed, width in ((u_seed, first.width), (masks[0][0], first.words))
        )
        ws = [mod64.row_products(u, v)]
    found = []
    for number, (item, (v_seed, v_new), w) in enumerate(zip(items, masks, ws, strict=True)):
        once = new_seed()
        left = Part(u_seed if u_new and not number else b"", once, NOTHING, digest_of_seed(v_seed))
        half = mod64.to_bytes(w - expand(once, b"half", half_shape(item)), item.word_bytes)
        right = Part(v_seed if v_new else b"", b"", half, digest_of_seed(u_seed))
        found.append((left, right))
    return found


def _products(
    dealer: Dealer, u_seed: bytes, v_seeds: Sequence[bytes], items: Sequence[DealItem], alive: Callable[[], None]
) -> list[Ring]:
    """UᵀV for each V."""
    rows, width, words = items[0].rows, items[0].width, [item.words for item in items]
    cuts = row_blocks(rows, width + sum(words))
    us = mask_blocks(u_seed, width, cuts)
    if _WORD * rows * width <= _MOST_KEPT:  # trees use it again and again
        if dealer.last_u[0] != u_seed:
            dealer.last_u = (u_seed, np.concatenate(list(us)))
        us = (dealer.last_u[1][cut] for cut in cuts)
    vs = zip(*(mask_blocks(seed, each, cuts) for seed, each in zip(v_seeds, words, strict=True)), strict=True)

    def blocks() -> Iterator[tuple[Ring, Sequence[Ring]]]:
        for u in us:
            alive()
            yield u, next(vs)

    return np.split(summed(blocks(), mod64.product), np.cumsum(words)[:-1], axis=1)


def half_shape(item: DealItem) -> tuple[int, ...]:
    """The shape of the halves of a triple's product."""
    return (item.width, item.words) if item.method == "triple" else (item.rows, item.width, item.words)


def _permutation(dealer: Dealer, item: DealItem, chosen: tuple[bytes, bytes] | None) -> tuple[Part, Part]:
    v_shape = (item.rows, item.words)
    mask, right_once = chosen or (new_seed(), new_seed())
    v_seed, v_new = dealer.mask("y", item.right, item.y, v_shape, mask) if item.y else (mask, True)
    left_once = new_seed()
    values = permutation.dealt(left_once, right_once, expand(v_seed, b"mask", v_shape), item.width)
    left = Part(b"", left_once, mod64.to_bytes(values, item.word_bytes), digest_of_seed(v_seed))
    return left, Part(v_seed if v_new else b"", right_once, NOTHING)
