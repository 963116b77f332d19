"""Two runs at once over one port: real processes of `join`, to which a service passes connections."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from unpooled.data import example
from unpooled.errors import CertificateError
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import write_toml
from unpooled.ledger import read_ledger, reconcile
from unpooled.transport.certificates import make_trial
from unpooled.transport.doorway import Doorway, listen_at
from unpooled.transport.handover import passing_on
from unpooled.transport.tls import context_of
from unpooled.transport.trust import load_identity

PARTIES = ("telco", "bank")
PATIENCE = 300.0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    example.write(tmp_path, rows=1000)
    make_trial(tmp_path / "certs", PARTIES)
    return tmp_path


@pytest.fixture
def runs(folder: Path) -> Iterator[dict[str, socket.socket]]:
    """The telco's service, which is dialled; the sockets to its runs by their keys."""
    to: dict[str, socket.socket] = {}
    listener = listen_at("127.0.0.1:0", "telco")
    context = context_of(load_identity(folder / "certs" / "telco", "telco"), server=True)

    def nobody(certificate: bytes) -> str:
        raise CertificateError("nobody is a peer here")

    write_files(folder, f"127.0.0.1:{listener.getsockname()[1]}")
    door = Doorway("telco", listener, lambda: context, nobody, lambda *_: None, lambda: False, passing_on(to.get))
    door.open()
    yield to
    door.close()
    for end in to.values():
        end.close()


def write_files(folder: Path, address: str) -> None:
    job = example_job("check")
    parties = {name: job.plan.parties[name].model_copy(update={"address": None}) for name in PARTIES}
    parties["telco"] = parties["telco"].model_copy(update={"address": address})
    parameters = {"round_trips": 3, "megabytes": 1}
    plan = job.plan.model_copy(update={"parties": parties, "parameters": parameters, "timeout": PATIENCE})
    write_toml(folder / "plan.toml", plan)
    for name in PARTIES:
        private = job.privates[name].model_copy(update={"certificates": Path("certs") / name})
        write_toml(folder / f"{name}.toml", private)


def test_two_runs_at_once_over_one_port(folder: Path, runs: dict[str, socket.socket]) -> None:
    keys = [secrets.token_hex(16) for _ in range(2)]
    processes = {}
    with ExitStack() as stack:
        for party in reversed(PARTIES):  # the diallers first: they wait until the runs are there
            for number, key in enumerate(keys):
                ours, theirs = socket.socketpair()
                run = f"run-{number}-{party}"
                words = ["join", "plan.toml", "--as", party, "--private", f"{party}.toml", "--run", run]
                output = stack.enter_context((folder / f"{run}.txt").open("wb"))
                with theirs:
                    processes[run] = subprocess.Popen(
                        [sys.executable, "-m", "unpooled", *words, "--through", str(theirs.fileno()), "--run-key", key],
                        cwd=folder,
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        pass_fds=(theirs.fileno(),),
                    )
                if party == "telco":
                    runs[key] = ours
                else:
                    stack.enter_context(ours)
        for run, process in processes.items():
            assert process.wait(PATIENCE) == 0, (folder / f"{run}.txt").read_text()
    for number in range(2):
        records = [read_ledger(folder / f"run-{number}-{party}" / "ledger.jsonl") for party in PARTIES]
        assert reconcile(*records) == []
