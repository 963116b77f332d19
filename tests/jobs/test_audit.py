"""An audit after a run: what honest parties put in agrees with what they open, and whatever deviates is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unpooled.run import audit

TASKS = {"buys": 2, "group": 3, "amount": 0}
TWO = ("telco", "bank", "coordinator")


def audited(run: Path, checker: str = "telco", opener: str = "bank", sample: int | None = None) -> audit.Verdict:
    """Ask, answer and check, by files as parties do."""
    request = audit.ask(run / checker, opener, sample)
    audit.write_request(run / "request.json", request)
    audit.write_answer(run / "answer.npz", audit.answer(run / opener, audit.read_request(run / "request.json")))
    return audit.check(run / checker, request, audit.read_answer(run / "answer.npz"))


@pytest.mark.parametrize("target", TASKS)
@pytest.mark.parametrize("learner", ["gbdt", "xgb", "lgb", "rf"])
def test_an_honest_run_agrees(learning: Any, learner: str, target: str) -> None:
    learning.run(learning.plan(model={"learner": learner, "classes": TASKS[target]}), target=target)
    for checker in ("telco", "railway"):
        for sample in (None, 2):
            verdict = audited(learning.root / "run", checker, sample=sample)
            assert verdict.wrong == {}
            assert verdict.opened == (sample or verdict.of)
