"""A passive party's limits hold for completing a table: for associations, and over all predicted columns together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.complete.association import contingency, help_contingency, help_spearman, spearman
from unpooled.complete.federated import Columns, SelfTrainingSettings, help_predict_columns, predict_columns
from unpooled.complete.variables import variables_of
from unpooled.data.table import table_from_frame
from unpooled.errors import RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.session import Session
from unpooled.vertical.team import Team
from unpooled.vertical.trees.parameters import GbdtParameters

ROWS, OWNERS = 200, ("clinic", "registry")
BASE, ONCE = GbdtParameters(trees=3, depth=2), SelfTrainingSettings(rounds=1, folds=2)


def together(active: Callable[[Team], Any], passive: Callable[[Team], Any], **limits: float) -> dict[str, Any]:
    """What each finds; the registry has limits. At the end it also says how many splits it opened."""

    def owner(session: Session) -> Any:
        mine = limits if session.party == "registry" else {}
        engine = open_engine(session, Rules("plain", questions=500), OWNERS, "clinic", None, **mine)  # type: ignore[arg-type]
        team = Team("clinic", OWNERS, engine, "rows")
        found = (active if session.party == "clinic" else passive)(team)
        return found, engine.opened["rows"]

    return simulate_roles(dict.fromkeys(OWNERS, owner), timeout=60).results


def predict(most_thresholds: int | None = None, **limits: float) -> dict[str, Any]:
    """A number and a class, predicted one after the other."""
    matrix = np.random.default_rng(2).normal(size=(ROWS, 3))
    columns = {"number": matrix[:100, 0], "class": np.where(matrix[:100, 1] > 0, "a", "b")}
    variables = variables_of(table_from_frame(pl.DataFrame({"id": range(100)} | columns), "id", "clinic"), ROWS)
    none, lent = Columns(np.empty((ROWS, 0)), ()), Columns(matrix, ("a", "b", "c"))
    return together(
        lambda team: predict_columns(team, BASE, none, variables, ONCE, 1),
        lambda team: help_predict_columns(team, BASE, lent, ONCE, most_thresholds),
        **limits,
    )


def test_splits_count_over_all_columns_together() -> None:
    _, opened = predict()["registry"]
    predict(most_splits=opened)
    with pytest.raises(RefusedError, match=rf"registry .*{opened - 1} splits"):
        predict(most_splits=opened - 1)


def test_bits_are_limited() -> None:
    with pytest.raises(RefusedError, match=r"registry .* bits"):
        predict(most_bits_per_row=10)


def test_thresholds_are_limited_over_all_columns_together() -> None:
    parts, _ = predict(most_thresholds=4)["registry"]
    assert len(parts) == 3
    assert len({(feature, place) for part in parts.values() for feature, place, _ in part.splits}) <= 4


@pytest.mark.parametrize(
    ("limit", "what"),
    [({"most_bits_per_row": 0.5}, "bits"), ({"most_answered": 4}, "columns")],
    ids=["bits", "columns"],
)
@pytest.mark.parametrize("measure", ["ranks", "counts"])
def test_associations_are_limited(measure: str, limit: dict[str, float], what: str) -> None:
    rng = np.random.default_rng(3)
    numbers, classes = rng.normal(size=(ROWS, 5)), rng.integers(5, size=(ROWS, 1))
    sides: dict[str, tuple[Callable[[Team], Any], Callable[[Team], Any]]] = {
        "ranks": (lambda team: spearman(team, numbers), lambda team: help_spearman(team, numbers)),
        "counts": (lambda team: contingency(team, classes, (5,)), lambda team: help_contingency(team, classes, (5,))),
    }
    with pytest.raises(RefusedError, match=rf"registry .* {what}"):
        together(*sides[measure], **limit)
