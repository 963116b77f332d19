"""What the coordinator deals for products by shares: random numbers that fit together, and nothing else.

It is told shapes, and its random numbers are all it ever sees. It must not collude with a party: the two could take the
masks off. `shares` explains what each number is for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np

from unpooled.arrays import Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, RowByRow
from unpooled.secure.engine import HowFar, Rules, Stop, follow
from unpooled.secure.evidence import digest_of_seed
from unpooled.secure.randomness import SEED_BYTES, expand, new_seed
from unpooled.secure.service_limits import Serving
from unpooled.secure.shares import permutation
from unpooled.secure.shares.packing import RING_BITS, slots_for
from unpooled.session import Session
from unpooled.wire import message

Method = Literal["triple", "row by row", "permute"]

_WORD = 8
_SECONDS_PER_BYTE = 1e-8  # a line of 100 MB/s
_SECONDS_PER_PRODUCT = 1.5e-9  # a multiplication of two numbers, at the coordinator and again at the holder of Y
_SECONDS_PER_MOVE = 5e-8  # sorting and moving a row of a column, at all three


@message(
    discloses="a product's shape (of trees, how many nodes are looked at) and bound, the names of its matrices, and "
    "whose they are",
    to="the coordinator",
)
class DealItem:
    """One product between two parties; `x` and `y` name the masks, which are dealt when they are first named.

    Without names it is any product of that shape, and several `copies` may be asked for ahead.
    """

    left: str
    right: str
    method: str
    rows: int
    width: int
    words: int
    x: str
    y: str
    copies: int


@message(
    discloses="products' shapes (of trees, how many nodes are looked at) and bounds, the names of matrices, and "
    "whose they are",
    to="the coordinator",
)
class Deal:
    """The seed is for what the driver chooses itself, see `chooses`."""

    items: tuple[DealItem, ...]
    seed: bytes


@message(discloses="nothing: random numbers")
class Part:
    """For one product: a seed for a new mask, a seed for what serves once, numbers that fit the other side's.

    `other` is a digest of the seed of the other side's mask: it cannot say later that it had another (`evidence`).
    """

    mask: bytes
    once: bytes
    values: Ring
    other: bytes = b""


@message(discloses="nothing: random numbers")
class Dealt:
    digest: bytes
    parts: tuple[Part, ...]


@dataclass
class Dealer:
    """What the coordinator remembers: the seeds and shapes of masks, by party and name."""

    masks: dict[tuple[str, str, str], tuple[bytes, tuple[int, int]]] = field(default_factory=dict, repr=False)
    last_u: tuple[bytes, Ring] = field(default=(b"", np.empty(0, np.uint64)), repr=False)

    def mask(self, side: str, party: str, name: str, shape: tuple[int, int], chosen: bytes = b"") -> tuple[bytes, bool]:
        """The seed of a mask, the one chosen if it is new, and whether it is new."""
        new = (side, party, name) not in self.masks
        seed, known = self.masks.setdefault((side, party, name), (chosen or new_seed(), shape))
        if known != shape:
            raise ProtocolError(f"a mask of {party} was dealt for shape {known} and is asked for with {shape}")
        return seed, new


def serve(session: Session, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """Deal what the driver asks for, as soon as it asks, until it says stop; how many bytes that were."""
    dealer, total = Dealer(), 0
    while not isinstance(request := session.recv(driver, Deal, HowFar, Stop), Stop):
        if isinstance(request, HowFar):
            follow(session, driver, request)
            continue
        total += checked(request, session.party, driver, parties, serving)
        parts: dict[str, list[Part]] = {party: [] for party in parties}
        items: dict[str, list[DealItem]] = {party: [] for party in parties}
        copies = [item for item in request.items for _ in range(item.copies)]
        for number, item in enumerate(copies):
            session.progress(number, len(copies))
            chosen = chosen_seeds(request.seed, number) if chooses(driver, item) else None
            left, right = _permutation(dealer, item, chosen) if item.method == "permute" else _triple(dealer, item)
            parts[item.left].append(left)
            if chosen is None:
                parts[item.right].append(right)
        for item in request.items:
            items[item.left].append(item)
            if not chooses(driver, item):
                items[item.right].append(item)
        for party, theirs in parts.items():
            if theirs:
                session.send(party, Dealt(digest_of(items[party]), tuple(theirs)))
    return total


def bytes_of(items: Sequence[DealItem]) -> tuple[int, int]:
    """How much of numbers is sent for a request, and how much memory it takes: besides, the largest item's masks."""
    sent, largest = 0, 0
    for item in items:
        rows, width, words = item.rows, item.width, item.words
        kept = width * words if item.method == "triple" else rows * width * words
        sent += item.copies * (_WORD * kept + 4 * SEED_BYTES)
        largest = max(largest, _WORD * (rows * width + rows * words + kept))
    return sent, sent + largest


def checked(request: Deal, party: str, driver: str, parties: Sequence[str], serving: Serving) -> int:
    """Refuse what cannot be dealt, or is too much; how many bytes are to be sent."""
    if len(request.seed) != SEED_BYTES:
        raise ProtocolError(f"{driver} sent a seed of the wrong length")
    for item in request.items:
        if item.left not in parties or item.right not in parties or item.left == item.right:
            raise ProtocolError(f"{driver} asks for numbers for parties that take no part")
        if min(item.rows, item.width, item.words) < 0 or item.method not in get_args(Method):
            raise ProtocolError(f"{driver} asks for numbers of an impossible shape")
        if item.copies != 1 and (item.copies < 1 or item.y or not chooses(driver, item)):
            raise ProtocolError(f"{driver} asks for several copies of what serves a single product")
    sent, size = bytes_of(request.items)
    products, rows = sum(item.copies for item in request.items), max((item.rows for item in request.items), default=0)
    serving.check(party, driver, size, products, rows)
    return sent


def chooses(driver: str, item: DealItem) -> bool:
    """Whether the driver chooses the random numbers of its side of a product itself, and need not wait for them.

    They hide what is its own, and need not fit anything: the coordinator, who is told them, makes the other side's fit.
    """
    return item.method == "permute" and item.right == driver


def chosen_seeds(seed: bytes, number: int) -> tuple[bytes, bytes]:
    """The seeds of a product that the driver chooses: for a new mask, and for what serves once."""
    mask, once = (hashlib.sha256(seed + f"{use} {number}".encode()).digest() for use in ("mask", "once"))
    return mask[:SEED_BYTES], once[:SEED_BYTES]


def digest_of(items: Sequence[DealItem]) -> bytes:
    """What numbers were dealt for: they serve nothing else."""
    return hashlib.sha256(repr(items).encode()).digest()


def _triple(dealer: Dealer, item: DealItem) -> tuple[Part, Part]:
    u_shape, v_shape = (item.rows, item.width), (item.rows, item.words)
    u_seed, u_new = dealer.mask("x", item.left, item.x, u_shape)
    v_seed, v_new = dealer.mask("y", item.right, item.y, v_shape)
    once = new_seed()
    if dealer.last_u[0] != u_seed:
        dealer.last_u = (u_seed, expand(u_seed, b"mask", u_shape))
    multiply = mod64.product if item.method == "triple" else mod64.row_products
    w = multiply(dealer.last_u[1], expand(v_seed, b"mask", v_shape))
    half = expand(once, b"half", half_shape(item))
    left = Part(u_seed if u_new else b"", once, NOTHING, digest_of_seed(v_seed))
    return left, Part(v_seed if v_new else b"", b"", w - half, digest_of_seed(u_seed))


def half_shape(item: DealItem) -> tuple[int, ...]:
    """The shape of the halves of a triple's product."""
    return (item.width, item.words) if item.method == "triple" else (item.rows, item.width, item.words)


def _permutation(dealer: Dealer, item: DealItem, chosen: tuple[bytes, bytes] | None) -> tuple[Part, Part]:
    v_shape = (item.rows, item.words)
    mask, right_once = chosen or (new_seed(), new_seed())
    v_seed, v_new = dealer.mask("y", item.right, item.y, v_shape, mask) if item.y else (mask, True)
    left_once = new_seed()
    values = permutation.dealt(left_once, right_once, expand(v_seed, b"mask", v_shape), item.width)
    left = Part(b"", left_once, values, digest_of_seed(v_seed))
    return left, Part(v_seed if v_new else b"", right_once, NOTHING)


NOTHING: Ring = np.empty(0, np.uint64)


def method_of(call: Call, rules: Rules) -> Method:
    """The cheaper way, by bytes and arithmetic; where row counts may not be shown, or nodes are hidden, the triple."""
    left = call.left
    if isinstance(left, RowByRow):
        return "row by row"
    if isinstance(left, Dense) or left.hidden or not rules.count_rows:
        return "triple"
    words = slots_for(call.columns, call.result_bound, RING_BITS).words
    moved = call.rows * len(left.sizes)
    permutation = moved * (8 * words + 4) * _SECONDS_PER_BYTE + moved * words * _SECONDS_PER_MOVE
    opened = left.nodes * words + (0 if call.x else left.bins)
    multiplied = call.rows * left.bins * left.nodes * words
    triple = 8 * call.rows * opened * _SECONDS_PER_BYTE + multiplied * _SECONDS_PER_PRODUCT
    return "permute" if permutation < triple else "triple"
