"""Searches on small made-up sets: every method, learner and way of running gives figures, and federated is pooled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unpooled.data import datasets
from unpooled.errors import InternalError
from unpooled.experiments.lookalike import together
from unpooled.experiments.lookalike.dealing import deal
from unpooled.experiments.lookalike.judging import FIGURES, METRICS
from unpooled.experiments.lookalike.presets import LEARNERS, model_of
from unpooled.experiments.lookalike.searches import KEYS, OTHERS, compute, model_in, search_cell

SMALL: dict[str, Any] = {"iterations": 2, "bags": 2, "known": 0.2}
pytestmark = pytest.mark.usefixtures("small")


def check_figures(figures: Any, runs: list[str]) -> None:
    assert [run for run in figures if "by promotion" not in run] == runs
    for values in figures.values():
        assert set(values) <= set(FIGURES)
        assert np.isfinite(list(values.values())).all()
        assert {*METRICS, "test_auc", "cpu_seconds", "wall_seconds", "hits_100"} <= set(values)


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_pooled_and_of_a_library(learner: str) -> None:
    cell = search_cell("credit", 1, 0.8, learner=learner, **SMALL)
    own, library = compute(cell), compute({**cell, "run": "library"})
    check_figures(own, ["pooled"])
    check_figures(library, ["library"])
    assert list(own) == ["pooled", "pooled, by promotion"]
    by_score, by_promotion = own.values()
    assert by_score["auc"] != by_promotion["auc"]
    assert by_score["test_auc"] == by_promotion["test_auc"], "the models are the same"
    for values in (own["pooled"], library["library"]):
        assert values["rows"] + values["known_rows"] == 960
        assert values["test_rows"] == 240
        assert values["auc"] > 0.6


@pytest.mark.parametrize("search", [*OTHERS, "elkan-noto", "random", "supervised", "semisup, mixmatch"])
def test_every_other_method(search: str) -> None:
    found = compute(search_cell("bank", 1, 0.8, search=search, known=0.2))
    check_figures(found, ["pooled"])
    auc = found["pooled"]["auc"]
    assert abs(auc - 0.5) < 0.1 if search == "random" else auc > 0.6


@pytest.mark.parametrize("learner", LEARNERS)
def test_federated_is_pooled(learner: str) -> None:
    found = compute(search_cell("census", 1, 0.8, learner=learner, run="threads, shares", **SMALL))
    check_figures(found, ["federated", "pooled"])
    assert found["federated"]["difference"] <= (0.002 if learner == "linear" else 0)
    assert found["federated"]["megabytes"] > 0
    assert found["pooled"]["test_rows"] == 200, "census has a test file of its own"


def test_over_processes_it_is_the_same() -> None:
    cell = search_cell("credit", 1, 0.8, hide_bags="no", **SMALL)
    one = compute({**cell, "run": "processes, shares"})["federated"]
    other = compute({**cell, "run": "threads, plain"})["federated"]
    assert all(one[name] == other[name] for name in (*METRICS, "test_auc", "hits_100", "difference"))
    assert one["cpu_seconds"] > 0


def test_a_federated_search_that_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "draws_of", lambda party, seed: np.random.default_rng(seed + 1))
    with pytest.raises(InternalError, match="differs from the pooled one"):
        compute(search_cell("bank", 1, 0.8, run="threads, plain", **SMALL))


def test_calibrated_models_rank_too() -> None:
    plain, calibrated = (compute(search_cell("bank", 1, 0.8, calibrated=how, **SMALL))["pooled"] for how in ("", "yes"))
    assert calibrated["auc"] > 0.6
    assert calibrated["auc"] != plain["auc"]


def test_rows_are_dealt_as_a_cell_says() -> None:
    dealt = deal("bank", 3, train=0.5, known=0.2, without="duration")
    assert "duration" not in dealt.columns.names
    assert dealt.positive[dealt.known].all()
    assert dealt.known.sum() == round(0.2 * dealt.positive.sum())
    assert len(dealt.columns.matrix) + len(dealt.test) == 1200
    biased, random = (
        deal("bank", 3, train=1.0, known=0.2, labelling=how)
        for how in ("biased", "random")  # type: ignore[arg-type]
    )
    age = datasets.load("bank").frame["age"].to_numpy()
    assert age[biased.known].mean() > age[random.known].mean() + 0.5


def test_a_whole_set_leaves_no_rows_to_test_on() -> None:
    found = compute(search_cell("bank", 1, 1.0, **SMALL))["pooled"]
    assert (found["rows"] + found["known_rows"], found["test_rows"]) == (1200, 0)
    assert "test_auc" not in found


def test_what_a_cell_says_of_hiding_reaches_the_learner() -> None:
    assert search_cell("bank", 1, 1.0, search="naive")["iterations"] == 0
    assert set(search_cell("bank", 1, 1.0)) == set(KEYS)
    with pytest.raises(ValueError, match="a cell has no depth"):
        search_cell("bank", 1, 1.0, depth=3)
    default = model_of("gbdt", "default").model_dump()
    for name in ("hide_bags", "hide_nodes"):
        assert search_cell("bank", 1, 1.0)[name] == ("yes" if default[name] else "no")
        assert not model_in(search_cell("bank", 1, 1.0, **{name: "no"})).model_dump()[name]
    assert model_in(search_cell("bank", 1, 1.0, lent_bins=5)).model_dump()["lent_bins"] == 5
    assert search_cell("bank", 1, 1.0, learner="linear")["hide_nodes"] == ""
