"""What look-alikes have in common: right, never of few people, and only of columns that were agreed to."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data import example
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError, ProtocolError
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.lookalike.in_common import InCommon, Line, checked_lines, described, message_of

PLAIN = {"engine": "plain"}
LISTED, OTHERS = np.arange(40), np.arange(40, 140)
SAID = InCommon(("age", "tariff"), ("mean", "level"), ("", "plus"), (40.0, 0.5), (30.0, 0.25))


@pytest.fixture
def table() -> Table:
    """40 listed people and 100 others."""
    frame = pl.DataFrame(
        {
            "id": range(140),
            "age": [40.0] * 20 + [50.0] * 20 + [20.0] * 100,
            "since": [date(2024, 3, 5)] * 40 + [date(2020, 1, 1) + timedelta(days=day) for day in range(100)],
            "tariff": ["plus"] * 30 + ["family"] * 10 + ["plus"] * 25 + ["basic"] * 75,
            "owner": [True] * 36 + [False] * 4 + [True] * 50 + [False] * 50,
            "rare": [1.0] * 9 + [None] * 31 + [2.0] * 100,
        }
    )
    return table_from_frame(frame, "id", "bank")


def test_numbers_dates_and_levels(table: Table) -> None:
    found = described(table, ["age", "since", "tariff", "owner"], LISTED, OTHERS, 10)
    assert found == [
        Line("bank", "age", "mean", "", 45.0, 20.0),
        Line("bank", "age", "median", "", 45.0, 20.0),
        Line("bank", "since", "median month", "", 650.0, 601.0),
        Line("bank", "tariff", "level", "plus", 0.75, 0.25),
        Line("bank", "owner", "level", "true", 0.9, 0.5),
    ]
    assert [line.words for line in found[1:4]] == [("45", "20"), ("2024-03", "2020-02"), ("75 %", "25 %")]


def test_nothing_is_said_of_few_people(table: Table) -> None:
    assert described(table, ["rare"], LISTED, OTHERS, 10) == []
    assert len(described(table, ["rare"], LISTED, OTHERS, 9)) == 2
    assert described(table, ["tariff"], LISTED, OTHERS, 26) == [], "25 of the others have it"
    assert described(table, ["age", "tariff"], LISTED, OTHERS, 41) == []


def test_figures_are_nobodys_own(table: Table) -> None:
    frame = table.frame.with_columns(pl.lit(12345.678).alias("age"))
    (mean, median) = described(replace(table, frame=frame), ["age"], LISTED, OTHERS, 10)
    assert mean.listed == median.others == 12300.0


def test_a_column_that_is_not_there_is_named(table: Table) -> None:
    with pytest.raises(InputError, match=r"bank: data frame: column 'ages': consent\.describe"):
        described(table, ["age", "ages"], LISTED, OTHERS, 10)
    with pytest.raises(InputError, match=r"bank: data frame: column 'age': consent\.describe names it twice"):
        described(table, ["age", "age"], LISTED, OTHERS, 10)
    with pytest.raises(InputError, match=r"bank: data frame: consent\.describe names 1,001 columns, at most 1,000"):
        described(table, ["age"] * 1_001, LISTED, OTHERS, 10)


def test_lines_arrive_as_they_were_sent(table: Table) -> None:
    lines = described(table, ["age", "since", "tariff"], LISTED, OTHERS, 10)
    assert checked_lines(message_of(lines), "bank") == lines


@pytest.mark.parametrize(
    "wrong",
    [
        {"columns": ("age",)},
        {"columns": ("age", "tar\u202eiff")},
        {"levels": ("", "x" * 300)},
        {"measures": ("mean", "sum")},
        {"listed": (float("nan"), 0.5)},
        {"others": (30.0, 1.5)},
        {"listed": (40.0, -0.5)},
        {"columns": ("age", "age"), "measures": ("mean", "mean"), "levels": ("", "")},
    ],
)
def test_what_cannot_be_shown_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="invalid InCommon from bank"):
        checked_lines(replace(SAID, **wrong), "bank")


def test_too_many_lines_are_refused() -> None:
    lines = [Line("bank", "city", "level", str(number), 0.5, 0.25) for number in range(5_001)]
    assert checked_lines(message_of(lines[1:]), "bank") == lines[1:]
    with pytest.raises(ProtocolError, match=r"^invalid InCommon from bank: 5,001 lines, at most 5,000"):
        checked_lines(message_of(lines), "bank")


def test_the_seeker_learns_of_agreed_columns_alone(seeking: Any) -> None:
    plan = seeking.plan(describe=["bank"], top=60, **PLAIN)
    results = seeking.run(plan, bank={"consent": {"found": True, "describe": ["income"]}}).results
    told = results["shop"]["in_common"]
    assert {line["column"] for line in told} == {"income"}
    assert told == results["bank"]["in_common"]
    assert "in_common" not in results["telco"]
    assert [(e.sender, e.receiver) for e in outline_of(plan) if e.message is InCommon] == [("bank", "shop")]


def test_without_consent_a_plan_that_asks_for_it_is_refused(seeking: Any) -> None:
    with pytest.raises(PlanError, match=r"bank: consent\.describe: shop learns .*without describe"):
        seeking.run(seeking.plan(describe=True, **PLAIN), bank={"consent": {"found": True}})
    outcome = seeking.run(seeking.plan(**PLAIN), bank={"consent": {"found": True, "describe": ["income"]}})
    assert "in_common" not in outcome.results["shop"]


def test_an_example_describes_columns_that_are_there() -> None:
    (agreement,) = (one for one in kind_named("lookalike").consents["active"] if one.key == "describe")
    assert set(agreement.example) <= set(example.population(1000).tables["bank"].columns)
