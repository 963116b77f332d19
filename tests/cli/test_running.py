"""Signals while a job runs, and errors that were not raised on purpose."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unpooled.cli.running import _log_in, interruptible
from unpooled.data import example
from unpooled.errors import InternalError, Interrupted
from unpooled.jobs.examples.example_job import write_job_files
from unpooled.run import folder as run_folder

PATIENCE = 300


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_later_ones_do_not(number: signal.Signals) -> None:
    before, ended = signal.getsignal(number), []

    def work() -> None:
        with interruptible(signal.SIGINT, signal.SIGTERM):
            try:
                os.kill(os.getpid(), number)
                time.sleep(PATIENCE)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                ended.append(True)

    with pytest.raises(Interrupted):
        work()
    assert ended
    assert signal.getsignal(number) is before


def test_the_details_of_an_internal_error_are_in_the_log_alone(tmp_path: Path) -> None:
    with pytest.raises(InternalError) as caught, _log_in(tmp_path / "log.txt"):
        raise ZeroDivisionError("17 / 0")
    assert str(tmp_path / "log.txt") in str(caught.value)
    assert "17 / 0" not in str(caught.value)
    assert "ZeroDivisionError: 17 / 0" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_run_ends_in_order_and_says_how_to_resume(tmp_path: Path, number: int, code: int) -> None:
    """As Ctrl-C does it, the signal goes to all processes of the run."""
    example.write(tmp_path, rows=1000)
    write_job_files(tmp_path, "check")
    job = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").write_text(
        job.replace('kind = "check"', 'kind = "check"\nparameters = {round_trips = 1000, megabytes = 20}')
    )
    command = [sys.executable, "-m", "unpooled", "run", "job.toml", "--run", "run"]
    run = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    bank, deadline = tmp_path / "run" / "bank" / "ledger.jsonl", time.monotonic() + PATIENCE
    while not (bank.exists() and "link" in bank.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    os.killpg(run.pid, number)
    said, _ = run.communicate(timeout=PATIENCE)
    assert run.returncode == code, said
    assert said.splitlines()[-1].endswith("unpooled resume run")
    assert "run: run\nreport: run/report.html\n" in said
    states = [run_folder.read_json(tmp_path / "run" / party / "status.json") for party in ("bank", "telco")]
    assert {state["state"] for state in states} == {"failed"}
    assert all("interrupted" in state["error"] for state in states)
    assert "interrupted" in (tmp_path / "run" / "report.html").read_text()
