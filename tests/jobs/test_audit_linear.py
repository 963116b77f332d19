"""Audits of linear models: residuals and columns follow from what was committed to, and whatever deviates is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled.run import audit
from unpooled.vertical.linear import descent, fitting

TWO = ("telco", "bank", "coordinator")
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
DEVIATES = "what was sent does not follow from columns and labels, or it was opened wrongly"
BOTH = (("telco", "bank"), ("bank", "telco"))


@pytest.mark.parametrize(
    ("settings", "target", "weight"),
    [
        ({}, "buys", None),
        ({"classes": 3}, "group", None),
        ({"classes": 0, "validation_fraction": 0.1}, "amount", None),
        ({"show_weights": True}, "buys", "counts"),
    ],
    ids=str,
)
def test_an_honest_run_agrees(many: Any, settings: dict[str, Any], target: str, weight: str | None) -> None:
    many.run(
        many.plan(model={"learner": "linear", "reveal": "gradients", "epochs": 2} | settings),
        target=target,
        weight=weight,
    )
    for checker, opener in (*BOTH, ("telco", "railway"), ("railway", "bank")):
        for sample in (None, 2):
            verdict = audit.trial(many.root / "run" / checker, many.root / "run" / opener, sample)
            assert verdict.wrong == {}
            assert verdict.opened == (sample or verdict.of) > 0


@pytest.mark.parametrize("settings", [{}, PAILLIER], ids=["shares", "paillier"])
def test_so_it_does_with_weights_that_one_party_knows(many: Any, settings: dict[str, Any]) -> None:
    many.run(
        many.plan(parties=TWO, model={"learner": "linear", "reveal": "gradients", "epochs": 1}, **settings),
        weight="counts",
    )
    for checker, opener in BOTH:
        verdict = audit.trial(many.root / "run" / checker, many.root / "run" / opener, 3)
        assert verdict.wrong == {}


def test_of_weights_hidden_from_two_what_can_be_opened_agrees(many: Any) -> None:
    many.run(many.plan(model={"learner": "linear", "reveal": "gradients", "epochs": 1}), weight="counts")
    for checker, opener in BOTH:
        verdict = audit.trial(many.root / "run" / checker, many.root / "run" / opener, None)
        assert verdict.wrong == {}
        assert verdict.opened == verdict.of > 0


def test_so_does_a_search(seeking: Any) -> None:
    seeking.run(
        seeking.plan(
            model={"learner": "linear", "reveal": "gradients", "insecure_batch": True, "epochs": 2}, describe=True
        )
    )
    for checker, opener in BOTH:
        assert audit.trial(seeking.root / "run" / checker, seeking.root / "run" / opener, None).wrong == {}


def deviating(part: Callable[..., Any], party: str, change: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda side, *rest: change(part(side, *rest)) if side.party == party else part(side, *rest)


def test_residuals_that_were_made_up(many: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def powers_of_two(residuals: Any) -> Any:
        made_up = np.zeros_like(residuals)
        made_up[:20, 0] = 2 ** np.arange(20)
        return made_up

    with monkeypatch.context() as patch:
        honest = descent.own_residuals
        patch.setattr(descent, "own_residuals", deviating(honest, "bank", powers_of_two))
        many.run(many.plan(parties=TWO, model={"learner": "linear", "reveal": "gradients", "epochs": 1}))
    verdict = audit.trial(many.root / "run" / "telco", many.root / "run" / "bank", None)
    assert set(verdict.wrong.values()) == {DEVIATES}
    assert audit.trial(many.root / "run" / "bank", many.root / "run" / "telco", None).wrong == {}


def test_other_columns_than_were_committed_to(many: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def others(team: Any, inputs: Any) -> None:
        if team.session.party == "telco":
            inputs = {what: {name: -values for name, values in arrays.items()} for what, arrays in inputs.items()}
        honest(team, inputs)

    honest = fitting.exchange_commitments
    monkeypatch.setattr(fitting, "exchange_commitments", others)
    many.run(many.plan(parties=TWO, model={"learner": "linear", "reveal": "gradients", "epochs": 1}))
    verdict = audit.trial(many.root / "run" / "bank", many.root / "run" / "telco", None)
    assert set(verdict.wrong.values()) == {DEVIATES}
