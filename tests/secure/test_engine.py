"""What a party has in hand: which engines open where, and how much the holder of a hidden matrix answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from unpooled.errors import PlanError, RefusedError
from unpooled.secure.calls import Call, Dense, OneHot
from unpooled.secure.engine import Engine, Rules, count_bits, count_questions, count_splits, limit_bits, open_engine
from unpooled.secure.product import answer_bits

PAIR = (("telco", "bank"),)
ALL = ("telco", "shop", "bank")
DENSE = Call(PAIR, "bank", 40, Dense(3, 100), 2, 1000)
HOT = Call(PAIR, "bank", 40, OneHot((4, 2, 5), 6), 2, 1000)
HIDDEN = replace(HOT, left=replace(HOT.left, hidden=True))

Make = Callable[..., Any]


@pytest.mark.parametrize("engine", ["shares", "paillier"])
def test_engines_that_protect_need_a_coordinator(engine: Any) -> None:
    with pytest.raises(PlanError, match=rf"{engine}.*coordinator"):
        open_engine(_Session(), Rules(engine), ALL, "bank", None)  # type: ignore[arg-type]


def test_plain_refuses_a_network() -> None:
    with pytest.raises(PlanError, match="plain"):
        open_engine(_Session(), Rules("plain"), ALL, "bank", None)  # type: ignore[arg-type]


class _Session:
    """Enough of a session to be refused."""

    party, networked = "bank", True


def asked_of(multiply: Make, made: Make, rules: Rules, *batches: list[Call], parties: Any = ALL) -> dict[str, Any]:
    run = multiply(rules, [[made(call) for call in batch] for batch in batches], parties)
    return {party: dict(engine.answered) for party, engine in run.engines.items() if engine.answered}


def test_the_hidden_side_counts_what_it_answers(rules_for: Make, multiply: Make, made: Make) -> None:
    plain = rules_for("plain")
    mirrored = {"receiver": "telco"}
    assert asked_of(multiply, made, plain, [DENSE]) == {"telco": {"": 2}}
    assert asked_of(multiply, made, plain, [replace(DENSE, **mirrored)]) == {"bank": {"": 3}}
    assert asked_of(multiply, made, plain, [HOT]) == {"telco": {"": 2 * 6}}
    assert asked_of(multiply, made, plain, [replace(HOT, **mirrored)]) == {"bank": {"": 11 * 6}}
    assert asked_of(multiply, made, plain, [DENSE, DENSE], [HOT]) == {"telco": {"": 2 + 2 + 12}}
    assert asked_of(multiply, made, plain, [DENSE, replace(DENSE, digest="a")]) == {"telco": {"": 2, "a": 2}}


def test_questions_of_several_peers_add_up(rules_for: Make, multiply: Make, made: Make) -> None:
    terms = (("telco", "bank"), ("telco", "shop"))
    answered = asked_of(multiply, made, rules_for("plain"), [replace(DENSE, terms=terms)])
    assert answered == {"telco": {"": 4}, "shop": {"": 3}}
    shown_to_a_third = replace(DENSE, receiver="shop", added=(("shop", 1),))
    assert asked_of(multiply, made, rules_for("plain"), [shown_to_a_third]) == {"telco": {"": 2}, "bank": {"": 3}}


@pytest.mark.parametrize(
    ("call", "who"), [(DENSE, "telco"), (replace(DENSE, receiver="telco"), "bank"), (HIDDEN, "telco")]
)
def test_no_more_than_the_limit_is_answered(
    rules: Rules, multiply: Make, made: Make, new_run: Make, call: Call, who: str
) -> None:
    asked = {"telco": 2, "bank": 3}[who] * (1 if isinstance(call.left, Dense) else call.left.nodes)
    problem = made(call)
    multiply(replace(rules, questions=2 * asked), [[problem], [problem]])
    run = new_run()
    text = f"{who}.* {2 * asked - 1} .* 40 rows.* {2 * asked}"
    with pytest.raises(RefusedError, match=text):
        multiply(replace(rules, questions=2 * asked - 1), [[problem], [problem]], into=run)
    assert run.rounds(call.receiver) <= 1
    with pytest.raises(RefusedError, match=text):
        multiply(replace(rules, questions=2 * asked - 1), [[problem, problem]])


def test_other_rows_are_counted_by_themselves(rules: Rules, multiply: Make, made: Make) -> None:
    batches = [[made(replace(DENSE, digest=digest))] for digest in ("a", "b", "c")]
    multiply(replace(rules, questions=2), batches)


@pytest.mark.parametrize(("rows", "most"), [(9, 0), (10, 1), (39, 3), (40, 4)])
def test_a_tenth_of_the_rows_is_answered_by_default(
    rules: Rules, multiply: Make, made: Make, rows: int, most: int
) -> None:
    call = replace(DENSE, rows=rows, columns=1)
    unstated = replace(rules, questions=None)
    multiply(unstated, [[made(call)]] * most)
    with pytest.raises(RefusedError, match=rf"telco.* {most} .* {rows} rows"):
        multiply(unstated, [[made(call)]] * (most + 1))


def test_a_partys_own_limit_counts_where_it_is_lower(rules: Rules) -> None:
    engine = Engine(_Session(), replace(rules, questions=100), ALL, "bank", None, 3)  # type: ignore[arg-type]
    engine.session.party = "telco"  # type: ignore[misc]
    count_questions(engine, DENSE, 0)
    with pytest.raises(RefusedError, match=r"telco.* 3 .* 40 rows"):
        count_questions(engine, DENSE, 0)


# in bits

WIDE = replace(HOT, rows=2**18, bound=2**20, columns=3)  # 40 bits a sum: one to a word


@pytest.mark.parametrize(
    ("engine", "call", "bits"),
    [
        ("shares", DENSE, 3 * 64),  # two columns of 24 bits share a word
        ("shares", replace(HIDDEN, rows=10_000), 6 * 11 * 56),  # words have as many bytes as their slots need
        ("shares", replace(HOT, rows=10_000, left=OneHot((4, 2, 5), 600)), 600 * 11 * (56 + 14)),  # and how many rows
        ("shares", replace(WIDE, left=replace(HIDDEN.left)), 6 * 11 * 3 * 40),
        ("paillier", DENSE, 2048),
        ("paillier", HOT, 2 * 2048),  # 17 bits a sum, 120 to a plaintext, 66 × 2 sums
        ("paillier", replace(HIDDEN, rows=10_000), 2 * 2048),
        ("plain", HOT, 6 * 11 * 2 * 64),
    ],
)
def test_an_answer_has_all_the_bits_that_travel(engine: Any, call: Call, bits: int) -> None:
    assert answer_bits(Rules(engine), call) == bits


def test_where_rows_are_not_counted_nothing_is_told_of_them() -> None:
    call = replace(HOT, rows=10_000, left=OneHot((4, 2, 5), 600))
    assert answer_bits(Rules("shares", count_rows=False), call) == 600 * 11 * 56


def test_the_hidden_side_counts_bits(rules: Rules, multiply: Make, made: Make) -> None:
    run = multiply(rules, [[made(DENSE)], [made(replace(DENSE, receiver="telco", digest="other"))]])
    bits = answer_bits(rules, DENSE)
    assert {party: dict(engine.bits) for party, engine in run.engines.items() if engine.bits} == {
        "telco": {"": bits},
        "bank": {"other": bits},
    }


def test_no_more_bits_are_answered_than_a_learner_needs_or_a_party_likes() -> None:
    engine = Engine(_Session(), Rules("plain"), ALL, "bank", None)  # type: ignore[arg-type]
    count_bits(engine, "rows", 40, 10**9)  # no limit
    limit_bits(engine, "rows", 40, 10**9 + 5)
    count_bits(engine, "rows", 40, 5)
    text = "bank.* 1000000005 bits.* 40 rows.* 1000000006"
    with pytest.raises(RefusedError, match=text):
        count_bits(engine, "rows", 40, 1)
    engine.most_bits_per_row = 2.5
    limit_bits(engine, "others", 40, 10**9)
    count_bits(engine, "others", 40, 100)
    with pytest.raises(RefusedError, match=r"bank.* 100 bits.* 40 rows"):
        count_bits(engine, "others", 40, 1)
    with pytest.raises(RefusedError, match=r"bank.* 75 bits.* 30 rows"):
        count_bits(engine, "a learner that reckons nothing", 30, 76)
    limit_bits(engine, "few", 40, 7)
    with pytest.raises(RefusedError, match=r"bank.* 7 bits.* 40 rows"):
        count_bits(engine, "few", 40, 8)


def test_no_more_splits_are_opened_than_a_party_likes() -> None:
    engine = Engine(_Session(), Rules("plain"), ALL, "bank", None)  # type: ignore[arg-type]
    count_splits(engine, "rows", 1000)
    engine.most_splits = 1002
    count_splits(engine, "rows", 2)
    with pytest.raises(RefusedError, match=r"bank.* 1002 .* 1003"):
        count_splits(engine, "rows", 1)


@pytest.mark.parametrize(("driver", "coordinator"), [("clinic", "coordinator"), ("bank", "bank"), ("bank", "shop")])
def test_the_coordinator_holds_no_data_and_the_driver_does(rules: Rules, driver: str, coordinator: str) -> None:
    session = _Session()
    session.networked = False  # type: ignore[misc]
    with pytest.raises(PlanError, match="coordinator"):
        open_engine(session, rules, ALL, driver, coordinator)  # type: ignore[arg-type]
