"""A search that tries settings: the choice is that of pooled columns, and all models are foretold and counted."""

from __future__ import annotations

from typing import Any

import pytest
from outlines import check_outline

from unpooled.errors import InputError, PlanError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.private import Private
from unpooled.pu.bags import CLASSES
from unpooled.pu.federated.search import find
from unpooled.run import audit
from unpooled.tuning.search import tune
from unpooled.tuning.unlabelled import known_folds
from unpooled.vertical.resume import Fits
from unpooled.vertical.team import alone

TUNING = {"settings": {"depth": [1, 2], "learning_rate": [0.1, 0.6]}, "folds": 3}
LISTED = {"top": 20, "estimate": False}


@pytest.mark.parametrize(
    ("settings", "tuning"),
    [
        ({"model": {"hide_nodes": False}}, TUNING),
        ({"method": {"name": "two-step", "folds": 2}, **LISTED}, TUNING | {"measure": "recall"}),
    ],
    ids=["vfpu", "two-step"],
)
def test_the_choice_is_that_of_pooled_columns(seeking: Any, settings: dict[str, Any], tuning: dict[str, Any]) -> None:
    plan = seeking.plan(tuning=tuning, **settings)
    outcome, parameters = seeking.run(plan), parameters_of(plan)
    found = outcome.results["bank"]["tuning"]
    columns, known, seed = seeking.pooled_rows(plan)
    folds = known_folds(known, None, parameters.method, parameters.tuning, 20 / (~known).sum(), seed)
    fits = Fits(alone(), parameters.model, columns)
    candidates, measure = parameters.candidates, parameters.tuning.measure
    tuned = tune(alone(), fits, candidates, folds, CLASSES, measure)
    assert [tuple(each["folds"]) for each in found["tried"]] == [each.measures for each in tuned.tried]
    assert found["chosen"] == tuned.chosen == outcome.results["telco"]["tuning"]["chosen"]
    assert found["models"] == 4 * len(folds.targets)
    ranking = find(alone(), tuned.best.parameters, columns, known, parameters.method, seed).ranking
    assert seeking.ranking()["score"].to_list() == ranking.scores[ranking.order].tolist()
    check_outline(outline_of(plan), outcome.ledgers)


def test_every_fit_can_be_audited(seeking: Any) -> None:
    plan = seeking.plan(tuning={"settings": {"depth": [1, 3]}, "folds": 2, "bags": 1}, method={"iterations": 1})
    seeking.run(plan)
    verdict = audit.trial(seeking.root / "run" / "telco", seeking.root / "run" / "bank", None)
    assert verdict.wrong == {}
    assert verdict.opened > 3


def test_what_is_tried_is_told_before(seeking: Any, tmp_path: Any) -> None:
    plan = seeking.plan(tuning=TUNING, engine="plain")
    kind, parameters = kind_named("lookalike"), parameters_of(plan)
    assert kind.groups(parameters) == [6, 6, 6, 6, 7, 2]
    (said,) = kind.said_before(plan, parameters)
    assert said.startswith(
        "Tuning learns 24 models more (4 candidates, 6 each), besides 9 models with the best settings"
    )
    path = tmp_path / "telco.csv"
    seeking.frames["telco"].write_csv(path)
    agreed = {"found": True, "aided": True}
    private = Private.model_validate({"table": {"path": str(path), "id": "id"}, "consent": agreed})
    foretold = kind.answers(checked(plan, "telco", private))
    found = seeking.run(plan).results["telco"]
    assert found["bits"] <= found["most_bits"] <= foretold.bits


def test_what_cannot_be_measured_is_refused(seeking: Any) -> None:
    with pytest.raises(PlanError, match=r"tuning\.measure: recall is that of a list, so say how long with top or frac"):
        outline_of(seeking.plan(tuning=TUNING | {"measure": "recall"}))
    for stop, fewest in ((False, 60), (True, 75)):  # a fifth are hidden
        with pytest.raises(InputError, match=f"whom the owners have in common shop knows 41; at least {fewest} are"):
            seeking.run(seeking.plan(tuning=TUNING | {"folds": 60}, stop=stop, engine="plain"), f"stop {stop}")
