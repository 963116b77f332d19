"""Parties are cut off anywhere, and the run that goes on ends like an undisturbed one (`bench-faults` tries all)."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuts import Attempt, Cut, watching
from fault_jobs import JOBS, plan_of, privates_of
from faults import Bench, Fault
from unpooled import atomic
from unpooled.errors import PeerFailed, PeerLost, RefusedError
from unpooled.ledger import read_ledger
from unpooled.secure.query_count import Asked

EVERY = 251

# A process that is killed does not close its files.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """In memory where that can be: the parties write much, and each time wait for the disk."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder, watching():
        yield Bench(Path(folder) / "bench")


@pytest.mark.parametrize("job", JOBS)
def test_whoever_is_cut_off_wherever_the_run_goes_on_as_if_nothing_had_been(bench: Bench, job: str) -> None:
    tried = [bench.try_one(fault) for fault in list(bench.faults(job))[::EVERY]]
    assert [one for one in tried if one.differences] == []


@pytest.mark.parametrize("job", ["align", "train, linear"])
def test_a_party_that_is_cut_off_as_it_writes_its_book_has_counted_enough_and_raises_no_alarm(
    bench: Bench, job: str
) -> None:
    written = re.compile(r"book\.jsonl|budget\.json|rows|key|bank\.csv-.*\.json")
    points = [point for point in bench.whole(job).points if point.party == "bank" and written.search(point.what)]
    assert {point.what.partition(" ")[2] for point in points} >= {"book.jsonl", "budget.json", "rows", "key"}
    tried = [bench.try_one(Fault(job, (point,))) for point in points[::2]]
    assert [one for one in tried if one.differences] == []


def test_points_have_the_same_numbers_in_every_run(bench: Bench) -> None:
    again = bench.attempt("lookalike, trees", bench.folder / "again")
    assert sorted(again.points) == bench.whole("lookalike, trees").points


def fault_at(bench: Bench, job: str, party: str, what: str, number: int = 0) -> Fault:
    points = [point for point in bench.whole(job).points if (point.party, point.what) == (party, what)]
    return Fault(job, (points[number],))


def test_a_dead_party_does_nothing_more(bench: Bench) -> None:
    job = "lookalike, trees"
    (point,) = fault_at(bench, job, "bank", "message sent", 30).points
    attempt = bench.attempt(job, bench.folder / "dead", point)
    assert isinstance(attempt.errors["bank"], Cut)
    home = bench.folder / "dead" / "bank"
    assert '"state": "running"' in (home / "status.json").read_text()
    ledger = read_ledger(home / "ledger.jsonl")
    assert not ledger.closed
    assert "Abort" not in {entry.kind for entry in ledger.entries}
    others = [error for party, error in attempt.errors.items() if party != "bank"]
    assert len(others) == 3
    assert all(isinstance(error, PeerLost | PeerFailed) and error.origin == "bank" for error in others)


# What a party answers


class KilledWhenItHasAnswered(Attempt):
    """The telco is, once, and has kept nothing of it."""

    answering = False

    def event(self, party: str, what: str, thread: str = "", half: Callable[[], None] | None = None) -> None:
        super().event(party, what, thread, half)
        if what == 'line "way": "sent", "peer": "bank", "kind": "Contribution"':
            self.answering = True
        elif self.answering and (party, what) == ("telco", "message sent"):
            self.die(party)
            raise Cut


def test_a_party_may_be_killed_again_and_again(bench: Bench) -> None:
    job, root = "lookalike, trees", bench.folder / "again and again"
    root.mkdir()
    for _ in range(4):
        killed = KilledWhenItHasAnswered(
            plan_of(JOBS[job]), privates_of(JOBS[job], bench.folder / "tables", None), root
        )
        killed.go()
        assert isinstance(killed.errors["telco"], Cut)
    again = bench.attempt(job, root)
    assert again.errors == {}
    assert (root / "shop" / "reliable.csv").read_bytes() == bench.whole(job).files["shop/reliable.csv"]
    assert again.results["telco"]["questions"] > bench.whole(job).questions["telco"], "what it was asked in vain counts"


@pytest.mark.parametrize("spare", [0, 8])
def test_its_own_limit_holds_for_a_training_that_is_resumed(bench: Bench, spare: int) -> None:
    """What it had answered and not kept is asked twice."""
    job, root = "train, trees", bench.folder / f"limit-{spare}"
    limit = bench.whole(job).questions["telco"] + spare
    privates = privates_of(JOBS[job], bench.folder / "tables", None)
    policy = privates["telco"].policy.model_copy(update={"maximum_questions": limit})
    privates["telco"] = privates["telco"].model_copy(update={"policy": policy})
    root.mkdir()
    for run in (KilledWhenItHasAnswered, Attempt):
        attempt = run(plan_of(JOBS[job]), privates, root)
        attempt.go()
    if spare:
        assert attempt.errors == {}
    else:
        assert isinstance(attempt.errors["telco"], RefusedError)
        assert re.search(rf"telco .*\b{limit}\b", str(attempt.errors["telco"]))


# It would be noticed


def test_what_is_answered_and_not_counted_is_noticed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = fault_at(bench, "lookalike, trees", "telco", "message sent", -12)
    monkeypatch.setattr(Asked, "_count_ahead", lambda *_: None)
    assert any("telco" in difference for difference in bench.try_one(fault).differences)


def test_a_file_that_is_left_over_is_noticed(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = fault_at(bench, "align", "bank", "os.rename aligned.csv")
    monkeypatch.setattr(atomic, "remove_unfinished", lambda *_: None)
    assert [difference.partition(".csv")[0] for difference in bench.try_one(fault).differences] == ["bank/.aligned"]


def test_a_list_that_is_different_is_noticed(bench: Bench) -> None:
    fault = fault_at(bench, "lookalike, trees", "bank", "message sent", -3)
    whole = bench.whole("lookalike, trees")
    kept = whole.files["shop/reliable.csv"]
    whole.files["shop/reliable.csv"] = b"id,rank"
    assert bench.try_one(fault).differences == ("shop/reliable.csv is different",)
    whole.files["shop/reliable.csv"] = kept
