"""Simulations from data frames: what a plan says by keywords, and jobs that go on from earlier ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas
import polars as pl
import pytest
from every_kind import BANK, OWNERS, SMALL, TELCO, given

from unpooled import InputError, Member, Outcome, Plan, PlanError, Private, TableSettings, simulate, simulate_job
from unpooled.jobs.kind import Kind
from unpooled.jobs.kinds import KINDS

KEYWORDS = inspect.signature(simulate).parameters


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_parameter_of_a_job_is_called_like_a_keyword(kind: Kind[Any]) -> None:
    assert kind.parameters.model_fields.keys() & KEYWORDS.keys() == set()


def test_what_a_plan_says_besides_are_keywords() -> None:
    assert Plan.model_fields.keys() - {"parties", "parameters"} <= KEYWORDS.keys()


def test_keywords_reach_the_plan_and_unknown_ones_are_refused() -> None:
    outcome = simulate("check", OWNERS, engine="plain", timeout=50.0, audit=False, round_trips=1, megabytes=1)
    plan = outcome["bank"].plan
    assert (plan.engine, plan.timeout, plan.audit, plan.key_bits) == ("plain", 50.0, False, 2048)
    with pytest.raises(PlanError, match=r"parameters\.round_trip: unknown key"):
        simulate("check", OWNERS, engine="plain", round_trip=1)
    with pytest.raises(PlanError, match="engine: must be"):
        simulate("check", OWNERS, engine="none")  # type: ignore[arg-type]


def test_a_watcher_is_told_of_every_partys_progress() -> None:
    told: list[tuple[str, str, float]] = []
    simulate(
        "train",
        OWNERS,
        engine="plain",
        model=SMALL,
        watcher=lambda party, progress: told.append((party, progress.step, progress.fraction)),
    )
    for party in OWNERS:
        fractions = [fraction for who, step, fraction in told if (who, step) == (party, "fit")]
        assert fractions == sorted(fractions) != []


def test_a_seed_makes_draws_repeatable_and_each_partys_own_come_first() -> None:
    def scores(seed: int, own: int | None = None) -> pl.DataFrame:
        members = {**OWNERS, "bank": replace(OWNERS["bank"], private=Private(target="buys", seed=own))}
        outcome = simulate("train", members, engine="plain", seed=seed, model=SMALL | {"row_fraction": 0.5})
        return outcome.tables["bank"]["predictions"].select("account", "set", "score").sort("account")

    assert scores(1).equals(scores(1))
    assert not scores(1).equals(scores(2))
    assert scores(1, own=5).equals(scores(2, own=5))


def test_a_frame_of_pandas_and_private_settings_with_frames_give_the_same(outcomes: Callable[[str], Outcome]) -> None:
    trained = outcomes("train").tables["bank"]["predictions"]
    bank = pandas.DataFrame(BANK.to_dict(as_series=False))
    members = OWNERS | {"bank": replace(OWNERS["bank"], frame=bank)}
    outcome = simulate("train", members, engine="plain", seed=7, model=SMALL)
    assert outcome.tables["bank"]["predictions"].sort("account").equals(trained.sort("account"))
    privates = {
        "telco": Private(table=TableSettings.of_frame(TELCO, "customer")),
        "bank": Private(table=TableSettings.of_frame(BANK.lazy(), "account"), target="buys"),
    }
    again = simulate_job(outcome["bank"].plan, privates)
    assert again.results["bank"]["common"] == outcome.results["bank"]["common"]


def test_new_rows_are_predicted_with_the_models_of_an_earlier_outcome(outcomes: Callable[[str], Outcome]) -> None:
    """Half of the rows, in frames with a column more and without the target, get the scores that they had."""
    members = given(OWNERS, outcomes("train"), "model")
    members["telco"] = replace(members["telco"], frame=TELCO.with_columns(more=pl.lit(1)).reverse())
    members["bank"] = replace(members["bank"], frame=BANK.drop("buys").head(120))
    new = simulate("predict", members, engine="plain").tables["bank"]["predictions"]
    learned = outcomes("train").tables["bank"]["predictions"]
    joined = new.join(learned, on="account", how="left")
    assert new.height == 120
    assert joined["score"].equals(joined["score_right"].alias("score"))


def test_new_rows_that_lack_a_column_are_refused(outcomes: Callable[[str], Outcome]) -> None:
    members = given(OWNERS, outcomes("train"), "model")
    members["telco"] = replace(members["telco"], frame=TELCO.drop("tariff"))
    with pytest.raises(InputError, match="telco: data frame: column 'tariff': there is no such column"):
        simulate("predict", members, engine="plain")


def test_anothers_model_or_outcome_is_refused(outcomes: Callable[[str], Outcome]) -> None:
    members = given(OWNERS, outcomes("train"), "model")
    with pytest.raises(InputError, match=r"bank: model: this is telco's"):
        simulate("predict", members | {"bank": replace(members["bank"], model=members["telco"].model)})
    with pytest.raises(InputError, match=r"bank: earlier: this is telco's"):
        simulate("predict", members | {"bank": replace(members["bank"], earlier=outcomes("train")["telco"])})


def test_a_longer_list_comes_from_an_earlier_outcome(outcomes: Callable[[str], Outcome]) -> None:
    ranking = outcomes("lookalike").tables["bank"]["ranking"]
    first, longer = (outcomes(kind).tables["shop"]["look-alikes"] for kind in ("lookalike", "deliver"))
    assert (first.height, longer.height) == (20, 30)
    assert longer["buyer"].to_list() == ranking["account"].head(30).to_list()
    assert first["buyer"].to_list() == longer["buyer"].head(20).to_list()


def test_people_in_a_frame_are_left_out(outcomes: Callable[[str], Outcome]) -> None:
    everybody = outcomes("train").tables["telco"]["aligned"]["customer"].to_list()
    gone = pl.DataFrame({"account": everybody[:40]})
    members = OWNERS | {"bank": replace(OWNERS["bank"], exclude=gone)}
    outcome = simulate("align", members, engine="plain")
    assert set(outcome.tables["telco"]["aligned"]["customer"]) == set(everybody[40:])
    assert outcome.results["bank"]["excluded_rows"] == 40
    twice = Private(exclude=Path("out.csv"))
    with pytest.raises(InputError, match="bank: exclude: it is given twice"):
        simulate("align", members | {"bank": replace(members["bank"], private=twice)})


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (Member("passive", TELCO), r"telco: data frame: column 'id': there is no such column; there are: customer"),
        (Member("passive", TELCO.to_dict(), id="customer"), r"telco: data frame: this is a dict, not a polars"),
        (Member("passive", TELCO, id="customer", types={"calls": "count"}), r"telco: data frame: types\.calls"),  # type: ignore[dict-item]
        (Member("passive"), "telco needs a table: a frame, or one in its private settings"),
    ],
)
def test_a_frame_that_cannot_serve_is_named_before_anything_starts(member: Member, said: str) -> None:
    with pytest.raises((InputError, PlanError), match=said) as caught:
        simulate("train", OWNERS | {"telco": member}, engine="plain")
    assert not hasattr(caught.value, "__notes__"), "no party has begun"
