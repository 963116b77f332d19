"""A clinic gets its table for all people of the registry: the one that pooled columns would give, in its own types."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.complete.table import GENERATED, NOT_FILLED, PREDICTED, REAL
from unpooled.data.restore import restored
from unpooled.run.simulate import Outcome

FOUR = ("clinic", "registry", "insurer", "coordinator")
COMMON, OTHERS = 130, 30
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
COLUMNS = ("lab", "visits", "seen", "smoker", "stage", "ward")
ORIGINS = [REAL, PREDICTED, GENERATED, NOT_FILLED]


def cells(frame: pl.DataFrame) -> pl.DataFrame:
    """Cells as plain values: which type a column has is another matter."""
    texts = pl.selectors.categorical() | pl.selectors.enum() | pl.selectors.by_dtype(pl.Boolean)
    return frame.with_columns(texts.cast(pl.String), pl.selectors.numeric().cast(pl.Float64))


# Equal to pooled columns


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="shares"),
        pytest.param({"parties": FOUR, "measure": "max", "threshold": 0.3}, id="shares, two passive parties"),
        pytest.param({"engine": "plain", "predict": {"confidence": "calibrated", "rounds": 2}}, id="plain, calibrated"),
        pytest.param({"parties": FOUR, "columns": ["visits", "ward"]} | PAILLIER, id="paillier, two passive parties"),
        pytest.param({"columns": ["smoker", "lab"], "model": {"learner": "rf", "hide_nodes": True}}, id="forest"),
    ],
)
def test_the_table_is_that_of_pooled_columns(completing: Any, settings: dict[str, Any]) -> None:
    plan, generate = completing.plan(**settings), {"draws": 2}
    outcome = completing.run(plan, clinic={"generate": generate})
    pooled, found = completing.pooled(plan, **generate), outcome.tables["clinic"]
    assert cells(found["completed"]).equals(cells(pooled.table))
    assert found["provenance"].equals(pooled.provenance)
    assert found["confidence"].equals(pooled.confidence)
    for number, draw in enumerate(pooled.draws, start=1):
        assert cells(found["draws"].filter(pl.col("draw") == number).drop("draw")).equals(cells(draw))
    assert outcome.results["clinic"]["cells"][PREDICTED] >= OTHERS


# What the clinic gets


@pytest.fixture(scope="module")
def done(
    tmp_path_factory: pytest.TempPathFactory, completing_in: Callable[[Path], Any]
) -> tuple[Any, Outcome[dict[str, Any]]]:
    """One run, of which only the clinic's columns lab and stage are predicted."""
    completing = completing_in(tmp_path_factory.mktemp("done"))
    generate = {
        "draws": 2,
        "weight": "sure",
        "completer": {"completer": "hot-deck"},
        "groups": [
            {"columns": ["visits", "seen"], "completer": {"completer": "marginal"}},
            {"columns": ["ward"], "completer": {"completer": "missing"}},
        ],
    }
    plan = completing.plan(columns=["lab", "stage"], engine="plain")
    return completing, completing.run(plan, clinic={"generate": generate})


def test_columns_keep_their_order_types_and_range(done: tuple[Any, Outcome[dict[str, Any]]]) -> None:
    completing, outcome = done
    table, own = outcome.tables["clinic"]["completed"], completing.frames["clinic"]
    assert table.columns == ["handle", *COLUMNS, "sure"]
    assert table.height == COMMON + OTHERS
    for name in COLUMNS:
        assert table[name].dtype == own[name].dtype, name
        if name in ("lab", "visits", "seen"):
            assert table[name].min() == own[name].min()
            assert table[name].max() == own[name].max()
        else:
            assert set(table[name].drop_nulls()) <= set(own[name])


def test_each_cell_says_where_it_is_from_and_how_sure_it_is(done: tuple[Any, Outcome[dict[str, Any]]]) -> None:
    completing, outcome = done
    table, origin, sure = (outcome.tables["clinic"][name] for name in ("completed", "provenance", "confidence"))
    handles = outcome.tables["clinic"]["handles"]
    real = completing.frames["clinic"].join(handles, on="id").select("handle", *COLUMNS)
    assert set(table["handle"]) > set(real["handle"])
    joined = table.join(real, on="handle", how="left", suffix="_own", maintain_order="left")
    ways = {"lab": PREDICTED, "stage": PREDICTED, "ward": NOT_FILLED}
    for name in COLUMNS:
        known = joined[f"{name}_own"].is_not_null()
        assert origin[name].to_list() == [REAL if one else ways.get(name, GENERATED) for one in known]
        assert joined.filter(known)[name].equals(joined.filter(known)[f"{name}_own"], check_names=False)
        assert (sure[name].filter(known) == 1).all()
        assert sure[name].is_between(0, 1).all()
        assert table[name].is_null().equals(origin[name] == NOT_FILLED, check_names=False)
        assert (sure[name].filter(origin[name] == NOT_FILLED) == 0).all()
    weights = sure.select(pl.mean_horizontal(COLUMNS)).to_series()
    assert table["sure"].equals(weights, check_names=False)


def test_draws_keep_what_is_real(done: tuple[Any, Outcome[dict[str, Any]]]) -> None:
    _, outcome = done
    tables = outcome.tables["clinic"]
    draws, real = tables["draws"], (tables["provenance"].select(COLUMNS) == REAL)
    assert draws["draw"].unique().sort().to_list() == [1, 2]
    first, second = (draws.filter(pl.col("draw") == number).drop("draw") for number in (1, 2))
    for name in COLUMNS:
        assert first[name].dtype == tables["completed"][name].dtype
        assert first[name].filter(real[name]).equals(tables["completed"][name].filter(real[name]))
    assert not first["visits"].equals(second["visits"])


def test_only_the_registry_can_trace_a_handle(done: tuple[Any, Outcome[dict[str, Any]]]) -> None:
    completing, outcome = done
    own, theirs = outcome.tables["clinic"]["handles"], outcome.tables["registry"]["handles"]
    assert set(own["id"]) == set(completing.frames["clinic"]["id"])
    assert set(theirs["id"]) == set(completing.frames["registry"]["id"])
    assert set(own.rows()) < set(theirs.rows())
    assert set(outcome.tables["clinic"]["completed"]["handle"]) == set(theirs["handle"])
    others = set(theirs["id"]) - set(own["id"])
    for path in (completing.root / "run" / "clinic").rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert not [one for one in others if one.encode() in content], path
    assert sorted(outcome.tables["registry"]) == ["aligned", "handles"]


def test_cells_that_are_not_sure_enough_are_not_filled(completing: Any) -> None:
    plan = completing.plan(columns=["visits"], engine="plain")
    found = completing.run(plan, clinic={"generate": {"least_confidence": 0.999}}).tables["clinic"]
    unsure = found["confidence"]["visits"] < 0.999
    assert 0 < unsure.sum() <= OTHERS
    assert (found["provenance"]["visits"] == NOT_FILLED).equals(unsure, check_names=False)
    assert found["completed"]["visits"].is_null().equals(unsure, check_names=False)


def test_a_csv_file_has_the_same_cells(completing: Any, done: tuple[Any, Outcome[dict[str, Any]]]) -> None:
    generate = {"format": "csv", "completer": {"completer": "marginal"}}
    plan = completing.plan(columns=["lab", "stage"], engine="plain")
    outcome = completing.run(plan, clinic={"generate": generate})
    table = outcome.tables["clinic"]["completed"]
    assert (completing.root / "run" / "clinic" / "completed.csv").exists()
    assert table.schema["seen"] == pl.Date
    assert table.schema["visits"] == pl.Int64
    assert table["lab"].equals(done[1].tables["clinic"]["completed"]["lab"])


TYPED = {
    "lab": pl.Float32,
    "visits": pl.UInt8,
    "seen": pl.Datetime("us"),
    "stage": pl.Enum(["early", "middle", "late"]),
    "ward": pl.Categorical,
}


def test_types_of_a_parquet_file_come_back(completing: Any) -> None:
    clinic = completing.frames["clinic"].with_columns(pl.col(name).cast(dtype) for name, dtype in TYPED.items())
    plan = completing.plan(columns=["visits", "seen", "stage"], engine="plain")
    outcome = completing.run(plan, frames={"clinic": clinic})
    table = pl.read_parquet(completing.root / "run" / "clinic" / "completed.parquet")
    assert {name: table.schema[name] for name in TYPED} == TYPED
    assert table["smoker"].dtype == pl.Boolean
    assert table.null_count().sum_horizontal()[0] == 0
    assert outcome.results["clinic"]["cells"][PREDICTED] == 3 * OTHERS


@pytest.mark.parametrize(
    ("kind", "dtype", "cell", "came"),
    [
        ("number", pl.Int16(), 4.0, 4),
        ("date", pl.Datetime("ms"), date(2024, 2, 3), datetime(2024, 2, 3)),
        ("boolean", pl.Boolean(), True, True),
        ("category", pl.String(), "b", "b"),
        (("a", "b"), pl.String(), "b", "b"),
    ],
)
def test_a_type_of_a_source_is_restored(kind: Any, dtype: pl.DataType, cell: Any, came: Any) -> None:
    ordered = pl.Enum(kind) if isinstance(kind, tuple) else None
    found = restored(pl.Series("x", [cell, None], dtype=ordered), kind, dtype, whole=True)
    assert found.dtype == dtype
    assert found.to_list() == [came, None]


def test_texts_of_dates_become_dates_and_whole_numbers_of_a_csv_file_integers() -> None:
    assert restored(pl.Series([date(2024, 2, 3)]), "date", pl.String(), whole=True).dtype == pl.Date
    assert restored(pl.Series([4.0]), "number", None, whole=True).dtype == pl.Int64
    assert restored(pl.Series([4.5]), "number", None, whole=False).dtype == pl.Float64


# How columns are chosen


def test_a_list_of_an_earlier_run_chooses_the_same_columns(completing: Any) -> None:
    first = completing.run(completing.plan(measure="max", engine="plain"), "first")
    found = completing.root / "first" / "clinic" / "screening.json"
    again = completing.run(
        completing.plan(measure="list", engine="plain"), "again", clinic={"generate": {"screening": str(found)}}
    )
    ways = [{one["name"]: one["way"] for one in outcome.results["clinic"]["completed"]} for outcome in (first, again)]
    assert ways[0] == ways[1]
    assert set(ways[0].values()) == {PREDICTED, GENERATED}
    assert first.tables["clinic"]["screening"]["column"].to_list()[-1] == "ward"
    kinds = {entry.kind for entry in again.ledgers["registry"].entries}
    assert not kinds & {"AssociationsNeeded", "AssociationRequest", "RankNorms"}


def test_a_threshold_that_no_column_passes_leaves_all_to_completers(completing: Any) -> None:
    outcome = completing.run(completing.plan(measure="mean", threshold=1.0, engine="plain"))
    cells = outcome.results["clinic"]["cells"]
    assert cells[PREDICTED] == 0
    assert cells[NOT_FILLED] == 0
    assert outcome.results["clinic"]["warning"].startswith("threshold 1 is high")
    assert "SplitSides" not in {entry.kind for entry in outcome.ledgers["registry"].entries}


def test_associations_are_for_the_report_and_change_nothing(completing: Any) -> None:
    without, known = (
        completing.run(completing.plan(columns=["lab"], engine="plain", associations=wanted), str(wanted))
        for wanted in (False, True)
    )
    assert "associations" not in without.results["clinic"]
    values = known.results["clinic"]["associations"]["values"]
    assert sorted(np.shape(values)) == [3, len(COLUMNS)]
    one, other = (outcome.tables["clinic"]["completed"] for outcome in (without, known))
    assert one.equals(other)
