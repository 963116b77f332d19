"""A completed table has every row, each cell in its own type, and says where it is from."""

from __future__ import annotations

from datetime import date

import numpy as np
import polars as pl
import pytest

from unpooled.complete.completers.simple import MedianSettings
from unpooled.complete.federated import Columns, SelfTrainingSettings, predict_columns
from unpooled.complete.self_training import Prediction
from unpooled.complete.table import complete_table
from unpooled.complete.variables import variables_of
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.vertical.team import alone
from unpooled.vertical.trees.parameters import GbdtParameters

REAL, ROWS = 80, 200
HANDLES = [f"h{number}" for number in range(ROWS)]


@pytest.fixture(scope="module")
def registry() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, 2))


@pytest.fixture(scope="module")
def clinic(registry: np.ndarray) -> Table:
    first = registry[:REAL]
    frame = pl.DataFrame(
        {
            "id": range(REAL),
            "count": np.rint(10 + 3 * first[:, 0]).astype(int),
            "stage": np.where(first[:, 1] > 0, "late", "early"),
            "seen": [date(2024, 1, 1 + number % 28) for number in range(REAL)],
            "smokes": [number % 3 == 0 for number in range(REAL)],
        }
    )
    return table_from_frame(frame, "id", "clinic")


@pytest.fixture(scope="module")
def predictions(registry: np.ndarray, clinic: Table) -> tuple[Prediction, ...]:
    chosen = [one for one in variables_of(clinic, ROWS) if one.name in ("count", "stage")]
    base, settings = GbdtParameters(trees=10, depth=3), SelfTrainingSettings(rounds=2, folds=2)
    return predict_columns(alone(), base, Columns(registry, ("a", "b")), chosen, settings, 1).predictions


def test_every_cell_says_where_it_is_from(clinic: Table, predictions: tuple[Prediction, ...]) -> None:
    done = complete_table(
        clinic, HANDLES, predictions, MedianSettings(), np.random.default_rng(1), draws=2, least_confidence=0.0
    )
    assert done.table.columns == ["handle", "count", "stage", "seen", "smokes"]
    assert done.table["handle"].to_list() == HANDLES
    assert done.table.drop("handle").null_count().sum_horizontal()[0] == 0
    for name, filled in {
        "count": "predicted",
        "stage": "predicted",
        "seen": "generated",
        "smokes": "generated",
    }.items():
        assert done.provenance[name].to_list() == ["real"] * REAL + [filled] * (ROWS - REAL)
        assert done.table[name].dtype == clinic.frame[name].dtype
        assert done.table[name][:REAL].equals(clinic.frame[name])
    assert done.table["count"].to_list() == np.rint(done.table["count"].to_numpy()).tolist()
    confidence = done.confidence.drop("handle").to_numpy()
    assert (confidence[:REAL] == 1).all()
    assert ((confidence >= 0) & (confidence <= 1)).all()
    assert done.weights[:REAL].tolist() == [1.0] * REAL
    assert done.weights[REAL:].max() < 1


def test_predictions_follow_the_other_partys_columns(
    registry: np.ndarray, clinic: Table, predictions: tuple[Prediction, ...]
) -> None:
    done = complete_table(clinic, HANDLES, predictions, None, np.random.default_rng(1), least_confidence=0.0)
    truth = np.where(registry[REAL:, 1] > 0, "late", "early")
    assert (done.table["stage"][REAL:].to_numpy() == truth).mean() > 0.9


def test_without_a_completer_the_rest_stays_missing(clinic: Table, predictions: tuple[Prediction, ...]) -> None:
    done = complete_table(clinic, HANDLES, predictions, None, np.random.default_rng(1))
    assert done.table["seen"].null_count() == ROWS - REAL
    assert set(done.provenance["seen"][REAL:]) == {"not filled"}
    assert set(done.confidence["seen"][REAL:]) == {0.0}


def test_cells_that_were_never_confident_may_stay_missing(clinic: Table, predictions: tuple[Prediction, ...]) -> None:
    done = complete_table(clinic, HANDLES, predictions, None, np.random.default_rng(1))
    for prediction in predictions:
        name = prediction.variable.name
        assert done.table[name].null_count() == int((prediction.rounds < 0).sum()) > 0


def test_draws_differ_where_cells_were_filled_and_nowhere_else(
    clinic: Table, predictions: tuple[Prediction, ...]
) -> None:
    done = complete_table(clinic, HANDLES, predictions, None, np.random.default_rng(1), draws=2, least_confidence=0.0)
    first, second = done.draws
    assert not first["count"].equals(second["count"])
    assert first["count"][:REAL].equals(second["count"][:REAL])
    assert len(done.training_tables) == 3
    assert done.training_tables[0]["count"].null_count() == ROWS - REAL


def test_nothing_missing_changes_nothing(clinic: Table) -> None:
    done = complete_table(clinic, HANDLES[:REAL], (), MedianSettings(), np.random.default_rng(1))
    assert done.table.drop("handle").equals(clinic.frame.drop("id"))


def test_too_few_handles_and_a_column_of_that_name_are_refused(clinic: Table) -> None:
    with pytest.raises(InputError, match="clinic"):
        complete_table(clinic, HANDLES[:3], (), None, np.random.default_rng(1))
    table = table_from_frame(pl.DataFrame({"id": [1], "handle": [2]}), "id", "clinic")
    with pytest.raises(InputError, match="'handle'"):
        complete_table(table, ["h"], (), None, np.random.default_rng(1))
