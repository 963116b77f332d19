"""Parties that differ, matrices under the wrong name, messages and shares that are wrong: all refused.

What is not found out, because nothing cheap could, stands here too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import Deadlock, InputError, PeerError, ProtocolError
from unpooled.secure.calls import Call, Dense, Inputs, OneHot
from unpooled.secure.engine import MaskSeed, Rules
from unpooled.secure.mod64 import from_bytes, to_bytes
from unpooled.secure.paillier import engine
from unpooled.secure.product import Contribution
from unpooled.secure.shares.dealer import Deal, DealItem, Dealt
from unpooled.secure.shares.opening import Hidden
from unpooled.secure.shares.packing import RING_BITS, slots_for
from unpooled.secure.shares.permuting import Orders

PAIR = (("telco", "bank"),)
ALL = ("telco", "shop", "bank")
DENSE = Call(PAIR, "bank", 40, Dense(3, 100), 2, 1000)
HOT = Call(PAIR, "bank", 40, OneHot((4, 2, 5), 6), 2, 1000)
HIDDEN = replace(HOT, left=replace(HOT.left, hidden=True))

Make = Callable[..., Any]


# parties that differ

DIFFERENCES: list[tuple[Call, dict[str, Any]]] = [
    (DENSE, {"rows": 39}),
    (DENSE, {"columns": 1}),
    (DENSE, {"bound": 1001}),
    (DENSE, {"bound": 10**9}),
    (DENSE, {"left": Dense(2, 100)}),
    (DENSE, {"left": Dense(3, 101)}),
    (DENSE, {"left": OneHot((2, 1))}),
    (DENSE, {"receiver": "telco"}),
    (DENSE, {"digest": "other rows"}),
    (DENSE, {"added": (("telco", 5),)}),
    (DENSE, {"x": "age"}),
    (DENSE, {"y": "g"}),
    (DENSE, {"terms": (("bank", "telco"),)}),
    (HOT, {"left": OneHot((4, 2, 5), 7)}),
    (HOT, {"left": OneHot((4, 5, 2), 6)}),
    (HOT, {"left": OneHot((4, 2, 5), 6, True)}),
    (HIDDEN, {"left": OneHot((4, 2, 5), 7, True)}),
    (HIDDEN, {"digest": "other rows"}),
]


def test_whatever_differs_gives_calls_another_tag() -> None:
    """What parties compare before they use what they were sent."""
    for call, change in DIFFERENCES:
        assert replace(call, **change).tag(1) != call.tag(1), change
    assert DENSE.tag(1) == replace(DENSE).tag(1) != DENSE.tag(2)


@pytest.mark.parametrize(
    ("call", "change", "other"),
    [
        (DENSE, {"bound": 1001}, "telco"),
        (DENSE, {"left": OneHot((2, 1))}, "bank"),
        (DENSE, {"receiver": "telco"}, "telco"),
        (DENSE, {"terms": (("bank", "telco"),)}, "telco"),
        (HOT, {"left": OneHot((4, 5, 2), 6)}, "bank"),
        (HIDDEN, {"digest": "other rows"}, "bank"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_calls_that_differ_end_the_conversation(
    rules: Rules, multiply: Make, made: Make, new_run: Make, call: Call, change: dict[str, Any], other: str
) -> None:
    run = new_run()
    with pytest.raises((ProtocolError, Deadlock) if "terms" in change else ProtocolError):
        multiply(rules, [[made(call)]], into=run, differing={other: [[made(replace(call, **change))]]})
    assert all(result is None for shown in run.shown.values() for batch in shown for result in batch)


@pytest.mark.parametrize("named", [False, True])
def test_calls_in_another_order_end_the_conversation(
    rules: Rules, multiply: Make, made: Make, new_run: Make, named: bool
) -> None:
    """Also where everything was prepared before, and so nothing but the result travels."""
    names = {"x": "age", "y": "g"} if named else {}
    first, second = made(replace(DENSE, **names)), made(replace(DENSE, **names, digest="other"))
    for batches, swapped in [([[first, second]], [[second, first]]), ([[first], [second]], [[second], [first]])]:
        run = new_run()
        with pytest.raises(ProtocolError):
            multiply(rules, [[first], *batches], into=run, differing={"telco": [[first], *swapped]})
        assert run.rounds("bank") <= 1


@pytest.mark.parametrize("fewer", ["telco", "bank"])
def test_a_call_that_only_one_party_makes_ends_the_conversation(
    rules: Rules, multiply: Make, made: Make, new_run: Make, fewer: str
) -> None:
    problem, run = made(DENSE), new_run()
    with pytest.raises((ProtocolError, PeerError)):
        multiply(rules, [[problem], [problem]], into=run, differing={fewer: [[problem]]})
    assert run.rounds("bank") <= 1


def test_other_numbers_of_rows_in_nodes_are_refused(rules_for: Make, multiply: Make, made: Make, new_run: Make) -> None:
    """Where both know the nodes, and runs are told."""
    call, held = made(HOT)
    fewer = replace(held["telco"], nodes=np.where(np.arange(40) < 20, held["telco"].nodes, np.int32(-1)))
    run = new_run()
    with pytest.raises(ProtocolError, match=r"telco.*Orders|Orders.*telco"):
        multiply(rules_for("shares"), [[(call, held | {"telco": fewer})]], into=run)
    assert run.rounds("bank") == 0


def test_rules_that_differ_end_the_conversation(rules_for: Make, multiply: Make, made: Make) -> None:
    other = {"telco": rules_for("shares", count_rows=False)}
    with pytest.raises(ProtocolError):
        multiply(rules_for("shares"), [[made(HOT)]], own_rules=other)


def test_wrong_inputs_are_refused_before_anything_is_sent(
    rules: Rules, multiply: Make, made: Make, new_run: Make
) -> None:
    call, held = made(DENSE)
    wrong = held | {"telco": Inputs(x=held["telco"].x * 1000)}
    run = new_run()
    with pytest.raises(InputError, match=r"telco.*\bX\b"):
        multiply(rules, [[(call, held), (call, wrong)]], into=run)
    assert not [message for _, message in run.received.get("bank", []) if not isinstance(message, MaskSeed)]


@pytest.mark.parametrize(
    "change", [{"added": (("isp", 5),)}, {"terms": (*PAIR, ("isp", "bank"))}, {"terms": (("isp", "bank"),)}]
)
def test_parties_that_take_no_part_are_refused(
    rules: Rules, multiply: Make, made: Make, change: dict[str, Any]
) -> None:
    """A result without their share would be a wrong number."""
    call, held = made(DENSE)
    with pytest.raises(InputError, match="isp"):
        multiply(rules, [[(replace(call, **change), held)]])


# matrices under a name


@pytest.mark.parametrize("change", [{"x": "age"}, {"x": "age", "y": "g"}])
def test_another_x_under_the_same_name_is_refused(
    rules_for: Make, multiply: Make, made: Make, new_run: Make, change: dict[str, str]
) -> None:
    call, held = made(replace(DENSE, **change))
    other = held | {"telco": Inputs(x=held["telco"].x[::-1].copy())}
    run = new_run()
    with pytest.raises(ProtocolError, match=r"telco.*mask"):
        multiply(rules_for("shares"), [[(call, held)], [(call, other)]], into=run)
    assert run.rounds("bank") <= 1


@pytest.mark.parametrize("call", [DENSE, HOT])
def test_another_y_under_the_same_name_is_refused(
    protecting: Rules, multiply: Make, made: Make, new_run: Make, call: Call
) -> None:
    call, held = made(replace(call, y="g"))
    other = held | {"bank": replace(held["bank"], y=held["bank"].y[::-1].copy())}
    run = new_run()
    with pytest.raises(ProtocolError, match="bank"):
        multiply(protecting, [[(call, held)], [(call, other)]], into=run)
    assert run.rounds("bank") <= 1


def test_the_same_bins_of_columns_of_other_sizes_are_another_matrix(
    rules_for: Make, multiply: Make, made: Make, new_run: Make
) -> None:
    call, held = made(Call(PAIR, "bank", 40, OneHot((2, 4), 1, True), 1, 2**40, x="bins"))
    held["telco"] = Inputs(x=held["telco"].x % 2)
    other = replace(call, left=OneHot((3, 3), 1, True))
    run = new_run()
    with pytest.raises(ProtocolError, match=r"telco.*mask"):
        multiply(rules_for("shares"), [[(call, held)], [(other, held)]], into=run)


def test_a_name_stands_for_one_shape(rules_for: Make, multiply: Make, made: Make) -> None:
    first, second = made(replace(DENSE, x="age")), made(replace(DENSE, x="age", rows=20))
    with pytest.raises(ProtocolError, match=r"telco.*\(40, 3\)"):
        multiply(rules_for("shares"), [[first], [second]])


@pytest.mark.parametrize(
    "change", [{"rows": 41}, {"left": Dense(4, 100)}, {"columns": 3, "bound": 10**12}, {"x": "age"}]
)
def test_what_was_announced_serves_nothing_else(
    rules_for: Make, multiply: Make, made: Make, new_run: Make, change: dict[str, Any]
) -> None:
    run = new_run()
    with pytest.raises(ProtocolError, match="coordinator"):
        multiply(rules_for("shares"), [[made(DENSE)]], into=run, announced=[[replace(DENSE, **change)]])


def test_announcing_more_than_is_called_ends_the_conversation(rules_for: Make, multiply: Make, made: Make) -> None:
    with pytest.raises(ProtocolError, match="Dealt"):
        multiply(rules_for("shares"), [[made(DENSE)]], announced=[[DENSE], [DENSE]])


# what a coordinator or a party sends that is wrong


def changed(kind: type, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Send another message instead of those of a kind."""
    return lambda message: change(message) if isinstance(message, kind) else message


def parts_changed(**change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change fields of everything that is dealt, where there is something in them."""

    def spoil(dealt: Dealt) -> Dealt:
        fields = [
            (part, {n: f(getattr(part, n)) for n, f in change.items() if len(getattr(part, n))}) for part in dealt.parts
        ]
        return replace(dealt, parts=tuple(replace(part, **new) for part, new in fields))

    return changed(Dealt, spoil)


def words(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change numbers that travel as bytes."""
    return lambda values: to_bytes(change(from_bytes(values, values.shape[1:], "", len(values))), len(values))


def plus(number: int) -> Callable[[Any], Any]:
    return words(lambda values: values + np.uint64(number % 2**64))


LONG = {"bound": 2**50}


@pytest.mark.parametrize(
    "call", [DENSE, replace(HOT, **LONG), replace(HIDDEN, **LONG)], ids=["dense", "one hot", "hidden nodes"]
)
@pytest.mark.parametrize("spoil", [plus(2**40), plus(-(2**40)), words(lambda values: values ^ np.uint64(2**62))])
def test_a_wrong_share_is_found_out_by_the_bound(
    rules_for: Make, multiply: Make, made: Make, new_run: Make, call: Call, spoil: Callable[[Any], Any]
) -> None:
    run = new_run()
    with pytest.raises(ProtocolError, match="share"):
        multiply(
            rules_for("shares"),
            [[made(replace(call, columns=1))]],
            into=run,
            tamper={"coordinator": parts_changed(values=spoil)},
        )
    assert run.rounds("bank") == 0


@pytest.mark.parametrize("call", [HOT, HIDDEN], ids=["one hot", "hidden nodes"])
@pytest.mark.parametrize("number", [1, -1, 2**15, 2**23])
def test_a_wrong_share_of_sums_over_bins_does_not_add_up(
    rules_for: Make, multiply: Make, made: Make, new_run: Make, call: Call, number: int
) -> None:
    """Words are as short as the bound allows, so that hardly a wrong share is beyond it; every row is in some bin."""
    run, tamper = new_run(), {"coordinator": parts_changed(values=plus(number))}
    with pytest.raises(ProtocolError, match="share"):
        multiply(rules_for("shares"), [[made(call)]], into=run, tamper=tamper)
    assert run.rounds("bank") == 0


def byte_changed(place: int) -> Callable[[Any], Any]:
    """Decrypt the first sum wrongly, by a power of two."""

    def spoil(decrypted: engine.Decrypted) -> engine.Decrypted:
        sums = decrypted.sums[0].copy()
        sums[0, place] ^= 1
        return replace(decrypted, sums=(sums, *decrypted.sums[1:]))

    return changed(engine.Decrypted, spoil)


def test_wrong_decryption_is_found_out_above_the_results(
    rules_for: Make, multiply: Make, made: Make, new_run: Make
) -> None:
    run = new_run()
    with pytest.raises(ProtocolError, match="share"):
        multiply(rules_for("paillier"), [[made(DENSE)]], into=run, tamper={"coordinator": byte_changed(62)})
    assert run.rounds("bank") == 0


def test_wrong_decryption_is_not_found_out_among_the_results(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    """Sums stand side by side without gaps: what is within the bound may be right."""
    problem = made(replace(DENSE, bound=10**9))
    problem[1]["bank"].y[:] //= 10**6
    run = multiply(rules_for("paillier"), [[problem]], tamper={"coordinator": byte_changed(2)})
    assert (abs(run.results("bank")[0] - expected(problem)) == 2**16).sum() == 1


def test_a_share_that_is_wrong_by_little_is_not_found_out(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    problem = made(DENSE)
    run = multiply(rules_for("shares"), [[problem]], tamper={"coordinator": parts_changed(values=plus(1))})
    assert (run.results("bank")[0] - expected(problem) == [1, 0]).all()


def test_a_wrong_share_is_not_found_out_where_the_bound_takes_all_bits(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    problem = made(replace(DENSE, columns=1, bound=(2**63 - 1) // 4000))
    small = (
        problem[0],
        {party: replace(held, y=held.y // 2**40) if held.y is not None else held for party, held in problem[1].items()},
    )
    run = multiply(rules_for("shares"), [[small]], tamper={"coordinator": parts_changed(values=plus(2**61))})
    assert (run.results("bank")[0] - expected(small) == 2**61).all()


def test_a_wrong_share_is_not_found_out_where_packing_takes_all_bits(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    """Two columns of 31 bits and their signs fill a word: the bound is far from 63 bits, and yet no bit is left."""
    problem = made(Call(PAIR, "bank", 1, Dense(1, 1), 2, 2**31 - 1))
    assert slots_for(2, problem[0].result_bound, RING_BITS).bits == 32
    problem[1]["telco"].x[:], problem[1]["bank"].y[:] = 1, 5
    run = multiply(rules_for("shares"), [[problem]], tamper={"coordinator": parts_changed(values=plus(2**60 + 2**20))})
    assert run.results("bank")[0].tolist() == [[5 + 2**20, 5 + 2**28]]


@pytest.mark.parametrize("call", [DENSE, HOT], ids=["dense", "one hot"])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (parts_changed(values=lambda values: values[:-1]), r"coordinator.*\("),
        (parts_changed(values=lambda values: values.reshape(len(values), -1, 1, 1)), r"coordinator.*\("),
        (parts_changed(once=lambda seed: seed + b"?"), "coordinator.*seed"),
        (parts_changed(once=lambda seed: b""), "coordinator.*seed"),
        (changed(Dealt, lambda dealt: replace(dealt, parts=dealt.parts[1:])), "coordinator"),
        (changed(Dealt, lambda dealt: replace(dealt, parts=dealt.parts * 2)), "coordinator"),
    ],
)
def test_dealt_numbers_that_do_not_fit_are_refused(
    rules_for: Make, multiply: Make, made: Make, call: Call, change: Callable[[Any], Any], text: str
) -> None:
    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("shares"), [[made(call)]], tamper={"coordinator": change})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (parts_changed(mask=lambda seed: seed[1:]), "coordinator.*seed"),
        (parts_changed(mask=lambda seed: b""), "coordinator.*mask"),
    ],
)
def test_masks_that_cannot_be_are_refused(
    rules_for: Make, multiply: Make, made: Make, change: Callable[[Any], Any], text: str
) -> None:
    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("shares"), [[made(DENSE)]], tamper={"coordinator": change})


def test_a_driver_that_is_dealt_seeds_alone_chooses_them(rules_for: Make, multiply: Make, made: Make) -> None:
    run = multiply(rules_for("shares"), [[made(HOT)], [made(HOT)]])
    asked = [message for _, message in run.received["coordinator"] if isinstance(message, Deal)]
    assert len({message.seed for message in asked}) == 2
    assert all(message.items[0].method == "permute" for message in asked)
    assert not any(isinstance(message, Dealt) for _, message in run.received["bank"])
    assert sum(isinstance(message, Dealt) for _, message in run.received["telco"]) == 2


def test_a_drivers_seed_of_the_wrong_length_is_refused(rules_for: Make, multiply: Make, made: Make) -> None:
    shorter = changed(Deal, lambda deal: replace(deal, seed=deal.seed[1:]))
    with pytest.raises(ProtocolError, match=r"bank.*seed|seed.*bank"):
        multiply(rules_for("shares"), [[made(HOT)]], tamper={"bank": shorter})


def places_changed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return changed(Orders, lambda orders: replace(orders, places=tuple(change(places) for places in orders.places)))


def lengths_changed(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return changed(Orders, lambda orders: replace(orders, lengths=tuple(change(lengths) for lengths in orders.lengths)))


def short_of_one(kind: type, field: str) -> Callable[[Any], Any]:
    return changed(kind, lambda message: replace(message, **{field: getattr(message, field)[1:]}))


WRONG_MESSAGES: list[tuple[Call, str, Callable[[Any], Any], str]] = [
    (HOT, "telco", places_changed(lambda places: places | np.uint8(128)), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", places_changed(lambda places: places[:, 1:]), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", lengths_changed(lambda lengths: lengths + 40), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", lengths_changed(lambda lengths: lengths - 41), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", lengths_changed(lambda lengths: lengths * 0 + 2**62), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", lengths_changed(lambda lengths: lengths[1:]), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", short_of_one(Orders, "places"), "telco.*Orders|Orders.*telco"),
    (HOT, "telco", short_of_one(Orders, "tags"), "telco.*Orders|Orders.*telco"),
    (DENSE, "telco", short_of_one(Hidden, "values"), "telco.*Hidden|Hidden.*telco"),
    (DENSE, "bank", short_of_one(Hidden, "tags"), "bank.*Hidden|Hidden.*bank"),
    (DENSE, "telco", changed(Hidden, lambda h: replace(h, values=(h.values[0].swapaxes(1, 2),))), r"telco.*\("),
    (DENSE, "bank", changed(Hidden, lambda h: replace(h, values=(h.values[0][1:],))), r"bank.*\("),
    (DENSE, "telco", changed(Hidden, lambda h: Contribution(h.tags, ())), "Hidden.*telco"),
    (DENSE, "telco", short_of_one(Contribution, "tags"), "telco.*Contribution|Contribution.*telco"),
    (DENSE, "telco", short_of_one(Contribution, "values"), "telco.*Contribution|Contribution.*telco"),
    (
        DENSE,
        "telco",
        changed(Contribution, lambda c: replace(c, values=(c.values[0][8:],))),
        "telco.*Contribution|Contribution.*telco",
    ),
    (
        DENSE,
        "telco",
        changed(MaskSeed, lambda seed: MaskSeed(seed.seed[1:])),
        "telco.*MaskSeed|MaskSeed.*telco",
    ),
]


@pytest.mark.parametrize(("call", "who", "change", "text"), WRONG_MESSAGES)
def test_messages_that_do_not_fit_are_refused(
    rules_for: Make, multiply: Make, made: Make, call: Call, who: str, change: Callable[[Any], Any], text: str
) -> None:
    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("shares"), [[made(call)]], tamper={who: change})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"left": "isp"}, "bank"),
        ({"right": "coordinator"}, "bank"),
        ({"right": "telco"}, "bank"),
        ({"rows": -1}, "bank"),
        ({"words": -1}, "bank"),
        ({"method": "guess"}, "bank"),
    ],
)
def test_the_coordinator_refuses_impossible_requests(
    rules_for: Make, multiply: Make, made: Make, change: dict[str, Any], text: str
) -> None:
    def spoil(message: Any) -> Any:
        items = getattr(message, "items", ())
        return replace(message, items=tuple(replace(item, **change) for item in items)) if items else message

    assert change.keys() <= DealItem.__dataclass_fields__.keys()
    with pytest.raises(ProtocolError, match=text):
        multiply(rules_for("shares"), [[made(DENSE)]], tamper={"bank": spoil})
