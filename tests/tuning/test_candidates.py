"""Candidates are the same in the same order at every party, however the plan is written."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from sklearn.model_selection import ParameterGrid

from unpooled.tuning.candidates import candidates_of, most_asking, stages_of
from unpooled.tuning.settings import TuningSettings
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.stages import limits_of, questions_of, stage
from unpooled.vertical.trees.parameters import GbdtParameters, XgbParameters

SETTINGS = {"trees": [10, 5], "depth": [2, 3], "balanced": [False, True]}


def test_they_come_in_the_order_of_scikit_learns_grid() -> None:
    base = GbdtParameters(learning_rate=0.3)
    found = candidates_of(base, TuningSettings(settings=SETTINGS))
    assert [each.settings for each in found] == list(ParameterGrid(SETTINGS))
    assert found == candidates_of(base, TuningSettings(settings=dict(reversed(SETTINGS.items()))))
    assert found[3].parameters == GbdtParameters(learning_rate=0.3, balanced=False, depth=3, trees=5)
    assert candidates_of(base, TuningSettings()) == ()


def test_draws_are_some_of_them_in_the_same_order() -> None:
    every = candidates_of(GbdtParameters(), TuningSettings(settings=SETTINGS))
    drawn = [candidates_of(GbdtParameters(), TuningSettings(settings=SETTINGS, draws=3, seed=seed)) for seed in (1, 2)]
    for each in drawn:
        places = [every.index(one) for one in each]
        assert len(places) == 3
        assert places == sorted(places)
    assert drawn[0] != drawn[1]
    assert candidates_of(GbdtParameters(), TuningSettings(settings=SETTINGS, draws=8)) == every


def test_a_whole_number_and_a_truth_value_are_not_the_same_value() -> None:
    with pytest.raises(ValidationError):
        candidates_of(GbdtParameters(), TuningSettings(settings={"balanced": [0, 1]}))


def test_stages_ask_for_the_candidate_that_asks_most() -> None:
    base = XgbParameters(depth=3)
    found = candidates_of(base, TuningSettings(settings={"depth": [2, 5, 4], "trees": [2]}))
    stages = stages_of(base, found, 3, [1])
    apart = [questions_of([stage(each.parameters, [3])]) for each in found]
    most = questions_of([stage(found[1].parameters, [1])])
    assert questions_of(stages) == sum(apart) + most  # type: ignore[arg-type, operator]
    assert most_asking(base, found) == found[1].parameters
    assert most_asking(base, ()) == base
    linear = stages_of(LinearParameters(), candidates_of(LinearParameters(), TuningSettings()), 3, [1])
    assert (questions_of(linear), limits_of(None, linear, None)) == (None, None)  # type: ignore[arg-type]
    epochs = candidates_of(LinearParameters(), TuningSettings(settings={"epochs": [5, 9, 2]}))
    assert most_asking(LinearParameters(), epochs) == epochs[1].parameters
