"""What the products of `shares` need dealt, how the driver asks for it, and what each party gets.

The driver asks for what a batch needs, or earlier, when the batch is announced. What is for one product alone comes
first, then what goes into stock. Everybody else knows from its own calls what was asked for it, and checks that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from unpooled.errors import ProtocolError
from unpooled.secure.calls import Call, OneHot
from unpooled.secure.engine import Engine, next_tags
from unpooled.secure.randomness import new_seed
from unpooled.secure.shares import dealer
from unpooled.secure.shares.dealer import Deal, DealItem, Dealt, Part, chooses, chosen_seeds, method_of
from unpooled.secure.shares.packing import RING_BITS, Slots, slots_for
from unpooled.secure.shares.stock import Shape
from unpooled.session import ITEM_BYTES

LAYOUT = "\n"
"""Stands between a matrix's name and how it was packed."""


class Need(NamedTuple):
    """What a product of some rows takes, and the shape of it where any numbers of that shape will do."""

    item: DealItem
    rows: slice
    shape: Shape | None = None


def slots_of(call: Call) -> Slots:
    """How a call's columns of Y share words."""
    return slots_for(call.columns, call.result_bound, RING_BITS)


def supplied(engine: Engine, calls: Sequence[Call], tags: Sequence[bytes]) -> list[tuple[int, Need, Part]]:
    """This party's terms: the place of the call in its batch, what the term takes, and what was dealt for it."""
    me = engine.party
    needs = [_needs(engine, call, tag) for call, tag in zip(calls, tags, strict=True)]
    seed, dealt = _deal(engine, [need for group in needs for need in group])
    found, number = [], 0
    for place, need in [(place, need) for place, group in enumerate(needs) for need in group]:
        item = need.item
        if me in (item.left, item.right):
            if need.shape:
                part = engine.stock.take(need.shape)
            elif me == engine.driver and chooses(me, item):
                part = _chosen_part(engine, item, seed, number)
            else:
                part = next(dealt)
            if item.right == me:
                engine.masked.add(item.y)
            found.append((place, need, part))
        number += not need.shape
    return found


def ask_ahead(engine: Engine, batches: Sequence[Sequence[Call]]) -> None:
    """Have numbers dealt for batches to come, while there is other work; at the driver, elsewhere nothing happens."""
    if engine.party != engine.driver:
        return
    calls = engine.calls.copy()
    calls.update(call.participants for batch in engine.announced for call in batch)
    for batch in batches:
        tags = next_tags(calls, batch)
        needs = [need for call, tag in zip(batch, tags, strict=True) for need in _needs(engine, call, tag)]
        engine.chosen.append(_ask(engine, needs))
        engine.announced.append(tuple(batch))


def _needs(engine: Engine, call: Call, tag: bytes) -> list[Need]:
    """What is to be dealt for a call, term by term; a matrix without a name has a mask of its own.

    If besides it is for one pair of parties alone, and the driver chooses its side, any numbers of that shape will do.
    """
    method, words, left = method_of(call, engine.rules), slots_of(call).words, call.left
    unnamed = f"#{tag.hex()}"
    width, x = len(left.sizes) if isinstance(left, OneHot) else left.width, call.x or unnamed
    y = f"{call.y}{LAYOUT}{slots_of(call)}" if call.y else unnamed  # packed in another way it is another matrix
    if method == "triple" and isinstance(left, OneHot):
        width, words, y = left.bins, words * left.nodes, unnamed  # the nodes, folded into Y, make it another each time
    if call.fixed:
        other, parts = f"{unnamed} below", (slice(call.fixed), slice(call.fixed, call.rows))
        sizes = (call.fixed, x, unnamed), (call.rows - call.fixed, other, y if call.y else other)
        return [
            Need(DealItem(*term, method, rows, width, words, name_x, name_y, 1), part)
            for term in call.terms
            for part, (rows, name_x, name_y) in zip(parts, sizes, strict=True)
        ]
    items = [DealItem(*term, method, call.rows, width, words, x, y, 1) for term in call.terms]
    any_will_do = len(items) == 1 and y == unnamed and chooses(engine.driver, items[0])
    return [Need(item, slice(call.rows), _shape(item) if any_will_do else None) for item in items]


def _shape(item: DealItem) -> Shape:
    return Shape(item.left, item.right, item.rows, item.width, item.words)


def _to_ask(engine: Engine, needs: Sequence[Need]) -> list[DealItem]:
    """What the driver asks for: what is for one product alone, then what there is too little of in stock."""
    lacking = engine.stock.lacking(need.shape for need in needs if need.shape)
    ahead = [DealItem(s.left, s.right, "permute", s.rows, s.width, s.words, "", "", copies) for s, copies in lacking]
    return [need.item for need in needs if not need.shape] + ahead


def _ask(engine: Engine, needs: Sequence[Need]) -> bytes:
    """At the driver: have numbers dealt; the seed of those that it chooses itself, some of which go into stock."""
    asked, seed, number = _to_ask(engine, needs), new_seed(), 0
    if asked:
        engine.session.send(engine.coordinator or "", Deal(tuple(asked), seed))
    for item in asked:
        if not item.y:
            chosen = [chosen_seeds(seed, number + copy) for copy in range(item.copies)]
            engine.stock.parts[_shape(item)].extend(Part(*seeds, dealer.NOTHING) for seeds in chosen)
        number += item.copies
    return seed


def _deal(engine: Engine, needs: Sequence[Need]) -> tuple[bytes, Iterator[Part]]:
    """Have numbers dealt, unless they were asked for ahead; the driver's seed, and what is for one product alone."""
    me = engine.party
    mine = [need for need in needs if me in (need.item.left, need.item.right)]
    if me != engine.driver:
        seed, items = b"", _to_ask(engine, mine)
    else:
        if engine.announced:
            engine.announced.popleft()
            seed = engine.chosen.popleft()
        else:
            seed = _ask(engine, needs)
        items = [need.item for need in mine if not chooses(me, need.item)]
    alone, parts = list[Part](), _receive(engine, items)
    for item in items:
        into = alone if item.y else engine.stock.parts[_shape(item)]
        into.extend(islice(parts, item.copies))
    return seed, iter(alone)


def _receive(engine: Engine, items: Sequence[DealItem]) -> Iterator[Part]:
    if not items:
        return iter(())
    cells = [item.width * item.words * (1 if item.method == "triple" else item.rows) for item in items]
    most = sum(item.copies * (8 * count + 3 * ITEM_BYTES) for item, count in zip(items, cells, strict=True))
    dealt = engine.session.recv(engine.coordinator or "", Dealt, at_most=most)
    if len(dealt.parts) != sum(item.copies for item in items) or dealt.digest != dealer.digest_of(items):
        raise ProtocolError(f"{engine.coordinator} dealt for other products than {engine.party} works on")
    return iter(dealt.parts)


def _chosen_part(engine: Engine, item: DealItem, seed: bytes, number: int) -> Part:
    """What the driver chose for its side of a product; a mask that has a name already keeps it."""
    mask, once = chosen_seeds(seed, number)
    return Part(b"" if item.y in engine.masked else mask, once, dealer.NOTHING)
