"""Gradients of small batches give labels away, those of the plan's least batches hardly, and final weights less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from attacked import training

from unpooled.attacks.audit import linear_scores
from unpooled.attacks.findings import GRADIENTS
from unpooled.attacks.gradients import by_gradients
from unpooled.attacks.simulation import views_of
from unpooled.errors import InputError
from unpooled.evaluate.metrics import auc
from unpooled.vertical.linear.descent import ShownGradient, order_of


def recovered(columns: int, **model: Any) -> tuple[float, int]:
    """The AUC of the labels, and how many gradients the telco saw."""
    stage = training(columns, **model)
    view = views_of(stage)["telco"]
    truth, scores, _ = dict(linear_scores(stage, view))[GRADIENTS]
    return auc(truth.astype(float), scores), len(list(view.record.of(ShownGradient)))


def test_gradients_of_small_batches_give_labels_away() -> None:
    found, shown = recovered(50, reveal="gradients", batch_rows=64, insecure_batch=True)
    assert shown > 100
    assert found > 0.85


def test_with_the_least_batches_of_the_plan_they_do_not() -> None:
    found, shown = recovered(4, reveal="gradients")
    assert shown >= 1
    assert found < 0.6


def test_with_weights_at_the_end_alone_no_gradient_is_seen() -> None:
    found, shown = recovered(4, reveal="final")
    assert shown == 0
    assert found < 0.58


def test_enough_equations_have_one_solution() -> None:
    rng = np.random.default_rng(1)
    columns, labels = rng.normal(size=(40, 60)), rng.integers(2, size=40).astype(float)
    rows = order_of(40)
    gradient = columns[rows].T @ (0.5 - labels[rows]) / 40
    step = ShownGradient("model", slice(0, 40), np.zeros((60, 1)), gradient[:, np.newaxis])
    found = by_gradients(columns, [step], {}, logistic=True)
    assert auc(labels, found) == 1.0


def test_rows_that_the_active_party_lacks_are_no_case_for_it() -> None:
    stage = training(4, reveal="gradients")
    view = views_of(stage)["telco"]
    fewer = replace(view, people=view.people[:-1], columns=view.columns[:-1], learned=view.learned[:-1])
    with pytest.raises(InputError, match="no attack on linear models in a job of the kind train"):
        linear_scores(stage, fewer)
