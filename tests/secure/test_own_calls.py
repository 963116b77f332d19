"""A party hands in the calls in which it takes part and need not know of others; the driver hands in all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.errors import Deadlock, PeerError, ProtocolError
from unpooled.secure.calls import Call, Dense, OneHot
from unpooled.secure.engine import Rules, next_tags
from unpooled.secure.shares import engine as shares

ALL = ("telco", "shop", "bank")
TELCO, SHOP = (("telco", "bank"),), (("shop", "bank"),)
BETWEEN_OTHERS = Call((("telco", "shop"),), "shop", 40, Dense(2, 10), 1, 50)

Make = Callable[..., Any]


def levels(made: Make, names: tuple[str, ...] = ("tree 1", "tree 2")) -> list[list[Any]]:
    """Two trees that grow together, level by level: each passive party has columns of its own, and the same Y is used.

    The first level asks telco alone, and the last the shop alone.
    """
    y = {name: np.random.default_rng(seed).integers(-500, 500, (40, 2)) for seed, name in enumerate(names)}
    batches = []
    for level, nodes in enumerate((1, 2, 4, 8)):
        batch = []
        for name in names:
            for terms, sizes in ((TELCO, (4, 3)), (SHOP, (5,))):
                if (level, terms) not in ((0, SHOP), (3, TELCO)):
                    call, held = made(Call(terms, "bank", 40, OneHot(sizes, nodes), 2, 500, y=name), level)
                    batch.append((call, held | {"bank": replace(held["bank"], y=y[name])}))
        batches.append(batch)
    return batches


def check(run: Any, batches: list[list[Any]], expected: Make) -> None:
    """The right integers at the receiver of each call; every party was given answers to what it asked."""
    for party, shown in run.shown.items():
        asked = [[p for p in batch if party == "bank" or party in p[0].participants] for batch in batches]
        asked = [batch for batch in asked if batch]
        assert [len(results) for results in shown] == [len(batch) for batch in asked]
        for problem, result in zip((p for batch in asked for p in batch), run.results(party), strict=True):
            if party == problem[0].receiver:
                assert (result == expected(problem)).all()
            else:
                assert result is None


@pytest.mark.parametrize("announced", [0, 2, 4])
def test_each_party_hands_in_its_own_calls(
    rules: Rules, multiply: Make, made: Make, expected: Make, announced: int
) -> None:
    batches = levels(made)
    coming = [[call for call, _ in batch] for batch in batches[:announced]]
    run = multiply(rules, batches, ALL, own_calls=True, announced=coming)
    check(run, batches, expected)
    assert run.rounds("telco") == run.rounds("shop") == 3


def test_the_driver_may_begin_batches_before_it_waits(
    rules: Rules, made: Make, expected: Make, multiply: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With hidden nodes, as trees do; the matrix of the telco is known from the first batch on."""
    hidden = Call(TELCO, "bank", 40, OneHot((4, 3), 2, hidden=True), 2, 500, x="bins")
    first, *others = [made(hidden, seed) for seed in range(4)]
    problems = [first, *((call, held | {"telco": first[1]["telco"]}) for call, held in others)]
    run = multiply(rules, [[problem] for problem in problems], begun=3)
    assert len(run.shown["bank"]) == len(problems)
    for problem, (result,) in zip(problems, run.shown["bank"], strict=True):
        assert (result == expected(problem)).all()


def test_what_was_announced_later_is_numbered_on(
    rules_for: Make, multiply: Make, made: Make, expected: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver announces a batch twice ahead, after some calls, while others are still to come."""
    batches = levels(made)
    begin, announce = shares.begin, shares.announce

    def announcing(engine: Any, batch: Any, tags: Any) -> Any:
        held = begin(engine, batch, tags)
        place = engine.batches
        if engine.party == "bank" and place in (1, 2):
            announce(engine, [[call for call, _ in batches[place + 1]]])
        return held

    monkeypatch.setattr(shares, "begin", announcing)
    coming = [[call for call, _ in batch] for batch in batches[:2]]
    run = multiply(rules_for("shares"), batches, ALL, own_calls=True, announced=coming)
    check(run, batches, expected)
    asked = [e for e in run.ledgers["bank"].entries if e.way == "sent" and e.kind.endswith("Deal")]
    assert len(asked) == len(batches)


def test_the_driver_hands_in_calls_between_others(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    several = replace(BETWEEN_OTHERS, terms=(("telco", "shop"), ("shop", "bank")), receiver="telco")
    batches = [
        [made(BETWEEN_OTHERS), *level, made(several, 1), made(replace(BETWEEN_OTHERS, receiver="telco"), 2)]
        for level in levels(made)
    ]
    check(multiply(rules, batches, ALL, own_calls=True), batches, expected)


def test_unnamed_matrices_are_told_apart(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    """The same call again and again, of two pairs of parties in turn."""
    call = Call(TELCO, "bank", 40, OneHot((4, 2, 5), 6), 2, 1000)
    batches = [[made(replace(call, terms=terms), seed)] for seed, terms in enumerate((TELCO, SHOP, TELCO, SHOP))]
    check(multiply(rules, batches, ALL, own_calls=True), batches, expected)


def test_nobody_hears_how_many_calls_others_take_part_in(protecting: Rules, multiply: Make, made: Make) -> None:
    """What telco receives is the same, number by number and scope by scope, with and without the shop's calls."""
    batches = levels(made)
    alone = [[problem for problem in batch if "shop" not in problem[0].participants] for batch in batches]

    def arrived(batches: list[list[Any]]) -> list[tuple[str, str, str, int]]:
        entries = multiply(protecting, batches, ALL, own_calls=True).ledgers["telco"].entries
        ours = [e for e in entries if e.way == "received" and "secure" in e.kind and not e.kind.endswith("SharedKey")]
        return sorted((e.peer, e.kind, e.scope, e.bytes) for e in ours)

    assert arrived(batches) == arrived([batch for batch in alone if batch])


@pytest.mark.parametrize("party", ["telco", "shop", "bank"])
def test_a_call_that_a_participant_leaves_out_ends_the_conversation(
    rules: Rules, multiply: Make, made: Make, new_run: Make, party: str
) -> None:
    batches = levels(made)
    fewer = [batches[0], [p for p in batches[1] if party not in p[0].participants or p[0].y == "tree 2"], *batches[2:]]
    run = new_run()
    with pytest.raises((ProtocolError, PeerError, Deadlock)):
        multiply(rules, batches, ALL, own_calls=True, into=run, differing={party: fewer})
    assert run.rounds("bank") <= 1


def test_calls_are_counted_by_who_takes_part() -> None:
    first, second = Call(TELCO, "bank", 40, Dense(1, 1), 1, 1), Call(SHOP, "bank", 40, Dense(1, 1), 1, 1)
    with_shop, without = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    tags = next_tags(with_shop, [first, second, second, first])
    assert tags[::3] == next_tags(without, [first, first])
    assert len(set(tags)) == 4
    assert next_tags(with_shop, [first]) == next_tags(without, [first])
    assert with_shop == {("telco", "bank"): 3, ("shop", "bank"): 2}
