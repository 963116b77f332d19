"""Logging a party's own side of a run: what is logged, what never is, and that a run does not depend on it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from typer.testing import CliRunner, Result

import regenerate
from unpooled import InputError, TableSettings, Tracking, TrackingError, join, load_plan, log_run
from unpooled.cli import app, jobs, running
from unpooled.cli.tracking import track_finished
from unpooled.jobs.files import write_toml
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob
from unpooled.run.folder import keep_copy
from unpooled.run.simulate import simulate_job
from unpooled.tracking.mlflow_store import _logged
from unpooled.tracking.record import tracked
from unpooled.version import PROTOCOL_VERSION

EVERYTHING = ("result", "ledger", "report", "model")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which the bank and the telco have trained two trees."""
    folder = tmp_path_factory.mktemp("tracking") / "trained"
    regenerate.run_job("train", "xgb", folder)
    return folder


@pytest.fixture
def store(tmp_path: Path) -> str:
    return (tmp_path / "store").as_uri()


def client(store: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=store)


def say(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_settings_and_figures_of_the_own_side_are_logged(run: Path) -> None:
    what = tracked(run / "bank", ("result",))
    result = json.loads((run / "bank" / "result.json").read_text())
    assert (what.name, what.finished, what.ledger) == ("trained bank", True, None)
    assert what.parameters["parameters.model.trees"] == "2"
    assert what.parameters["parameters.model.learner"] == "xgb"
    assert what.parameters["parties.telco.role"] == "passive"
    assert what.metrics["metrics.test.auc"] == result["metrics"]["test"]["auc"]
    assert what.metrics["common"] == 120
    assert what.metrics["sent_bytes"] > 0
    assert what.tags["unpooled.party"] == "bank"
    assert what.tags["unpooled.protocol"] == str(PROTOCOL_VERSION)
    assert [path.name for path in what.files] == ["result.json"]


def test_files_are_logged_only_if_they_are_asked_for_and_never_those_with_ids(run: Path) -> None:
    assert Tracking().artefacts == ("result", "ledger")
    what = tracked(run / "bank", EVERYTHING)
    assert {path.name for path in what.files} == {"result.json", "report.html", "model.json", "preparation.json"}
    assert (run / "bank" / "aligned.csv").exists()
    summary = json.loads(what.ledger or "")
    assert {line["peer"] for line in summary} == {"telco", "coordinator"}
    assert all(line.keys() >= {"way", "message", "discloses", "to", "bytes"} for line in summary)


def test_neither_addresses_nor_the_salt_of_ids_are_logged(run: Path, tmp_path: Path) -> None:
    home = Path(shutil.copytree(run / "bank", tmp_path / "bank"))
    plan = load_plan(home / "plan.toml")
    parties = {name: one.model_copy(update={"address": f"{name}.example:7433"}) for name, one in plan.parties.items()}
    salted = plan.parameters | {"hash": "sha256", "salt": "pepper"}
    write_toml(home / "plan.toml", plan.model_copy(update={"parties": parties, "parameters": salted}))
    written = tracked(home, ("result",)).parameters
    assert written["parameters.hash"] == "sha256"
    assert not [value for value in written.values() if "pepper" in value or ".example" in value]


def test_mlflow_has_what_was_logged_and_is_told_not_to_report_its_use(run: Path, store: str) -> None:
    number = log_run(run / "bank", Tracking(mlflow=store, experiment="two trees", artefacts=EVERYTHING))
    from mlflow.environment_variables import MLFLOW_DISABLE_TELEMETRY

    assert MLFLOW_DISABLE_TELEMETRY.get()
    there, what = client(store).get_run(number), tracked(run / "bank", EVERYTHING)
    assert there.data.params == dict(what.parameters)
    assert there.data.metrics == dict(what.metrics)
    assert there.data.tags.items() >= what.tags.items()
    assert there.info.status == "FINISHED"
    assert there.info.start_time == int(what.started.timestamp() * 1000)
    assert client(store).get_experiment(there.info.experiment_id).name == "two trees"
    logged = {file.path for file in client(store).list_artifacts(number)}
    assert logged == {"result.json", "ledger.json", "report.html", "model.json", "preparation.json"}


def test_many_long_and_odd_names_and_values_keep_to_the_limits_of_mlflow(run: Path, store: str) -> None:
    odd = {f"größe {number}: {'x' * 300}": "y" * 7000 for number in range(150)}
    what = replace(tracked(run / "bank", ()), parameters=odd, metrics={"f(x)": 1.5}, finished=False)
    there = client(store).get_run(_logged(client(store), what, "odd"))
    assert len(there.data.params) == 150
    assert {(len(key), len(value)) for key, value in there.data.params.items()} == {(250, 6000)}
    assert (there.data.metrics, there.info.status) == ({"f_x_": 1.5}, "FAILED")


def test_a_run_of_several_parties_or_one_that_has_not_ended_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="several parties"):
        tracked(run, ())
    home = Path(shutil.copytree(run / "bank", tmp_path / "bank"))
    status = json.loads((home / "status.json").read_text())
    del status["ended"]
    (home / "status.json").write_text(json.dumps(status | {"state": "running"}))
    with pytest.raises(InputError, match="has not ended"):
        tracked(home, ())


def test_a_place_that_cannot_be_used_is_named_without_its_password(run: Path) -> None:
    with pytest.raises(TrackingError, match=r"not logged to odd://server/: ") as caught:
        log_run(run / "bank", Tracking(mlflow="odd://bank:secret@server/"))
    assert "secret" not in str(caught.value)


def test_at_the_end_of_a_run_those_are_logged_that_want_it_and_a_failure_only_warns(
    run: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"bank": Tracking(mlflow=store), "telco": Tracking(mlflow="odd://server"), "coordinator": Tracking()}
    track_finished({run / party: tracking for party, tracking in settings.items()}, quiet=False)
    said = capsys.readouterr()
    assert said.out.startswith(f"logged: {run / 'bank'} to {store}, experiment unpooled, run ")
    assert said.out.count("\n") == 1
    assert said.err.startswith("warning: the run was not logged to odd://server: ")
    assert said.err.endswith(f"\nto log it later: unpooled track {run / 'telco'}\n")


def test_a_party_that_joins_logs_at_the_end(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Mapping[Path, Tracking]] = []
    monkeypatch.setattr(running, "_watched", lambda *_: None)
    monkeypatch.setattr(running, "track_finished", lambda settings, quiet: asked.append(settings))
    plan, wanted = load_plan(run / "plan.toml"), Tracking(mlflow="file:///srv/mlflow")
    job = CheckedJob(plan, parameters_of(plan), "bank", Private(tracking=wanted), None)
    running.take_part(job, run / "bank", quiet=True, as_json=False, attached=False)
    assert asked == [{run / "bank": wanted}]


def test_a_party_that_joins_from_python_is_warned_if_that_fails(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finished(_: object, folder: Path, *__: object, **___: object) -> dict[str, object]:
        shutil.copytree(run / "bank", folder, dirs_exist_ok=True)
        return json.loads((folder / "result.json").read_text())  # type: ignore[no-any-return]

    monkeypatch.setattr("unpooled.run.join.join", finished)
    table = TableSettings(path=regenerate.MODELS / "bank.csv", id="id")
    private = Private(table=table, target="buys", tracking=Tracking(mlflow="odd://server"))
    with pytest.warns(UserWarning, match=r"not logged to odd://server: .*log_run\('.*home', …\) logs it later"):
        found = join(load_plan(run / "plan.toml"), "bank", private, folder=tmp_path / "home")
    assert found.result["common"] == 120


def test_all_parties_on_one_machine_log_at_the_end(tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes are left to other tests: here the parties are threads."""

    def in_threads(plan: Plan, privates: dict[str, Private], folder: Path, _: object) -> dict[str, object]:
        return dict(simulate_job(plan, privates, folder=folder).results)

    monkeypatch.setattr(jobs, "spawn", in_threads)
    parties = {"bank": {"role": "active"}, "telco": {"role": "passive"}}
    tables = {party: {"table": {"path": str(regenerate.MODELS / f"{party}.csv"), "id": "id"}} for party in parties}
    tables["bank"] |= {"tracking": {"mlflow": store}}
    job = {"kind": "check", "parameters": {"round_trips": 1}, "parties": parties, "private": tables}
    (tmp_path / "job.toml").write_text(tomli_w.dumps(job))
    said = say("run", tmp_path / "job.toml", "--run", tmp_path / "run")
    assert said.stdout.splitlines()[-1].startswith(f"logged: {tmp_path / 'run' / 'bank'} to {store}")


def test_the_command_logs_later_with_the_settings_of_the_private_file_or_its_own(run: Path, store: str) -> None:
    missing = say("track", run / "telco")
    assert "telco: its private file is not known any more; name a place with --mlflow" in str(missing.exception)
    keep_copy(run / "telco", Private(tracking=Tracking(mlflow=store, experiment="kept")))
    assert "experiment kept" in say("track", run / "telco").stdout
    for party in ("bank", "coordinator"):
        keep_copy(run / party, Private())
    assert say("track", run).stdout.startswith(f"logged: {run / 'telco'} to ")
    assert "bank: its private file does not say where to log" in str(say("track", run / "bank").exception)
    said = say("track", run, "--mlflow", store, "--artefact", "report").stdout
    assert [line.split(" to ")[0] for line in said.splitlines()] == [
        f"logged: {run / party}" for party in ("bank", "coordinator", "telco")
    ]
    wrong = say("track", run / "bank", "--mlflow", store, "--artefact", "aligned.csv")
    assert "tracking.artefacts.0: must be 'result'" in str(wrong.exception)
