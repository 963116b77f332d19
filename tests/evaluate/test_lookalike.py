"""How good a list was: counted by hand on a few people."""

from __future__ import annotations

import pytest

from unpooled.evaluate.lookalike import Id, Outcomes, Part, evaluate

LISTED: list[Id] = [("a", "1"), ("b", "1"), ("c", "1"), ("d", "1"), ("e", "1"), ("a", "2")]
TIERS = ["first", "first", "second", "second", "third", "third"]
ITERATIONS = [2, 1, 1, 2, 0, 0]
POSITIVE: set[Id] = {("a", "1"), ("b", "1"), ("d", "1"), ("z", "9")}


def test_positives_alone() -> None:
    found = evaluate(LISTED, TIERS, ITERATIONS, Outcomes(POSITIVE))
    assert (found.positives, found.everybody, found.fraction) == (4, None, None)
    assert found.whole == Part(6, 6, 3, 0.5, 0.75, None)
    assert found.tiers == {
        "first": Part(2, 2, 2, 1.0, 0.5, None),
        "second": Part(2, 2, 1, 0.5, 0.25, None),
        "third": Part(2, 2, 0, 0.0, 0.0, None),
    }
    assert list(found.iterations) == [0, 1, 2]
    assert found.iterations[2] == Part(2, 2, 2, 1.0, 0.5, None)


def test_everybody_known() -> None:
    known: set[Id] = {*POSITIVE, ("c", "1"), ("y", "9"), ("x", "9"), ("w", "9")}
    found = evaluate(LISTED, TIERS, ITERATIONS, Outcomes(POSITIVE, known))
    assert (found.positives, found.everybody, found.fraction) == (4, 8, 0.5)
    assert found.whole == Part(6, 4, 3, 0.75, 0.75, 1.5)
    assert found.tiers["second"] == Part(2, 2, 1, 0.5, 0.25, 1.0)
    assert found.tiers["third"] == Part(2, 0, 0, None, 0.0, None)


@pytest.mark.parametrize("outcomes", [Outcomes(set()), Outcomes(set(), set(LISTED))])
def test_without_positives_there_is_neither_recall_nor_lift(outcomes: Outcomes) -> None:
    found = evaluate(LISTED, TIERS, ITERATIONS, outcomes).whole
    assert (found.precision, found.recall, found.lift) == (0.0, None, None)


def test_an_empty_list() -> None:
    found = evaluate([], [], [], Outcomes(POSITIVE))
    assert found.whole == Part(0, 0, 0, None, 0.0, None)
    assert (found.tiers, found.iterations) == ({}, {})
