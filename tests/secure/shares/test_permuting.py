"""Large products by permutation in portions of columns: the same integers, and nobody holds all columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure import mod64
from unpooled.secure.calls import Call, Dense, OneHot
from unpooled.secure.engine import MOST_PRODUCTS, Serving
from unpooled.secure.randomness import SEED_BYTES, new_seed
from unpooled.secure.shares import blocks, dealer, permutation
from unpooled.secure.shares.dealer import Deal, DealItem, Dealt
from unpooled.secure.shares.permuting import Orders

Make = Callable[..., Any]

PARTIES = ("shop", "telco", "bank")
PAIR, OTHER, BACK = ("telco", "bank"), ("shop", "bank"), ("bank", "telco")
ROWS, COLUMNS = 120, 7
HOT = Call((PAIR,), "bank", ROWS, OneHot((5, 3, 4, 1, 6, 2, 4), 6), 2, 1000)
SMALL = replace(HOT, rows=10)
HIDDEN = replace(SMALL, left=replace(HOT.left, hidden=True))
CALLS = {
    "one": [[HOT], [HOT]],
    "of two parties": [[HOT, HOT, replace(HOT, terms=(OTHER,)), replace(HOT, terms=(OTHER,))]],
    "of two parties in turn": [[HOT, replace(HOT, terms=(OTHER,))] * 3],
    "a sum of two": [[replace(HOT, terms=(PAIR, OTHER), added=(("shop", 9),))]],
    "among others": [[SMALL, HIDDEN, HOT, SMALL, Call((PAIR,), "bank", 70, Dense(9, 50), 3, 1000), HOT]],
    "Y used again": [[replace(HOT, y="g")] * 2, [replace(HOT, y="g")]],
    "both ways": [[HOT, replace(HOT, terms=(BACK,), receiver="telco"), HOT]],
    "in a circle": [[replace(HOT, terms=(PAIR, ("bank", "shop"), ("shop", "telco")))] * 2],
}


@pytest.fixture(params=[64, 3000], ids="blocks of {} bytes".format)
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """A column at a time, and three columns."""
    monkeypatch.setattr(blocks, "block_bytes", request.param)
    return int(request.param)


@pytest.mark.parametrize("ahead", [False, True], ids=["asked for when needed", "announced"])
@pytest.mark.parametrize("name", CALLS)
def test_portions_change_nothing_but_the_messages(
    name: str, ahead: bool, small_blocks: int, rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    batches = [[made(call, 0 if call.y else place) for place, call in enumerate(batch)] for batch in CALLS[name]]
    announced = CALLS[name] if ahead else ()
    run = multiply(rules_for("shares"), batches, PARTIES, room=1, announced=announced)  # mailboxes are always full
    for place, problem in enumerate(problem for batch in batches for problem in batch):
        assert (run.results(problem[0].receiver)[place] == expected(problem)).all()
    received = [message for got in run.received.values() for _, message in got]
    orders = [places for message in received if isinstance(message, Orders) for places in message.places]
    dealt = [part.values for message in received if isinstance(message, Dealt) for part in message.parts]
    for columns, rows in [(len(places), places.shape[1] // 2) for places in orders] + [
        values.shape[1:3] for values in dealt if values.ndim == 4
    ]:
        assert columns == 1 or 8 * columns * rows <= small_blocks or rows == SMALL.rows
    assert len(orders) > len(run.shown["bank"])


def test_what_is_small_takes_one_message(rules_for: Make, multiply: Make, made: Make) -> None:
    run = multiply(rules_for("shares"), [[made(HOT)]])
    assert [type(message) for _, message in run.received["telco"]].count(Dealt) == 1
    assert [type(message) for _, message in run.received["bank"]].count(Orders) == 1


@pytest.mark.parametrize("step", [1, 3, COLUMNS])
def test_portions_are_those_of_the_whole(step: int) -> None:
    rng, order_seed, once_seed = np.random.default_rng(3), new_seed(), new_seed()
    sizes, count = HOT.left.sizes, 4  # type: ignore[union-attr]
    bins = np.stack([rng.integers(0, size, ROWS) for size in sizes], axis=1)
    nodes, mask = rng.integers(-1, count, ROWS).astype(np.int32), rng.integers(0, 2**64, (ROWS, 2), np.uint64)
    blocks = permutation.blocks_of(ROWS, count)
    inside = blocks.inside(nodes)

    def computed(cut: slice) -> tuple[np.ndarray, ...]:
        columns = cut.stop - cut.start
        orders, lengths = mod64.sort_rows(bins[:, cut], sizes[cut], nodes, count)
        places = permutation.hidden_places(order_seed, orders, nodes, blocks, cut.start)
        right = permutation.right_sums(once_seed, places, 2, lengths, inside, sizes[cut], blocks, cut.start)
        dealt = permutation.dealt(order_seed, once_seed, mask, columns, cut.start)
        return dealt, places, lengths, right.transpose(1, 0, 2)

    cuts = [slice(start, min(start + step, COLUMNS)) for start in range(0, COLUMNS, step)]
    parts = [np.concatenate(each) for each in zip(*map(computed, cuts), strict=True)]
    for part, whole in zip(parts, computed(slice(0, COLUMNS)), strict=True):
        assert np.array_equal(part, whole)


def of_columns(change: Callable[[Dealt], Dealt]) -> Callable[[Any], Any]:
    """Change what is dealt in portions."""

    def spoil(message: Any) -> Any:
        portion = isinstance(message, Dealt) and not message.parts[0].once
        return change(message) if portion else message

    return spoil


def swapped() -> Callable[[Any], Any]:
    """Send the first portion again instead of the second."""
    kept: list[Dealt] = []

    def change(message: Dealt) -> Dealt:
        kept.append(message)
        return kept[0] if len(kept) == 2 else message

    return of_columns(change)


@pytest.mark.parametrize(
    ("who", "change", "text"),
    [
        ("coordinator", swapped(), "coordinator.*columns of telco"),
        ("coordinator", of_columns(lambda dealt: replace(dealt, parts=())), "coordinator.*columns of telco"),
        (
            "coordinator",
            of_columns(
                lambda dealt: replace(dealt, parts=(replace(dealt.parts[0], values=dealt.parts[0].values[1:]),))
            ),
            r"coordinator: shape \(",
        ),
        ("telco", lambda sent: Orders((b"tag",), sent.places, sent.lengths), "Orders.*telco"),
        ("telco", lambda sent: replace(sent, places=(sent.places[0] | np.uint8(128),)), "Orders.*telco.*range"),
        ("telco", lambda sent: replace(sent, places=(sent.places[0][:, 1:],)), "Orders.*telco.*shape"),
        ("telco", lambda sent: replace(sent, lengths=(sent.lengths[0][::-1] * 2,)), "Orders.*telco.*add up"),
    ],
)
def test_portions_that_do_not_fit_are_refused(
    who: str, change: Any, text: str, monkeypatch: pytest.MonkeyPatch, rules_for: Make, multiply: Make, made: Make
) -> None:
    monkeypatch.setattr(blocks, "block_bytes", 64)
    tamper = change if who == "coordinator" else lambda sent: change(sent) if isinstance(sent, Orders) else sent
    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("shares"), [[made(HOT)]], tamper={who: tamper})


LARGE = DealItem("telco", "bank", "permute", 2**20, 1000, 1, 7, "x", "y", 1)


def test_a_coordinator_needs_memory_for_a_portion_and_sends_all() -> None:
    sent, size = dealer.bytes_of([LARGE, LARGE])
    assert sent == 2 * (7 * 2**20 * 1000 + 4 * SEED_BYTES)
    assert size == 3 * 8 * 2**20
    assert dealer.checked(Deal((LARGE,), new_seed()), "coordinator", "bank", PARTIES, Serving(24)) == sent // 2
    with pytest.raises(RefusedError, match=r"23 MB at once \(policy.maximum_served_megabytes\); bank asks for 24"):
        dealer.checked(Deal((LARGE,), new_seed()), "coordinator", "bank", PARTIES, Serving(23))


@pytest.mark.parametrize("width", [MOST_PRODUCTS + 1, 2**200])
def test_as_many_portions_as_products_are_dealt_at_once(width: int) -> None:
    request = Deal((replace(LARGE, width=width),), new_seed())
    with pytest.raises(RefusedError, match="serves at most 65536 products"):
        dealer.checked(request, "coordinator", "bank", PARTIES, Serving())
