"""Row weights that no passive party knows, with several passive parties and where weights stay in shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.errors import InputError, PlanError
from unpooled.secure.mod64 import from_bytes
from unpooled.vertical.linear.descent import order_of
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit
from unpooled.vertical.linear.loss import shared_scales
from unpooled.vertical.linear.messages import RowWeights
from unpooled.vertical.linear.parameters import check_plan
from unpooled.vertical.linear.predictor import score
from unpooled.vertical.linear.residuals import RESIDUALS
from unpooled.vertical.team import alone

Make = Callable[..., Any]

SMALL: dict[str, Any] = {"epochs": 3, "batch_rows": 300, "insecure_batch": True}
KINDS: list[dict[str, Any]] = [
    {"classes": 2},
    {"classes": 3},
    {"classes": 3, "several": "one-versus-rest"},
    {"classes": 0},
]
SEVERAL = ["three", "five", "the active without columns", "a passive one without columns"]


def levelled(scores: Any) -> Any:
    """Softmax does not see what is added to all scores of a row."""
    return scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("team", SEVERAL)
def test_shown_gradients(together: Make, scene: Make, team: str, kind: dict[str, Any]) -> None:
    """All engines agree to the bit, and nobody is told a weight."""
    parameters, data = with_gradients(**kind | SMALL), scene()
    target = data.target(parameters.classes, weighted=True)
    run = together(parameters, team, "shares", data=data, target=target)
    plain = together(parameters, team, "plain", data=data, target=target)
    assert run.weights() == plain.weights()
    assert run.losses == plain.losses
    pooled = fit(alone(), parameters, data.columns(), target)
    np.testing.assert_allclose(run.scores, score(alone(), pooled.model, data.matrix), atol=1e-3)
    np.testing.assert_allclose(run.losses, pooled.losses, rtol=1e-3)
    assert not any(run.messages(party, RowWeights) for party in run.parts)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("team", ["two", *SEVERAL])
def test_weights_in_shares(together: Make, scene: Make, team: str, kind: dict[str, Any]) -> None:
    parameters, data = with_gradients(**kind, reveal="final", epochs=3, batch_rows=300), scene()
    target = data.target(parameters.classes, weighted=True)
    run = together(parameters, team, "shares", data=data, target=target)
    pooled = fit(alone(), parameters, data.columns(), target)
    theirs = levelled(score(alone(), pooled.model, data.matrix))
    np.testing.assert_allclose(levelled(run.scores), theirs, atol=5e-3)
    assert not any(run.messages(party, RowWeights) for party in run.parts)


@pytest.mark.parametrize(("team", "reveal"), [("three", "gradients"), ("two", "final"), ("three", "final")])
def test_a_bag(together: Make, scene: Make, team: str, reveal: str) -> None:
    """Nearly all rows have weight zero, and what they hold does not matter."""
    data, weights = scene(4000), np.zeros(4000)
    chosen = np.concatenate([np.flatnonzero(data.truth[2] == label)[:50] for label in (0, 1)])
    weights[chosen] = 1
    parameters = with_gradients(batch_rows=4000, epochs=40, reveal=reveal)
    run = together(parameters, team, data=data, target=Target(data.truth[2], weights))
    bag = data.__class__(data.matrix[chosen], {2: data.truth[2][chosen]}, weights[chosen])
    reference = fit(alone(), parameters, bag.columns(), bag.target()).model
    np.testing.assert_allclose(run.scores, score(alone(), reference, data.matrix), atol=0.03)


def test_what_is_refused_beforehand() -> None:
    check_plan(with_gradients(), "shares", 3, weighted=True, columns=40)
    check_plan(LinearParameters(reveal="final", batch_rows=10), "shares", 3, weighted=True)
    check_plan(with_gradients(show_weights=True), "paillier", 3, weighted=True)
    check_plan(with_gradients(balanced=True), "paillier", 1)
    check_plan(with_gradients(batch_rows=501), "shares", 1)
    for parameters, engine, passive, known, key in [
        (LinearParameters(), "paillier", 1, {}, "reveal"),
        (with_gradients(), "paillier", 2, {"weighted": True}, "show_weights"),
        (with_gradients(balanced=True), "paillier", 2, {}, "show_weights"),
        (with_gradients(batch_rows=500), "shares", 1, {}, "batch_rows"),
        (with_gradients(batch_rows=1000), "shares", 1, {"columns": 100}, "batch_rows"),
    ]:
        with pytest.raises(PlanError, match=key):
            check_plan(parameters, engine, passive, **known)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="missing"):
        check_plan(with_gradients(), "shares", 1, missing=True)


@pytest.mark.parametrize("owners", [3, 9])
@pytest.mark.parametrize("heaviest", [0, 10])
def test_the_loss_fits_its_words(owners: int, heaviest: int) -> None:
    for rows in (1000, 10**5, 10**7):
        residuals, weights = shared_scales(rows, owners, heaviest)
        assert residuals.largest == RESIDUALS.largest
        assert rows * weights.bound * residuals.bound**2 * (owners**2 + owners) < 2**63
    with pytest.raises(InputError):
        shared_scales(10**12, owners, heaviest)


# what is seen


def likeness(run: Any, data: Any) -> float:
    """How much any number for each row that anybody was sent goes along with weights, labels or columns, at the most.

    In standard deviations of chance.
    """
    order, rows, found = order_of(len(data.matrix)), len(data.matrix), []
    weights, labels = data.weights[order], data.truth[2][order]
    secret = np.stack([weights, labels, weights * (labels - 0.5), *data.matrix[order].T])
    for message in (message for received in run.received.values() for _, message in received):
        sent = message.values if isinstance(getattr(message, "values", None), tuple) else ()
        dealt = [part.values for part in getattr(message, "parts", ())]
        for values in [*sent, *dealt]:
            numbers = (
                from_bytes(values, values.shape[1:], "") if values.dtype == np.uint8 and values.ndim > 1 else values
            )
            if rows in numbers.shape:
                columns = numbers.reshape(rows, -1) if len(numbers) == rows else numbers.T
                columns = columns.view(np.int64).astype(float).T
                columns = columns[columns.std(axis=1) > 0]
                found.append(np.abs(np.corrcoef(columns, secret)[: len(columns), len(columns) :]).max(initial=0.0))
    assert len(found) >= 10
    return float(max(found) * rows**0.5)


@pytest.mark.parametrize(("team", "reveal"), [("three", "gradients"), ("two", "final"), ("three", "final")])
def test_nothing_that_is_sent_goes_along_with_weights(together: Make, scene: Make, team: str, reveal: str) -> None:
    data, parameters = scene(), with_gradients(epochs=2, batch_rows=1200, reveal=reveal)
    target = data.target(weighted=True)
    assert likeness(together(parameters, team, "shares", data=data, target=target), data) < 7.0
    assert likeness(together(parameters, team, "plain", data=data, target=target), data) > 14.0, "nothing is hidden"
