"""Real processes: a party is killed at a random moment, the run is resumed, and the list is the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from unpooled.data import example
from unpooled.errors import InputError, JobFailed, LedgerError
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import Job, write_toml
from unpooled.ledger import read_ledger, reconcile_all
from unpooled.run import folder as run_folder
from unpooled.run.progress import Progress
from unpooled.run.spawn import spawn, spawn_again
from unpooled.transport.certificates import make_trial

ROLES = ("shop", "telco", "bank", "coordinator")
CHECKPOINT = Path(".working") / "checkpoint"
PATIENCE = 300.0


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    tables = tmp_path_factory.mktemp("tables")
    example.write(tables, rows=1000)
    made = example_job("lookalike")
    parameters = {"method": {"iterations": 2, "bags": 2}, "model": {"trees": 4, "depth": 2}, "estimate": False}
    plan = made.plan.model_copy(update={"parameters": parameters, "timeout": PATIENCE})
    return Job(plan, {name: private.at(tables) for name, private in made.privates.items()})


@pytest.fixture(scope="module")
def undisturbed(job: Job, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    spawn(job.plan, job.privates, folder)
    return folder


def found(folder: Path) -> str:
    return (folder / "shop" / "reliable.csv").read_text()


def steps_of(folder: Path) -> int:
    """How many messages of the search the bank's ledger has: how far the run is, whatever the machine's speed."""
    path = folder / "bank" / run_folder.LEDGER
    return path.read_text().count(" bags") if path.exists() else 0  # as the scopes of the search say


def process_of(home: Path) -> int | None:
    """The process of the party that has this folder, among this one's children."""
    for child in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split():
        if str(home) in Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0"):
            return int(child)
    return None


def killing(folder: Path, party: str, steps: int) -> Callable[[Mapping[str, Progress]], None]:
    """Looks on, and kills a party when the bank has made so many steps more."""
    left, after = [party], steps_of(folder) + steps

    def watch(_: Mapping[str, Progress]) -> None:
        if left and steps_of(folder) > after and (process := process_of(folder / party)):
            os.kill(process, signal.SIGKILL)
            left.clear()

    return watch


def tear(home: Path) -> None:
    """Leave a party's last line and last page half written, as a power cut may."""
    pages = sorted(home.glob(f"{CHECKPOINT}/*/page-*.npz"), key=lambda page: page.stat().st_mtime_ns)
    for path in (home / run_folder.LEDGER, *pages[-1:]):
        os.truncate(path, path.stat().st_size - 30)


def test_a_run_goes_on_after_the_active_party_was_killed(job: Job, undisturbed: Path, tmp_path: Path) -> None:
    """At a random moment of what is left, as by a power cut; `test_faults` cuts off everybody everywhere."""
    rng, folder, whole = random.Random(5), tmp_path / "run", steps_of(undisturbed)
    with pytest.raises(JobFailed, match=r"bank.* SIGKILL"):
        spawn(job.plan, job.privates, folder, killing(folder, "bank", rng.randrange(whole // 6)))
    assert not (folder / "shop" / "reliable.csv").exists()
    tear(folder / "bank")
    with pytest.raises(LedgerError):
        read_ledger(folder / "bank" / run_folder.LEDGER)
    with pytest.raises(InputError, match="--force"):
        run_folder.purge(folder)
    results = spawn_again(folder)
    assert found(folder) == found(undisturbed)
    assert results["shop"]["listed"] == len(found(folder).splitlines()) - 1
    ledgers = [read_ledger(folder / name / run_folder.LEDGER) for name in ROLES]
    assert all(ledger.closed for ledger in ledgers)
    assert {len(ledger.resumed) for ledger in ledgers} == {1}
    assert all(pair.differences == () for pair in reconcile_all(ledgers))
    assert list((folder / "bank" / CHECKPOINT / "groups").iterdir())
    run_folder.purge(folder)
    assert not list(folder.rglob(".working"))
    with pytest.raises(InputError, match="shop"):
        spawn_again(folder)


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
    """As people do who have a machine each: join, and after one was killed resume, wherever they are then."""
    make_trial(tmp_path / "certs", ROLES)
    homes = {party: tmp_path / f"home-{party}" for party in ROLES}
    for party in ROLES:
        private = job.privates[party].model_copy(update={"certificates": tmp_path / "certs" / party})
        write_toml(tmp_path / f"{party}.toml", private)

    def start(*words: object) -> subprocess.Popen[bytes]:
        call = [sys.executable, "-m", "unpooled", *map(str, words), "-q"]
        return subprocess.Popen(call, cwd=tmp_path, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    plan = undisturbed / run_folder.PLAN  # it has addresses
    joined = {
        party: start("join", plan, "--as", party, "--private", f"{party}.toml", "--run", home)
        for party, home in homes.items()
    }
    while not (homes["bank"] / CHECKPOINT / "groups" / "page-00000.npz").exists():
        assert joined["telco"].poll() is None, (homes["telco"] / run_folder.STATUS).read_text()
        time.sleep(0.01)
    joined["telco"].kill()
    codes = {party: process.wait(PATIENCE) for party, process in joined.items()}
    assert codes == {party: -signal.SIGKILL if party == "telco" else 3 for party in ROLES}
    resumed = {party: start("resume", home) for party, home in homes.items()}
    assert {process.wait(PATIENCE) for process in resumed.values()} == {0}
    assert (homes["shop"] / "reliable.csv").read_text() == found(undisturbed)
