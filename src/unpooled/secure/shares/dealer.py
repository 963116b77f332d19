"""What the coordinator deals for products by shares: correlated random numbers.

It learns shapes, and sees nothing but its own random numbers. It must not collude with a party: together they could
remove the masks. `engine` explains what each number is for.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial, reduce
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
from unpooled.secure.shares.blocks import columns_at_once, mask_block, row_blocks, watched
from unpooled.session import Session
from unpooled.wire import message
from unpooled.workers import on_cluster

NOTHING: Bytes = np.empty(0, np.uint8)

Method = Literal["triple", "row by row", "permute", "seeds"]
"""`seeds` are for triples to come: a seed stands for as many numbers as are needed, so it serves any shape."""

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

    Without names it is any product of that shape, and several `copies` may be asked for ahead. A triple whose Y has no
    name takes the next seeds that were dealt ahead. `blocks` are how many rows each block has that is put in order by
    itself, where there are several.
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
    blocks: tuple[int, ...] = ()


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


Both = tuple[Part | None, Part | Callable[[], Part] | None]
"""What the left and the right party are dealt; None where that is nothing, and a function where it takes computing."""


@dataclass
class Dealer:
    """The coordinator's state: seeds and shapes of masks, by party and name; seeds dealt ahead, by pair of parties."""

    masks: dict[tuple[str, str, str], tuple[bytes, tuple[int, int]]] = field(default_factory=dict, repr=False)
    ahead: defaultdict[tuple[str, str], deque[tuple[bytes, bytes]]] = field(
        default_factory=lambda: defaultdict(deque), repr=False
    )
    last_u: tuple[bytes, Ring] = field(default=(b"", np.empty(0, np.uint64)), repr=False)

    def mask(self, side: str, party: str, name: str, shape: tuple[int, int], chosen: bytes = b"") -> tuple[bytes, bool]:
        """The seed of a mask (the chosen one if it is new), and whether it is new."""
        new = (side, party, name) not in self.masks
        seed, known = self.masks.setdefault((side, party, name), (chosen or new_seed(), shape))
        if known != shape:
            raise ProtocolError(f"invalid Deal: a mask of {party} has shape {known}, and {shape} was asked for")
        return seed, new

    def seeds_of(self, item: DealItem) -> tuple[bytes, bytes, bool]:
        """Of a triple, the seeds of V and of the left half, and whether the right party is to be told that of V."""
        if not seeded(item):
            v_seed, new = self.mask("y", item.right, item.y, (item.rows, item.words))
            return v_seed, new_seed(), new
        ahead = self.ahead[item.left, item.right]
        if not ahead:
            raise ProtocolError(f"invalid Deal: no seeds were dealt ahead for {item.left} and {item.right}")
        return *ahead.popleft(), False


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
    """Deal what a request asks for; numbers may be large, and nothing of them is kept.

    Products of masks are computed when those who only need seeds have got theirs.
    """
    parts: dict[str, list[Part | Callable[[], Part]]] = {party: [] for party in parties}
    items: dict[str, list[DealItem]] = {party: [] for party in parties}
    copies = [(item, copy) for item in request.items for copy in range(item.copies)]
    seeds = {  # first, since the triples of the same request may need them
        number: _seeds(dealer, item, chosen_seeds(request.seed, number)[0])
        for number, (item, _) in enumerate(copies)
        if item.method == "seeds"
    }
    large = list[tuple[str, Iterator[Dealt]]]()
    groups = groupby(enumerate(copies), lambda each: _u_of(each[1][0]) or each[0])
    for group in (list(same_u) for _, same_u in groups):  # those with the same mask U, or a single one
        number, (item, _) = group[0]
        alive = partial(session.progress, number, len(copies))
        alive()
        if item.method == "seeds":
            dealt = [seeds[number]]
        elif item.method == "permute":
            chosen = chosen_seeds(request.seed, number) if chooses(driver, item) else None
            both, later = _permutation(dealer, item, chosen)
            dealt = [both]
            large += [(item.left, later)] if later else []
        else:
            dealt = _triples(dealer, [item for _, (item, _) in group], alive)
        for (_, (item, copy)), both in zip(group, dealt, strict=True):
            for party, part in zip((item.left, item.right), both, strict=True):
                if part:
                    parts[party].append(part)
                    items[party] += [] if copy else [item]
    for party, theirs in sorted(parts.items(), key=lambda each: any(map(callable, each[1]))):
        if theirs:
            dealt_now = tuple(part() if callable(part) else part for part in theirs)
            session.send(party, Dealt(digest_of(items[party]), dealt_now))
    for number, (party, portions) in enumerate(large):  # last, and in the order in which the parties take them
        for portion in portions:
            session.send(party, portion)
            session.progress(number, len(large))


def bytes_of(items: Sequence[DealItem]) -> tuple[int, int]:
    """How many bytes a request sends, and how much memory it takes with the largest masks."""
    sent, together, largest = 0, 0, 0
    for item in items:
        rows, width, words, kept = item.rows, item.width, item.words, numbers_bytes(item)
        sent += item.copies * (kept + 4 * SEED_BYTES)
        if in_portions(item) > 1:
            width = columns_at_once(rows * words)
            kept = kept // item.width * width
        else:
            together += item.copies * (kept + 4 * SEED_BYTES)
        largest = max(largest, _WORD * (rows * width + rows * words + -(-kept // item.word_bytes)))
    return sent, together + largest


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
        if item.blocks and (min(item.blocks) < 0 or sum(item.blocks) != item.rows):
            raise ProtocolError(f"invalid Deal from {driver}: blocks that do not have all rows")
        if item.copies != 1 and (item.copies < 1 or item.y or not chooses(driver, item)):
            raise ProtocolError(f"invalid Deal from {driver}: several copies of what serves a single product")
        if item.method != "permute" and not item.y and item.right != driver:
            raise ProtocolError(f"invalid Deal from {driver}: it does not choose the numbers of {item.right}")
    sent, size = bytes_of(request.items)
    products = sum(item.copies * in_portions(item) for item in request.items)
    rows = max((item.rows for item in request.items), default=0)
    serving.check(party, driver, size, products, rows)
    return sent


def chooses(driver: str, item: DealItem) -> bool:
    """Whether the driver chooses the random numbers of its own side of a product, and need not wait for them.

    The coordinator is told the seed, and deals the other side numbers that complement them.
    """
    return item.method in ("permute", "seeds") and item.right == driver


def chosen_seeds(seed: bytes, number: int) -> tuple[bytes, bytes]:
    """The seeds that the driver chooses for a product: for a new mask, and for one-time numbers."""
    mask, once = (hashlib.sha256(seed + f"{use} {number}".encode()).digest() for use in ("mask", "once"))
    return mask[:SEED_BYTES], once[:SEED_BYTES]


def digest_of(items: Sequence[DealItem | slice]) -> bytes:
    """Binds dealt numbers to the items, or the columns of an item, that they are for."""
    return hashlib.sha256(repr(items).encode()).digest()


def _u_of(item: DealItem) -> tuple[object, ...] | None:
    """What says which mask U a triple is for; None for what is dealt by itself."""
    return (item.left, item.x, item.rows, item.width) if item.method == "triple" else None


def seeded(item: DealItem) -> bool:
    """Whether a product takes seeds that were dealt ahead: then the left party needs nothing now but a new mask, and
    the driver, which chose its seed, numbers that it needs last.
    """
    return item.method == "triple" and not item.y


def _seeds(dealer: Dealer, item: DealItem, v_seed: bytes) -> Both:
    once = new_seed()
    dealer.ahead[item.left, item.right].append((v_seed, once))
    return Part(b"", once, NOTHING, digest_of_seed(v_seed)), None


def _triples(dealer: Dealer, items: Sequence[DealItem], alive: Callable[[], None]) -> list[Both]:
    """Triples with the same mask U, which is gone through once, in blocks of rows."""
    first = items[0]
    u_seed, u_new = dealer.mask("x", first.left, first.x, (first.rows, first.width))
    seeds = [dealer.seeds_of(item) for item in items]

    @cache
    def products() -> list[Ring]:
        alive()
        if first.method == "triple":
            return _products(dealer, u_seed, [v_seed for v_seed, *_ in seeds], items, alive)
        u, v = (
            expand(seed, b"mask", (first.rows, width))
            for seed, width in ((u_seed, first.width), (seeds[0][0], first.words))
        )
        return [mod64.row_products(u, v)]

    def right(number: int) -> Part:
        v_seed, once, v_new = seeds[number]
        half = products()[number] - expand(once, b"half", half_shape(items[number]))
        values = mod64.to_bytes(half, items[number].word_bytes)
        return Part(v_seed if v_new else b"", b"", values, digest_of_seed(u_seed))

    found: list[Both] = []
    for number, (item, (v_seed, once, _)) in enumerate(zip(items, seeds, strict=True)):
        mask = u_seed if u_new and not number else b""
        if seeded(item):
            left = Part(mask, b"", NOTHING) if mask else None
        else:
            left = Part(mask, once, NOTHING, digest_of_seed(v_seed))
        found.append((left, partial(right, number)))
    return found


def _products(
    dealer: Dealer, u_seed: bytes, v_seeds: Sequence[bytes], items: Sequence[DealItem], alive: Callable[[], None]
) -> list[Ring]:
    """UᵀV for each V."""
    rows, width, words = items[0].rows, items[0].width, [item.words for item in items]
    cuts, vs = row_blocks(rows, width + sum(words)), list(zip(v_seeds, words, strict=True))
    if _WORD * rows * width <= _MOST_KEPT:  # trees use it again and again
        if dealer.last_u[0] != u_seed:
            dealer.last_u = (u_seed, np.concatenate([mask_block(u_seed, width, cut) for cut in cuts]))
        kept = dealer.last_u[1]
        sums = reduce(np.add, (_product(kept[cut], vs, cut) for cut in watched(cuts, alive)))
    else:
        sums = reduce(np.add, on_cluster(partial(product_of_masks, (u_seed, width), vs), watched(cuts, alive)))
    return np.split(sums, np.cumsum(words)[:-1], axis=1)


def product_of_masks(u: tuple[bytes, int], vs: Sequence[tuple[bytes, int]], cut: slice) -> Ring:
    """UᵀV of some rows, with all V side by side; masks are given by their seeds and widths."""
    return _product(mask_block(*u, cut), vs, cut)


def _product(u: Ring, vs: Sequence[tuple[bytes, int]], cut: slice) -> Ring:
    blocks = [mask_block(seed, words, cut) for seed, words in vs]
    return mod64.product(u, blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1))


def half_shape(item: DealItem) -> tuple[int, ...]:
    """The shape of the halves of a triple's product."""
    return (item.width, item.words) if item.method == "triple" else (item.rows, item.width, item.words)


def in_portions(item: DealItem) -> int:
    """In how many portions of columns a product goes: one, unless it is a large one by permutation."""
    if item.method != "permute" or not item.y:  # what is dealt ahead is small
        return 1
    return max(-(-item.width // columns_at_once(item.rows * item.words)), 1)


def portions_of(item: DealItem) -> list[slice]:
    """The portions of columns of a large product."""
    step = columns_at_once(item.rows * item.words)
    return [slice(start, min(start + step, item.width)) for start in range(0, item.width, step)]


def _permutation(
    dealer: Dealer, item: DealItem, chosen: tuple[bytes, bytes] | None
) -> tuple[Both, Iterator[Dealt] | None]:
    """What is dealt at once, and what follows in portions."""
    v_shape = (item.rows, item.words)
    mask, right_once = chosen or (new_seed(), new_seed())
    v_seed, v_new = dealer.mask("y", item.right, item.y, v_shape, mask) if item.y else (mask, True)
    left_once = new_seed()

    def numbers(mask: Ring, columns: slice) -> Bytes:
        count, ends = columns.stop - columns.start, np.cumsum(item.blocks or [item.rows], dtype=np.int64)
        values = permutation.dealt(left_once, right_once, mask, count, columns.start, ends)
        return mod64.to_bytes(values, item.word_bytes)

    def follows() -> Iterator[Dealt]:
        mask = expand(v_seed, b"mask", v_shape)
        for columns in portions_of(item):
            yield Dealt(digest_of([item, columns]), (Part(b"", b"", numbers(mask, columns)),))

    large = in_portions(item) > 1
    values = NOTHING if large else numbers(expand(v_seed, b"mask", v_shape), slice(0, item.width))
    left = Part(b"", left_once, values, digest_of_seed(v_seed))
    right = None if chosen else Part(v_seed if v_new else b"", right_once, NOTHING)
    return (left, right), follows() if large else None
