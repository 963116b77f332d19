"""How far the completion of a table is can be seen at every party, also at the coordinator, which only serves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from unpooled.run.progress import Progress, nested

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
COLUMNS = {"columns": ["lab", "smoker"]}
STEPS = ("align", "screen", "predict", "generate")
Told = dict[str, list[tuple[str, int, int]]]


def steps(told: Told, party: str) -> list[str]:
    return list(dict.fromkeys(where.split("/")[0] for where, _, _ in told[party]))


def of_learning(told: Told, party: str) -> list[tuple[str, int, int]]:
    """What was told of groups of columns and of trees, not of single products."""
    return [each for each in told[party] if each[0].startswith("predict") and "product" not in each[0]]


@pytest.mark.parametrize("settings", [{}, PAILLIER], ids=["shares", "paillier"])
def test_the_coordinator_sees_what_the_active_party_sees(completing: Any, told: Told, settings: dict[str, Any]) -> None:
    completing.run(completing.plan(**COLUMNS, **settings))
    active = of_learning(told, "clinic")
    assert ("predict", 0, 2) in active
    assert ("predict", 1, 2) in active, "numbers, then classes"
    assert of_learning(told, "coordinator") == active
    assert ("generate", 1, 1) in told["clinic"]


def test_every_party_goes_through_the_steps_in_order(completing: Any, told: Told) -> None:
    frames = {"clinic": completing.frames["clinic"].select("id", "lab", "smoker")}
    completing.run(completing.plan(engine="plain"), frames=frames)
    assert [step for step in steps(told, "clinic") if step in STEPS] == list(STEPS)
    assert [step for step in steps(told, "registry") if step in STEPS] == list(STEPS[:3])
    for party in ("clinic", "registry"):
        shown: list[Progress] = []
        tell = nested(shown.append, lambda: SimpleNamespace(sent=0, weights={}))
        for each in told[party]:
            tell(*each)
        for step in ("screen", "predict"):
            fractions = [each.fraction for each in shown if each.step == step]
            assert fractions == sorted(fractions), (party, step)
            assert 0.4 < fractions[-1] <= 1, (party, step)
