"""A job is checked once at each party, wherever it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from unpooled.cli import app, running
from unpooled.cli import jobs as commands
from unpooled.data import example
from unpooled.jobs import checks
from unpooled.jobs.examples.example_job import write_job_files
from unpooled.jobs.files import load_job
from unpooled.run.simulate import simulate_job
from unpooled.transport.certificates import make_trial

PARTIES = ("shop", "telco", "bank", "coordinator")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each party's settings and policy are checked."""
    calls = Counter[str]()

    def counting(check: Callable[..., None]) -> Callable[..., None]:
        def count(plan: Any, party: str, *more: Any, **named: Any) -> None:
            calls[f"{party} {check.__name__}"] += 1
            check(plan, party, *more, **named)

        return count

    for check in (checks.check_fits, checks.check_policy):
        monkeypatch.setattr(checks, check.__name__, counting(check))
    return calls


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    example.write(tmp_path, example.SMALLEST)
    write_job_files(tmp_path, "check")
    return tmp_path


def once(*parties: str) -> dict[str, int]:
    return {f"{party} {check}": 1 for party in parties for check in ("check_fits", "check_policy")}


def test_in_a_simulation(folder: Path, counted: Counter[str]) -> None:
    job = load_job(folder / "job.toml")
    simulate_job(job.plan.model_copy(update={"parameters": {"round_trips": 1, "megabytes": 1}}), job.privates)
    assert counted == once(*PARTIES)


def test_by_the_process_that_starts_all_parties(
    folder: Path, counted: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "spawn", lambda *_: {})
    monkeypatch.setattr(running, "say_done", lambda *_: None)
    call = ["run", str(folder / "job.toml"), "--run", str(folder / "run")]
    assert CliRunner().invoke(app, call, catch_exceptions=False).exit_code == 0
    assert counted == once(*PARTIES)


def test_by_a_party_that_joins(folder: Path, counted: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    make_trial(folder / "certs", list(PARTIES))

    def refuse(*_: Any) -> None:
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr("unpooled.run.join.NetworkTransport", refuse)
    files = [str(folder / "plan.toml"), "--as", "bank", "--private", str(folder / "bank.toml")]
    with pytest.raises(ConnectionRefusedError):
        CliRunner().invoke(app, ["join", *files, "--run", str(folder / "run")], catch_exceptions=False)
    assert counted == once("bank")
