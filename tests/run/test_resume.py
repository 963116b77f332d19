"""Real processes: each role is killed at a random moment, the run is resumed, and the list is the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from unpooled.data import example
from unpooled.errors import InputError, JobFailed
from unpooled.jobs.example_job import example_job
from unpooled.jobs.files import Job, write_toml
from unpooled.ledger import read_ledger, reconcile_all
from unpooled.run import folder as run_folder
from unpooled.run.progress import Progress
from unpooled.run.spawn import spawn, spawn_again
from unpooled.transport.certificates import make_trial

ROLES = ("shop", "telco", "bank", "coordinator")
CHECKPOINT = Path(".working") / "checkpoint"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    tables = tmp_path_factory.mktemp("tables")
    example.write(tables, rows=1000)
    made = example_job("lookalike")
    parameters = {"method": {"iterations": 2, "bags": 2}, "model": {"trees": 6, "depth": 3}}
    plan = made.plan.model_copy(update={"parameters": parameters, "timeout": 60.0})
    return Job(plan, {name: private.at(tables) for name, private in made.privates.items()})


@pytest.fixture(scope="module")
def undisturbed(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    spawn(job.plan, job.privates, folder)
    return folder


def found(folder: Path) -> str:
    return (folder / "shop" / "reliable.csv").read_text()


def lines_of(folder: Path) -> list[str]:
    """The bank's ledger: how far the run is, whatever the machine's speed."""
    path = folder / "bank" / run_folder.LEDGER
    return path.read_text().splitlines() if path.exists() else []


def process_of(home: Path) -> int | None:
    """The process of the party that has this folder, among this one's children."""
    for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        if str(home) in Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0"):
            return int(child)
    return None


def killing(folder: Path, party: str, after: int) -> Callable[[Mapping[str, Progress]], None]:
    """Looks on, and kills a party when the bank's ledger has so many lines."""
    killed = False

    def watch(_: Mapping[str, Progress]) -> None:
        nonlocal killed
        if not killed and len(lines_of(folder)) >= after and (process := process_of(folder / party)):
            os.kill(process, signal.SIGKILL)
            killed = True

    return watch


def some_moment(undisturbed: Path) -> int:
    """A line of the bank's ledger after the alignment and some time before the end."""
    lines = lines_of(undisturbed)
    first = next(place for place, line in enumerate(lines) if '"scope": "find' in line)
    seed = random.randrange(10**6)
    print(f"seed of the moment: {seed}")
    return random.Random(seed).randrange(first, len(lines) * 8 // 10)


@pytest.mark.parametrize("party", ROLES)
def test_a_run_goes_on_after_a_party_was_killed(job: Job, undisturbed: Path, tmp_path: Path, party: str) -> None:
    folder = tmp_path / "run"
    with pytest.raises(JobFailed, match=f"{party}: its process was ended by SIGKILL"):
        spawn(job.plan, job.privates, folder, killing(folder, party, some_moment(undisturbed)))
    assert not (folder / "shop" / "reliable.csv").exists()
    results = spawn_again(folder)
    assert found(folder) == found(undisturbed)
    assert results["shop"]["listed"] == len(found(folder).splitlines()) - 1
    ledgers = [read_ledger(folder / name / run_folder.LEDGER) for name in ROLES]
    assert all(ledger.closed for ledger in ledgers)
    assert {len(ledger.resumed) for ledger in ledgers} == {1}
    assert all(pair.differences == () for pair in reconcile_all(ledgers))


def test_a_run_is_resumed_twice_and_purged(job: Job, undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    third = len(lines_of(undisturbed)) // 3
    with pytest.raises(JobFailed):
        spawn(job.plan, job.privates, folder, killing(folder, "telco", third))
    with pytest.raises(JobFailed):
        spawn_again(folder, killing(folder, "bank", len(lines_of(folder)) + third))
    spawn_again(folder)
    assert found(folder) == found(undisturbed)
    assert len(read_ledger(folder / "bank" / run_folder.LEDGER).resumed) == 2
    assert list((folder / "bank" / CHECKPOINT / "groups").iterdir())
    run_folder.purge(folder)
    assert not list(folder.rglob(".working"))
    with pytest.raises(InputError, match="the working files of shop are gone, so the run cannot be resumed"):
        spawn_again(folder)


def test_what_was_changed_is_named(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)
    for name, value in {"software": "0", "table": "0"}.items():
        party = {"software": "telco", "table": "bank"}[name]
        header = folder / party / CHECKPOINT / "header.json"
        header.write_text(json.dumps(json.loads(header.read_text()) | {name: value}))
    with pytest.raises(JobFailed) as failed:
        spawn_again(folder)
    said = str(failed.value)
    assert any(
        f"{party}: the run cannot be resumed: since then there is another {name};" in said
        for party, name in (("telco", "software"), ("bank", "table"))
    ), said


def test_keys_and_seeds_are_in_no_checkpoint(undisturbed: Path) -> None:
    pages = [path.read_bytes() for path in undisturbed.glob(f"*/{CHECKPOINT}/**/*") if path.is_file()]
    assert len(pages) >= 4
    secret = [(undisturbed / party / ".working" / "seed").read_bytes().strip() for party in ROLES]
    keys = [path.read_bytes() for path in (undisturbed / ".working").rglob("key.pem")]
    assert len(keys) >= len(ROLES)
    secret += [line for key in keys for line in key.splitlines() if b"-----" not in line]
    # A short seed would be found by chance; the coordinator's, which nobody chose, is long.
    assert not [each for each in secret if len(each) > 8 and any(each in page for page in pages)]
    assert not list((undisturbed / "shop").rglob("checkpoint"))
    assert not list((undisturbed / "coordinator").rglob("checkpoint"))


def test_each_party_resumes_its_own_folder(job: Job, undisturbed: Path, tmp_path: Path) -> None:
    """As persons do who have a machine each: join, and after one was killed resume."""
    folder = tmp_path / "run"
    shutil.copytree(undisturbed, folder)  # for its plan with addresses, and its certificates
    plan = run_folder.load_plan(folder / run_folder.PLAN) if hasattr(run_folder, "load_plan") else None
    assert plan is None or plan
    make_trial(tmp_path / "certs", ROLES)
    for party in ROLES:
        private = job.privates[party].model_copy(update={"certificates": tmp_path / "certs" / party})
        write_toml(tmp_path / f"{party}.toml", private)

    def start(*words: object) -> subprocess.Popen[str]:
        call = [sys.executable, "-m", "unpooled", *map(str, words), "-q"]
        return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    homes = {party: tmp_path / f"home-{party}" for party in ROLES}
    plan_file = folder / run_folder.PLAN
    joined = {
        party: start("join", plan_file, "--as", party, "--private", tmp_path / f"{party}.toml", "--run", home)
        for party, home in homes.items()
    }
    groups = homes["bank"] / CHECKPOINT / "groups" / "page-00000.npz"
    while not groups.exists():
        assert joined["telco"].poll() is None, joined["telco"].communicate()[0]
    joined["telco"].kill()
    codes = {party: process.wait(60) for party, process in joined.items()}
    assert codes["telco"] == -signal.SIGKILL
    assert set(codes.values()) <= {-signal.SIGKILL, 3}
    resumed = {party: start("resume", home) for party, home in homes.items()}
    said = {party: process.communicate(timeout=60)[0] for party, process in resumed.items()}
    assert {process.returncode for process in resumed.values()} == {0}, said
    assert (homes["shop"] / "reliable.csv").read_text() == found(undisturbed)
