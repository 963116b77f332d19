"""Completing a table is forecast, whoever asks, however many columns there are and however they are screened."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan
from unpooled.run import scaling
from unpooled.run.forecast import Forecast, forecast

LITTLE = {"model": {"trees": 1, "depth": 1}, "predict": {"folds": 2, "rounds": 1, "confidence": "paper"}}
SMALL_KEYS = {"engine": "paillier", "key_bits": 512, "insecure": True}
PEOPLE, OWN = 1_200, 400
ALL = ("clinic", "registry", "coordinator")


@pytest.fixture(autouse=True)
def rehearse_little(monkeypatch: pytest.MonkeyPatch) -> None:
    little = {"_ROWS": 300, "_TABLE_ROWS": 500, "_SHORT_KEY_ROWS": 300, "_OWN_KEY_ROWS": 100, "_SHORT_KEY_BITS": 256}
    for name, value in little.items():
        monkeypatch.setattr(scaling, name, value)


def frames(columns: int) -> dict[str, pl.DataFrame]:
    """A clinic with so many columns, and a registry with three."""
    rng = np.random.default_rng(1)
    ids, x = pl.Series("id", [f"p{number:04}" for number in range(PEOPLE)]), rng.normal(size=(PEOPLE, 3))
    own = {f"lab {place}": x[:OWN, place % 3] + rng.normal(size=OWN) for place in range(columns)}
    return {
        "clinic": pl.DataFrame({"id": ids[:OWN]} | own),
        "registry": pl.DataFrame({"id": ids}).hstack(pl.DataFrame(x)),
    }


def told(completing: Any, plan: Plan, columns: int, *parties: str, **privates: Any) -> Forecast:
    made, tables = completing.privates(plan, **privates), completing.tables(plan, **frames(columns))
    found = forecast([checked(plan, party, made[party], tables.get(party)) for party in parties])
    assert all(cost.messages and cost.sent_bytes for cost in found.parties.values())
    return found


def test_with_many_columns_under_encryption(completing: Any) -> None:
    found = told(completing, completing.plan(measure="max", **LITTLE, **SMALL_KEYS), 12, *ALL)
    assert (found.common, found.others) == (OWN, PEOPLE - OWN)


@pytest.mark.parametrize("party", ["registry", "coordinator"])
def test_columns_of_the_plan_whose_table_is_not_here(completing: Any, party: str) -> None:
    found = told(completing, completing.plan(columns=["lab 0", "lab 1"], engine="plain", **LITTLE), 2, party)
    assert "the columns of clinic that the plan names are numbers" in found.guesses


def test_a_list_of_an_earlier_run(completing: Any) -> None:
    completing.run(completing.plan(engine="plain", measure="max", **LITTLE), frames=frames(3))
    listed = {
        "consent": {"rows": True},
        "generate": {"screening": completing.root / "run" / "clinic" / "screening.json"},
    }
    plan = completing.plan(measure="list", engine="plain", **LITTLE)
    assert told(completing, plan, 3, "clinic", clinic=listed).guesses
    assert told(completing, plan, 3, *ALL, clinic=listed).guesses == ()


@pytest.mark.parametrize(("columns", "replaced"), [(2, False), (20, True)])
def test_counts_of_many_columns_are_rehearsed_as_correlations(completing: Any, columns: int, replaced: bool) -> None:
    plan = completing.plan(measure="cramer", engine="plain", **LITTLE)
    found = told(completing, plan, columns, *ALL)
    assert any("columns are screened by rank correlations" in guess for guess in found.guesses) == replaced


@pytest.mark.parametrize(("measure", "noise"), [("gain", 4), ("max", 4), ("cramer", 1)])
def test_columns_that_cannot_be_predicted_are_not_forecast_as_if_they_could(
    completing: Any, measure: str, noise: int
) -> None:
    """Few rows and trees would find some of them by chance, and other ones with more trees.

    With so few rows much of what the coordinator sends is numbers dealt ahead, which makes its forecast coarse.
    """
    rng = np.random.default_rng(2)
    made = frames(2)
    made["clinic"] = made["clinic"].hstack(pl.DataFrame({f"noise {n}": rng.normal(size=OWN) for n in range(noise)}))
    plan = completing.plan(measure=measure, **LITTLE | {"model": {"trees": 6, "depth": 2}})
    tables, privates = completing.tables(plan, **made), completing.privates(plan)
    found = forecast([checked(plan, party, privates[party], tables.get(party)) for party in ALL])
    run = completing.run(plan, frames=made)
    assert sum(column["cells"]["predicted"] > 0 for column in run.results["clinic"]["completed"]) == 2
    assert found.guesses == ()
    for party, record in run.ledgers.items():
        for way, foretold in (
            ("sent", found.parties[party].sent_bytes),
            ("received", found.parties[party].received_bytes),
        ):
            dealt = (party, way) in (("coordinator", "sent"), ("registry", "received"))
            truth = sum(entry.bytes for entry in record.entries if entry.way == way)
            assert 0.7 < foretold / truth < (2.1 if dealt else 1.4)


def test_generators_are_not_trained_and_that_is_said(completing: Any) -> None:
    groups = {"groups": [{"columns": ["lab 1"], "completer": {"completer": "tvae", "epochs": 10**9}}]}
    plan = completing.plan(columns=["lab 0"], engine="plain", **LITTLE)
    found = told(completing, plan, 2, *ALL, clinic={"generate": groups, "consent": {"rows": True}})
    assert any(guess.startswith("the training of tvae at clinic is left out") for guess in found.guesses)
    assert not any("training" in guess for guess in told(completing, plan, 2, *ALL).guesses)
