"""Weights that nobody knows until the end: the same model, no gradient, and shares that are cut to the right length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Ring
from unpooled.errors import InputError, PlanError, ProtocolError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.linear import hidden_weights
from unpooled.vertical.linear.fitting import LinearParameters, fit
from unpooled.vertical.linear.messages import GradientShares, LastShare
from unpooled.vertical.linear.predictor import score
from unpooled.vertical.linear.residuals import Diverged
from unpooled.vertical.team import Team, alone

Make = Callable[..., Any]

KINDS: dict[str, dict[str, Any]] = {
    "two classes": {"classes": 2},
    "softmax": {"classes": 3},
    "one-versus-rest": {"classes": 3, "several": "one-versus-rest"},
    "a number": {"classes": 0},
}
TEAMS = ["two", "three", "five", "the active without columns", "a passive one without columns"]
FINAL: dict[str, Any] = {"reveal": "final", "epochs": 3, "batch_rows": 300}


@pytest.mark.parametrize(
    ("team", "kind"), [(team, kind) for n, team in enumerate(TEAMS) for kind in list(KINDS)[n % 2 :: 2]]
)
def test_it_comes_near_the_pooled_model(together: Make, scene: Make, team: str, kind: str) -> None:
    """Batches of 300 need no `insecure_batch`: nobody sees a gradient of them."""
    parameters, data = LinearParameters(**KINDS[kind] | FINAL), scene()
    run = together(parameters, team, data=data)
    pooled = fit(alone(), parameters, data.columns(), data.target(parameters.classes))
    theirs = score(alone(), pooled.model, data.matrix)
    np.testing.assert_allclose(_levelled(run.scores), _levelled(theirs), atol=3e-3)
    assert np.abs(_levelled(theirs)).max() > 0.5
    assert run.losses == pooled.losses == ()


def _levelled(scores: Any) -> Any:
    """Softmax does not see what is added to all scores of a row."""
    return scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores


@pytest.mark.parametrize("settings", [{"optimiser": "plain", "learning_rate": 0.5}, {"l2": 0.5}, {"limit": 1.5}])
def test_settings_count(together: Make, scene: Make, settings: dict[str, Any]) -> None:
    parameters, data = LinearParameters(**FINAL, **settings), scene()
    pooled = fit(alone(), parameters, data.columns(), data.target())
    run = together(parameters, data=data)
    np.testing.assert_allclose(run.scores, score(alone(), pooled.model, data.matrix), atol=1e-3)


@pytest.mark.parametrize("team", ["two", "three"])
def test_shown_weights(together: Make, scene: Make, team: str) -> None:
    parameters, data = LinearParameters(**FINAL, show_weights=True), scene()
    target = data.target(weighted=True)
    run = together(parameters, team, data=data, target=target)
    pooled = fit(alone(), parameters, data.columns(), target)
    np.testing.assert_allclose(run.scores, score(alone(), pooled.model, data.matrix), atol=2e-3)


def test_a_warm_start(together: Make, scene: Make) -> None:
    data, settings = scene(), FINAL | {"optimiser": "plain", "learning_rate": 0.5}
    first = together(LinearParameters(**settings), data=data)
    assert first.model.part.pace is None
    second = together(LinearParameters(**settings), data=data, start=first)
    whole = together(LinearParameters(**settings | {"epochs": 6}), data=data)
    np.testing.assert_allclose(second.scores, whole.scores, atol=1e-3)
    assert np.abs(second.scores - first.scores).max() > 0.1


def test_two_fits_of_one_conversation(together: Make) -> None:
    run = together(LinearParameters(**FINAL), "three", fits=2)
    one, other = (fitted.model for fitted in run.fits)
    np.testing.assert_allclose(one.part.weights, other.part.weights, atol=1e-3)


# shorter shares


def shortened(values: Ring, shares: Ring, bits: int, engine: str) -> Any:
    """Numbers that are shared between two parties, shortened, and put together again."""

    def role(session: Session) -> Ring:
        opened = open_engine(session, Rules(engine), ("telco", "bank"), "bank", "coordinator")
        team = Team("bank", ("telco", "bank"), opened)
        share = shares if session.party == "telco" else values - shares
        (found,) = hidden_weights._shortened(team, [{"telco": share[:, np.newaxis]}], bits)
        finish(opened)
        return found["telco"][:, 0]

    def coordinator(session: Session) -> None:
        serve(open_engine(session, Rules(engine), ("telco", "bank"), "bank", "coordinator"))

    results = simulate_roles({"telco": role, "bank": role, "coordinator": coordinator}).results
    return (results["telco"] + results["bank"]).view(np.int64)


@pytest.mark.parametrize("engine", ["plain", "shares"])
@pytest.mark.parametrize("bits", [20, 30])
def test_shortening_never_fails(bits: int, engine: str) -> None:
    """Numbers of all sizes up to 2^62, by shares at the edges and anywhere: always within one of the truth."""
    rng = np.random.default_rng(bits)
    sizes = 2.0 ** rng.uniform(0, 61.99, 900)
    values = np.concatenate([(sizes * rng.choice([-1, 1], 900)).astype(np.int64), [0, 1, -1, 2**62 - 1, 1 - 2**62]])
    edges = np.array([0, 1, 2**62, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1], np.uint64)
    shares = rng.integers(0, 2**64, len(values), np.uint64)
    shares[:700:2] = np.resize(edges, 350)
    found = shortened(values.view(np.uint64), shares, bits, engine)
    off = [int(ours) * 2**bits - int(truth) for ours, truth in zip(found, values, strict=True)]
    assert max(map(abs, off)) <= 2**bits


def test_shortening_is_right_in_the_mean() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(-(2**40), 2**40, 4000)
    found = shortened(values.view(np.uint64), rng.integers(0, 2**64, 4000, np.uint64), 20, "shares")
    assert abs(np.mean(found - values / 2**20)) < 0.05


# failing


def test_paillier_has_no_shares_to_go_on_with(together: Make) -> None:
    with pytest.raises(PlanError, match="reveal"):
        together(LinearParameters(**FINAL), engine="paillier")


def test_divergence_is_noticed_at_the_end(together: Make) -> None:
    with pytest.raises(Diverged, match=r"64.*rate"):
        together(LinearParameters(**FINAL | {"epochs": 8}, learning_rate=20.0))


def test_batches_whose_sums_would_not_fit_are_refused(together: Make, scene: Make) -> None:
    data = scene(15_000)
    parameters = LinearParameters(reveal="final", classes=3, batch_rows=15_000)
    with pytest.raises(InputError, match=r"batch_rows.* 14563"):
        together(parameters, data=data)


def test_shares_of_the_wrong_shape_are_refused(together: Make) -> None:
    def cut_gradient(_: str, message: Any) -> Any:
        return replace(message, values=message.values[1:]) if isinstance(message, GradientShares) else message

    with pytest.raises(ProtocolError, match="GradientShares from shop"):
        together(LinearParameters(**FINAL), "three", tamper={"shop": cut_gradient})

    def cut_weights(_: str, message: Any) -> Any:
        return replace(message, values=message.values[1:]) if isinstance(message, LastShare) else message

    with pytest.raises(ProtocolError, match="LastShare from bank"):
        together(LinearParameters(**FINAL), tamper={"bank": cut_weights})
