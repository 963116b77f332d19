"""Rows that do not all count the same: hidden from one passive party, shown to several, refused otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.arrays import Floats
from unpooled.errors import InputError, PlanError, ProtocolError
from unpooled.vertical.linear.fitting import Target, fit
from unpooled.vertical.linear.loss import _loss_scale, hidden_scales
from unpooled.vertical.linear.messages import BeginLinear, RowWeights
from unpooled.vertical.linear.predictor import score
from unpooled.vertical.linear.row_weights import weighting_of
from unpooled.vertical.targets import checked_weights
from unpooled.vertical.team import alone

Make = Callable[..., Any]

SMALL = {"epochs": 3, "batch_rows": 300, "insecure_batch": True}
KINDS: list[dict[str, Any]] = [
    {"classes": 2},
    {"classes": 3},
    {"classes": 3, "several": "one-versus-rest"},
    {"classes": 0},
]


@pytest.mark.parametrize(
    ("team", "shown", "kind"),
    [
        *(("two", False, kind) for kind in KINDS),
        *(("two", True, kind) for kind in KINDS[::2]),
        *(("three", True, kind) for kind in KINDS[1::2]),
        *(("five", True, kind) for kind in KINDS[::3]),
    ],
    ids=str,
)
def test_weighted_shares_equal_plain_and_come_near_pooled(
    together: Make, scene: Make, team: str, shown: bool, kind: dict[str, Any]
) -> None:
    parameters, data = with_gradients(**kind | SMALL, show_weights=shown), scene()
    target = data.target(parameters.classes, weighted=True)
    run = together(parameters, team, "shares", data=data, target=target)
    plain = together(parameters, team, "plain", data=data, target=target)
    assert run.weights() == plain.weights()
    assert run.losses == plain.losses
    pooled = fit(alone(), parameters, data.columns(), target)
    np.testing.assert_allclose(run.scores, score(alone(), pooled.model, data.matrix), atol=1e-3)
    np.testing.assert_allclose(run.losses, pooled.losses, rtol=1e-3)
    assert len(run.messages("telco", RowWeights)) == shown


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_weighted_paillier_equals_plain(together: Make, scene: Make, kind: dict[str, Any]) -> None:
    parameters = with_gradients(**kind, epochs=1, batch_rows=30, insecure_batch=True)
    data = scene(60)
    target = data.target(parameters.classes, weighted=True)
    run = together(parameters, "two", "paillier", data=data, target=target)
    plain = together(parameters, "two", "plain", data=data, target=target)
    assert run.weights() == plain.weights()
    assert run.losses == plain.losses


@pytest.mark.parametrize("classes", [2, 0])
def test_a_weight_counts_as_so_many_rows(scene: Make, classes: int) -> None:
    data = scene()
    often = np.repeat(np.arange(1200), data.weights.astype(int))
    parameters = with_gradients(classes=classes, epochs=20, batch_rows=10_000)
    weighted = fit(alone(), parameters, data.columns(), data.target(classes, weighted=True)).model
    repeated = data.__class__(data.matrix[often], {classes: data.truth[classes][often]}, data.weights[often])
    reference = fit(alone(), parameters, repeated.columns(), repeated.target(classes)).model
    np.testing.assert_allclose(score(alone(), weighted, data.matrix), score(alone(), reference, data.matrix), atol=2e-3)


@pytest.mark.parametrize("shown", [False, True])
def test_rows_of_weight_zero_do_not_matter(together: Make, scene: Make, shown: bool) -> None:
    data, parameters = scene(), with_gradients(**SMALL, show_weights=shown)
    out = data.weights == 0
    assert 200 < out.sum() < 400
    truth = np.where(out, np.nan, data.truth[2])
    other = data.__class__(np.where(out[:, np.newaxis], 3.0, data.matrix), {2: truth}, data.weights)
    one = together(parameters, data=data, target=data.target(weighted=True))
    two = together(parameters, data=other, target=other.target(weighted=True))
    assert one.weights() == two.weights()
    assert one.losses == two.losses


def test_few_rows_may_weigh_much(together: Make, scene: Make) -> None:
    """As in a bag: nearly all rows with weight zero, the mean far below the others' weight."""
    data = scene(4000)
    weights = np.zeros(4000)
    chosen = np.concatenate([np.flatnonzero(data.truth[2] == label)[:50] for label in (0, 1)])
    weights[chosen] = 1
    parameters = with_gradients(batch_rows=4000, epochs=40)
    run = together(parameters, data=data, target=Target(data.truth[2], weights))
    (begin,) = run.messages("telco", BeginLinear)
    assert (begin.weighted, begin.heaviest) == ((True,), (6,)), "40 times the mean is more than 2^5 and less than 2^6"
    bag = data.__class__(data.matrix[chosen], {2: data.truth[2][chosen]}, weights[chosen])
    reference = fit(alone(), parameters, bag.columns(), bag.target()).model
    np.testing.assert_allclose(run.scores, score(alone(), reference, data.matrix), atol=0.02)


def test_balanced_classes(together: Make, scene: Make) -> None:
    data = scene()
    rare = Target((data.truth[0] > 12).astype(float))
    parameters = with_gradients(**SMALL)
    weights = checked_weights(rare, 1200, 2, balanced=True)
    assert weights[rare.values == 1].sum() == pytest.approx(weights[rare.values == 0].sum())
    balanced = together(parameters.model_copy(update={"balanced": True}), data=data, target=rare)
    explicit = together(parameters, data=data, target=Target(rare.values, weights))
    assert balanced.weights() == explicit.weights()
    ordinary = together(parameters, data=data, target=rare)
    assert balanced.scores.mean() > ordinary.scores.mean() + 0.5


def test_equal_weights_are_none(together: Make, scene: Make) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    run = together(parameters, "three", data=data, target=Target(data.truth[2], np.full(1200, 2.5)))
    assert run.weights() == together(parameters, "three", data=data).weights()
    assert [message.weighted for message in run.messages("telco", BeginLinear)] == [(False,)]


def test_paillier_refuses_weights_hidden_from_several(together: Make, scene: Make) -> None:
    data = scene(60)
    with pytest.raises(PlanError, match="show_weights"):
        together(with_gradients(**SMALL), "three", "paillier", data=data, target=data.target(weighted=True))


def test_a_passive_party_refuses_what_it_could_not_do(together: Make, scene: Make) -> None:
    """The active party says that there are weights, where it must not."""

    def weighted(_: str, message: Any) -> Any:
        return replace(message, weighted=(True,)) if isinstance(message, BeginLinear) else message

    with pytest.raises(PlanError, match="show_weights"):
        together(with_gradients(**SMALL), "three", "paillier", tamper={"bank": weighted})


@pytest.mark.parametrize(
    "change",
    [
        lambda w: w[1:],
        lambda w: np.where(w > 0, w, -1.0),
        lambda w: np.where(w > 0, w, np.nan),
        lambda w: 10 * w,
        lambda w: w[:, np.newaxis],
    ],
)
def test_row_weights_that_cannot_be(together: Make, scene: Make, change: Callable[[Floats], Floats]) -> None:
    def tamper(_: str, message: Any) -> Any:
        return RowWeights(tuple(map(change, message.weights))) if isinstance(message, RowWeights) else message

    with pytest.raises(ProtocolError, match="RowWeights from bank"):
        together(
            with_gradients(**SMALL, show_weights=True), target=scene().target(weighted=True), tamper={"bank": tamper}
        )


@pytest.mark.parametrize(
    "change",
    [{"names": (b"short",)}, {"heaviest": (11,)}, {"heaviest": (-1,)}, {"heaviest": ()}, {"weighted": (True, False)}],
)
def test_a_beginning_that_cannot_be(together: Make, change: dict[str, Any]) -> None:
    def tamper(_: str, message: Any) -> Any:
        return replace(message, **change) if isinstance(message, BeginLinear) else message

    with pytest.raises(ProtocolError, match="BeginLinear from bank"):
        together(with_gradients(**SMALL), tamper={"bank": tamper})


def test_how_heavy_the_heaviest_may_be() -> None:
    assert weighting_of(np.ones(5), shown=False).weighted is False
    for heaviest, powers in ((1.5, 1), (2.0, 1), (2.5, 2), (1024.0, 10)):
        weights = np.ones(10_000)
        weights[0], weights[1:3] = heaviest, (2 - heaviest) / 2 if heaviest < 2 else 0.0
        scaled = weights * (1 / weights.mean())
        weighting = weighting_of(weights, shown=False)
        assert weighting.heaviest == powers or scaled[0] > 2.0**powers
        assert weighting.known.mean() == pytest.approx(1)
        assert weighting.known.max() <= 2.0**weighting.heaviest
    with pytest.raises(InputError, match=r"weights.* 1024"):
        weighting_of(np.concatenate([[1.0], np.zeros(5000)]), shown=False)


def test_the_more_rows_the_coarser_the_loss() -> None:
    assert [_loss_scale(rows, 2, 0).fraction_bits for rows in (1000, 10**9, 2 * 10**10)] == [10, 7, 5]
    for rows, owners, heaviest in ((1000, 2, 0), (10**9, 5, 0), (10**7, 9, 10)):
        bound = _loss_scale(rows, owners, heaviest).bound
        assert rows * bound**2 * (owners**2 + owners) < 2**63
    with pytest.raises(InputError, match=r"rows.*loss"):
        _loss_scale(10**13, 5, 10)
    for rows in (1000, 10**6, 6 * 10**7):
        for heaviest in (0, 10):
            scales = hidden_scales(rows, heaviest)
            left = max(scales.squares.bound, 2 * scales.residuals.bound)
            right = max(scales.weights.bound, scales.weighted.bound)
            added = 3 * rows * scales.weighted.bound * scales.residuals.bound
            assert 2 * rows * left * right + added < 2**63
            units = [(scales.squares, scales.weights), (scales.residuals, scales.weighted)]
            assert len({one.fraction_bits + other.fraction_bits for one, other in units}) == 1
    with pytest.raises(InputError, match="rows"):
        hidden_scales(10**8, 0)
