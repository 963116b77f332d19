"""Training that tries settings: the choice is that of pooled data, and all models are foretold and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from outlines import check_outline

from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.private import Consent, Private
from unpooled.run import audit
from unpooled.run.forecast import forecast
from unpooled.tuning.labelled import labelled_folds
from unpooled.tuning.search import tune
from unpooled.vertical.resume import Fits
from unpooled.vertical.team import alone

TWO = ("telco", "bank", "coordinator")
TUNING = {"settings": {"trees": [1, 3], "learning_rate": [0.1, 0.5]}, "folds": 2}


@pytest.mark.parametrize(
    ("target", "model", "tuning", "measure"),
    [
        ("buys", {}, TUNING, "auc"),
        ("group", {"learner": "rf", "classes": 3}, {"settings": {"depth": [1, 3]}, "folds": 3}, "log_loss"),
        ("amount", {"learner": "xgb", "classes": 0}, {"settings": {"l2": [0.0, 500.0]}, "measure": "mae"}, "mae"),
    ],
)
def test_the_choice_is_that_of_pooled_columns(
    learning: Any, target: str, model: dict[str, Any], tuning: dict[str, Any], measure: str
) -> None:
    plan = learning.plan(parties=TWO, model=model, tuning=tuning)
    outcome = learning.run(plan, target=target)
    found, parameters = outcome.results["bank"]["tuning"], parameters_of(plan)
    columns, learned = learning.pooled_rows(plan, target)
    names = outcome.results["bank"]["class_names"]
    folds = labelled_folds(learned.values, learned.weights, names, parameters.tuning, learned.seed)
    fits = Fits(alone(), parameters.model, columns)
    tuned = tune(alone(), fits, parameters.candidates, folds, names, measure)
    assert [tuple(each["folds"]) for each in found["tried"]] == [each.measures for each in tuned.tried]
    assert (found["chosen"], found["measure"]) == (tuned.chosen, measure)
    final = fits.fit([learned], names, tuned.best.parameters)
    assert np.array_equal(learning.scores(), final.scores[0])
    told = {key: outcome.results["telco"]["tuning"][key] for key in ("chosen", "settings", "candidates", "models")}
    assert told == {key: found[key] for key in told}
    assert "tried" not in outcome.results["telco"]["tuning"]
    check_outline(outline_of(plan), outcome.ledgers)


def test_all_models_count_towards_limits_and_are_told_before(learning: Any, tmp_path: Any) -> None:
    plan = learning.plan(parties=TWO, tuning=TUNING)
    outcome = learning.run(plan)
    found = outcome.results["telco"]
    path = tmp_path / "telco.csv"
    learning.frames["telco"].write_csv(path)
    private = Private.model_validate({"table": {"path": str(path), "id": "id"}})
    kind, parameters = kind_named("train"), parameters_of(plan)
    foretold = kind.answers(checked(plan, "telco", private))
    assert found["bits"] <= found["most_bits"] <= foretold.bits
    assert kind.groups(parameters) == [2, 2, 2, 2, 1]
    with pytest.raises(RefusedError, match="telco answers"):  # the first candidates alone would not ask as much
        learning.run(plan, "limited", telco={"policy": {"maximum_questions": found["questions"] - 1}})
    (said,) = kind.said_before(plan, parameters)[1:]
    assert said.startswith("Tuning learns 8 models more (4 candidates, 2 each), besides 1 model with the best settin")


def test_a_forecast_is_that_of_all_models(learning: Any) -> None:
    plan = learning.plan(parties=TWO, engine="plain", model={"trees": 4}, tuning=TUNING | {"folds": 3})
    outcome, tables = learning.run(plan), learning.tables(plan)
    jobs = [
        checked(plan, "telco", Private(), tables["telco"]),
        checked(plan, "bank", Private(target="buys"), tables["bank"]),
    ]
    found = forecast([*jobs, checked(plan, "coordinator", Private(consent=Consent(aided=True)))])
    for party in ("telco", "bank"):
        sent = [entry.bytes for entry in outcome.ledgers[party].entries if entry.way == "sent"]
        assert 0.8 < found.parties[party].messages / len(sent) < 2.5
        assert 0.8 < found.parties[party].sent_bytes / sum(sent) < 2.5
    assert any("each is forecast as the one that asks most" in guess for guess in found.guesses)


@pytest.mark.parametrize(
    ("model", "tuned"),
    [
        ({"learner": "linear", "reveal": "gradients", "epochs": 2, "insecure_batch": True}, {"l2": [0.0001, 100.0]}),
        ({"learner": "linear", "epochs": 2}, {"learning_rate": [0.1, 0.5]}),
        ({"hide_bags": False}, {"trees": [1, 2]}),
        ({"hide_nodes": True}, {"patience": [1, 2]}),
    ],
    ids=["gradients", "linear", "open bags", "hidden nodes"],
)
def test_whatever_is_learned_is_foretold(learning: Any, model: dict[str, Any], tuned: dict[str, Any]) -> None:
    plan = learning.plan(parties=TWO, model=model, tuning={"settings": tuned, "folds": 2})
    outcome = learning.run(plan)
    check_outline(outline_of(plan), outcome.ledgers)
    assert len(outcome.results["bank"]["tuning"]["tried"]) == 2
    assert learning.predictions()["score"].is_finite().all()


def test_every_fit_can_be_audited(learning: Any) -> None:
    plan = learning.plan(parties=TWO, tuning={"settings": {"learning_rate": [0.01, 0.9], "depth": [1, 2]}, "folds": 2})
    outcome = learning.run(plan)
    assert outcome.results["bank"]["tuning"]["chosen"] > 1
    home = {party: learning.root / "run" / party for party in ("telco", "bank")}
    for checker, opener in (("telco", "bank"), ("bank", "telco")):
        verdict = audit.trial(home[checker], home[opener], None)
        assert verdict.wrong == {}
        assert verdict.opened > 4
    result = home["telco"] / "result.json"
    result.write_text(result.read_text().replace('"chosen": ', '"chosen": 1, "was": '))
    assert audit.trial(home["telco"], home["bank"], None).wrong != {}, "the last fit had other settings than these"


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({"settings": {"depth": [4, 6, 0]}}, "parameters.tuning.settings.depth.2: must be greater than or equal to 1"),
        ({"settings": {"depth": ["deep"]}}, "parameters.tuning.settings.depth.0: must be a valid integer"),
        ({"settings": {"depth": [4, 4]}}, "parameters.tuning.settings.depth.1: this value is there already"),
        ({"settings": {"depth": []}}, "parameters.tuning.settings.depth: there are no values to try"),
        ({"settings": {"deep": [4]}}, "parameters.tuning.settings.deep: unknown key"),
        ({"settings": {"hide_nodes": [True]}}, "parameters.tuning.settings.hide_nodes: it is the same for all candida"),
        ({"settings": {"depth": [4]}, "draws": 2}, "parameters.tuning.draws: there are only 1 combinations"),
        ({"settings": {"depth": [4]}, "folds": 1}, "parameters.tuning.folds: must be greater than or equal to 2"),
        (
            {"settings": {"depth": [4]}, "measure": "rmse"},
            "parameters.tuning.measure: a model of 2 classes is measu",
        ),
        ({"settings": {"trees": list(range(1, 1002))}}, "parameters.tuning: 1,001 combinations are more than 1,000"),
    ],
)
def test_what_cannot_be_tried_is_named(learning: Any, tuning: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as caught:
        outline_of(learning.plan(tuning=tuning))
    assert str(caught.value).startswith(said)


def test_settings_that_do_not_go_together_are_named_with_their_values(learning: Any) -> None:
    plan = learning.plan(
        model={"learner": "linear", "reveal": "final"}, tuning={"settings": {"optimiser": ["plain", "adam"]}}
    )
    with pytest.raises(PlanError, match=r'^parameters\.tuning\.settings: with optimiser = "adam": reveal: '):
        outline_of(plan)


def test_too_few_rows_of_a_class_are_refused_before_the_start(learning: Any) -> None:
    plan = learning.plan(parties=TWO, tuning={"settings": {"depth": [1, 2]}, "folds": 100})
    said = r"bank: .*column 'buys'.* rows to learn from labelled '(no|yes)' are too few for 100 folds"
    with pytest.raises(InputError, match=said):
        learning.run(plan)
    table = learning.tables(plan)["bank"].take(np.arange(90))
    with pytest.raises(InputError, match=said):
        kind_named("train").check_common(checked(plan, "bank", Private(target="buys"), table), table, None, 0)
