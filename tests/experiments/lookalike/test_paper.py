"""The VFPU paper's figures: which cannot be right, and what the others come to."""

from __future__ import annotations

import pytest

from unpooled.experiments.lookalike.paper import (
    Told,
    accuracies,
    all_told,
    impossible,
    mean_gap,
    told,
    unlabelled_positives,
    verdict,
)
from unpooled.experiments.tables import Summary


def one(experiment: str, name: str, method: str, metric: str, mode: str = "federated") -> Told:
    (found,) = [
        each
        for each in told(experiment)
        if (each.set, each.method, each.metric, each.mode) == (name, method, metric, mode)
    ]
    return found


def test_all_figures_are_there() -> None:
    assert len(all_told()) == 128
    assert {each.experiment for each in all_told()} == {"table-3-1", "growth", "baselines"}
    assert one("baselines", "census", "VFPU_GBDT", "precision").half == 0.0005
    assert mean_gap() == pytest.approx(0.0174, abs=1e-4)


def test_sizes_are_those_of_the_sets() -> None:
    assert unlabelled_positives("bank", 0.6) == (24_435, 2_506)
    assert unlabelled_positives("credit") == (29_336, 5_972)


def test_accuracy_follows_from_recall_precision_and_the_fraction_of_positives() -> None:
    # 100 rows, 20 positive, 10 listed, 5 of these right: 15 missed and 5 false alarms
    assert accuracies([0.25], [0.5], [0.2]) == pytest.approx((0.8, 0.8))


def test_figures_that_no_confusion_matrix_has_are_found() -> None:
    reason = impossible(one("table-3-1", "bank", "LR", "acc"))
    assert reason.startswith("recall 0.194 and precision 0.52 make an accuracy of 0.889 to 0.899, not 0.923")
    assert not impossible(one("table-3-1", "bank", "LGB", "acc")), "this one can be"
    assert not impossible(one("table-3-1", "bank", "LR", "AUC"))
    every = [each for each in told("table-3-1") if each.metric == "acc"]
    assert sum(bool(impossible(each)) for each in every) == 23


def test_random_choice_below_the_fraction_of_positives_is_found() -> None:
    assert "random choice finds the fraction of positives, 0.103" in impossible(
        one("growth", "bank", "random", "precision")
    )
    assert not impossible(one("growth", "bank", "VFPU_GBDT", "precision"))


def test_recall_that_needs_other_positives_is_found() -> None:
    assert "means 4,509 unlabelled positives; there are 2,506" in impossible(
        one("growth", "bank", "VFPU_GBDT", "recall")
    )


@pytest.mark.parametrize(
    ("mean", "spread", "said"),
    [(0.98, None, "reproduced"), (0.95, 0.02, "reproduced"), (0.95, 0.01, "worse"), (1.01, 0.001, "better")],
)
def test_verdicts(mean: float, spread: float | None, said: str) -> None:
    assert verdict(one("baselines", "census", "VFPU_GBDT", "precision"), Summary(mean, spread, 5)) == said


def test_a_shorter_runtime_is_better_and_what_is_not_measured_is_said() -> None:
    runtime = one("baselines", "credit", "VFPU_GBDT", "runtime_s")
    assert [verdict(runtime, Summary(value, None, 1)) for value in (100.0, 2e5)] == ["better", "worse"]
    assert verdict(one("baselines", "census", "MixMatch", "precision", "pooled"), None) == "not measured"
