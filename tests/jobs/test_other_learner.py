"""A learner that somebody adds works in every job that learns, and in nothing else had to change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from pydantic import BaseModel

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError, PlanError
from unpooled.jobs.kinds import outline_of
from unpooled.report.page import write_report
from unpooled.secure.outline import Exchange, Setup
from unpooled.vertical import learners
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Fitted, Learner, LearnerParameters
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team

# The whole learner: a stump, which splits by the sign of the active party's first column.


class StumpParameters(LearnerParameters):
    learner: Literal["stump"] = "stump"
    least: float = 0.0


class StumpPart(BaseModel):
    learner: Literal["stump"] = "stump"
    party: str
    columns: tuple[str, ...]
    means: tuple[()] = ()


class Stumps(BaseModel):
    learner: Literal["stump"] = "stump"
    part: StumpPart
    owners: tuple[str, ...]
    parameters: StumpParameters
    classes: tuple[str, ...]
    means: tuple[tuple[float, float], ...]


def fit(
    team: Team,
    parameters: StumpParameters,
    columns: Columns,
    targets: Sequence[Target],
    classes: Sequence[str],
    _notebook: Notebook | None,
) -> Fitted:
    right = columns.matrix[:, 0] > parameters.least
    weights = [np.ones(len(right)) if one.weights is None else one.weights for one in targets]
    each = zip(targets, weights, strict=True)
    means = tuple((mean(one.values, heavy * ~right), mean(one.values, heavy * right)) for one, heavy in each)
    part = StumpPart(party=team.active, columns=columns.names)
    model = Stumps(part=part, owners=team.owners, parameters=parameters, classes=tuple(classes), means=means)
    return Fitted(model, None, {"leaves": 2})


def mean(values: Floats, weights: Floats) -> float:
    return float((values * weights).sum() / max(weights.sum(), 1.0))


def lend(team: Team, _parameters: Any, columns: Columns, _models: int, _notebook: Notebook | None) -> StumpPart:
    return StumpPart(party=team.session.party, columns=columns.names)


def score(_team: Team, model: Stumps, columns: Columns) -> list[Floats]:
    right = (columns.matrix[:, 0] > model.parameters.least).astype(int)
    return [np.array(means)[right][:, np.newaxis] for means in model.means]


def outline(_setup: Setup, _parameters: StumpParameters) -> list[Exchange]:
    return []  # nothing is sent: the stump goes by the active party's column alone


def check(setup: Setup, parameters: StumpParameters, _bags: bool, _weighted: bool) -> None:
    if parameters.least < 0 and len(setup.passive) > 1:
        raise PlanError("parameters.model.least: not below zero with several passive parties")


STUMP = Learner(
    name="stump",
    models="stumps",
    parameters=(StumpParameters,),
    model=Stumps,
    part=StumpPart,
    check=check,
    outline=outline,
    score_outline=lambda _: [],
    fit=fit,
    lend=lend,
    score=score,
    help_score=lambda _team, _part, _columns, _same_rows: None,
    importance=lambda part: {"columns": len(part.columns), "importance": []},
    without_last=lambda kept, count: kept.model_copy(update={"means": kept.means[:-count]} if kept.means else {}),
)


@pytest.fixture(autouse=True)
def _added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learners, "LEARNERS", (*learners.LEARNERS, STUMP))


SETTINGS = {"model": {"learner": "stump"}}


def test_it_trains_and_predicts(learning: Any) -> None:
    plan = learning.plan()
    plan = plan.model_copy(update={"parameters": SETTINGS})
    results = learning.run(plan).results
    assert results["bank"]["learner"] == "stump"
    assert results["bank"]["leaves"] == 2
    assert results["bank"]["metrics"]["test"]
    assert len(np.unique(learning.scores())) == 2
    assert "stump: learnt from" in write_report(learning.root / "run" / "bank").read_text()
    again = learning.plan("predict")
    learning.run(again, "new", **learning.models(again))
    assert (learning.scores("new") == learning.scores()).all()


def test_it_finds_lookalikes(seeking: Any) -> None:
    plan = seeking.plan()
    plan = plan.model_copy(update={"parameters": {**plan.parameters, **SETTINGS}})
    results = seeking.run(plan).results
    assert results["shop"]["listed"] == results["bank"]["listed"] > 0
    assert "look-alikes among" in write_report(seeking.root / "run" / "bank").read_text()
    assert seeking.ranking()["score"].drop_nulls().n_unique() > 1


def test_its_settings_are_checked_before_anything_starts(many: Any) -> None:
    plan = many.plan().model_copy(update={"parameters": {"model": {"learner": "stump", "least": -1.0}}})
    assert len(plan.with_role("passive")) > 1
    with pytest.raises(PlanError, match=r"parameters\.model\.least: not below zero"):
        outline_of(plan)
    unknown = plan.model_copy(update={"parameters": {"model": {"learner": "stump", "depth": 1}}})
    with pytest.raises(PlanError, match=r"parameters\.model\.depth: unknown key"):
        outline_of(unknown)


def test_a_model_of_another_learner_is_not_taken_for_one_of_trees(learning: Any, monkeypatch: Any) -> None:
    plan = learning.plan().model_copy(update={"parameters": SETTINGS})
    learning.run(plan)
    again = learning.plan("predict")
    monkeypatch.setattr(learners, "LEARNERS", learners.LEARNERS[:-1])
    with pytest.raises(
        InputError, match=r"model\.json: is no part of a model: its learner must be one of trees, linear"
    ):
        learning.run(again, "new", **learning.models(again))
