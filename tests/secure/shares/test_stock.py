"""Numbers that are dealt ahead: they serve once, in order, and save words with the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import ProtocolError
from unpooled.secure.calls import Call, Dense, OneHot
from unpooled.secure.mod64 import from_bytes, lower_bytes
from unpooled.secure.randomness import expand
from unpooled.secure.shares.dealer import Deal, Dealt
from unpooled.secure.shares.opening import Hidden
from unpooled.secure.shares.packing import pack
from unpooled.secure.shares.state import Shape, Stock
from unpooled.secure.shares.supply import slots_of

Make = Callable[..., Any]
ALL = ("telco", "bank", "shop")
BINS = (30, 40, 50)
HOT = Call((("telco", "bank"),), "bank", rows=40, left=OneHot(BINS, 3), columns=2, bound=1000)
NAMED = replace(HOT, y="gradients")


def asked(run: Any) -> list[Deal]:
    return [message for _, message in run.received["coordinator"] if isinstance(message, Deal)]


def check(run: Any, batches: list[list[Any]], expected: Make) -> None:
    for shown, problem in zip(run.results("bank"), [problem for batch in batches for problem in batch], strict=True):
        assert np.array_equal(shown, expected(problem))


@pytest.mark.parametrize("announced", [0, 1, 20])
def test_the_same_shape_again_and_again_is_asked_for_ahead(
    rules_for: Make, multiply: Make, made: Make, expected: Make, announced: int
) -> None:
    calls = [replace(HOT, left=OneHot(BINS, 1 + number % 4)) for number in range(20)]
    batches = [[made(call, seed)] for seed, call in enumerate(calls)]
    run = multiply(rules_for("shares"), batches, announced=[[call] for call in calls[:announced]])
    check(run, batches, expected)
    copies = [item.copies for deal in asked(run) for item in deal.items]
    assert copies == [*[1] * 8, 8, 8], "eight at once, after as many one by one"
    assert len(run.engines["telco"].shares.stock.parts[Shape("telco", "bank", 40, 3, 1, 5)]) == sum(copies) - 20


def test_every_seed_serves_once(rules_for: Make, multiply: Make, made: Make) -> None:
    run = multiply(rules_for("shares"), [[made(HOT, seed)] for seed in range(12)])
    dealt = [part for _, message in run.received["telco"] if isinstance(message, Dealt) for part in message.parts]
    assert len({part.once for part in dealt}) == len(dealt) == 16  # eight and eight
    hidden = [part.values.tobytes() for part in dealt]
    assert len(set(hidden)) == len(hidden)
    assert len(run.engines["bank"].shares.seeds) == 2 * 12, "a mask and what serves once, for each product"
    assert not run.engines["bank"].shares.seeds & {part.once for part in dealt}
    assert not run.engines["bank"].shares.masked, "nothing is remembered of matrices without a name"


@pytest.mark.parametrize("call", [HOT, NAMED], ids=["dealt ahead", "with a name"])
def test_what_the_holder_of_x_is_dealt_takes_no_mask_off(
    rules_for: Make, multiply: Make, made: Make, call: Call
) -> None:
    """Whatever it makes of its seeds and numbers, none of it is what was hidden."""
    call, held = made(call)
    run = multiply(rules_for("shares"), [[(call, held)]])
    (sent,) = [message.values[0] for _, message in run.received["telco"] if isinstance(message, Hidden)]
    (part,) = [p for _, message in run.received["telco"] if isinstance(message, Dealt) for p in message.parts]
    width = slots_of(call).word_bytes
    hidden, dealt = (from_bytes(each, each.shape[1:], "", width) for each in (sent, part.values))
    words = lower_bytes(pack(held["bank"].y, slots_of(call)), width)
    masks = [expand(part.once, purpose, hidden.shape) for purpose in (b"mask", b"once", b"order", b"half")]
    for mask in [*masks, *dealt, *-dealt]:
        assert not (lower_bytes(hidden + mask, width) == words).all(axis=1).any()


def test_several_parties_shapes_and_named_matrices_go_together(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    """Each batch has other products: of either party, of two sizes, with and without a name, of several terms."""
    shops = replace(HOT, terms=(("shop", "bank"),))
    larger, both = replace(HOT, rows=50), replace(HOT, terms=(("telco", "bank"), ("shop", "bank")))
    kinds = [HOT, shops, larger, replace(shops, rows=50), both, replace(HOT, left=OneHot((2,), 1))]
    rng = np.random.default_rng(3)
    batches = [
        [
            made(kinds[number], 100 * seed + place)
            for place, number in enumerate(rng.integers(0, len(kinds), 4).tolist())
        ]
        for seed in range(12)
    ]
    named = made(NAMED)
    batches = [[*batch, named] for batch in batches]
    check(multiply(rules_for("shares"), batches, ALL, own_calls=True), batches, expected)


def test_what_is_large_is_not_asked_for_ahead() -> None:
    assert Shape("telco", "bank", 200_000, 12, 1).ahead(asked=100) == 0
    assert Shape("telco", "bank", 20_000, 12, 1).ahead(asked=100) == 2
    stock, large = Stock(), Shape("telco", "bank", 200_000, 12, 1)
    assert [stock.lacking([large, large]) for _ in range(5)] == [[(large, 2)]] * 5


def test_seeds_are_asked_for_in_ever_larger_numbers() -> None:
    stock, seeds = Stock(), Shape("telco", "bank")
    copies = [copies for _ in range(100) for _, copies in stock.lacking([seeds] * 10)]
    assert copies == [10, 10, 20, 40, 80, 160, 256, 256, 256]


def test_products_of_any_shape_take_seeds_that_were_dealt_ahead(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    """Only when seeds run out, or a mask of X is new, is the holder of X dealt anything."""
    calls = [
        replace(HOT, rows=200, left=OneHot((2, 3), 1 + number % 4, hidden=True), x="bins" if number > 2 else "")
        for number in range(20)
    ]
    batches = [[made(call, 0)] for call in calls]
    run = multiply(rules_for("shares"), batches)
    check(run, batches, expected)
    copies = [item.copies for deal in asked(run) for item in deal.items if item.method == "seeds"]
    assert copies == [1, 1, 2, 4, 8, 16]
    dealt = [message for _, message in run.received["telco"] if isinstance(message, Dealt)]
    assert [len(message.parts) for message in dealt] == [2, 2, 3, 1, 4, 8, 16], "seeds, and masks of X"
    assert all(not part.values.size for message in dealt for part in message.parts)
    assert len({part.once for message in dealt for part in message.parts if part.once}) == sum(copies)


def test_products_both_ways_with_one_name_go_together(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    """The driver's Y takes seeds dealt ahead, its X does not; both parties' X may have the same name."""
    there = Call((("telco", "bank"),), "bank", rows=30, left=Dense(4, 100), columns=2, bound=100, x="columns")
    back = replace(there, terms=(("bank", "telco"),), receiver="telco")
    named = replace(there, y="gradients")
    for batch in ([back, there, there], [named, there, back]):
        problems = [made(call, 0) for call in batch]
        run = multiply(rules_for("shares"), [problems, problems])
        for party in ("bank", "telco"):
            asked_for = [problem for problem in 2 * problems if problem[0].receiver == party]
            results = [shown for shown in run.results(party) if shown is not None]
            for shown, problem in zip(results, asked_for, strict=True):
                assert np.array_equal(shown, expected(problem))


def test_seeds_that_nobody_dealt_are_refused(rules_for: Make, multiply: Make, made: Make) -> None:
    def without(message: Any) -> Any:
        if not isinstance(message, Deal):
            return message
        return replace(message, items=tuple(item for item in message.items if item.method != "seeds"))

    call = replace(HOT, left=OneHot(BINS, 3, hidden=True))
    with pytest.raises(ProtocolError, match="no seeds were dealt ahead for telco and bank"):
        multiply(rules_for("shares"), [[made(call)]], tamper={"bank": without})


def test_a_batch_that_needs_more_than_is_in_stock_asks_for_the_rest() -> None:
    stock, shape = Stock(), Shape("telco", "bank", 100, 3, 1)
    assert stock.lacking([shape] * 10) == [(shape, 10)]
    assert stock.lacking([shape]) == [(shape, 8)]
    assert stock.lacking([shape] * 10) == [(shape, 8)]
    assert stock.lacking([shape] * 5) == []


@pytest.mark.parametrize(
    ("call", "change", "text"),
    [
        (HOT, {"copies": 0}, "bank"),
        (HOT, {"copies": -1}, "bank"),
        (NAMED, {"copies": 2}, "bank"),
        (HOT, {"method": "triple", "copies": 2}, "bank"),
        (HOT, {"copies": 2}, "coordinator.*telco"),
        (HOT, {"method": "triple", "left": "bank", "right": "telco"}, "bank.*does not choose the numbers of telco"),
        (HOT, {"method": "seeds", "left": "bank", "right": "telco"}, "bank.*does not choose the numbers of telco"),
    ],
)
def test_wrong_numbers_of_copies_are_refused(
    rules_for: Make, multiply: Make, made: Make, call: Call, change: dict[str, Any], text: str
) -> None:
    def more(message: Any) -> Any:
        if not isinstance(message, Deal):
            return message
        return replace(message, items=tuple(replace(item, **change) for item in message.items))

    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("shares"), [[made(call)]], tamper={"bank": more})


def test_another_shape_than_was_announced_is_refused(rules_for: Make, multiply: Make, made: Make) -> None:
    with pytest.raises(ProtocolError, match=r"bank|telco"):
        multiply(rules_for("shares"), [[made(HOT)]], announced=[[replace(HOT, rows=41)]])
