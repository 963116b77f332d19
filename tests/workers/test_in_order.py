"""A function over many items in several processes: in order, not further ahead than allowed, and faults come out."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from unpooled import workers
from unpooled.align.lists import checked_positions
from unpooled.errors import ProtocolError, WorkerLost
from unpooled.workers import cores, in_order, submit_all

# What runs in a worker must be importable there, which a test is not: hence the functions of the standard library.
CALL = operator.call
MY_PID = os.getpid


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 2)


class Source:
    """Counts how many items were taken from it."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.taken = 0

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            self.taken += 1
            yield number


def test_results_come_in_the_items_order() -> None:
    for most_ahead in (None, 1, 2, 3, 100):
        for count in (0, 1, 2, 3, 50):
            results = list(in_order(operator.neg, range(count), most_ahead))
            assert results == [-number for number in range(count)], most_ahead


def test_an_item_that_takes_long_does_not_lose_its_place() -> None:
    work = [partial(time.sleep, 0.2), *(partial(operator.neg, number) for number in range(1, 6))]
    assert list(in_order(CALL, work)) == [None, -1, -2, -3, -4, -5]


def test_several_items_are_worked_on_elsewhere() -> None:
    pids = set(in_order(CALL, [MY_PID] * 20))
    assert MY_PID() not in pids
    assert 1 <= len(pids) <= 2


def test_processes_stay_for_the_next_call_whichever_thread_makes_it() -> None:
    pids = set(in_order(CALL, [MY_PID] * 8))
    with ThreadPoolExecutor(1) as threads:
        pids |= set(threads.submit(lambda: list(in_order(CALL, [MY_PID] * 8))).result())
    assert os.getpid() not in pids
    assert len(pids) <= 2


def test_what_is_begun_goes_on_by_itself(tmp_path: Path) -> None:
    results = submit_all(Path.touch, [tmp_path / "one", tmp_path / "two", tmp_path / "three"])
    deadline = time.monotonic() + 250
    while len(list(tmp_path.iterdir())) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(list(tmp_path.iterdir())) == 3  # before any result was asked for
    assert list(results) == [None, None, None]


def test_results_of_what_is_begun_come_in_order() -> None:
    assert list(submit_all(operator.neg, range(20))) == [-number for number in range(20)]


def test_threads_share_the_work_in_this_process() -> None:
    def place(number: int) -> tuple[int, int, bool]:
        return number, os.getpid(), threading.current_thread().name.startswith("unpooled-worker")

    wanted = [(number, os.getpid(), True) for number in range(20)]
    assert list(in_order(place, range(20), threads=True)) == wanted
    assert list(submit_all(place, range(20), threads=True)) == wanted


@pytest.mark.parametrize("single", [{"count": 1, "most_ahead": None}, {"count": 5, "most_ahead": 1}])
def test_what_cannot_be_done_side_by_side_is_done_here(single: dict[str, int | None]) -> None:
    items = [MY_PID] * (single["count"] or 0)
    assert set(in_order(CALL, items, single["most_ahead"])) == {MY_PID()}


def test_with_one_core_all_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "cores", lambda: 1)
    assert set(in_order(CALL, [MY_PID] * 5)) == {MY_PID()}


def test_the_environment_makes_them_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert cores() == 1


def test_no_more_items_are_taken_ahead_than_allowed() -> None:
    for most_ahead, limit in ((1, 1), (2, 2), (3, 3), (4, 4), (100, 4), (None, 4)):
        source = Source(20)
        results = in_order(operator.neg, source, most_ahead)
        assert source.taken == 0
        for given, _ in enumerate(results):
            assert source.taken - given <= limit, most_ahead
        assert source.taken == 20


def test_items_may_depend_on_results_that_far_back() -> None:
    """Item n can be made only after result n - 3: with three ahead this ends, with more it would not."""
    results: list[int] = []

    def items() -> Iterator[int]:
        for number in range(12):
            assert number < 3 or len(results) > number - 3
            yield number

    for result in in_order(operator.neg, items(), 3):
        results.append(result)
    assert results == [-number for number in range(12)]


@pytest.mark.parametrize("most_ahead", [None, 1])
def test_an_error_comes_out_in_its_place(most_ahead: int | None) -> None:
    results = in_order(partial(operator.floordiv, 60), [1, 2, 0, 3, 4, 5], most_ahead)
    assert [next(results), next(results)] == [60, 30]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert list(in_order(operator.neg, range(3))) == [0, -1, -2]


def test_an_error_of_the_project_keeps_its_kind_and_text() -> None:
    with pytest.raises(ProtocolError, match=r"shop.* 3 "):
        list(in_order(partial(checked_positions, total=3, sender="shop"), [np.array([5])] * 3))


def test_an_error_in_the_items_comes_out() -> None:
    def items() -> Iterator[int]:
        yield from range(7)
        raise ProtocolError("telco sent something else")

    with pytest.raises(ProtocolError, match="telco"):
        list(in_order(operator.neg, items()))


def test_who_stops_early_leaves_nothing_behind() -> None:
    source = Source(1000)
    results = in_order(operator.neg, source)
    assert next(results) == 0
    results.close()  # type: ignore[attr-defined]
    assert source.taken <= 4
    assert list(in_order(operator.neg, range(5))) == [0, -1, -2, -3, -4]


@pytest.mark.parametrize(
    "end", [partial(os._exit, 1), partial(signal.raise_signal, signal.SIGKILL)], ids=["exit", "kill"]
)
def test_a_worker_that_ends_is_an_error_and_the_next_call_has_new_ones(end: object) -> None:
    with pytest.raises(WorkerLost):
        list(in_order(CALL, [MY_PID, MY_PID, end, MY_PID, MY_PID, MY_PID]))
    assert list(in_order(operator.neg, range(5))) == [0, -1, -2, -3, -4]


def test_the_loss_of_a_worker_may_be_told_to_peers() -> None:
    assert WorkerLost.shareable


SCRIPT = """
import os
import operator
from unpooled import workers
workers.cores = lambda: 2
print("begun")
print(list(workers.in_order(operator.neg, range(5))))
print(os.getpid() in set(workers.in_order(operator.call, [os.getpid] * 5)))
"""


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == ["begun", "[0, -1, -2, -3, -4]", "False"]
    assert (ran.returncode, ran.stderr) == (0, "")


KILLED = """
import operator, os, signal, time
from unpooled import workers
workers.cores = lambda: 2
print(*set(workers.in_order(operator.call, [os.getpid] * 8)), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_with_a_parent_that_is_killed() -> None:
    ran = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True, check=False)
    pids = [int(pid) for pid in ran.stdout.split()]
    assert pids
    deadline = time.monotonic() + 25  # an idle worker would end by itself after 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)
