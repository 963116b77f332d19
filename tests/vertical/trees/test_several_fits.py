"""Several fits with one engine, and no more than was agreed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees.ensemble import Fitted, Target, fit, help_fit
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, GbdtParameters, XgbParameters

ROWS, OWNERS = 120, ("telco", "bank")


def matrix() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, 4))


def target() -> Target:
    return Target((matrix()[:, 0] * matrix()[:, 2] > 0).astype(float), seed=3)


def together(engine: Any, asked: AnyTrees, agreed: AnyTrees, fits: int = 1) -> list[Fitted]:
    """The bank fits so often; the telco takes part as agreed."""

    def opened(session: Session) -> Engine:
        rules = Rules(engine, key_bits=512, insecure=True, questions=100_000)
        return open_engine(session, rules, OWNERS, "bank", "coordinator")

    def bank(session: Session) -> list[Fitted]:
        team = Team("bank", OWNERS, opened(session), "rows")
        found = [fit(team, asked, Columns(matrix()[:, :2], ("a", "b")), [target()]) for _ in range(fits)]
        finish(team.products)
        return found

    def telco(session: Session) -> list[Fitted]:
        team = Team("bank", OWNERS, opened(session), "rows")
        for _ in range(fits):
            help_fit(team, agreed, Columns(matrix()[:, 2:], ("c", "d")))
        finish(team.products)
        return []

    def coordinator(session: Session) -> list[Fitted]:
        serve(opened(session))
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        return simulate_roles({"telco": telco, "bank": bank, "coordinator": coordinator}).results["bank"]


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("engine", ["shares", "paillier"])
@pytest.mark.parametrize(
    "settings",
    [
        XgbParameters(trees=2, depth=2),
        ForestParameters(trees=2, depth=2, column_fraction=1.0, bootstrap=False, hide_bags=False),
    ],
)
def test_one_engine_serves_for_several_fits(settings: AnyTrees, engine: str, hidden: bool) -> None:
    parameters = settings.model_copy(update={"hide_nodes": hidden})
    first, second = together(engine, parameters, parameters, fits=2)
    np.testing.assert_array_equal(first.scores[0], second.scores[0])
    assert any(tree.first[0] > 0 for tree in first.model.ensembles[0].trees)
    assert first.model.part.name != second.model.part.name


@pytest.mark.parametrize("engine", ["plain", "shares"])
def test_no_more_trees_than_the_plan_names(engine: str) -> None:
    """Nor than fit into as many groups."""
    with pytest.raises(ProtocolError, match=r"Begin from bank.* 4 .* 3"):
        together(engine, GbdtParameters(trees=4, depth=2), GbdtParameters(trees=3, depth=2))
    asked = ForestParameters(trees=6, depth=2, lockstep=2)
    with pytest.raises(RefusedError, match=r"telco.*bank"):
        together(engine, asked, asked.model_copy(update={"trees": 5}))


def test_rows_set_aside_have_no_say_in_splits() -> None:
    """Whatever the columns of the validation rows are, the first tree is the same."""
    parameters = GbdtParameters(trees=1, depth=3, patience=1, validation_fraction=0.3, min_rows=1)
    rng = np.random.default_rng([target().seed, 0])
    aside = np.zeros(ROWS, bool)
    aside[rng.choice(np.arange(ROWS), round(0.3 * ROWS), replace=False)] = True
    bins = np.rint(matrix() * 2)
    other = np.where(aside[:, np.newaxis], -bins, bins)
    names = ("a", "b", "c", "d")
    one, two = (fit(alone(), parameters, Columns(each, names), [target()]) for each in (bins, other))
    assert one.model.ensembles[0].trees[0].values == two.model.ensembles[0].trees[0].values


def test_sums_that_might_not_be_exact_are_refused() -> None:
    rows = 2**23
    columns = Columns(np.zeros((rows, 1)), ("a",))
    with pytest.raises(InputError, match=r"precision.* 8388608 .* 53"):
        fit(alone(), XgbParameters(precision=31), columns, [Target(np.zeros(rows))])
