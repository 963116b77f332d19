"""What a party has in hand: which engines open where, and how much the holder of a hidden matrix answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from unpooled.errors import PlanError, RefusedError
from unpooled.secure.calls import Call, Dense, OneHot
from unpooled.secure.engine import Engine, Rules, count_questions, open_engine

PAIR = (("telco", "bank"),)
ALL = ("telco", "shop", "bank")
DENSE = Call(PAIR, "bank", 40, Dense(3, 100), 2, 1000)
HOT = Call(PAIR, "bank", 40, OneHot((4, 2, 5), 6), 2, 1000)
HIDDEN = replace(HOT, left=replace(HOT.left, hidden=True))

Make = Callable[..., Any]


@pytest.mark.parametrize("engine", ["shares", "paillier"])
def test_engines_that_protect_need_a_coordinator(engine: Any) -> None:
    with pytest.raises(PlanError, match=f"{engine} needs a coordinator"):
        open_engine(_Session(), Rules(engine), ALL, "bank", None)  # type: ignore[arg-type]


def test_plain_refuses_a_network() -> None:
    with pytest.raises(PlanError, match="plain protects nothing, so it does not run over a network"):
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
    text = (
        f"{who} answers at most {2 * asked - 1} columns about the same 40 rows, and would have been asked {2 * asked}"
    )
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
    with pytest.raises(RefusedError, match=f"telco answers at most {most} columns about the same {rows} rows"):
        multiply(unstated, [[made(call)]] * (most + 1))


def test_a_partys_own_limit_counts_where_it_is_lower(rules: Rules) -> None:
    engine = Engine(_Session(), replace(rules, questions=100), ALL, "bank", None, 3)  # type: ignore[arg-type]
    engine.session.party = "telco"  # type: ignore[misc]
    count_questions(engine, DENSE, 0)
    with pytest.raises(RefusedError, match="telco answers at most 3 columns about the same 40 rows"):
        count_questions(engine, DENSE, 0)


@pytest.mark.parametrize(("driver", "coordinator"), [("clinic", "coordinator"), ("bank", "bank"), ("bank", "shop")])
def test_the_coordinator_holds_no_data_and_the_driver_does(rules: Rules, driver: str, coordinator: str) -> None:
    session = _Session()
    session.networked = False  # type: ignore[misc]
    with pytest.raises(PlanError, match="the one who drives holds data, and the coordinator must not"):
        open_engine(session, rules, ALL, driver, coordinator)  # type: ignore[arg-type]
