"""Columns that are not predicted, filled by a generator; what it needs is checked before the job starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app
from unpooled.complete.generators import generators
from unpooled.complete.table import GENERATED, PREDICTED
from unpooled.errors import InputError
from unpooled.session import Session

JOB = """
kind = "complete"
[parties]
clinic = {role = "active"}
registry = {role = "passive"}
coordinator = {role = "coordinator"}
[parameters]
columns = ["lab"]
[private.clinic]
consent.rows = true
table = {path = "clinic.csv", id = "id"}
[private.clinic.generate]
groups = [{columns = ["ward", "stage"], completer = {completer = "tvae", epochs = 3}}]
[private.registry]
consent.values = true
table = {path = "registry.csv", id = "id"}
[private.coordinator]
"""


@pytest.fixture
def without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> Any:
        raise ModuleNotFoundError("No module named 'jax'", name="jax")

    monkeypatch.setattr(generators, "_MODELS", dict.fromkeys(generators._MODELS, absent))


def test_a_generator_fills_what_is_not_predicted(completing: Any) -> None:
    model = {"completer": "tvae", "epochs": 3}
    plan = completing.plan(columns=["lab"], engine="plain")
    one, two = (completing.run(plan, name, clinic={"generate": {"completer": model}}) for name in ("one", "two"))
    frames = one.tables["clinic"]
    assert frames["completed"].null_count().sum_horizontal().item() == 0
    assert set(frames["provenance"]["lab"].unique()) == {"real", PREDICTED}
    others = frames["completed"].columns[2:]
    assert all(set(frames["provenance"][name].unique()) == {"real", GENERATED} for name in others)
    assert {column["completer"] for column in one.results["clinic"]["completed"]} == {"", "tvae"}
    seen = set(completing.frames["clinic"]["ward"])
    assert set(frames["completed"]["ward"].cast(str)) <= seen
    confidence = frames["confidence"]["visits"]
    assert 0.0 <= confidence.min() <= confidence.max() <= 1.0  # type: ignore[operator]
    assert frames["completed"].drop("handle").equals(two.tables["clinic"]["completed"].drop("handle"))


def test_the_others_are_told_that_a_training_goes_on(completing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a training that is longer than the plan's timeout would look like a lost party."""
    seen: list[tuple[str, int, int]] = []
    progress = Session.progress

    def spy(session: Session, done: int, total: int) -> None:
        seen.append((session.where, done, total))
        progress(session, done, total)

    monkeypatch.setattr(Session, "progress", spy)
    model = {"completer": "tvae", "epochs": 3, "held_out": 0.0}
    completing.run(completing.plan(columns=["lab"], engine="plain"), clinic={"generate": {"completer": model}})
    own = [one for one in seen if one[0].startswith("generate")]
    assert own == [
        ("generate", 0, 1),
        ("generate/training tvae", 1, 3),
        ("generate/training tvae", 2, 3),
        ("generate/training tvae", 3, 3),
        ("generate/drawing cells by tvae", 0, 1),
        ("generate", 1, 1),
    ]


@pytest.mark.usefixtures("without_jax")
def test_the_dry_run_says_what_a_generator_needs(completing: Any, tmp_path: Path) -> None:
    for party in ("clinic", "registry"):
        completing.frames[party].write_csv(tmp_path / f"{party}.csv")
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    refused = CliRunner().invoke(app, ["run", str(job), "--dry-run", "--no-forecast"])
    assert isinstance(refused.exception, InputError)
    expected = "clinic: generate: the completer 'tvae' needs: pip install 'unpooled[generate]'"
    assert str(refused.exception) == expected
    job.write_text(JOB.replace("tvae", "copula").replace(", epochs = 3", ""))
    assert CliRunner().invoke(app, ["run", str(job), "--dry-run", "--no-forecast"]).exit_code == 0


@pytest.mark.usefixtures("without_jax")
def test_nothing_is_sent_if_a_generator_cannot_be_used(completing: Any) -> None:
    with pytest.raises(InputError, match=r"^clinic: generate: .*pip install 'unpooled\[generate\]'"):
        completing.run(completing.plan(engine="plain"), clinic={"generate": {"completer": {"completer": "vae"}}})
