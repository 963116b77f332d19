"""Every engine gives the same integers, whatever the shape; what was prepared or announced serves; how much is said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled import control
from unpooled.ledger import reconcile
from unpooled.secure.calls import LARGEST, Call, Dense, Inputs, OneHot
from unpooled.secure.engine import Engine, Rules
from unpooled.secure.product import forget
from unpooled.secure.shares.supply import method_of

PAIR = (("telco", "bank"),)
ALL = ("telco", "shop", "bank")
TOPOLOGIES = [
    PAIR,
    (("bank", "telco"),),
    (("telco", "bank"), ("bank", "telco")),
    (("telco", "bank"), ("shop", "bank")),
    (("bank", "telco"), ("bank", "shop")),
    (("telco", "bank"), ("bank", "shop"), ("shop", "telco")),
]
EXAMPLES = {"plain": 15, "shares": 30, "paillier": 6}
DENSE = Call(PAIR, "bank", 40, Dense(3, 100), 2, 1000)
HOT = Call(PAIR, "bank", 40, OneHot((4, 2, 5), 6), 2, 1000)
HIDDEN = replace(HOT, left=replace(HOT.left, hidden=True))

Make = Callable[..., Any]


def check(run: Any, batches: list[list[Any]], expected: Make) -> None:
    """The right integers at the receiver of each call, nothing at anybody else."""
    for party, shown in run.shown.items():
        for batch, results in zip(batches, shown, strict=True):
            for problem, result in zip(batch, results, strict=True):
                call = problem[0]
                assert (result is not None) == (party == call.receiver), call
                if result is not None:
                    assert result.dtype == np.int64, call
                    assert result.shape == call.shape, call
                    assert (result == expected(problem)).all(), call


LEFTS = {
    "dense": Dense(3, 100),
    "one column": Dense(1, 100),
    "one hot": OneHot((4, 2, 5), 6),
    "one bin": OneHot((1,)),
    "more nodes than rows": OneHot((3,), 50),
    "hidden nodes": OneHot((4, 2), 3, True),
}


def test_engines_give_the_right_integers(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    batches = []
    for left, rows in product(LEFTS.values(), (0, 1, 25)):
        call = Call(PAIR, "bank", rows, left, 2, 1000)
        each = left.bound if isinstance(left, Dense) else 1
        batches.append(
            [
                made(call),
                made(replace(call, receiver="telco"), 1),
                made(replace(call, added=(("telco", 50), ("bank", 2**40))), 2),
                made(replace(call, bound=LARGEST // (each * rows or 1)), 3, extreme=True),
                made(replace(call, columns=7, bound=1), 4, extreme=True),
            ]
        )
    check(multiply(rules, batches), batches, expected)


def test_nothing_times_anything_is_nothing(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    batches = [
        [made(Call(PAIR, receiver, rows, left, columns, 9)) for receiver in ("telco", "bank") for rows in (0, 5)]
        for left in (*LEFTS.values(), Dense(0, 1), OneHot(()))
        for columns in (0, 2)
    ]
    check(multiply(rules, batches), batches, expected)


def test_rows_outside_all_nodes_count_nowhere(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    for call in (HOT, HIDDEN):
        _, held = made(call)
        outside = np.full(call.rows, -1, np.int32)
        held = {party: replace(inputs, nodes=outside) for party, inputs in held.items()}
        run = multiply(rules, [[(call, held)]])
        assert not run.results("bank")[0].any()


def test_products_with_several_peers_are_summed(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    every = tuple((party, 99) for party in ALL)
    batches = []
    for terms in TOPOLOGIES:
        batch = []
        for number, left in enumerate([Dense(2, 10), OneHot((3, 2), 4), OneHot((3, 2), 2, True)]):
            for receiver in sorted({party for term in terms for party in term}):
                batch.append(made(Call(terms, receiver, 20, left, 2, 100), number))
                batch.append(made(Call(terms, receiver, 20, left, 2, 100, added=every), number))
            batch.append(made(Call(terms, "shop", 20, left, 1, 100, added=(("shop", 7),)), number))
        batches.append(batch)
    check(multiply(rules, batches, ALL), batches, expected)


@st.composite
def calls(draw: st.DrawFn) -> Call:
    terms = draw(st.sampled_from(TOPOLOGIES))
    rows = draw(st.one_of(st.sampled_from([0, 1]), st.integers(2, 30)))
    columns = draw(st.integers(0, 4))
    added = tuple(draw(st.dictionaries(st.sampled_from(ALL), st.sampled_from([0, 5, 2**60]), max_size=3)).items())
    each = 1
    if draw(st.booleans()):
        each = draw(st.sampled_from([0, 1, 100, 2**31]))
        left: Dense | OneHot = Dense(draw(st.integers(0, 4)), each)
    else:
        sizes = draw(st.lists(st.integers(1, 5), max_size=3))
        left = OneHot(tuple(sizes), draw(st.integers(1, 5)), draw(st.booleans()))
    largest = (LARGEST - sum(bound for _, bound in added)) // max(1, len(terms) * rows * each)
    bound = draw(st.one_of(st.sampled_from([0, 1, largest]), st.integers(0, largest)))
    receivers = sorted({party for term in terms for party in term} | {party for party, _ in added})
    return Call(terms, draw(st.sampled_from(receivers)), rows, left, columns, bound, added)


def test_engines_give_the_right_integers_on_any_shape(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    @settings(max_examples=EXAMPLES[rules.engine], deadline=None)
    @given(st.lists(st.tuples(calls(), st.integers(0, 2**32), st.booleans()), min_size=1, max_size=3), st.booleans())
    def try_one(drawn: list[tuple[Call, int, bool]], count_rows: bool) -> None:
        named = [replace(call, x=f"x{i}", y=f"y{i}") for i, (call, _, _) in enumerate(drawn)]
        batch = [made(call, seed, extreme=extreme) for call, seed, extreme in drawn]
        again = [(call, held) for call, (_, held) in zip(named, batch, strict=True)]
        batches = [batch, again, again[::-1]]
        check(multiply(replace(rules, count_rows=count_rows), batches, ALL), batches, expected)

    try_one()


def test_calls_of_a_batch_may_name_the_same_parties_in_any_order(
    rules: Rules, multiply: Make, made: Make, expected: Make
) -> None:
    terms = [(("bank", "shop"),), (("bank", "telco"), ("bank", "shop")), (("shop", "telco"), ("bank", "telco"))]
    batches = [
        [made(replace(DENSE, terms=group, receiver="telco", added=(("telco", 3),))) for group in order]
        for order in permutations(terms)
    ]
    check(multiply(rules, batches, ALL), batches, expected)


def test_products_in_both_directions_go_through_full_mailboxes(
    rules: Rules, multiply: Make, made: Make, expected: Make
) -> None:
    """Two parties that both send before they take must not wait for each other, however large their matrices are."""
    batch = [made(replace(call, terms=(term,))) for call in (DENSE, HOT) for term in (PAIR[0], PAIR[0][::-1])]
    check(multiply(rules, [batch], room=1), [batch], expected)


def test_inputs_may_lie_in_memory_in_any_way(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    batch = []
    for call in (DENSE, HOT, HIDDEN):
        _, held = made(call)
        x = np.asfortranarray(held["telco"].x)
        y = np.repeat(held["bank"].y, 2, axis=1)[:, ::2]
        x.flags.writeable = y.flags.writeable = False
        batch.append((call, {"telco": replace(held["telco"], x=x), "bank": replace(held["bank"], y=y)}))
    check(multiply(rules, [batch]), [batch], expected)


def test_a_batch_may_be_empty(rules: Rules, multiply: Make) -> None:
    assert multiply(rules, [[], []]).shown == {"telco": [[], []], "bank": [[], []]}


def test_a_party_that_takes_no_part_is_shown_nothing_and_says_nothing(
    rules: Rules, multiply: Make, made: Make, expected: Make
) -> None:
    batches = [[made(DENSE)], [made(HOT)]]
    for _, held in (problem for batch in batches for problem in batch):
        held["shop"] = Inputs()
    run = multiply(rules, batches, ALL)
    check(run, batches, expected)
    assert run.sent("shop") == 0


def test_ledgers_agree_and_everybody_ends_in_order(rules: Rules, multiply: Make, made: Make) -> None:
    run = multiply(rules, [[made(DENSE)], [made(HOT)]])
    for one in run.ledgers.values():
        assert one.closed
        for other in run.ledgers.values():
            assert one is other or reconcile(one, other) == []


@pytest.mark.parametrize("calls_in_batch", [1, 6])
def test_many_products_take_one_message_between_two_parties(
    protecting: Rules, multiply: Make, made: Make, calls_in_batch: int
) -> None:
    """Of each kind and in each direction, however many products there are."""
    batch = [made(replace(call, rows=10), seed) for seed in range(calls_in_batch) for call in (DENSE, HOT, HIDDEN)]
    run = multiply(protecting, [batch])
    for record in run.ledgers.values():
        messages = Counter((e.peer, e.kind) for e in record.entries if e.way == "sent" and e.kind not in control.KINDS)
        assert messages
        assert set(messages.values()) == {1}, messages


# what was prepared serves again


def test_a_matrix_under_a_name_is_sent_once(rules_for: Make, multiply: Make, made: Make, expected: Make) -> None:
    call, held = made(replace(DENSE, rows=500))
    for names, parties in [
        ({"x": "age"}, ["telco"]),
        ({"y": "g"}, ["bank"]),
        ({"x": "a", "y": "g"}, ["telco", "bank"]),
    ]:
        once = multiply(rules_for("shares"), [[(replace(call, **names), held)]])
        batches = [[(replace(call, **names), held)] * 2, [(replace(call, **names), held)]]
        again = multiply(rules_for("shares"), batches)
        check(again, batches, expected)
        for party in ("telco", "bank"):
            if party in parties:
                assert again.sent(party, "Hidden") == once.sent(party, "Hidden") > 0
            else:
                assert again.sent(party, "Hidden") > 2 * once.sent(party, "Hidden")


def test_a_named_y_is_hidden_once_for_all_nodes_bins_and_peers(
    protecting: Rules, multiply: Make, made: Make, expected: Make
) -> None:
    terms = (("telco", "bank"), ("shop", "bank"))
    tree = [Call(terms, "bank", 200, OneHot((4, 3), nodes), 2, 500, y="g h") for nodes in (5, 9, 20)]
    _, first = made(tree[0])
    batches = [[(call, made(call, seed)[1] | {"bank": first["bank"]})] for seed, call in enumerate(tree)]
    for [(call, held)] in batches:
        nodes = made(call, 7)[1]["bank"].nodes
        for party in ALL:
            held[party] = replace(held[party], nodes=nodes)
    named = multiply(protecting, batches, ALL)
    check(named, batches, expected)
    unnamed = multiply(protecting, [[(replace(call, y=""), held)] for [(call, held)] in batches], ALL)
    assert 2 * named.sent("bank") < unnamed.sent("bank")


def test_a_named_y_serves_calls_with_other_bounds(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    """How wide numbers are packed depends on the call, and is nobody's business but the engine's."""
    call, held = made(replace(DENSE, y="g"))
    others = [{"bound": 10**6}, {"bound": 10**13}, {"added": (("bank", 2**50),)}, {"left": OneHot((3, 2), 4)}]
    batches = [[(call, held)]]
    for change in others:
        other, theirs = made(replace(call, **change), 1)
        y = replace(theirs["bank"], y=held["bank"].y)
        batches.append([(other, {**theirs, "bank": y})])
    check(multiply(rules, batches), batches, expected)


def test_what_is_forgotten_is_dropped(rules: Rules, multiply: Make, made: Make, expected: Make) -> None:
    batches = [[made(replace(DENSE, x="age", y="g")), made(replace(HOT, x="bins", y="h"))]]
    engines = multiply(rules, batches).engines
    for party in ("telco", "bank"):
        kept = kept_names(engines[party])
        assert (kept == set()) is (rules.engine == "plain")
        forget(engines[party], ["age", "g"])
        assert kept_names(engines[party]) == kept - {"age", "g"}


def kept_names(engine: Engine) -> set[str]:
    """The names of the matrices of which something is kept."""
    shares, paillier = engine.shares, engine.paillier
    opened = [matrix for _, matrix in [*shares.sent, *shares.opened]]
    rows = [rows for _, rows in [*paillier.sent, *paillier.received]]
    return {key.name for key in [*shares.masks, *opened, *rows]} | set(paillier.digests)


# how shares are dealt


@pytest.mark.parametrize("batches_ahead", [1, 3])
def test_what_was_announced_is_made_ahead_and_gives_the_same(
    rules: Rules, multiply: Make, made: Make, expected: Make, batches_ahead: int
) -> None:
    batches = [[made(replace(DENSE, x="age"), 1), made(HOT, 2)], [made(HIDDEN, 3)], [made(replace(DENSE, x="age"), 1)]]
    announced = [[call for call, _ in batch] for batch in batches[:batches_ahead]]
    run = multiply(rules, batches, announced=announced)
    check(run, batches, expected)
    if rules.engine == "shares":
        asked = [e for e in run.ledgers["bank"].entries if e.way == "sent" and e.kind.endswith("Deal")]
        assert len(asked) == 3
        assert [entry.scope for entry in asked[:batches_ahead]] == [""] * batches_ahead


def test_dealing_ahead_waits_while_mailboxes_are_full(
    rules_for: Make, multiply: Make, made: Make, expected: Make
) -> None:
    calls = [replace(call, rows=2000) for call in (DENSE, HOT, HIDDEN)] * 3
    batches = [[made(call, seed)] for seed, call in enumerate(calls)]
    room = 2**14
    run = multiply(rules_for("shares"), batches, announced=[[call] for call in calls], room=room)
    check(run, batches, expected)
    assert run.sent("coordinator", "Dealt", scope="") > 4 * room


def test_the_cheaper_way_is_taken(rules_for: Make) -> None:
    """It depends on the call alone, so that all parties take the same."""
    shares = rules_for("shares")
    one_node = Call(PAIR, "bank", 1000, OneHot((4, 4)), 2, 100, x="bins")
    many_nodes = Call(PAIR, "bank", 1000, OneHot((32,) * 12, 32), 2, 100)
    assert method_of(one_node, shares) == "triple"
    assert method_of(many_nodes, shares) == "permute"
    assert method_of(replace(many_nodes, left=replace(many_nodes.left, hidden=True)), shares) == "triple"
    assert method_of(many_nodes, replace(shares, count_rows=False)) == "triple"
    assert method_of(Call(PAIR, "bank", 1000, Dense(400, 1), 2, 100), shares) == "triple"


@pytest.mark.parametrize(
    ("call", "count_rows", "counted"), [(HOT, True, True), (HOT, False, False), (HIDDEN, True, False)]
)
def test_row_counts_are_shown_only_where_that_is_allowed(
    protecting: Rules, multiply: Make, made: Make, expected: Make, call: Call, count_rows: bool, counted: bool
) -> None:
    batches = [[made(call)]]
    run = multiply(replace(protecting, count_rows=count_rows), batches)
    check(run, batches, expected)
    assert (run.sent("telco", "Orders") > 0) == (counted and protecting.engine == "shares")
