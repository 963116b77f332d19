"""What a look-alike search costs: the credit data, four parties as processes that communicate over mutual TLS.

Everything counts, from starting the processes through the alignment to the list: wall time, each party's CPU seconds
and peak memory, messages, bytes, and rounds (how often the active party switches from sending to receiving). The
settings are the VFPU paper's: 50 trees of depth 6, M = 5 iterations, T = 10 bags.

- `shown`: the VFPU paper's way (`hide_bags = false`), where only a bag's rows take part in products, without estimates
- `hidden`: the default, where every row takes part in every bag, and five more models are trained for estimates
- `pooled`: the same algorithm with LightGBM on the pooled columns, on all cores, in the same run, before and after; the
  faster one counts
- `heavy`: one iteration of 500 trees of depth 12 at learning rate 0.02, the VFPU paper's way; five times that is about
  a full run

`--quick` takes fewer trees and no heavy setting, and does not judge the bars.
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
from typing import Any

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

ROLES = {"a": "seeker", "b": "passive", "c": "active", "coordinator": "coordinator"}
SEED, TOP = 7, 1_000
PAPERS_SECONDS = 107_076  # the VFPU paper's full run of the heavy setting
BARS = {"shares_vs_lightgbm": 25.0, "hidden_minutes": 10.0, "memory_gb": 2.0}
HEAVY = {"trees": 500, "depth": 12, "learning_rate": 0.02}

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


def with_lightgbm(dealt: datasets.Scenario, method: VfpuSettings, trees: int) -> tuple[float, float]:
    """Seconds of the same algorithm on the pooled columns, and its precision."""
    matrix, known, positive = pooled_matrix(dealt)
    settings = {"objective": "binary", "max_depth": 6, "num_leaves": 64, "learning_rate": 0.1, "min_data_in_leaf": 10}

    def learn(bags: Sequence[Bag]) -> list[Floats]:
        found = []
        for bag in bags:
            rows = ~bag.outside
            data = lightgbm.Dataset(matrix[rows], bag.labels[rows], weight=bag.weights[rows])
            booster = lightgbm.train({**settings, "seed": bag.seed % 2**31, "verbose": -1}, data, trees)
            found.append(np.asarray(booster.predict(matrix)))
        return found

    begin = time.perf_counter()
    ranking = rank(known, method, learn, SEED)
    return time.perf_counter() - begin, float(positive[ranking.order[:TOP]].mean())


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    trees, iterations = (5, 2) if quick else (50, 5)
    method, model = {"iterations": iterations}, {"learner": "gbdt", "trees": trees, "depth": 6, "hide_nodes": False}
    seeds_way: dict[str, Any] = {"model": model | {"hide_bags": False}, "estimate": False}
    figures: dict[str, Any] = {"benchmark": "vfpu", "cores": os.cpu_count(), "trees": trees, "iterations": iterations}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dealt = write_tables(folder)
        pooled = [with_lightgbm(dealt, VfpuSettings(iterations=iterations), trees)]
        figures["shown"] = together("shown", folder, dealt, method=method, **seeds_way)
        pooled.append(with_lightgbm(dealt, VfpuSettings(iterations=iterations), trees))
        figures["hidden"] = together("hidden", folder, dealt, method=method, model=model)
        if not quick:
            much = seeds_way | {"model": model | HEAVY | {"hide_bags": False}}
            heavy = together("heavy", folder, dealt, method={"iterations": 1}, **much)
            figures["heavy"] = heavy | {
                "full_run_extrapolated_seconds": 5 * heavy["seconds"],
                "the_seeds_seconds": PAPERS_SECONDS,
            }
    seconds = [taken for taken, _ in pooled]
    figures["pooled_lightgbm"] = {"seconds": [round(s, 2) for s in seconds], "precision_1000": round(pooled[0][1], 4)}
    memory = [mb for way in ("shown", "hidden") for mb in figures[way]["peak_memory_mb"].values() if mb is not None]
    values = {
        "shares_vs_lightgbm": figures["shown"]["seconds"] / min(seconds),
        "hidden_minutes": figures["hidden"]["seconds"] / 60,
        "memory_gb": max(memory, default=float("nan")) / 1000,
    }
    bars = [
        {"name": name, "value": round(values[name], 3), "bar": bar, "holds": values[name] <= bar}
        for name, bar in BARS.items()
    ]
    print(json.dumps(figures | {"bars": [] if quick else bars}))


if __name__ == "__main__":
    main()
