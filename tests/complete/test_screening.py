"""Which columns can be predicted, by every measure; the list is saved and read again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2_contingency
from scipy.stats.contingency import association

from unpooled.complete.association import Contingency
from unpooled.complete.column_model import column_model
from unpooled.complete.screening import (
    Screening,
    Strength,
    by_contingency,
    by_correlation,
    by_gain,
    cramers_v,
    gains_of,
    help_screen,
    load,
    save,
    screen,
    threshold_warning,
)
from unpooled.complete.self_training import Prediction
from unpooled.complete.variables import Variable, variable_of
from unpooled.data.coding import Column
from unpooled.errors import InputError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.team import Team
from unpooled.vertical.trees.parameters import GbdtParameters

NAMES = ("weak", "strong", "mixed")
CORRELATIONS = np.array([[0.01, -0.9, 0.1], [-0.02, 0.8, 0.7]])


@pytest.mark.parametrize(
    ("measure", "strengths"), [("mean", [0.85, 0.4, 0.015]), ("max", [0.9, 0.7, 0.02])], ids=["mean", "max"]
)
def test_the_strongest_come_first(measure: str, strengths: list[float]) -> None:
    found = by_correlation(NAMES, CORRELATIONS, 200, measure)  # type: ignore[arg-type]
    assert [each.column for each in found.columns] == ["strong", "mixed", "weak"]
    assert [each.strength for each in found.columns] == pytest.approx(strengths)
    assert found.chosen(0.5) == (("strong",) if measure == "mean" else ("strong", "mixed"))


def test_significance_is_corrected_for_the_number_of_tests() -> None:
    found = by_correlation(NAMES, CORRELATIONS, 200, "max")
    assert found.chosen() == ("strong", "mixed")
    rng = np.random.default_rng(1)
    chance = rng.normal(size=(50, 40)) / np.sqrt(500)  # correlations of unrelated columns over 500 rows
    assert by_correlation([f"c{place}" for place in range(40)], chance, 500, "max").chosen() == ()


def test_without_passive_columns_nothing_can_be_predicted() -> None:
    found = by_correlation(NAMES, np.empty((0, 3)), 200, "mean")
    assert found.chosen() == found.chosen(0.0) == ()


def test_cramers_v_is_that_of_scipy_but_for_its_bias() -> None:
    rng = np.random.default_rng(3)
    left = rng.integers(3, size=20_000)
    right = np.where(rng.random(20_000) < 0.4, left, rng.integers(3, size=20_000))
    table = np.histogram2d(left, right, [range(4), range(4)])[0].astype(np.int64)
    value, chance = cramers_v(table)
    assert value == pytest.approx(association(table, method="cramer"), abs=0.002)
    assert chance < 1e-6
    unrelated = np.histogram2d(left, rng.integers(3, size=20_000), [range(4), range(4)])[0].astype(np.int64)
    value, chance = cramers_v(unrelated)
    assert value < 0.02
    assert chance == pytest.approx(chi2_contingency(unrelated).pvalue, abs=0.02)


@pytest.mark.parametrize("table", [np.zeros((2, 2)), np.array([[5, 0], [3, 0]]), np.array([[1, 0], [0, 0]])])
def test_a_table_without_two_classes_shows_no_association(table: np.ndarray) -> None:
    assert cramers_v(table.astype(np.int64)) == (0.0, 1.0)


def test_counts_choose_categories_that_go_together() -> None:
    same, apart = np.array([[50, 0], [0, 50]]), np.array([[25, 25], [25, 25]])
    counts = Contingency((np.concatenate([same, apart], axis=1), np.concatenate([apart, apart], axis=1)), (2, 2))
    found = by_contingency(("tied", "free"), counts, 100)
    assert found.chosen() == ("tied",)
    assert found.columns[0].strength == pytest.approx(1.0, abs=0.02)
    assert found.columns[1].strength == 0.0


def variable(name: str, values: np.ndarray, levels: tuple[str, ...] = ()) -> Variable:
    kind = "category" if levels else "number"
    column = Column(name=name, kind=kind, levels=levels, low=None, high=None, whole=False, spread=0.0)
    return variable_of(column, values)


def predicted(variable: Variable, held_out: np.ndarray) -> Prediction:
    rows = len(variable.values)
    column = column_model(variable, held_out, np.ones(rows, bool), None)
    return Prediction(variable, column, held_out, variable.values, np.ones(rows), np.zeros(rows, np.int64), held_out)


def test_gains_are_those_over_the_marginal() -> None:
    rng = np.random.default_rng(4)
    truth = rng.normal(size=2000)
    near, far = truth[:, np.newaxis] + rng.normal(size=(2000, 1)) * 0.5, rng.normal(size=(2000, 1)) * 0.01
    labels = (truth > 0).astype(float)
    sure = np.where(labels[:, np.newaxis] == [0, 1], 0.9, 0.1)
    variables = [
        predicted(variable("near", truth), near),
        predicted(variable("far", truth), far),
        predicted(variable("class", labels, ("no", "yes")), sure),
    ]
    gains, errors = gains_of(variables)
    assert gains[0] == pytest.approx(0.75, abs=0.03)
    assert gains[1] == pytest.approx(0.0, abs=0.01)
    assert gains[2] == pytest.approx(1 - np.log(0.9) / np.log(0.5), abs=0.01)
    assert by_gain(("near", "far", "class"), gains, errors, 2000).chosen() == ("class", "near")


@pytest.mark.parametrize("measure", ["mean", "max", "cramer", "gain"])
def test_parties_screen_together(measure: Any) -> None:
    rng = np.random.default_rng(6)
    rows = 400
    registry = rng.normal(size=(rows, 2))
    values = {"tied": registry[:, 0] + rng.normal(size=rows) / 4, "free": rng.normal(size=rows), "one": np.ones(rows)}
    own = [variable(name, each) for name, each in values.items()]
    theirs = [variable(name, each) for name, each in zip("ab", registry.T, strict=True)]
    small = GbdtParameters(trees=5, depth=2)

    def opened(session: Session) -> Engine:
        rules = Rules("shares", questions=10_000)
        return open_engine(session, rules, ("clinic", "registry"), "clinic", "coordinator")

    def owner(session: Session) -> Any:
        team = Team("clinic", ("clinic", "registry"), opened(session), "rows")
        active = session.party == "clinic"
        found = screen(team, own, measure, small, 1) if active else help_screen(team, theirs, rows, measure, small)
        finish(team.products)
        return found

    roles: dict[str, Any] = {"clinic": owner, "registry": owner}
    outcome = simulate_roles(roles | {"coordinator": lambda session: serve(opened(session))})
    found = outcome.results["clinic"]
    assert found.measure == measure
    assert found.chosen() == ("tied",)
    assert {each.column for each in found.columns} == set(values)
    assert found.columns[-1].strength < 0.1 < found.columns[0].strength


def test_a_list_is_saved_and_read_again(tmp_path: Path) -> None:
    written = by_correlation(NAMES, CORRELATIONS, 200, "max")
    save(written, tmp_path / "screening.json")
    assert load(tmp_path / "screening.json") == written


@pytest.mark.parametrize("text", ["", "{}", '{"measure": "max", "rows": -1, "columns": []}'])
def test_a_damaged_list_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "list.json").write_text(text)
    with pytest.raises(InputError, match=r"list\.json"):
        load(tmp_path / "list.json")
    with pytest.raises(InputError, match=r"absent\.json"):
        load(tmp_path / "absent.json")


def test_unusual_thresholds_are_warned_of() -> None:
    assert threshold_warning(0.5) == ""
    assert "low" in threshold_warning(0.1)
    assert "high" in threshold_warning(0.9)


def test_strengths_lie_between_0_and_1() -> None:
    with pytest.raises(ValueError, match="strength"):
        Screening(measure="max", rows=1, columns=(Strength(column="a", strength=2.0),))
