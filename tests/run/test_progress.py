"""How far a party is: written now and then, read whatever is in the file, and handed on from real processes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from unpooled.data import example
from unpooled.jobs.examples.example_job import example_job
from unpooled.run import progress as progress_module
from unpooled.run.progress import Progress, keep_progress, nested, read_progress
from unpooled.run.spawn import spawn

AGES = 1e9
"""A pause between two writings that no test sees the end of."""

CHECK_THAT_TELLS = """
from dataclasses import replace
from unpooled.cli import main
from unpooled.jobs import kinds
from unpooled.jobs.check.kind import CHECK

def role(session, work):
    if session.party != "coordinator":
        with session.scope("fit"), session.scope("tree", 3):
            for done in range(1001):
                session.progress(done, 1000)
    return CHECK.role(session, work)

kinds.KINDS = (replace(CHECK, role=role),)
main()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".working").mkdir()
    return tmp_path


def test_most_is_skipped_but_the_first_and_the_last_of_a_scope_are_there(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", AGES)
    watcher = keep_progress(folder)
    assert read_progress(folder) is None
    watcher(Progress("fit", 1, 1000))
    assert read_progress(folder) == Progress("fit", 1, 1000)
    for done in range(2, 1000):
        watcher(Progress("fit", done, 1000))
        assert read_progress(folder) == Progress("fit", 1, 1000)
    watcher(Progress("fit", 1000, 1000))
    assert read_progress(folder) == Progress("fit", 1000, 1000)
    watcher(Progress("score", 0, 3))
    watcher(Progress("score", 1, 3))
    assert read_progress(folder) == Progress("score", 0, 3)


def test_after_a_pause_the_newest_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "_PAUSE_SECONDS", 0.0)
    watcher = keep_progress(folder)
    for done in range(5):
        watcher(Progress("fit", done, 1000))
        assert read_progress(folder) == Progress("fit", done, 1000)
    assert [path.name for path in (folder / ".working").iterdir()] == ["progress.json"]


def test_words_of_any_script_come_back(folder: Path) -> None:
    keep_progress(folder)(Progress("größe/\u4e00 3", 1, 2))
    assert read_progress(folder) == Progress("größe/\u4e00 3", 1, 2)


def test_a_job_goes_on_when_its_progress_cannot_be_kept(tmp_path: Path) -> None:
    keep_progress(tmp_path)(Progress("fit", 1, 1))
    assert list(tmp_path.iterdir()) == []
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b'{"where": "fit", "done": 1, "tot',
        b"\xff\xfe",
        b"[]",
        b"7",
        b'{"where": "fit", "done": 1}',
        b'{"where": "fit", "done": "1", "total": 2}',
        b'{"where": null, "done": 1, "total": 2}',
        b'{"where": "fit", "done": 0.5, "total": 2}',
        b"[" * 100_000,
    ],
)
def test_what_cannot_be_read_is_nothing(content: bytes, folder: Path) -> None:
    (folder / ".working" / "progress.json").write_bytes(content)
    assert read_progress(folder) is None


def test_the_progress_of_real_processes_is_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parties are processes as always, but their check says how far it is; the coordinator's does not."""
    example.write(tmp_path / "tables", rows=1000)
    job = example_job("check")
    plan = job.plan.model_copy(update={"parameters": {"round_trips": 1, "megabytes": 1}, "timeout": 600.0})
    privates = {name: private.at(tmp_path / "tables") for name, private in job.privates.items()}
    start = subprocess.Popen

    def start_telling(call: list[str], **options: Any) -> subprocess.Popen[bytes]:
        assert call[1:3] == ["-m", "unpooled"]
        return start([call[0], "-c", CHECK_THAT_TELLS, *call[3:]], **options)

    monkeypatch.setattr(subprocess, "Popen", start_telling)
    seen: list[Mapping[str, Progress]] = []
    results = spawn(plan, privates, tmp_path / "run", seen.append)
    assert results["bank"]["rows"] == {"shop": 45, "telco": 900}
    sent = {party: progress.sent for party, progress in seen[-1].items()}
    assert seen[-1] == {
        party: Progress("fit/tree 3", 1000, 1000, sent[party], "fit/tree 3", 1.0) for party in ("shop", "telco", "bank")
    }
    assert min(sent.values()) > 0
    kept = tmp_path / "run" / "bank" / ".working" / "progress.json"
    assert json.loads(kept.read_text()) == vars(seen[-1]["bank"])


# Scopes within scopes


@dataclass
class Telling:
    sent: int = 11
    weights: dict[str, Sequence[int]] = field(default_factory=dict)


def told(*scopes: tuple[str, int, int]) -> Progress:
    """What is handed on after a session has told these."""
    seen: list[Progress] = []
    tell = nested(seen.append, Telling)
    for scope in scopes:
        tell(*scope)
    return seen[-1]


def test_a_scope_is_a_part_of_the_one_around_it() -> None:
    found = told(("find", 2, 6), ("find/step 3", 21, 50))
    assert found == Progress("find/step 3", 21, 50, 11, "find", (2 + 21 / 50) / 6)


def test_products_count_and_are_not_named_beside_what_they_are_for() -> None:
    found = told(("find", 2, 6), ("find/step 3", 21, 50), ("find/step 3/product 120", 1, 4))
    assert (found.where, found.done, found.total) == ("find/step 3", 21, 50)
    assert found.fraction == pytest.approx((2 + (21 + 1 / 4) / 50) / 6)
    alone = told(("fit/product 2/encrypt", 10, 40))
    assert (alone.where, alone.step, alone.fraction) == ("fit/product 2/encrypt", "fit/product 2/encrypt", 0.25)


def test_scopes_that_are_left_are_forgotten() -> None:
    found = told(("find", 2, 6), ("find/step 3", 50, 50), ("find", 3, 6), ("find/step 4", 0, 50))
    assert (found.where, found.fraction) == ("find/step 4", 0.5)
    assert told(("find", 2, 6), ("score", 1, 4)) == Progress("score", 1, 4, 11, "score", 0.25)
    assert told(("fit/tree 1", 1, 2), ("fit/tree 10", 1, 4)).step == "fit/tree 10"


@pytest.mark.parametrize(("done", "total", "fraction"), [(0, 0, 0.0), (3, 2, 1.0), (5, 0, 1.0)])
def test_a_share_is_never_more_than_all(done: int, total: int, fraction: float) -> None:
    assert told(("fit", done, total)).fraction == fraction


def test_a_fraction_never_falls_within_a_step() -> None:
    """Scoring, which begins anew in the scope of the fit, does not put the bar back."""
    assert told(("find", 1, 2), ("find/step 2", 50, 50), ("find/step 2", 0, 900)).fraction == 1.0
