"""Advice: the seeker gets it if the plan asks for it and the active party agrees, and refuses what cannot be."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from unpooled.errors import PlanError, ProtocolError
from unpooled.jobs.kinds import outline_of, parameters_of
from unpooled.jobs.lookalike.advice import Advice, KeptAdvice, at_length, checked_advice

PLAIN = {"engine": "plain"}
GOOD = Advice(100, 5, 10, 20, False, (10, 40), (0.5, 0.25), (0.25, 0.125), (1.0, 0.5))


def test_the_seeker_is_told_what_the_active_party_expects(seeking: Any) -> None:
    results = seeking.run(seeking.plan(advice=True, **PLAIN)).results
    told, kept = results["shop"]["advice"], results["bank"]["advice"]
    assert told == kept
    assert told["rows"] == results["bank"]["unlabelled"]
    assert results["shop"]["listed"] in told["lengths"]
    here = at_length(TypeAdapter(KeptAdvice).validate_python(told), results["shop"]["listed"])
    assert results["shop"]["expected"] == asdict(here)
    assert "advice" not in results["telco"]


def test_without_being_asked_for_there_is_none(seeking: Any) -> None:
    outcome = seeking.run(seeking.plan(**PLAIN), bank={"consent": {"found": True}})
    assert "advice" not in outcome.results["shop"]
    assert "advice" in outcome.results["bank"]
    assert "Advice" not in {entry.kind for entry in outcome.ledgers["shop"].entries}


def test_without_consent_a_plan_that_asks_for_it_is_refused(seeking: Any) -> None:
    plan = seeking.plan(advice=True, **PLAIN)
    assert [(e.sender, e.receiver) for e in outline_of(plan) if e.message is Advice] == [("bank", "shop")]
    with pytest.raises(PlanError, match=r"bank: consent\.advice: shop learns .*without advice"):
        seeking.run(plan, bank={"consent": {"found": True}})


def test_it_needs_estimates(seeking: Any) -> None:
    with pytest.raises(PlanError, match=r"advice: .*estimate"):
        parameters_of(seeking.plan(advice=True, estimate=False))


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 10},
        {"fewest": 0},
        {"fewest": 11},
        {"most": 101},
        {"lengths": ()},
        {"lengths": (40, 10)},
        {"lengths": (0, 40)},
        {"lengths": (10, 101)},
        {"precision": (0.5,)},
        {"precision": (0.5, float("nan"))},
        {"low": (0.25, 0.3)},
        {"high": (1.5, 0.5)},
    ],
)
def test_what_cannot_be_is_refused(wrong: dict[str, Any]) -> None:
    said = replace(GOOD, **wrong)
    with pytest.raises(ProtocolError, match="invalid Advice from bank"):
        checked_advice(said, "bank", 100)
    with pytest.raises(ValidationError):
        TypeAdapter(KeptAdvice).validate_python(asdict(said))


def test_it_is_not_about_more_people_than_were_compared() -> None:
    assert checked_advice(GOOD, "bank", 100) == GOOD
    with pytest.raises(ProtocolError, match="invalid Advice from bank"):
        checked_advice(GOOD, "bank", 99)


def test_beyond_the_lengths_it_is_as_at_the_end() -> None:
    assert at_length(GOOD, 1).precision == 0.5
    assert at_length(GOOD, 100).precision == 0.25
    assert (at_length(GOOD, 40).hits, at_length(GOOD, 40).fewest_hits, at_length(GOOD, 40).most_hits) == (10, 5, 20)
