"""Activations: the same on every engine, within their limits, sent once, and of use to the party that receives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook
from unpooled.complete.completers.from_sklearn import IterativeSettings
from unpooled.complete.vf_gain.bottom import (
    RADIUS,
    STEPS_OF_NOISE,
    clipped,
    explained,
    features_of,
    limited,
    noisy,
    output_of,
    standardised,
)
from unpooled.complete.vf_gain.filling import fill_with_activations
from unpooled.complete.vf_gain.outline import activations_outline
from unpooled.complete.vf_gain.privacy import Noise, noise_for
from unpooled.complete.vf_gain.protocol import (
    Activations,
    FeatureCount,
    GradientComes,
    Lent,
    gather_activations,
    gradient_of,
    lend_activations,
)
from unpooled.complete.vf_gain.settings import VfGainSettings
from unpooled.data.table import table_from_frame
from unpooled.errors import PeerFailed, ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.outline import Setup
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.team import Team

COMMON, ROWS = 300, 2_000
SETTINGS = VfGainSettings(hidden=20, units=2)


def tables(seed: int = 1) -> dict[str, Floats]:
    """Two passive parties and the cells of the active one, whose first two columns go with a trait that all share."""
    rng = np.random.default_rng(seed)
    trait = rng.standard_normal(ROWS)
    registry = 0.6 * trait[:, np.newaxis] + rng.standard_normal((ROWS, 6))
    insurer = 0.6 * trait[:, np.newaxis] + rng.standard_normal((ROWS, 4))
    registry[rng.random(registry.shape) < 0.05] = np.nan
    cells = rng.standard_normal((ROWS, 4))
    cells[:, :2] = 0.9 * trait[:, np.newaxis] + 0.4 * cells[:, :2]
    return {"clinic": cells, "registry": registry, "insurer": insurer}


def together(
    engine: str = "shares",
    settings: VfGainSettings = SETTINGS,
    parties: tuple[str, ...] = ("registry", "insurer"),
    active: Any = None,
    **lending: Any,
) -> Any:
    data, owners = tables(), ("clinic", *parties)

    def opened(session: Session) -> Engine:
        rules = Rules(engine, key_bits=512, insecure=True)  # type: ignore[arg-type]
        return open_engine(session, rules, owners, "clinic", "coordinator")

    def owner(session: Session) -> Any:
        team = Team("clinic", owners, opened(session), "rows")
        if session.party == "clinic":
            ask = active or gather_activations
            found = ask(team, settings, data["clinic"][:COMMON], ROWS)
        else:
            rng = np.random.default_rng(3)
            found = lend_activations(team, settings, data[session.party], COMMON, rng, **lending)
        finish(team.products)
        return found

    roles: dict[str, Any] = dict.fromkeys(owners, owner)
    return simulate_roles(roles | {"coordinator": lambda session: serve(opened(session))}, timeout=120)


@pytest.mark.parametrize("engine", ["shares", "paillier"])
def test_every_engine_and_number_of_parties_gives_the_same_network(engine: str) -> None:
    found, plain = (together(name).results for name in (engine, "plain"))
    for party in ("registry", "insurer"):
        lent: Lent = found[party]
        assert (lent.points == plain[party].points).all()
        assert (np.linalg.norm(lent.points, axis=1) <= RADIUS * np.sqrt(2) + 1e-9).all()
        assert (lent.activations != plain[party].activations).any()  # noise is new in every run
    assert found["clinic"].shape == (ROWS, 4)
    both = np.hstack([found["registry"].activations, found["insurer"].activations])
    assert (found["clinic"] == both).all()


def test_the_network_is_the_reduced_rank_regression_of_the_cells() -> None:
    data = tables()
    lent: Lent = together("plain", SETTINGS.model_copy(update={"column_limit": 1.0}), ("registry",)).results["registry"]
    columns = standardised(data["registry"])
    features = features_of(columns, SETTINGS.hidden, COMMON // 10, np.random.default_rng(3))
    gradient = gradient_of(data["clinic"][:COMMON], SETTINGS.directions)
    some, width = features[:COMMON], features.shape[1]
    stacked = np.vstack([some, np.sqrt(width) * np.eye(width)])  # ridge as least squares with further rows
    weights = np.linalg.lstsq(stacked, np.vstack([gradient, np.zeros((width, gradient.shape[1]))]), rcond=None)[0]
    answers = features @ weights
    first = np.linalg.svd(answers[:COMMON] - answers[:COMMON].mean(axis=0), full_matrices=False)[2][0]
    trait = answers @ first
    solved = np.linalg.lstsq(np.column_stack([np.ones(ROWS), lent.points]), trait, rcond=None)
    unexplained = solved[1][0] / ((trait - trait.mean()) ** 2).sum()
    assert unexplained < 0.25  # clipped, so not the same


def test_noise_is_that_of_the_mechanism_that_needs_less_and_is_never_the_same() -> None:
    few, many = noise_for(8.0, 1e-5, 0.7, 1), noise_for(8.0, 1e-5, 0.7, 32)
    assert few == Noise("laplace", pytest.approx(np.sqrt(2) * 1.4 / 8))
    assert many == Noise("normal", pytest.approx(1.4 * 0.60023, rel=1e-4))
    assert noise_for(1.0, 1e-5, 0.7, 1).spread > noise_for(2.0, 1e-5, 0.7, 1).spread > few.spread
    points = np.zeros((20_000, 2))
    for noise in (few, many):
        one, two = (noisy(points, noise) / STEPS_OF_NOISE for _ in range(2))
        assert one.std() == pytest.approx(1.0, abs=0.03)
        assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.03


@pytest.mark.parametrize(("epsilon", "units"), [(8.0, 1), (2.0, 3), (1.0, 20)])
def test_noise_is_as_private_as_it_says_by_dp_accounting(epsilon: float, units: int) -> None:
    """The points furthest apart: opposite ones of the ball, in the direction in which the mechanism hides least."""
    from dp_accounting.pld import privacy_loss_distribution

    radius = 0.7
    noise = noise_for(epsilon, 1e-5, radius, units)
    if noise.law == "laplace":
        each = privacy_loss_distribution.from_laplace_mechanism(
            noise.spread / np.sqrt(2), sensitivity=2 * radius / np.sqrt(units)
        )
        assert each.self_compose(units).get_delta_for_epsilon(epsilon) < 1e-5  # its sums are rounded upwards
    else:
        one = privacy_loss_distribution.from_gaussian_mechanism(noise.spread, sensitivity=2 * radius)
        assert one.get_epsilon_for_delta(1e-5) == pytest.approx(epsilon, rel=1e-3)


def test_what_is_explained_is_found_whatever_its_form() -> None:
    rng = np.random.default_rng(6)
    seen = rng.standard_normal((20_000, 1))
    noise = rng.standard_normal((20_000, 3))
    columns = np.hstack([seen + noise[:, :1], seen**2 / np.sqrt(2) + noise[:, 1:2], noise[:, 2:]])
    assert explained(seen, columns) == pytest.approx([0.5, 0.5, 0.0], abs=0.04)
    assert (explained(seen, np.zeros((20_000, 2))) == 0.0).all()


def test_activations_explain_no_more_of_any_column_than_the_limit() -> None:
    rng = np.random.default_rng(2)
    trait = rng.standard_normal((20_000, 1))
    columns = standardised(np.hstack([0.9 * trait, 0.7 * trait, 0.5 * trait]) + 0.4 * rng.standard_normal((20_000, 3)))
    noise = noise_for(8.0, 1e-5, RADIUS, 1)
    assert explained(noisy(clipped(trait, RADIUS), noise), columns).max() > 0.3
    bound = limited(trait, columns, RADIUS, noise, 0.09)
    seen = noisy(bound, noise)
    assert 0.07 < explained(seen, columns).max() < 0.1
    half = rng.random(len(seen)) < 0.5
    for column in columns.T:
        linear = np.corrcoef(seen[:, 0], column)[0, 1] ** 2
        decoder = HistGradientBoostingRegressor(max_iter=30, random_state=1).fit(seen[half], column[half])
        away = decoder.predict(seen[~half]) - column[~half]
        assert max(linear, 1.0 - (away**2).mean() / column[~half].var()) < 0.1


def test_a_gradient_tells_a_passive_party_little_of_single_cells() -> None:
    """The least squares solution for the active party's components, from all that a passive party is shown."""
    data = tables()
    noise_alone = np.random.default_rng(8).standard_normal((ROWS, 6))  # columns that go with nothing
    features = features_of(standardised(noise_alone), 60, COMMON // 10, np.random.default_rng(3))[:COMMON]
    gradient = gradient_of(data["clinic"][:COMMON], 4)
    guessed = np.linalg.lstsq(features.T, features.T @ gradient, rcond=None)[0]
    told = 1.0 - ((guessed - gradient) ** 2).sum() / (gradient**2).sum()
    assert told < 0.15  # a tenth as many numbers as rows


def test_a_resumed_run_sends_the_same_activations(tmp_path: Path) -> None:
    first = together("plain", parties=("registry",), kept=Notebook(tmp_path / "activations"))
    again = together("plain", parties=("registry",), kept=Notebook(tmp_path / "activations"))
    assert (first.results["clinic"] == again.results["clinic"]).all()
    assert len(Notebook(tmp_path / "activations")) == 1


def test_a_passive_party_refuses_what_tells_too_much() -> None:
    for settings, reason in (
        (SETTINGS.model_copy(update={"epsilon": 9.0}), r"registry lets activations tell at most epsilon = 8 .* has 9"),
        (SETTINGS.model_copy(update={"units": 6}), "fewer activations than it has columns"),
    ):
        with pytest.raises(RefusedError, match=reason):
            together("plain", settings, ("registry",))


def test_wrong_messages_are_refused() -> None:
    def greedy(team: Team, settings: VfGainSettings, cells: Floats, rows: int) -> Any:
        team.session.send("registry", GradientComes(COMMON, 65))
        team.session.recv("registry", FeatureCount)

    with pytest.raises((ProtocolError, PeerFailed), match="invalid GradientComes from clinic"):
        together("plain", parties=("registry",), active=greedy)

    def wrong_rows(team: Team, settings: VfGainSettings, cells: Floats, rows: int) -> Any:
        return gather_activations(team, settings, cells, rows - 1)

    with pytest.raises((ProtocolError, PeerFailed), match="invalid Activations from registry"):
        together("plain", parties=("registry",), active=wrong_rows)


def test_the_outline_names_what_is_sent() -> None:
    setup = Setup(("clinic", "registry"), "clinic", "coordinator", Rules("shares"))
    told = {(one.sender, one.kind) for one in activations_outline(setup)}
    ledger = together("shares", parties=("registry",)).ledgers["registry"]
    sent = {("registry", entry.kind) for entry in ledger.entries if entry.way == "sent"} - {
        ("registry", kind) for kind in ("Goodbye", "MaskSeed", "PlanOffer")
    }
    assert ("registry", Activations.__name__) in sent
    assert sent <= told


def test_activations_help_to_fill_rows_that_the_active_party_lacks() -> None:
    data = tables()
    seen = together("plain", SETTINGS.model_copy(update={"column_limit": 1.0, "epsilon": 8.0})).results["clinic"]
    names = ("a", "b", "c", "d")
    cells = pl.DataFrame({name: data["clinic"][:, place] for place, name in enumerate(names)})
    known = pl.Series(np.arange(ROWS) < COMMON)
    frame = cells.select(pl.when(known).then(pl.col(name)).alias(name) for name in names).with_columns(
        id=pl.Series(range(ROWS))
    )
    table = table_from_frame(frame, "id", "clinic")
    done = fill_with_activations(
        table, seen, np.random.default_rng(1), completer=IterativeSettings(completer="iterative")
    )
    assert done.table.frame.columns == table.frame.columns
    assert done.filled.shape == (ROWS, 4)
    filled, truth = done.table.frame["a"][COMMON:].to_numpy(), data["clinic"][COMMON:, 0]
    assert np.sqrt(((filled - truth) ** 2).mean()) < 0.96 * truth.std()


def test_outputs_without_a_gradient_are_nothing() -> None:
    features = features_of(standardised(tables()["registry"]), 5, 10, np.random.default_rng(1))
    assert (output_of(features, np.zeros((features.shape[1], 3)), COMMON, 2) == 0.0).all()
