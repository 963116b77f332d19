"""What a look-alike search costs: the credit data, four parties as processes that communicate over mutual TLS.

Everything counts, from starting the processes through the alignment to the list: wall time, each party's CPU seconds
and peak memory, messages, bytes, and rounds (how often the active party switches from sending to receiving). The
settings are the VFPU paper's: 50 trees of depth 6, M = 5 iterations, T = 10 bags.

- `shown`: the VFPU paper's way (`hide_bags = false`), where only a bag's rows take part in products, without estimates
- `hidden`: the same with hidden bags, where every row takes part in every bag, and five more models for estimates
- `default`: what a search does if nothing is said: trees of depth 3, bags and nodes hidden, passive parties' columns in
  9 bins, five more models for estimates
- `pooled`: the same algorithm with LightGBM on the pooled columns, with as many trees of the same depth; in the same
  run, before and after, and the better one counts. On one thread, which takes the least CPU seconds, and on all cores,
  which takes the fewest seconds
- `heavy`: one iteration of 500 trees of depth 12 at learning rate 0.02, the VFPU paper's way; five times that is about
  a full run

`shares_vs_lightgbm` and `default_vs_lightgbm` are the CPU seconds of all four processes, from their start to the list,
over those of LightGBM on one thread, of depth 6 and of depth 3; `..._wall` are seconds over seconds on all cores.
`bytes_row_tree` is what all parties of the default search send, frames as ledgers record them, from the first message
of growing trees to the last, divided by rows and trees; the alignment before and the list after it do not count.

Short searches come first, so that compiling loops, which happens once on a machine, does not count. `--quick` takes
fewer trees and no heavy setting, and does not judge the bars; `--without-heavy` leaves out just that.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import lightgbm
import numpy as np
from rich.console import Console

from unpooled.arrays import Bools, Floats
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, transform
from unpooled.data.prepare import fit as learn_preparation
from unpooled.data.sources import TableSettings
from unpooled.data.table import table_from_frame
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Consent, Private
from unpooled.ledger import Record, read_ledger
from unpooled.pu.bags import Bag
from unpooled.pu.methods import rank
from unpooled.pu.settings import VfpuSettings
from unpooled.run.folder import LEDGER, STATUS, read_json
from unpooled.run.spawn import books_in, spawn
from unpooled.secure.product import Contribution
from unpooled.secure.shares.dealer import Deal, Dealt
from unpooled.secure.shares.opening import Hidden
from unpooled.secure.shares.permuting import Orders
from unpooled.vertical.trees import messages
from unpooled.wire import kind_of

ROLES = {"a": "seeker", "b": "passive", "c": "active", "coordinator": "coordinator"}
SEED, TOP = 7, 1_000
PAPERS_SECONDS = 107_076  # the VFPU paper's full run of the heavy setting
BARS = {
    "shares_vs_lightgbm": 8.0,
    "default_vs_lightgbm": 30.0,
    "bytes_row_tree": 25.0,
    "hidden_minutes": 10.0,
    "memory_gb": 2.0,
    "heavy": 600.0,
}
BAGS, MODELS_FOR_ESTIMATES = 10, 5
HEAVY = {"trees": 500, "depth": 12, "learning_rate": 0.02}

GROWING = {
    kind_of(kind)
    for kind in (
        *(Deal, Dealt, Hidden, Orders, Contribution),
        *(messages.LentColumns, messages.Begin, messages.Trees, messages.Bags, messages.Level, messages.HiddenLevel),
        *(messages.Merged, messages.SplitRequest, messages.SplitSides, messages.SplitRequestForAll),
        *(messages.SplitSidesForAll, messages.Grown, messages.Finished),
    )
}
"""Everything that growing trees sends."""

console = Console(stderr=True)


def write_tables(folder: Path) -> datasets.Scenario:
    dealt = datasets.scenario("credit", seed=SEED)
    for party, table in dealt.tables.items():
        table.write_csv(folder / f"{party}.csv")
    return dealt


def private_of(party: str, folder: Path, dealt: datasets.Scenario) -> Private:
    if party not in dealt.tables:
        return Private()
    held = set(dealt.tables[party].columns)
    types = {name: kind for name, kind in datasets.TYPES["credit"].items() if name in held}
    table = TableSettings.model_validate({"path": str(folder / f"{party}.csv"), "id": "id", "types": types})
    consent = Consent(positives=party == "a", found=party != "a")
    return Private(seed=SEED, table=table, consent=consent)


def together(name: str, folder: Path, dealt: datasets.Scenario, **parameters: Any) -> Any:
    """Run the job; what it took, and how good the list is."""
    plan = Plan(
        kind="lookalike",
        parties={party: Party.model_validate({"role": role}) for party, role in ROLES.items()},
        parameters=parameters | {"top": TOP},
    )
    console.print(f"{name} ...")
    begin = time.perf_counter()
    privates = {party: private_of(party, folder, dealt) for party in ROLES}
    spawn(plan, privates, folder / name, books=books_in(folder / name))
    seconds = time.perf_counter() - begin
    records = {party: read_ledger(folder / name / party / LEDGER) for party in ROLES}
    status = {party: read_json(folder / name / party / STATUS) for party in ROLES}
    taken = {
        "seconds": round(seconds, 1),
        "cpu_seconds": {party: status[party]["cpu_seconds"] for party in ROLES},
        "peak_memory_mb": {party: status[party].get("peak_memory_mb") for party in ROLES},
        "rounds": rounds_of(records["c"]),
        **traffic(records),
        "precision_1000": round(precision(folder / name, dealt), 4),
    }
    console.print(f"{name}: {taken['seconds']} s, precision at {TOP}: {taken['precision_1000']}")
    return taken


def compile_loops(folder: Path, dealt: datasets.Scenario) -> None:
    """Run short searches first, so that compiling loops, which happens once on a machine, counts in none."""
    few: dict[str, Any] = {"trees": 2, "learner": "gbdt"}
    shown: dict[str, Any] = {"model": few | {"depth": 6, "hide_nodes": False, "hide_bags": False}, "estimate": False}
    ways: dict[str, dict[str, Any]] = {"compile, shown": shown, "compile, default": {"model": few}}
    with mock.patch.dict(os.environ, UNPOOLED_COMPILED="1"):
        for name, parameters in ways.items():
            together(name, folder, dealt, method={"iterations": 1}, **parameters)


def rounds_of(record: Record) -> int:
    ways = [entry.way for entry in record.entries]
    return sum(before == "sent" and after == "received" for before, after in pairwise(ways))


def traffic(records: dict[str, Record]) -> dict[str, dict[str, int]]:
    frames: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for party, record in records.items():
        for entry in record.entries:
            if entry.way == "sent":
                frames[f"{party} to {entry.peer}"] += 1
                sizes[f"{party} to {entry.peer}"] += entry.bytes
    return {"messages": dict(frames), "bytes": dict(sizes)}


def precision(run: Path, dealt: datasets.Scenario) -> float:
    positive = dict(zip(dealt.truth["id"].to_list(), dealt.truth["positive"].to_list(), strict=True))
    lines = (run / "a" / "reliable.csv").read_text().splitlines()[1:]
    return float(np.mean([positive[line.split(",")[0]] for line in lines]))


def pooled_matrix(dealt: datasets.Scenario) -> tuple[Floats, Bools, Bools]:
    """The pooled columns, who is known, and who is positive."""
    frame = dealt.tables["b"].join(dealt.tables["c"], on="id")
    table = table_from_frame(frame, "id", "pooled", datasets.TYPES["credit"], datasets.MISSING["credit"])
    matrix = transform(learn_preparation(table, PrepareSettings()), table).matrix
    known = frame["id"].is_in(dealt.tables["a"]["id"].to_list()).to_numpy()
    positive = frame.join(dealt.truth, on="id")["positive"].to_numpy()
    return matrix, known, positive


class Pooled(NamedTuple):
    """What the same algorithm took on pooled columns, and its precision."""

    seconds: float
    cpu_seconds: float
    precision: float


def with_lightgbm(dealt: datasets.Scenario, method: VfpuSettings, trees: int, depth: int, threads: int) -> Pooled:
    matrix, known, positive = pooled_matrix(dealt)
    settings = {
        "objective": "binary",
        "max_depth": depth,
        "num_leaves": 2**depth,
        "learning_rate": 0.1,
        "min_data_in_leaf": 10,
        "num_threads": threads,
        "verbose": -1,
    }

    def learn(bags: Sequence[Bag]) -> list[Floats]:
        found = []
        for bag in bags:
            rows = ~bag.outside
            data = lightgbm.Dataset(matrix[rows], bag.labels[rows], weight=bag.weights[rows])
            booster = lightgbm.train({**settings, "seed": bag.seed % 2**31}, data, trees)
            found.append(np.asarray(booster.predict(matrix, num_threads=threads)))
        return found

    begin, cpu = time.perf_counter(), time.process_time()
    ranking = rank(known, method, learn, SEED)
    precise = float(positive[ranking.order[:TOP]].mean())
    return Pooled(time.perf_counter() - begin, time.process_time() - cpu, precise)


def bytes_row_tree(run: Path, rows: int, trees: int) -> float:
    """What all parties sent while trees grew, for each row and tree."""
    sent = 0
    for party in ROLES:
        entries = read_ledger(run / party / LEDGER).entries
        sent += sum(entry.bytes for entry in entries if entry.way == "sent" and entry.kind in GROWING)
    return sent / rows / trees


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    with_heavy = not quick and "--without-heavy" not in sys.argv[1:]
    trees, iterations = (5, 2) if quick else (50, 5)
    method, model = {"iterations": iterations}, {"learner": "gbdt", "trees": trees, "depth": 6, "hide_nodes": False}
    seeds_way: dict[str, Any] = {"model": model | {"hide_bags": False}, "estimate": False}
    figures: dict[str, Any] = {"benchmark": "vfpu", "cores": os.cpu_count(), "trees": trees, "iterations": iterations}
    pooled: dict[str, list[Pooled]] = {}

    def beside() -> None:
        for depth in (3, 6):
            for threads in (1, os.cpu_count() or 1):
                console.print(f"LightGBM, depth {depth}, {threads} threads ...")
                taken = with_lightgbm(dealt, VfpuSettings(iterations=iterations), trees, depth, threads)
                pooled.setdefault(f"depth {depth}, {threads} threads", []).append(taken)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dealt = write_tables(folder)
        compile_loops(folder, dealt)
        beside()
        figures["shown"] = together("shown", folder, dealt, method=method, **seeds_way)
        figures["default"] = together(
            "default", folder, dealt, method=method, model={"learner": "gbdt", "trees": trees}
        )
        beside()
        figures["hidden"] = together("hidden", folder, dealt, method=method, model=model)
        rows, grown = dealt.tables["c"].height, trees * (BAGS * iterations + MODELS_FOR_ESTIMATES)
        row_tree = bytes_row_tree(folder / "default", rows, grown)
        if with_heavy:
            much = seeds_way | {"model": model | HEAVY | {"hide_bags": False}}
            heavy = together("heavy", folder, dealt, method={"iterations": 1}, **much)
            figures["heavy"] = heavy | {
                "full_run_extrapolated_seconds": 5 * heavy["seconds"],
                "the_seeds_seconds": PAPERS_SECONDS,
            }
    figures["pooled_lightgbm"] = {
        name: {
            "seconds": [round(each.seconds, 2) for each in taken],
            "cpu_seconds": [round(each.cpu_seconds, 2) for each in taken],
            "precision_1000": round(taken[0].precision, 4),
        }
        for name, taken in pooled.items()
    }
    ratios = {}
    for name, way, depth in (("shares_vs_lightgbm", "shown", 6), ("default_vs_lightgbm", "default", 3)):
        alone, together_ = pooled[f"depth {depth}, 1 threads"], pooled[f"depth {depth}, {os.cpu_count() or 1} threads"]
        ratios[name] = sum(figures[way]["cpu_seconds"].values()) / min(each.cpu_seconds for each in alone)
        ratios[f"{name}_wall"] = figures[way]["seconds"] / min(each.seconds for each in (*alone, *together_))
    figures["ratios"] = {name: round(value, 2) for name, value in ratios.items()}
    memory = [mb for way in ("shown", "hidden", "default") for mb in figures[way]["peak_memory_mb"].values() if mb]
    values = ratios | {
        "bytes_row_tree": row_tree,
        "hidden_minutes": figures["hidden"]["seconds"] / 60,
        "memory_gb": max(memory, default=float("nan")) / 1000,
    }
    figures["bytes_row_tree"] = round(row_tree, 2)
    if with_heavy:
        values["heavy"] = figures["heavy"]["full_run_extrapolated_seconds"]
    bars = [
        {"name": name, "value": round(values[name], 3), "bar": bar, "holds": values[name] <= bar}
        for name, bar in BARS.items()
        if name in values
    ]
    print(json.dumps(figures | {"bars": [] if quick else bars}))


if __name__ == "__main__":
    main()
