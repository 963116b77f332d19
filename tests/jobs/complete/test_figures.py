"""What a completed table leaves in results, and what its page and a file of true values make of that."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from pydantic import TypeAdapter

from unpooled.complete.screening import Screening, Strength, by_correlation
from unpooled.complete.variables import variables_of
from unpooled.data.table import table_from_frame
from unpooled.errors import InputError
from unpooled.evaluate.table import TableEvaluation
from unpooled.jobs.complete.choosing import Choice
from unpooled.jobs.complete.evaluation import EVALUATION, evaluate_completed
from unpooled.jobs.complete.figures import _beyond_chance, warn_of_few, why
from unpooled.jobs.complete.lent import lent_importance
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.complete.results import CompletedResult, LentResult
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.report.page import write_report
from unpooled.run.simulate import simulate_job

PEOPLE, COMMON = 300, 120


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small job, and beside it the truth."""
    folder, rng = tmp_path_factory.mktemp("complete"), np.random.default_rng(1)
    ids = [f"p{number}" for number in range(PEOPLE)]
    age = rng.normal(size=PEOPLE)
    truth = pl.DataFrame(
        {
            "id": ids,
            "dose": age + 0.2 * rng.normal(size=PEOPLE),
            "stage": np.where(age > 0, "late", "early"),
            "seen": pl.Series(rng.integers(18_000, 18_100, PEOPLE), dtype=pl.Int32).cast(pl.Date),
            "visits": rng.integers(0, 5, PEOPLE),
        }
    )
    missing = pl.when(pl.int_range(COMMON) < 10).then(None).otherwise(pl.col("dose")).alias("dose")
    own = truth.head(COMMON).with_columns(missing)
    stranger = own.head(1).with_columns(pl.lit("q").alias("id"))
    tables = {
        "registry": table_from_frame(pl.DataFrame({"id": ids, "age": age, "none": 1.0}), "id", "registry"),
        "clinic": table_from_frame(pl.concat([own, stranger]), "id", "clinic"),
    }
    settings = {
        "registry": {"consent": {"values": True}, "policy": {"maximum_splits": 9_999}},
        "clinic": {"consent": {"rows": True}, "generate": {"draws": 1}},
    }
    plan = {
        "kind": "complete",
        "parties": {name: {"role": role} for name, role in (("registry", "passive"), ("clinic", "active"))},
        "engine": "plain",
        "parameters": {
            "columns": ["dose", "stage"],
            "associations": True,
            "predict": {"folds": 2},
            "model": {"trees": 3, "depth": 2},
        },
    }
    privates = {name: Private.model_validate(each | {"seed": 1}) for name, each in settings.items()}
    simulate_job(Plan.model_validate(plan), privates, tables, folder / "run")
    truth.write_csv(folder / "truth.csv")
    return folder / "run"


def completed(run: Path) -> CompletedResult:
    return TypeAdapter(CompletedResult).validate_json((run / "clinic" / "result.json").read_bytes())


def test_a_result_counts_every_cell_once(run: Path) -> None:
    result = completed(run)
    assert (result.rows, result.common, result.others) == (COMMON + 1, COMMON, PEOPLE - COMMON)
    dose, stage, seen, visits = result.completed
    assert [one.why for one in result.completed] == ["named", "named", "not named", "not named"]
    assert dose.in_common == {"real": COMMON - 10, "predicted": 10, "generated": 0, "not filled": 0}
    assert dose.cells["predicted"] == PEOPLE - COMMON + 10
    assert all(sum(one.cells.values()) == PEOPLE for one in result.completed)
    assert stage.first_error is not None
    assert stage.first_error.guess == pytest.approx(max(stage.distribution.real if stage.distribution else ()))
    assert result.unsure_rows.all <= result.unsure_rows.some <= PEOPLE - COMMON + 10
    assert visits.distribution is not None
    assert visits.distribution.edges == (-0.5, 0.5, 1.5, 2.5, 3.5, 4.5)
    assert seen.distribution is not None
    assert sum(seen.distribution.filled) == pytest.approx(1)


def test_a_passive_party_keeps_how_far_predictions_go_by_its_columns(run: Path) -> None:
    lent = TypeAdapter(LentResult).validate_json((run / "registry" / "result.json").read_bytes())
    assert [one.name for one in lent.importance] == ["age", "none"]
    assert lent.importance[0].size[0] > lent.importance[1].size[0] == 0
    assert (lent.limits.splits, lent.limits.questions) == (9_999, None)
    assert lent_importance([]) == []


def test_every_party_gets_its_page(run: Path) -> None:
    write_report(run)
    assert "Associations" in (run / "clinic" / "report.html").read_text()
    page = (run / "registry" / "report.html").read_text()
    assert "handles.csv" in page
    assert "visits" not in page


def test_filled_cells_are_compared_with_the_truth_by_handle(run: Path) -> None:
    clinic, handles = run / "clinic", run / "registry" / "handles.csv"
    found = evaluate_completed(clinic, "clinic", run.parent / "truth.csv", ["id"], handles)
    assert {name: one.cells for name, one in found.columns.items()} == {
        "dose": PEOPLE - COMMON + 10,
        "stage": PEOPLE - COMMON,
        "seen": PEOPLE - COMMON,
        "visits": PEOPLE - COMMON,
    }
    assert found.columns["dose"].errors["r2"] > 0.3
    assert TypeAdapter(TableEvaluation).validate_json((clinic / EVALUATION).read_bytes()) == found
    assert "Compared with the truth" in write_report(clinic).read_text()
    (clinic / EVALUATION).unlink()


def test_a_truth_of_some_people_serves_and_one_of_none_does_not(run: Path, tmp_path: Path) -> None:
    clinic, handles, some = run / "clinic", run / "registry" / "handles.csv", tmp_path / "some.csv"
    truth = pl.read_csv(run.parent / "truth.csv")
    truth.tail(7).rename({"id": "person"}).write_csv(some)
    assert evaluate_completed(clinic, "clinic", some, ["person"], handles).rows == 7
    (clinic / EVALUATION).unlink()
    truth.tail(7).with_columns(pl.lit("x").alias("id") + pl.col("id")).write_csv(some)
    with pytest.raises(InputError, match=r"clinic: .*some\.csv: column 'id': none of its ids has a row"):
        evaluate_completed(clinic, "clinic", some, ["id"], handles)
    with pytest.raises(InputError, match="not a file of handles"):
        evaluate_completed(clinic, "clinic", some, ["id"], run.parent / "truth.csv")
    with pytest.raises(InputError, match=r"result\.json: cannot be read"):
        evaluate_completed(tmp_path, "clinic", some, ["id"], handles)


def test_why_a_column_goes_its_way() -> None:
    frame = pl.DataFrame({"id": range(20), "a": range(20), "b": range(20), "c": [1, 2, *[None] * 18]})
    a, b, c = variables_of(table_from_frame(frame, "id", "clinic"))
    strengths = [("a", 0.75, True), ("b", 0.25, True), ("c", 0.0, False)]
    columns = tuple(Strength(column=name, strength=value, significant=sure) for name, value, sure in strengths)
    screened = Choice(("a",), Screening(measure="gain", rows=20, columns=columns), None)
    assert [why(one, screened, Parameters(threshold=0.5)) for one in (a, b, c)] == ["above", "below", "too few"]
    assert [why(one, screened, Parameters()) for one in (a, b)] == ["significant", "too many"]
    assert [why(one, Choice(("a",), None, None), Parameters(columns=("a",))) for one in (a, b)] == [
        "named",
        "not named",
    ]


def test_columns_filled_by_few_cells_are_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    nothing = {"predicted": 0, "generated": 0, "not filled": 9}
    columns = [
        {"name": "lab", "cells": nothing | {"real": 6, "predicted": 9}},
        {"name": "ward", "cells": nothing | {"real": 30, "generated": 9}},
        {"name": "left", "cells": nothing | {"real": 6}},
    ]
    warn_of_few({"completed": columns}, "clinic")
    assert caplog.messages == ["clinic: column 'lab' has 6 real cells, few to fill it by"]


def test_correlations_are_drawn_as_beyond_chance_where_a_screening_takes_them_for_significant() -> None:
    line = _beyond_chance(200, 6)
    assert line is not None
    for value, significant in ((line - 0.001, False), (line + 0.001, True)):
        matrix = np.array([[value], *[[0.0]] * 5])
        assert by_correlation(["a"], matrix, 200, "max").columns[0].significant == significant
    assert _beyond_chance(3, 6) is None


def test_results_are_json_without_rows(run: Path) -> None:
    text = (run / "clinic" / "result.json").read_text()
    assert "NaN" not in text
    assert json.loads(text)["associations"]["columns"] == ["dose", "stage", "seen", "visits"]
    assert len(json.loads(text)["associations"]["values"][0]) == 2
