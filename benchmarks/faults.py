"""Small jobs of every kind, each party cut off at every point, resumed, and compared with an undisturbed run.

The points are those of `cuts`: before and after every message, before every file change, within every line of a ledger
and every new file. The parties run the code of `unpooled join` and `unpooled resume`, and communicate in memory.
`fault_checks` compares lists, rankings, predictions, models, ledgers and counts of what was answered, and checks that
nothing is left over. For every tenth point the resumed run is cut off as well, elsewhere.

`--every N` tries only each N-th point, and does not judge the bars; `--processes N` sets the number of processes, by
default one per core.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

for threads in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # there is a process for each core

from rich.console import Console  # noqa: E402

from cuts import Attempt, Point, watching  # noqa: E402
from fault_checks import Undisturbed, after_a_cut, after_resuming, told_in, undisturbed  # noqa: E402
from fault_jobs import JOBS, plan_of, privates_of, write_tables  # noqa: E402

LEAST_POINTS = 5_000
TWICE = 10
_PRIME = 7_919


class Fault(NamedTuple):
    """A job, where a party is cut off, and perhaps where one is as the job is resumed."""

    job: str
    points: tuple[Point, ...]


class Tried(NamedTuple):
    """What came of a fault: whether a second cut was come by, and what is different from an undisturbed run."""

    fault: Fault
    cuts: int
    differences: tuple[str, ...]


class Bench:
    """A folder with tables, undisturbed runs, and the run that is tried now."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        write_tables(folder / "tables")
        self.whole = lru_cache(maxsize=None)(self._whole)

    def attempt(self, job: str, root: Path, cut: Point | None = None) -> Attempt:
        model = JOBS[job].model
        if model:
            self.whole(model)
        privates = privates_of(JOBS[job], self.folder / "tables", self._home(model) if model else None)
        root.mkdir(exist_ok=True)
        attempt = Attempt(plan_of(JOBS[job]), privates, root, cut)
        attempt.go()
        return attempt

    def _whole(self, job: str) -> Undisturbed:
        return undisturbed(self.attempt(job, self._home(job)))

    def _home(self, job: str) -> Path:
        return self.folder / job.replace(", ", "-").replace(" ", "-")

    def faults(self, job: str) -> Iterator[Fault]:
        """Every point of a job, with a second one for some."""
        points = self.whole(job).points
        for number, point in enumerate(points):
            second = points[number * _PRIME % len(points)]
            yield Fault(job, (point, second) if number % TWICE == 0 else (point,))

    def try_one(self, fault: Fault) -> Tried:
        """Cut off, resume, compare."""
        whole, root = self.whole(fault.job), self.folder / "run"
        told, found, cuts = Counter[str](), list[str](), 0
        for point in fault.points:
            attempt = self.attempt(fault.job, root, point)
            told += told_in(attempt)
            if not attempt.errors and cuts:  # what is left to do did not come by the second point
                break
            found += after_a_cut(attempt, told)
            cuts += 1
        if attempt.errors:
            attempt = self.attempt(fault.job, root)
            told += told_in(attempt)
        found += after_resuming(attempt, whole, told, cuts)
        shutil.rmtree(root)
        return Tried(fault, cuts, tuple(found))


@lru_cache(maxsize=1)
def _bench(folder: str) -> Bench:
    """This process's own."""
    return Bench(Path(folder) / f"process-{os.getpid()}")


def _try(folder: str, fault: Fault) -> Tried:
    with watching():
        return _bench(folder).try_one(fault)


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--every", type=int, default=1)
    options.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = options.parse_args()
    console, began = Console(stderr=True), time.perf_counter()
    tried: dict[str, list[Tried]] = {job: [] for job in JOBS}
    memory = Path("/dev/shm")  # noqa: S108
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        with watching():
            faults = [fault for job in JOBS for fault in _bench(folder).faults(job)][:: given.every]
        random.Random(1).shuffle(faults)  # so that whatever is wrong shows soon
        afresh = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(given.processes, afresh) as pool:  # which says so if one of its processes is ended
            results = pool.map(partial(_try, folder), faults, chunksize=8)
            for number, one in enumerate(results, start=1):
                tried[one.fault.job].append(one)
                for difference in one.differences:
                    console.print(f"{one.fault.job}: {one.fault.points}: {difference}", markup=False, soft_wrap=True)
                if number % 500 == 0:
                    console.print(f"{number} of {len(faults)} points, {time.perf_counter() - began:.0f} s")
    report(tried, time.perf_counter() - began, full=given.every == 1)


def report(tried: dict[str, list[Tried]], seconds: float, *, full: bool) -> None:
    def counted(of: Sequence[Tried]) -> dict[str, int]:
        return {
            "points": len(of),
            "differ": sum(bool(one.differences) for one in of),
            "cut_twice": sum(one.cuts > 1 for one in of),
        }

    total = counted([one for of in tried.values() for one in of])
    figures: dict[str, Any] = {
        "benchmark": "faults",
        "cores": os.cpu_count(),
        "seconds": round(seconds),
        "kinds": {job: counted(of) for job, of in tried.items()},
        "cut_twice": total["cut_twice"],
    }
    bars = [
        {
            "name": "fault_points",
            "value": total["points"],
            "bar": LEAST_POINTS,
            "holds": total["points"] >= LEAST_POINTS,
        },
        {"name": "fault_points_differ", "value": total["differ"], "bar": 0, "holds": total["differ"] == 0},
    ]
    print(json.dumps(figures | {"bars": bars if full else []}))


if __name__ == "__main__":
    main()
