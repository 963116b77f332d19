"""Four parties as a person starts them, each its own process on its own loopback address: in any order, and killed."""

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from unpooled.data import example
from unpooled.jobs.examples.example_job import example_job, write_job_files
from unpooled.jobs.files import write_toml
from unpooled.ledger import read_ledger, reconcile
from unpooled.transport.certificates import make_trial
from unpooled.version import PROTOCOL_VERSION

PARTIES = ("shop", "telco", "bank", "coordinator")
TWO = ("telco", "bank")
PATIENCE = 300.0
"""How long a test waits for what happens at once on an idle machine, in seconds."""


class Parties:
    """The files of a job, and the processes of those who have joined it."""

    def __init__(
        self, folder: Path, round_trips: int, timeout: float = PATIENCE, names: Sequence[str] = PARTIES
    ) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        example.write(folder, rows=1000)
        make_trial(folder / "certs", PARTIES)
        job = example_job("check")
        parties = {
            name: party.model_copy(update={"address": free_address(f"127.0.0.{number}")})
            for number, (name, party) in enumerate(job.plan.parties.items(), start=1)
            if name in names
        }
        parameters = {"round_trips": round_trips, "megabytes": 1}
        update = {"parties": parties, "parameters": parameters, "timeout": timeout}
        self.plan = job.plan.model_copy(update=update)
        write_toml(folder / "plan.toml", self.plan)
        for name in names:
            private = job.privates[name]
            write_toml(folder / f"{name}.toml", private.model_copy(update={"certificates": Path("certs") / name}))

    def start(self, party: str, plan: str = "plan.toml", command: Sequence[str] = ("-m", "unpooled")) -> None:
        words = [plan, "--as", party, "--private", f"{party}.toml", "--run", f"run-{party}"]
        with (self.folder / f"{party}-output.txt").open("wb") as output:
            self.processes[party] = subprocess.Popen(
                [sys.executable, *command, "join", *words],
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
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if ledger.exists() and text in ledger.read_text():
                return
            assert self.processes[party].poll() is None, self.output(party)
            time.sleep(0.005)
        pytest.fail(f"{party} never came to {text}")

    def codes(self, parties: Sequence[str] = PARTIES) -> dict[str, int]:
        deadline = time.monotonic() + PATIENCE
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
def made(tmp_path: Path) -> Iterator[Callable[..., Parties]]:
    """Makes the files of a job in this test's folder; who is still running at the end is ended."""
    started: list[Parties] = []

    def make(round_trips: int, **settings: Any) -> Parties:
        started.append(Parties(tmp_path, round_trips, **settings))
        return started[-1]

    yield make
    for parties in started:
        parties.end()


@pytest.fixture
def parties(made: Callable[..., Parties]) -> Parties:
    return made(1000)


def test_parties_start_in_any_order_some_late(made: Callable[..., Parties]) -> None:
    parties = made(3)
    first, second, *late = random.Random(1).sample(PARTIES, len(PARTIES))
    for party in (first, second):
        parties.start(party)
    for party in late:
        time.sleep(1)
        parties.start(party)
    assert parties.codes() == dict.fromkeys(PARTIES, 0)
    ledgers = {party: read_ledger(parties.run_folder(party) / "ledger.jsonl") for party in PARTIES}
    assert all(record.closed for record in ledgers.values())
    assert [reconcile(ledgers[a], ledgers[b]) for a in PARTIES for b in PARTIES if a < b] == [[]] * 6
    assert json.loads((parties.run_folder("bank") / "result.json").read_text())["rows"] == {"shop": 45, "telco": 900}
    assert parties.status("telco")["state"] == "finished"
    assert "report" in parties.output("telco")


@pytest.mark.parametrize(("victim", "point"), [("telco", "link shop telco"), ("coordinator", "plan")])
def test_when_a_party_is_killed_all_others_end_and_name_it(parties: Parties, victim: str, point: str) -> None:
    for party in PARTIES:
        parties.start(party)
    parties.wait_for(victim, f'"scope": "{point}')
    parties.processes[victim].send_signal(signal.SIGKILL)
    others = [party for party in PARTIES if party != victim]
    assert parties.codes(others) == dict.fromkeys(others, 3), [parties.output(party) for party in others]
    for party in others:
        status = parties.status(party)
        assert status["origin"] == victim
        assert not re.search(r"waited \d+ s", status["error"]), "not for having waited too long"
        assert f"error: {status['error']}" in parties.output(party)
        assert "Traceback" not in parties.output(party)
        assert read_ledger(parties.run_folder(party) / "ledger.jsonl").closed
    if victim == "telco":
        awaited = r"(Probe .*'link shop bank'|RowCount .*'sizes')"
        assert re.search(awaited, parties.status("bank")["error"]), "the awaited message and the scope"


def test_when_a_party_falls_silent_all_others_end_after_the_timeout(made: Callable[..., Parties]) -> None:
    parties = made(1000, timeout=15)
    for party in PARTIES:
        parties.start(party)
    parties.wait_for("telco", '"scope": "link')
    parties.processes["telco"].send_signal(signal.SIGSTOP)
    others = [party for party in PARTIES if party != "telco"]
    assert set(parties.codes(others).values()) == {3}
    assert [parties.status(party)["origin"] for party in others] == ["telco"] * 3, [parties.output(p) for p in others]


def test_a_party_that_never_comes_is_named(made: Callable[..., Parties]) -> None:
    parties = made(1000, timeout=4)
    parties.start("shop")
    assert parties.codes(["shop"]) == {"shop": 3}
    status = parties.status("shop")
    assert status["origin"] in PARTIES
    assert re.search(rf"\b4 s .*{status['origin']}", status["error"])


def test_a_bad_table_ends_its_own_party_before_anything_is_sent_and_can_be_repaired(
    made: Callable[..., Parties],
) -> None:
    """The others wait meanwhile, and hear neither of the file nor of the row."""
    parties = made(3, names=TWO)
    text = (parties.folder / "bank.csv").read_text()
    (parties.folder / "bank.csv").write_text(text + text.splitlines()[1].replace(",", ",9", 1) + "\n")
    for party in TWO:
        parties.start(party)
    assert parties.codes(["bank"]) == {"bank": 1}
    assert re.search(r"bank\.csv: column 'id': rows 1 and \d+", parties.output("bank"))
    assert not (parties.run_folder("bank") / "ledger.jsonl").exists()
    (parties.folder / "bank.csv").write_text(text)
    shutil.rmtree(parties.run_folder("bank"))
    parties.start("bank")
    assert parties.codes(TWO) == {"bank": 0, "telco": 0}
    assert "bank.csv" not in parties.output("telco")


def test_different_plans_are_refused_naming_the_field(made: Callable[..., Parties]) -> None:
    parties = made(3, names=TWO)
    other = parties.plan.model_copy(update={"parameters": {"round_trips": 7, "megabytes": 1}})
    write_toml(parties.folder / "other.toml", other)
    for party in TWO:
        parties.start(party, "other.toml" if party == "telco" else "plan.toml")
    codes = set(parties.codes(TWO).values())
    assert 2 in codes
    assert codes <= {2, 3}
    for party in TWO:
        assert "parameters.round_trips" in parties.output(party)
        assert "parameters.megabytes" not in parties.output(party)


def with_versions(**versions: str | int) -> tuple[str, str]:
    """How to start a party whose package says that it has these versions."""
    change = f"from unpooled import version; vars(version).update({versions})"
    return "-c", f"{change}; from unpooled.cli import main; main()"


def test_other_versions_of_the_package_work_together_if_they_have_the_same_protocol(
    made: Callable[..., Parties],
) -> None:
    parties = made(3, names=TWO)
    parties.start("telco", command=with_versions(__version__="77.7"))
    parties.start("bank")
    assert parties.codes(TWO) == {"telco": 0, "bank": 0}, [parties.output(party) for party in TWO]
    assert "unpooled 77.7" in (parties.run_folder("telco") / "report.html").read_text()
    one, other = (read_ledger(parties.run_folder(party) / "ledger.jsonl") for party in TWO)
    assert (reconcile(one, other), one.plan) == ([], other.plan)


def test_parties_with_different_protocols_both_say_who_must_upgrade(made: Callable[..., Parties]) -> None:
    parties = made(3, names=TWO)
    parties.start("telco", command=with_versions(PROTOCOL_VERSION=PROTOCOL_VERSION + 1))
    parties.start("bank")
    assert set(parties.codes(TWO).values()) <= {2, 3}
    for party in TWO:
        assert "they cannot work together: bank must upgrade unpooled" in parties.output(party)
        sent = [entry.kind for entry in read_ledger(parties.run_folder(party) / "ledger.jsonl").entries]
        assert set(sent) <= {"PlanOffer", "Abort"}


def test_sigterm_ends_a_party_in_order(made: Callable[..., Parties]) -> None:
    parties = made(1000, names=TWO)
    for party in TWO:
        parties.start(party)
    parties.wait_for("bank", '"scope": "link')
    parties.processes["bank"].terminate()
    assert parties.codes(TWO) == {"bank": 128 + signal.SIGTERM, "telco": 3}
    assert parties.status("telco")["error"].startswith("bank was interrupted")
    assert parties.status("bank")["error"] == "interrupted (SIGTERM)"
    for party in TWO:
        home = parties.run_folder(party)
        assert f"unpooled resume {home.relative_to(parties.folder)}" in parties.output(party)
        assert (home / "report.html").exists()


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
    deadline = time.monotonic() + PATIENCE
    while not (ledger.exists() and "link" in ledger.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    children = Path(f"/proc/{spawner.pid}/task/{spawner.pid}/children").read_text().split()
    assert len(children) == len(job.plan.parties)
    spawner.kill()
    spawner.wait()
    deadline = time.monotonic() + PATIENCE
    while any(is_running(int(child)) for child in children):
        assert time.monotonic() < deadline, "a party outlived its spawner"
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
