"""Forecasts beside what jobs then do: rehearsed with few rows and rounds, they meet bytes and messages of many."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.data import example
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob
from unpooled.ledger import Record
from unpooled.run import scaling
from unpooled.run.forecast import Forecast, forecast
from unpooled.run.simulate import simulate_job
from unpooled.secure.shares import state

ROWS = 1600
SMALL_KEYS = {"engine": "paillier", "key_bits": 512, "insecure": True}
TOLD = {"advice": True, "describe": True}
BATCHES = {
    "learner": "linear",
    "classes": 0,
    "batch_rows": 100,
    "insecure_batch": True,
    "epochs": 30,
    "reveal": "gradients",
}


@pytest.fixture(autouse=True)
def rehearse_little(monkeypatch: pytest.MonkeyPatch) -> None:
    little = {"_ROWS": 300, "_TABLE_ROWS": 400, "_SHORT_KEY_ROWS": 540, "_OWN_KEY_ROWS": 100, "_SHORT_KEY_BITS": 256}
    for name, value in little.items():
        monkeypatch.setattr(scaling, name, value)


class Job:
    """A job on the example tables."""

    def __init__(self, kind: str, parameters: dict[str, Any], **settings: Any) -> None:
        made = example_job(kind, Path() if kind == "predict" else None)
        self.plan: Plan = made.plan.model_copy(update={"parameters": parameters, **settings})
        self.privates = {
            name: private.model_copy(
                update={"table": None, "consent": private.consent.model_copy(update={"aided": True})}
            )
            for name, private in made.privates.items()
        }
        frames = example.population(ROWS).tables
        self.tables = {name: _table(name, frame) for name, frame in frames.items() if name in self.plan.parties}

    def checked(self, party: str) -> CheckedJob[Any]:
        return checked(self.plan, party, self.privates[party], self.tables.get(party))

    def forecast(self, *parties: str, common: int | None = None) -> Forecast:
        return forecast([self.checked(party) for party in parties or self.plan.parties], common)

    def run(self, folder: Path) -> dict[str, Record]:
        return simulate_job(self.plan, self.privates, self.tables, folder).ledgers


def _table(name: str, frame: pl.DataFrame) -> Table:
    types = {column: tuple(kind) if isinstance(kind, list) else kind for column, kind in example.TYPES[name].items()}
    return table_from_frame(frame, "id", name, types)  # type: ignore[arg-type]


def off_by(found: Forecast, ledgers: dict[str, Record]) -> float:
    """The largest ratio, either way, of a forecast and the truth: of messages, and of bytes sent and received."""
    ratios = []
    for party, record in ledgers.items():
        cost, sent = found.parties[party], [entry.bytes for entry in record.entries if entry.way == "sent"]
        received = sum(entry.bytes for entry in record.entries if entry.way == "received")
        ratios += [cost.messages / len(sent), cost.sent_bytes / sum(sent), cost.received_bytes / received]
    return max(max(ratio, 1 / ratio) for ratio in ratios)


@pytest.mark.parametrize(
    ("kind", "parameters", "settings"),
    [
        ("align", {}, {}),
        ("align", {"psi": "aided"}, {}),
        ("train", {"model": {"classes": 0, "trees": 30, "depth": 2}}, {}),
        ("train", {"model": {"learner": "xgb", "classes": 0, "trees": 3, "depth": 2, "hide_nodes": True}}, {}),
        ("train", {"model": {"learner": "lgb", "classes": 0, "trees": 20, "leaves": 3, "hide_bags": False}}, {}),
        ("train", {"model": {"learner": "rf", "classes": 0, "trees": 40, "depth": 2}}, {}),
        ("train", {"model": BATCHES}, {}),
        ("train", {"model": BATCHES | {"reveal": "final", "epochs": 12}}, {}),
        ("train", {"model": {"classes": 0, "trees": 4, "depth": 2}}, SMALL_KEYS),
        ("lookalike", {"method": {"iterations": 2, "bags": 4}, "model": {"trees": 4, "depth": 2}} | TOLD, {}),
        ("lookalike", {"method": {"iterations": 1, "bags": 8}, "model": {"trees": 2, "depth": 2}} | TOLD, SMALL_KEYS),
    ],
    ids=lambda value: " ".join(map(str, value.get("model", {}).values())) if isinstance(value, dict) else value,
)
def test_bytes_and_messages_are_half_to_twice_the_forecast(
    kind: str, parameters: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    job = Job(kind, parameters, **settings)
    assert off_by(job.forecast(), job.run(tmp_path)) < 2


def test_predictions_are_forecast_where_all_parts_of_the_model_are(tmp_path: Path) -> None:
    training = Job("train", {"model": {"classes": 0, "trees": 5, "depth": 2}})
    training.run(tmp_path / "model")
    job = Job("predict", {})
    for party in job.plan.owners:
        changed = {"model": tmp_path / "model" / party}
        job.privates[party] = job.privates[party].model_copy(update=changed)
    assert off_by(job.forecast(), job.run(tmp_path / "run")) < 2
    with pytest.raises(InputError, match="parts of the model"):
        job.forecast("bank")


def test_one_party_says_what_it_guesses_and_comes_near(tmp_path: Path) -> None:
    """The bank knows its own table; what the telco has it guesses, and its own rows are not all in common."""
    job = Job("train", {"model": {"classes": 0, "trees": 8, "depth": 2}})
    alone, together = job.forecast("bank"), job.forecast()
    assert not together.guesses
    assert alone.common == job.tables["bank"].frame.n_unique("id") > together.common
    (guess,) = alone.guesses
    assert guess.startswith("telco")
    assert 0.5 < alone.parties["bank"].sent_bytes / together.parties["bank"].sent_bytes < 2
    told = job.forecast("bank", common=together.common)
    assert told.common == together.common


@pytest.mark.parametrize(("depth", "guessed"), [(2, False), (9, True)])
def test_what_a_rehearsal_cannot_tell_of_deep_trees_is_said(depth: int, guessed: bool) -> None:
    found = Job("train", {"model": {"classes": 0, "trees": 1, "depth": depth}}, **SMALL_KEYS).forecast()
    assert [guess.startswith("how large trees become") for guess in found.guesses] == [True] * guessed


@pytest.mark.parametrize("party", ["shop", "coordinator"])
def test_who_has_no_columns_guesses_those_of_the_others(party: str) -> None:
    found = Job("lookalike", {"method": {"iterations": 1, "bags": 1}, "model": {"trees": 1}} | TOLD).forecast(party)
    assert list(found.parties) == ["shop", "telco", "bank", "coordinator"]
    assert found.common == (10 * 72 if party == "shop" else 10_000)
    assert all(cost.messages and cost.sent_bytes and cost.received_bytes for cost in found.parties.values())
    assert any("columns of numbers" in guess for guess in found.guesses)


def test_more_common_rows_cost_more() -> None:
    job = Job("train", {"model": {"classes": 0, "trees": 3, "depth": 2}})
    few, many = job.forecast(common=1_000), job.forecast(common=100_000)
    for party in job.plan.parties:
        assert 20 < many.parties[party].sent_bytes / few.parties[party].sent_bytes < 200
        assert many.parties[party].peak_memory_mb >= few.parties[party].peak_memory_mb


def test_a_rehearsal_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "3")
    monkeypatch.setattr("tempfile.tempdir", None)
    threads, ahead = set(threading.enumerate()), state.most_bytes_ahead
    job = Job("align", {})
    job.privates["telco"] = Private()
    job.forecast(common=100)
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) == threads
    assert (os.environ["LOKY_MAX_CPU_COUNT"], state.most_bytes_ahead) == ("3", ahead)


def test_without_a_row_in_common_there_is_no_forecast() -> None:
    job = Job("align", {})
    job.tables["telco"] = _table("telco", example.population(ROWS).tables["telco"].with_columns(id="x" + pl.col("id")))
    with pytest.raises(InputError, match="in common"):
        job.forecast()


def test_a_job_that_takes_its_data_from_an_earlier_run_has_no_forecast() -> None:
    made = example_job("deliver", Path())
    with pytest.raises(InputError, match="earlier run"):
        forecast([checked(made.plan, party, private) for party, private in made.privates.items()])
