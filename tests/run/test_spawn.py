"""A process for each party on this machine: what is completed for them, and what is said when one of them fails."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from unpooled.data import example
from unpooled.errors import InputError, JobFailed, PlanError
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import Job, write_toml
from unpooled.jobs.private import Private
from unpooled.ledger import read_ledger
from unpooled.run import folder as run_folder
from unpooled.run.spawn import explain_failure, spawn, spawn_again


@pytest.fixture
def job(tmp_path: Path) -> Job:
    example.write(tmp_path / "tables", rows=1000)
    job = example_job("check")
    plan = job.plan.model_copy(update={"parameters": {"round_trips": 2, "megabytes": 1}, "timeout": 600.0})
    return Job(plan, {name: private.at(tmp_path / "tables") for name, private in job.privates.items()})


def test_ports_and_certificates_are_made_for_parties_that_have_none(tmp_path: Path, job: Job) -> None:
    results = spawn(job.plan, job.privates, tmp_path / "run")
    assert results["bank"]["rows"] == {"shop": 45, "telco": 900}
    assert results["coordinator"]["table"] is None
    keys = sorted((tmp_path / "run" / ".working").rglob("key.pem"))
    assert [key.parent.name for key in keys] == sorted(job.plan.parties)
    assert {key.stat().st_mode & 0o777 for key in keys} == {0o600}
    copies = list((tmp_path / "run").glob("*/.working/private.toml"))
    assert {copy.stat().st_mode & 0o777 for copy in copies} == {0o600}
    assert all(read_ledger(tmp_path / "run" / party / "ledger.jsonl").closed for party in job.plan.parties)


def test_the_original_error_comes_first_and_nobody_is_left_behind(tmp_path: Path, job: Job) -> None:
    table = tmp_path / "tables" / "telco.csv"
    table.write_text(table.read_text().replace("id,", "nummer,", 1))
    before = children()  # such as worker processes that other tests have left idle
    with pytest.raises(JobFailed) as caught:
        spawn(job.plan, job.privates, tmp_path / "run")
    first = str(caught.value).splitlines()[0]
    assert first.startswith(f"telco: {table}: ")
    assert "column 'id'" in first
    assert set(children()) <= set(before)


def children() -> list[str]:
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()


def test_who_had_to_be_killed_since_another_failed_is_not_the_cause(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unpooled.run.spawn._GRACE_SECONDS", 0.2)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"

    def start(folder: Path, party: str, *_: object, **__: object) -> subprocess.Popen[bytes]:
        if party == "telco":
            return subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"], stdin=subprocess.PIPE)
        process = subprocess.Popen([sys.executable, "-c", deaf], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdout
        process.stdout.readline()  # from now on it does not heed SIGTERM
        process.stdout.close()
        return process

    monkeypatch.setattr("unpooled.run.spawn.start_party", start)
    with pytest.raises(JobFailed) as caught:
        spawn(job.plan, job.privates, tmp_path / "run")
    assert str(caught.value).startswith("telco: ")
    assert "SIGKILL" not in str(caught.value)


def test_certificates_are_given_for_all_or_for_none(tmp_path: Path, job: Job) -> None:
    privates = dict(job.privates) | {"bank": job.privates["bank"].model_copy(update={"certificates": tmp_path})}
    with pytest.raises(PlanError, match=r"private\.shop: certificates"):
        spawn(job.plan, privates, tmp_path / "run")


def test_of_several_errors_the_cause_is_said_first(tmp_path: Path) -> None:
    def status(party: str, **content: str) -> None:
        (tmp_path / party).mkdir()
        (tmp_path / party / "status.json").write_text(json.dumps({"party": party, **content}))

    status("a", state="failed", error="b reports: c is gone", cause="heard")
    status("b", state="failed", error="c: the connection was lost", cause="seen")
    status("c", state="running")
    status("d", state="failed", error="its table is wrong", cause="own")
    status("e", state="finished")
    status("f", state="failed", error="interrupted (SIGTERM)", cause="own")
    codes = {"a": 3, "b": 3, "c": -signal.SIGKILL, "d": 1, "e": 0, "f": -signal.SIGTERM}
    said = explain_failure(tmp_path, codes).splitlines()
    assert [line[0] for line in said] == ["c", "d", "b", "a", "f"]
    assert "SIGKILL" in said[0]
    assert said[1:4] == ["d: its table is wrong", "b: c: the connection was lost", "a: b reports: c is gone"]


def test_a_process_killed_when_it_goes_on_is_not_told_by_how_it_ended_before(
    tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(tmp_path / "plan.toml", job.plan)
    for party in job.plan.parties:
        (tmp_path / party / ".working").mkdir(parents=True)
        with suppress(InputError), run_folder.status_kept(tmp_path / party, party, job.plan):
            raise InputError("an older error")
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    start = lambda *_, **__: subprocess.Popen(killed, stdin=subprocess.PIPE)  # noqa: E731
    monkeypatch.setattr("unpooled.run.spawn.start_party", start)
    with pytest.raises(JobFailed) as caught:
        spawn_again(tmp_path)
    assert "an older error" not in str(caught.value)
    assert "SIGKILL" in str(caught.value)
    left = run_folder.read_json(tmp_path / "bank" / run_folder.STATUS)
    assert left.pop("started")
    assert left == {"party": "bank", "role": "active", "kind": "check", "state": "running"}


def test_a_party_that_ends_without_a_word_is_said_to_have_a_log(tmp_path: Path) -> None:
    text = explain_failure(tmp_path, {"bank": 1})
    assert text.startswith("bank: ")
    assert str(tmp_path / "bank" / "log.txt") in text


def test_private_settings_that_a_party_does_not_need_are_left_out(job: Job) -> None:
    assert job.privates["coordinator"] == Private()
