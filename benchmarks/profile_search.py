"""Where a look-alike search spends CPU seconds, step by step at each party, and what it sends, by type of message.

The credit data set, 30,000 rows, four parties as processes that communicate over mutual TLS; 10 trees a model and two
iterations, so that it takes a minute or two. `shown` is the VFPU paper's way (depth 6, bags and nodes shown, no
estimates), `default` what a search does if nothing is said (depth 3, bags and nodes hidden, five models for estimates).

CPU seconds are those of a party's main thread, by the profiler of Python with a clock of the thread's CPU time. What a
library function takes counts for the code of the project that called it. The profiler itself makes short functions
longer, so the fractions say more than the sums. Threads that receive, decrypt and record frames, or multiply points on
few cores, come on top as one line, and so do imports. Waiting takes no CPU seconds; it is what is left of the wall
time.

Prints two tables in Markdown for each way, and all figures as one JSON object in the last line. `default` or `shown` as
an argument takes one way alone.
"""

from __future__ import annotations

import cProfile
import functools
import json
import os
import pstats
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import vfpu
from unpooled.data import datasets
from unpooled.ledger import read_ledger
from unpooled.run import spawn as spawning
from unpooled.run.folder import LEDGER

TREES, ITERATIONS, FEWEST = 10, 2, 0.01
MODEL = {"learner": "gbdt", "trees": TREES}
WAYS: dict[str, dict[str, Any]] = {
    "shown": {"model": MODEL | {"depth": 6, "hide_nodes": False, "hide_bags": False}, "estimate": False},
    "default": {"model": MODEL},
}
MODELS = {"shown": 10 * ITERATIONS, "default": 10 * ITERATIONS + 5}
NAMES = {"b": "passive party", "c": "active party"}
STEPS = {
    "secure/randomness.py:shuffles": "random orders",
    "secure/randomness.py": "random numbers (AES)",
    "secure/mod64.py:product": "products of masked matrices",
    "secure/mod64.py:product_of": "products of masked matrices",
    "secure/mod64.py:fold": "nodes folded into gradients",
    "secure/mod64.py:one_hot": "one-hot matrix less its mask",
    "secure/mod64.py": "sums over bins, secret shares",
    "secure/shares/permutation.py": "rows in secret orders",
    "secure/shares/packing.py": "packing",
    "secure/shares/opening.py": "matrices less their masks",
    "secure/shares/state.py": "matrices less their masks",
    "secure/shares/": "engine shares, the rest",
    "secure/": "products, the rest",
    "vertical/trees/grower/splitting.py": "search for splits",
    "vertical/trees/grower/min_rows.py": "bins with enough rows",
    "vertical/trees/grower/": "growing, the rest",
    "vertical/trees/predictor.py": "scoring",
    "vertical/trees/binning.py": "values as bins",
    "vertical/trees/bundles.py": "values as bins",
    "vertical/": "gradients, leaves, models",
    "pu/": "bags and estimates",
    "align/": "alignment",
    "workers.py": "alignment",
    "transport/": "sending (TLS)",
    "session.py": "messages as bytes, ledger",
    "codec.py": "messages as bytes, ledger",
    "wire.py": "messages as bytes, ledger",
    "ledger.py": "messages as bytes, ledger",
    "chain.py": "messages as bytes, ledger",
    "": "job: files, table, checks",
}
IMPORTS, RECEIVING, WORKERS = "imports", "receiving (TLS, ledger), other threads", "worker processes"
PROJECT = str(Path(spawning.__file__).parents[1]) + "/"

Function = tuple[str, int, str]


def step_of(function: Function) -> str:
    """The first name in `STEPS` that the function's file, or file and name, begins with."""
    file, _, name = function
    place = f"{file.removeprefix(PROJECT)}:{name}"
    return next(step for begin, step in STEPS.items() if place.startswith(begin))


def by_step(path: Path) -> dict[str, float]:
    """Each function's own CPU seconds; those of libraries go to the code of the project that called them."""
    stats: Mapping[Function, Any] = pstats.Stats(str(path)).stats  # type: ignore[attr-defined]

    @functools.cache
    def steps(function: Function) -> dict[str, float]:
        """To which steps a second of a function's own time belongs."""
        file, _, _ = function
        if file.startswith(PROJECT):
            return {step_of(function): 1.0}
        if "importlib" in file:
            return {IMPORTS: 1.0}
        callers = stats[function][4] if function in stats else {}
        total = sum(caller[2] for caller in callers.values())
        found: dict[str, float] = defaultdict(float)
        if not total or function in visited:
            return {STEPS[""]: 1.0}
        visited.add(function)
        for caller, (_, _, own, _) in callers.items():
            for step, part in steps(caller).items():
                found[step] += part * own / total
        visited.discard(function)
        return dict(found)

    visited: set[Function] = set()
    taken: dict[str, float] = defaultdict(float)
    for function, (_, _, own, _, _) in stats.items():
        for step, part in steps(function).items():
            taken[step] += own * part
    return dict(taken)


def party(output: Path, words: list[str]) -> None:
    """Take part as one party, under the profiler."""
    profile = cProfile.Profile(time.thread_time)
    sys.argv = ["unpooled", *words]
    profile.enable()
    try:
        from unpooled.cli import main as command

        command()
    finally:
        profile.disable()
        profile.dump_stats(output / "profile")
        times = os.times()
        clocks = {
            "thread": time.thread_time(),
            "process": times.user + times.system,
            "workers": times.children_user + times.children_system,
        }
        (output / "clocks.json").write_text(json.dumps(clocks))


def profiled(way: str, folder: Path, dealt: datasets.Scenario) -> dict[str, Any]:
    """One search, with each party under the profiler."""
    start = subprocess.Popen

    def under_profiler(words: list[str], **options: Any) -> Any:
        output = words[words.index("--run") + 1]
        return start([sys.executable, __file__, "--party", output, *words[3:]], **options)

    with mock.patch.object(spawning.subprocess, "Popen", under_profiler):
        taken = vfpu.together(way, folder, dealt, method={"iterations": ITERATIONS}, **WAYS[way])
    cpu, sent = {}, Counter[tuple[str, str]]()
    for name in vfpu.ROLES:
        clocks = json.loads((folder / way / name / "clocks.json").read_text())
        steps = by_step(folder / way / name / "profile")
        steps[RECEIVING] = clocks["process"] - clocks["thread"]
        steps[WORKERS] = clocks["workers"]
        cpu[NAMES.get(name, vfpu.ROLES[name])] = {step: round(each, 3) for step, each in steps.items()}
        for entry in read_ledger(folder / way / name / LEDGER).entries:
            if entry.way == "sent":
                peer = NAMES.get(entry.peer, vfpu.ROLES[entry.peer])
                sent[entry.kind, f"{NAMES.get(name, vfpu.ROLES[name])} to {peer}"] += entry.bytes
    rows_trees = dealt.tables["c"].height * TREES * MODELS[way]
    per_row = {
        f"{kind}, {who}": {"bytes": size, "row_tree": round(size / rows_trees, 3)}
        for (kind, who), size in sent.most_common()
    }
    return {"seconds": taken["seconds"], "cpu_seconds": taken["cpu_seconds"], "by_step": cpu, "sent": per_row}


def tables(way: str, found: Mapping[str, Any]) -> str:
    by_party = found["by_step"]
    steps = sorted(
        {s for taken in by_party.values() for s in taken}, key=lambda s: -sum(t.get(s, 0.0) for t in by_party.values())
    )
    lines = [
        f"**{way}**, {found['seconds']} s",
        "",
        f"| CPU seconds | {' | '.join(by_party)} |",
        "|---|" + "---|" * len(by_party),
    ]
    for step in steps:
        each = [taken.get(step, 0.0) for taken in by_party.values()]
        if max(each) >= FEWEST:
            lines.append(f"| {step} | {' | '.join(f'{seconds:.2f}' for seconds in each)} |")
    lines += ["", "| message | bytes | for each row and tree |", "|---|---|---|"]
    lines += [
        f"| {name} | {size['bytes']:,} | {size['row_tree']:.2f} |"
        for name, size in found["sent"].items()
        if size["row_tree"] >= FEWEST
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--party"]:
        return party(Path(sys.argv[2]), sys.argv[3:])
    figures: dict[str, Any] = {
        "benchmark": "profile_search",
        "cores": os.cpu_count(),
        "trees": TREES,
        "iterations": ITERATIONS,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dealt = vfpu.write_tables(folder)
        for way in sys.argv[1:] or WAYS:
            figures[way] = profiled(way, folder, dealt)
            print(tables(way, figures[way]))
    print(json.dumps(figures))
    return None


if __name__ == "__main__":
    main()
