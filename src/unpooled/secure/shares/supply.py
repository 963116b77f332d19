"""What products by shares need from the coordinator, how the driver asks for it, and what each party gets.

The driver asks when a batch is announced, or at the latest when it is computed. Numbers for one product come first,
then those for the stock. The others know from their own calls what was asked for, and check it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from unpooled.arrays import Ring
from unpooled.errors import ProtocolError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, OneHot, RowByRow
from unpooled.secure.engine import Engine, Rules, next_tags
from unpooled.secure.randomness import SEED_BYTES, new_seed
from unpooled.secure.shares import dealer
from unpooled.secure.shares.dealer import (
    Deal,
    DealItem,
    Dealt,
    Method,
    Part,
    chooses,
    chosen_seeds,
    in_portions,
    seeded,
)
from unpooled.secure.shares.packing import RING_BITS, Slots, slots_for
from unpooled.secure.shares.state import Matrix, Shape
from unpooled.session import ITEM_BYTES

_SECONDS_PER_BYTE = 1e-8  # a line of 100 MB/s
_SECONDS_PER_PRODUCT = 1.5e-9  # a multiplication of two numbers, at the coordinator and again at the holder of Y
_SECONDS_PER_MOVE = 5e-8  # sorting and moving a row of a column, at all three


class Need(NamedTuple):
    """What a product of some rows needs; `shape` is set where any numbers of that shape, or any seeds, will do."""

    item: DealItem
    rows: slice
    x: Matrix
    y: Matrix
    shape: Shape | None = None


def slots_of(call: Call) -> Slots:
    """How a call's columns of Y are packed into words."""
    return slots_for(call.columns, call.result_bound, RING_BITS, narrow=isinstance(call.left, OneHot))


def supplied(
    engine: Engine, calls: Sequence[Call], tags: Sequence[bytes]
) -> tuple[list[tuple[int, Need, Part]], list[DealItem]]:
    """This party's terms: place in the batch, what the term needs, and what was dealt for it.

    Of the items that are returned too, the numbers are still on their way (`take_late`), and are needed last.
    """
    me = engine.party
    needs = [_needs(engine, call, tag) for call, tag in zip(calls, tags, strict=True)]
    seed, dealt, late = _deal(engine, [need for group in needs for need in group])
    found, number = [], 0
    masked = set(engine.shares.masks)
    for place, need in [(place, need) for place, group in enumerate(needs) for need in group]:
        item = need.item
        if me in (item.left, item.right):
            if need.shape:
                part = engine.shares.stock.take(need.shape)
                if seeded(item) and ((me == item.right and not late) or (me == item.left and need.x not in masked)):
                    part = with_values(part, next(dealt))
            elif me == engine.driver and chooses(me, item):
                mask, once = chosen_seeds(seed, number)  # a matrix that has a mask keeps it
                part = Part(b"" if need.y in engine.shares.masked else mask, once, dealer.NOTHING)
            else:
                part = next(dealt)
            if item.right == me:
                engine.shares.masked.add(need.y)
            else:
                masked.add(need.x)
            found.append((place, need, part))
        number += not need.shape or seeded(item)
    return found, late


def take_late(engine: Engine, items: Sequence[DealItem]) -> Iterator[Part]:
    """The numbers of items that were on their way."""
    return _receive(engine, items)


def with_values(part: Part, dealt: Part) -> Part:
    """A part whose seeds were dealt ahead, with what was dealt for the product itself."""
    return Part(part.mask or dealt.mask, part.once, dealt.values, part.other or dealt.other)


def ask_ahead(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    """Ask for the numbers of the next batches in advance; only the driver does."""
    if engine.party != engine.driver:
        return
    calls = engine.calls.copy()
    calls.update(call.participants for batch, _ in engine.shares.announced for call in batch)
    for batch in batches:
        tags = next_tags(calls, batch)
        needs = [need for call, tag in zip(batch, tags, strict=True) for need in _needs(engine, call, tag)]
        engine.shares.announced.append((tuple(batch), _ask(engine, needs)))


def _needs(engine: Engine, call: Call, tag: bytes) -> list[Need]:
    """What a call needs, term by term; a matrix without a name has a mask of its own.

    Any numbers of the right shape will do if only one pair of parties takes part and the driver chooses its side. Large
    numbers are not dealt ahead.
    """
    method, slots, left = method_of(call, engine.rules), slots_of(call), call.left
    words, size = slots.words, slots.word_bytes
    width, tag_text = len(left.sizes) if isinstance(left, OneHot) else left.width, tag.hex()
    folded = False
    if method == "triple" and isinstance(left, OneHot):
        width, words, folded = left.bins, words * left.nodes, True
    x = Matrix("x", call.x, str(size) if call.x else tag_text)
    # packed in another way, or with other nodes folded in, Y is another matrix
    y = Matrix("y", call.y, str(slots)) if call.y and not folded else Matrix("y", "", tag_text)
    if not call.fixed:
        blocks = tuple(rows for rows, _ in call.blocks) if method == "permute" else ()
        needs = [_need(term, method, slice(call.rows), width, words, size, x, y, blocks) for term in call.terms]
        if len(needs) > 1 or y.name or needs[0].item.right != engine.driver or method == "row by row":
            return needs
        if method == "permute":
            large = in_portions(needs[0].item) > 1
            return needs if large else [need._replace(shape=_shape(need.item)) for need in needs]
        return [
            need._replace(item=replace(need.item, y=""), shape=Shape(*term))
            for need, term in zip(needs, call.terms, strict=True)
        ]
    below = f"{tag_text} below"
    above_and_below = (
        (slice(call.fixed), x, Matrix("y", "", tag_text)),
        (slice(call.fixed, call.rows), Matrix("x", "", below), y if call.y else Matrix("y", "", below)),
    )
    each = [(term, *parts) for term in call.terms for parts in above_and_below]
    return [_need(term, method, part, width, words, size, x, y) for term, part, x, y in each]


def _need(
    term: tuple[str, str],
    method: Method,
    rows: slice,
    width: int,
    words: int,
    size: int,
    x: Matrix,
    y: Matrix,
    blocks: tuple[int, ...] = (),
) -> Need:
    count = rows.stop - (rows.start or 0)
    return Need(DealItem(*term, method, count, width, words, size, x.label, y.label, 1, blocks), rows, x, y)


def _shape(item: DealItem) -> Shape:
    return Shape(item.left, item.right, item.rows, item.width, item.words, item.word_bytes, item.blocks)


def _to_ask(engine: Engine, needs: Sequence[Need]) -> list[DealItem]:
    """What the driver asks for: numbers for one product, then what the stock lacks."""
    lacking = engine.shares.stock.lacking(need.shape for need in needs if need.shape)
    return [need.item for need in needs if not need.shape or seeded(need.item)] + [_ahead(*each) for each in lacking]


def _ahead(shape: Shape, copies: int) -> DealItem:
    method: Method = "permute" if shape.rows else "seeds"
    sizes = shape.rows, shape.width, shape.words, shape.word_bytes
    return DealItem(shape.left, shape.right, method, *sizes, "", "", copies, shape.blocks)


def _ask(engine: Engine, needs: Sequence[Need]) -> bytes:
    """Ask the coordinator, at the driver; the seed of the numbers that the driver chose."""
    asked, seed, number = _to_ask(engine, needs), new_seed(), 0
    if asked:
        engine.session.send(engine.coordinator or "", Deal(tuple(asked), seed))
    for item in asked:
        if _is_ahead(item):
            chosen = [chosen_seeds(seed, number + copy) for copy in range(item.copies)]
            engine.shares.stock.parts[_shape(item)].extend(Part(*seeds, dealer.NOTHING) for seeds in chosen)
        number += item.copies
    return seed


def _is_ahead(item: DealItem) -> bool:
    """Whether what is asked for is for products to come."""
    return not item.y and not seeded(item)


def _deal(engine: Engine, needs: Sequence[Need]) -> tuple[bytes, Iterator[Part], list[DealItem]]:
    """Get numbers, unless asked for ahead; the driver's seed, the numbers for one product each, and what comes late."""
    me = engine.party
    mine = [need for need in needs if me in (need.item.left, need.item.right)]
    if me != engine.driver:
        left = [need for need in reversed(mine) if need.item.left == me and need.x not in engine.shares.masks]
        new = {need.x.label: need.item for need in left}  # the first with each mask
        seed, asked = b"", _to_ask(engine, mine)
        items = [item for item in asked if not seeded(item) or new.get(item.x) is item]
    else:
        seed = engine.shares.announced.popleft()[1] if engine.shares.announced else _ask(engine, needs)
        items = [need.item for need in mine if not chooses(me, need.item)]
        if all(map(seeded, items)):
            return seed, iter(()), items
    alone, parts = list[Part](), _receive(engine, items)
    for item in items:
        into = engine.shares.stock.parts[_shape(item)] if _is_ahead(item) else alone
        into.extend(islice(parts, item.copies))
    return seed, iter(alone), []


def _receive(engine: Engine, items: Sequence[DealItem]) -> Iterator[Part]:
    if not items:
        return iter(())
    numbers = [0 if in_portions(item) > 1 else dealer.numbers_bytes(item) for item in items]
    most = sum(item.copies * (each + 3 * ITEM_BYTES) for item, each in zip(items, numbers, strict=True))
    dealt = engine.session.recv(engine.coordinator or "", Dealt, at_most=most)
    if len(dealt.parts) != sum(item.copies for item in items) or dealt.digest != dealer.digest_of(items):
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: it is not for the products of {engine.party}")
    return iter(dealt.parts)


def next_portion(engine: Engine, item: DealItem, columns: slice) -> Ring:
    """The numbers of some columns of a large product, which come when all that is small has been dealt."""
    shape = columns.stop - columns.start, item.rows, item.words
    most = item.word_bytes * math.prod(shape) + 3 * ITEM_BYTES
    dealt = engine.session.recv(engine.coordinator or "", Dealt, at_most=most)
    if len(dealt.parts) != 1 or dealt.digest != dealer.digest_of([item, columns]):
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: it is not for these columns of {engine.party}")
    return mod64.from_bytes(dealt.parts[0].values, shape, engine.coordinator, item.word_bytes)


def new_to(engine: Engine, seed: bytes) -> bytes:
    """A seed that was dealt, if it is a new one."""
    if len(seed) != SEED_BYTES:
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: a seed has the wrong length")
    if seed in engine.shares.seeds:
        raise ProtocolError(f"invalid Dealt from {engine.coordinator}: a seed was dealt before and would hide nothing")
    engine.shares.seeds.add(seed)
    return seed


def method_of(call: Call, rules: Rules) -> Method:
    """The cheaper method; always the triple where row counts must not be shown or nodes are hidden."""
    left = call.left
    if isinstance(left, RowByRow):
        return "row by row"
    if isinstance(left, Dense) or left.hidden or not rules.count_rows:
        return "triple"
    return "permute" if permutation_seconds(call) < triple_seconds(call) else "triple"


def permutation_seconds(call: Call) -> float:
    """About how long a product with one-hot X takes if its rows are permuted."""
    slots, columns = slots_of(call), len(call.left.sizes) if isinstance(call.left, OneHot) else 0
    moved = call.rows * columns
    sent = slots.word_bytes * slots.words + 4
    return moved * sent * _SECONDS_PER_BYTE + moved * slots.words * _SECONDS_PER_MOVE


def triple_seconds(call: Call) -> float:
    """About how long a product with one-hot X takes with a matrix triple."""
    slots = slots_of(call)
    bins, nodes = (call.left.bins, call.left.nodes) if isinstance(call.left, OneHot) else (0, 0)
    opened = slots.word_bytes * (nodes * slots.words + (0 if call.x else bins))
    return call.rows * (opened * _SECONDS_PER_BYTE + bins * nodes * slots.words * _SECONDS_PER_PRODUCT)
