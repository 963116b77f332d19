"""How true forecasts are: jobs on the example tables are forecast, then run with a process for each party.

For each job and figure the largest ratio of forecast and truth, either way, of all parties. Bytes and messages are from
the ledgers, CPU seconds and memory from `status.json`. There CPU seconds lack those of worker processes that are
still there in the end, so the parties compute without any. The tables are far larger than those of a rehearsal.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from unpooled.data.example import SEED
from unpooled.jobs.checks import checked
from unpooled.jobs.examples.example_job import Engine, write_job_files
from unpooled.jobs.files import load_job
from unpooled.jobs.kinds import kind_named
from unpooled.ledger import read_ledger
from unpooled.run import folder as run_folder
from unpooled.run.forecast import forecast
from unpooled.run.spawn import books_in, spawn

JOBS: dict[str, tuple[str, Engine, dict[str, Any]]] = {
    "align": ("align", "shares", {}),
    "gbdt": ("train", "shares", {"model": {"classes": 0}}),
    "gbdt, nodes hidden": ("train", "shares", {"model": {"classes": 0, "trees": 5, "hide_nodes": True}}),
    "lgb": ("train", "shares", {"model": {"learner": "lgb", "classes": 0, "trees": 20}}),
    "rf": ("train", "shares", {"model": {"learner": "rf", "classes": 0}}),
    "linear": ("train", "shares", {"model": {"learner": "linear", "classes": 0}}),
    "linear, gradients": ("train", "shares", {"model": {"learner": "linear", "classes": 0, "reveal": "gradients"}}),
    "completing": ("complete", "shares", {"model": {"trees": 10}}),
    "look-alikes": ("lookalike", "shares", {"method": {"iterations": 2}, "model": {"trees": 10}}),
    "gbdt, paillier": ("train", "paillier", {"model": {"classes": 0, "trees": 2}}),
    "gbdt, paillier, nodes hidden": (
        "train",
        "paillier",
        {"model": {"classes": 0, "trees": 1, "depth": 4, "hide_nodes": True}},
    ),
    "lgb, paillier": ("train", "paillier", {"model": {"learner": "lgb", "classes": 0, "trees": 2}}),
    "rf, paillier": ("train", "paillier", {"model": {"learner": "rf", "classes": 0, "trees": 3}}),
    "linear, paillier": (
        "train",
        "paillier",
        {"model": {"learner": "linear", "classes": 0, "epochs": 2, "reveal": "gradients"}},
    ),
    "look-alikes, paillier": (
        "lookalike",
        "paillier",
        {"method": {"name": "bagging", "bags": 4}, "estimate": False, "top": 100, "model": {"trees": 2}},
    ),
}
FIGURES = {"messages": 2.0, "sent_bytes": 2.0, "received_bytes": 2.0, "cpu_seconds": 2.0, "peak_memory_mb": 2.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--jobs", nargs="+", default=list(JOBS), choices=JOBS)
    options = parser.parse_args()
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"
    console, bars, took = Console(stderr=True), [], {}
    shown = Table("job", "party", *FIGURES, "rehearsed")
    for name in options.jobs:
        foretold, truth, took[name] = measured(name, options.rows)
        for figure, bar in FIGURES.items():
            ratios = [foretold[party][figure] / truth[party][figure] for party in truth]
            worst = max(max(ratio, 1 / ratio) for ratio in ratios)
            bars.append({"name": f"{name}: {figure}", "value": round(worst, 2), "bar": bar, "holds": worst <= bar})
        for party in truth:
            pairs = [f"{foretold[party][figure]:,.0f} of {truth[party][figure]:,.0f}" for figure in FIGURES]
            shown.add_row(name, party, *pairs, f"{took[name]:.1f} s")
    console.print(shown)
    print(json.dumps({"rows": options.rows, "rehearsal_seconds": took, "bars": bars}))


def measured(name: str, rows: int) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]], float]:
    """What was forecast, what it came to, by party and figure, and how long the forecast took."""
    kind, engine, parameters = JOBS[name]
    with tempfile.TemporaryDirectory() as folder:
        tables, run = Path(folder) / "tables", Path(folder) / "run"
        kind_named(kind).example.tables.write(tables, rows, SEED)
        write_job_files(tables, kind, engine=engine)
        job = load_job(tables / "job.toml")
        plan = job.plan.model_copy(update={"parameters": parameters})
        began = time.perf_counter()
        found = forecast([checked(plan, party, private) for party, private in job.privates.items()])
        took = time.perf_counter() - began
        spawn(plan, job.privates, run, books=books_in(run))
        truth = {party: _truth(run / party) for party in plan.parties}
    return {party: vars(cost) for party, cost in found.parties.items()}, truth, round(took, 1)


def _truth(folder: Path) -> dict[str, float]:
    status, entries = run_folder.read_json(folder / run_folder.STATUS), read_ledger(folder / run_folder.LEDGER).entries
    return {
        "messages": sum(entry.way == "sent" for entry in entries),
        "sent_bytes": sum(entry.bytes for entry in entries if entry.way == "sent"),
        "received_bytes": sum(entry.bytes for entry in entries if entry.way == "received"),
        "cpu_seconds": status["cpu_seconds"],
        "peak_memory_mb": status["peak_memory_mb"],
    }


if __name__ == "__main__":
    main()
