"""Four parties as a person starts them, each its own process on its own loopback address: in any order, and killed."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from unpooled.data import example
from unpooled.jobs.example_job import example_job, write_job_files
from unpooled.jobs.files import write_toml
from unpooled.ledger import read_ledger, reconcile
from unpooled.transport.certificates import make_trial

PARTIES = ("shop", "telco", "bank", "coordinator")
TIMEOUT = 8.0
"""The plan's, in seconds."""


class Parties:
    """The files of a job, and the processes of those who have joined it."""

    def __init__(self, folder: Path, round_trips: int) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        example.write(folder, rows=1000)
        make_trial(folder / "certs", PARTIES)
        job = example_job("check")
        parties = {
            name: party.model_copy(update={"address": free_address(f"127.0.0.{number}")})
            for number, (name, party) in enumerate(job.plan.parties.items(), start=1)
        }
        parameters = {"round_trips": round_trips, "megabytes": 1}
        update = {"parties": parties, "parameters": parameters, "timeout": TIMEOUT}
        self.plan = job.plan.model_copy(update=update)
        write_toml(folder / "plan.toml", self.plan)
        for name, private in job.privates.items():
            write_toml(folder / f"{name}.toml", private.model_copy(update={"certificates": Path("certs") / name}))

    def start(self, party: str, plan: str = "plan.toml") -> None:
        words = [plan, "--as", party, "--private", f"{party}.toml", "--run", f"run-{party}"]
        with (self.folder / f"{party}-output.txt").open("wb") as output:
            self.processes[party] = subprocess.Popen(
                [sys.executable, "-m", "unpooled", "join", *words],
                cwd=self.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

    def run_folder(self, party: str) -> Path:
        return self.folder / f"run-{party}"

    def output(self, party: str) -> str:
        return (self.folder / f"{party}-output.txt").read_text()

    def wait_for(self, party: str, text: str) -> None:
        """Wait until a party's ledger speaks of a scope or kind."""
        ledger = self.run_folder(party) / "ledger.jsonl"
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if ledger.exists() and text in ledger.read_text():
                return
            assert self.processes[party].poll() is None, self.output(party)
            time.sleep(0.005)
        pytest.fail(f"{party} never came to {text}")

    def codes(self, parties: list[str], within: float) -> dict[str, int]:
        deadline = time.monotonic() + within
        return {party: self.processes[party].wait(max(0.1, deadline - time.monotonic())) for party in parties}

    def status(self, party: str) -> dict[str, str]:
        content: dict[str, str] = json.loads((self.run_folder(party) / "status.json").read_text())
        return content

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


def free_address(host: str) -> str:
    with socket.create_server((host, 0)) as listener:
        return f"{host}:{listener.getsockname()[1]}"


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[Parties]:
    started = Parties(tmp_path, round_trips=1000)
    yield started
    started.end()


@pytest.mark.parametrize("seed", [1, 2])
def test_parties_start_in_any_order_some_late(tmp_path: Path, seed: int) -> None:
    parties = Parties(tmp_path, round_trips=3)
    order = random.Random(seed).sample(PARTIES, len(PARTIES))
    try:
        for number, party in enumerate(order):
            time.sleep(1.5 if number > 1 else 0)
            parties.start(party)
        assert parties.codes(order, within=30) == dict.fromkeys(order, 0)
    finally:
        parties.end()
    ledgers = {party: read_ledger(parties.run_folder(party) / "ledger.jsonl") for party in PARTIES}
    assert all(record.closed for record in ledgers.values())
    assert [reconcile(ledgers[a], ledgers[b]) for a in PARTIES for b in PARTIES if a < b] == [[]] * 6
    assert json.loads((parties.run_folder("bank") / "result.json").read_text())["rows"] == {"shop": 45, "telco": 900}
    assert parties.status("telco")["state"] == "finished"
    assert "report" in parties.output("telco")


@pytest.mark.parametrize("victim", PARTIES)
@pytest.mark.parametrize("point", ["plan", "link"])
def test_when_a_party_is_killed_all_others_end_and_name_it(parties: Parties, victim: str, point: str) -> None:
    for party in PARTIES:
        parties.start(party)
    parties.wait_for(victim, '"scope": "plan"' if point == "plan" else '"scope": "link')
    parties.processes[victim].send_signal(signal.SIGKILL)
    others = [party for party in PARTIES if party != victim]
    codes = parties.codes(others, within=TIMEOUT)
    assert codes == dict.fromkeys(others, 3), [parties.output(party) for party in others]
    for party in others:
        status = parties.status(party)
        assert status["origin"] == victim
        assert f"{victim}: the connection was lost" in status["error"]
        assert re.search("while .* (waited for|was about to send|was connecting)|while connecting", status["error"])
        assert f"error: {status['error']}" in parties.output(party)
        assert "Traceback" not in parties.output(party)
        assert read_ledger(parties.run_folder(party) / "ledger.jsonl").closed


def test_the_awaited_message_and_the_scope_are_named(parties: Parties) -> None:
    for party in PARTIES:
        parties.start(party)
    parties.wait_for("telco", '"scope": "link shop telco"')
    parties.processes["telco"].send_signal(signal.SIGKILL)
    parties.codes(["bank"], within=TIMEOUT)
    awaited = r"while bank waited for (Probe \(scope 'link shop bank'\)|RowCount \(scope 'sizes'\)) from \w+"
    assert re.search(awaited, parties.status("bank")["error"])


@pytest.mark.parametrize("victim", ["telco", "coordinator"])
def test_when_a_party_falls_silent_all_others_end_within_the_timeout(parties: Parties, victim: str) -> None:
    for party in PARTIES:
        parties.start(party)
    parties.wait_for(victim, '"scope": "link')
    parties.processes[victim].send_signal(signal.SIGSTOP)
    others = [party for party in PARTIES if party != victim]
    codes = parties.codes(others, within=TIMEOUT + 20)
    assert set(codes.values()) == {3}
    assert [parties.status(party)["origin"] for party in others] == [victim] * 3, [parties.output(p) for p in others]


def test_a_party_that_never_comes_is_named(parties: Parties) -> None:
    for party in ("shop", "telco", "bank"):
        parties.start(party)
    codes = parties.codes(["shop", "telco", "bank"], within=TIMEOUT + 20)
    assert codes == {"shop": 3, "telco": 3, "bank": 3}
    assert f"waited {TIMEOUT:g} s for coordinator to connect" in parties.status("shop")["error"]


def test_an_error_of_ones_own_is_told_to_all_without_its_text(parties: Parties) -> None:
    """The bank's table looks well at first sight, and turns out to be wrong when it is loaded."""
    text = (parties.folder / "bank.csv").read_text()
    (parties.folder / "bank.csv").write_text(text + text.splitlines()[1].replace(",", ",9", 1) + "\n")
    for party in PARTIES:
        parties.start(party)
    assert parties.codes(["bank"], within=20) == {"bank": 1}
    assert "bank.csv" in parties.output("bank")
    assert "row" in parties.output("bank")
    others = [party for party in PARTIES if party != "bank"]
    assert parties.codes(others, within=TIMEOUT + 20) == dict.fromkeys(others, 3)
    for party in others:
        assert parties.status(party)["origin"] == "bank"
        assert "bank failed: InputError (" in parties.output(party)
        assert "bank.csv" not in parties.output(party)


def test_different_plans_are_refused_naming_the_field(parties: Parties) -> None:
    other = parties.plan.model_copy(update={"parameters": {"round_trips": 7, "megabytes": 1}})
    write_toml(parties.folder / "other.toml", other)
    for party in PARTIES:
        parties.start(party, "other.toml" if party == "coordinator" else "plan.toml")
    codes = parties.codes(list(PARTIES), within=20)
    assert codes["coordinator"] == 2
    assert all(code in (2, 3) for code in codes.values())
    for party in PARTIES:
        assert "parameters.round_trips" in parties.output(party)
        assert "parameters.megabytes" not in parties.output(party)


def test_sigterm_ends_a_party_in_order(parties: Parties) -> None:
    for party in PARTIES:
        parties.start(party)
    parties.wait_for("bank", '"scope": "link')
    parties.processes["bank"].terminate()
    codes = parties.codes(list(PARTIES), within=TIMEOUT)
    assert codes.pop("bank") == 128 + signal.SIGTERM
    assert set(codes.values()) == {3}
    assert "bank failed: SystemExit" in parties.status("shop")["error"]


def test_no_process_outlives_a_spawner_that_is_killed(parties: Parties) -> None:
    """`unpooled run` is killed with no chance to clean up: its parties notice and end."""
    job = example_job("check")
    write_job_files(parties.folder, "check")
    text = (parties.folder / "job.toml").read_text()
    (parties.folder / "job.toml").write_text(
        text.replace('kind = "check"', 'kind = "check"\nparameters = {round_trips = 1000}')
    )
    command = [sys.executable, "-m", "unpooled", "run", "job.toml", "--run", "spawned", "-q"]
    spawner = subprocess.Popen(command, cwd=parties.folder)
    ledger = parties.folder / "spawned" / "bank" / "ledger.jsonl"
    deadline = time.monotonic() + 20
    while not (ledger.exists() and "link" in ledger.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = Path(f"/proc/{spawner.pid}/task/{spawner.pid}/children").read_text().split()
    assert len(children) == len(job.plan.parties)
    spawner.kill()
    spawner.wait()
    deadline = time.monotonic() + TIMEOUT
    while any(is_running(int(child)) for child in children):
        assert time.monotonic() < deadline, "a party outlived its spawner"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
