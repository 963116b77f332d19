"""How CPU time and memory grow with rows: a boosted tree by the engine `shares`, each party a process of its own.

Two owners of columns with a Parquet table each, and a coordinator. The job is `train`, from reading to the model: the
parties read, align (`aided`), prepare, bin and grow. Numbers of columns and trees are the same at all numbers of rows.
CPU seconds and peak memory are those that each party's `status.json` tells, so a party computes without worker
processes.

- `rows_growth`: CPU seconds per row of all parties together, at the most rows over those at a tenth of them.
- `million_rows_gb`: the most memory that the parties take, added up; each party's own is shown beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

from unpooled.data.sources import TableSettings
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Consent, Policy, Private
from unpooled.run import folder as run_folder
from unpooled.run.spawn import books_in, spawn

PARTIES = {"bank": "active", "telco": "passive", "helper": "coordinator"}
GROWTH_BAR, MEMORY_BAR_GB = 1.2, 4.0
_SHOWN = ("cpu_seconds", "peak_memory_mb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50, help="of each of the two owners")
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--memory", type=float, help="GB, in the private files of the owners")
    parser.add_argument("--only", action="store_true", help="at this number of rows alone")
    options = parser.parse_args()
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"
    sizes = [options.rows] if options.only else [options.rows // 10, options.rows]
    found = {rows: measured(rows, options.columns, options.trees, options.memory) for rows in sizes}
    shown = Table("rows", "party", "CPU seconds", "peak memory, MB")
    for rows, parties in found.items():
        for party, taken in parties.items():
            shown.add_row(f"{rows:,}", party, *(f"{taken[figure]:,.1f}" for figure in _SHOWN))
    Console(stderr=True).print(shown)
    print(json.dumps({"found": found}))


def measured(rows: int, columns: int, trees: int, memory: float | None) -> dict[str, dict[str, float]]:
    """What a job with so many rows takes at each party."""
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), rows, columns)
        plan, privates = job_files(Path(folder), trees, memory)
        run = Path(folder) / "run"
        series: dict[str, list[tuple[str, float]]] = {}
        spawn(
            plan, privates, run, books=books_in(run), watch=watching(run, series) if os.environ.get("WATCH") else None
        )
        for party, points in series.items():
            for scope, rss in points:
                print(party, scope, round(rss), file=sys.stderr)
        return {party: run_folder.read_json(run / party / run_folder.STATUS) for party in PARTIES}


def watching(run, series):
    import subprocess

    pids = {}

    def watch(said):
        if len(pids) < 3:
            out = subprocess.run(["pgrep", "-a", "-f", str(run)], capture_output=True, text=True).stdout
            for line in out.splitlines():
                for party in PARTIES:
                    if f"--as {party}" in line:
                        pids[party] = line.split()[0]
        for party, pid in pids.items():
            try:
                text = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            rss = {
                line.split(":")[0]: int(line.split()[1]) / 1000
                for line in text.splitlines()
                if line.startswith(("VmRSS", "RssAnon", "VmHWM"))
            }
            scope = str(said.get(party))
            points = series.setdefault(party, [])
            if not points or points[-1][0] != scope:
                points.append((scope, rss.get("VmHWM", 0)))
            points[-1] = (scope, rss.get("VmHWM", 0))

    return watch


def write_tables(folder: Path, rows: int, columns: int) -> None:
    """A Parquet table of numbers for each owner, of the same people in different orders, and a target at the active
    party."""
    rng = np.random.default_rng(26)
    scores = np.zeros(rows)
    for party in ("bank", "telco"):
        order = rng.permutation(rows)
        cells: dict[str, Any] = {"id": np.char.mod("p%08d", order)}
        for number in range(columns):
            values = rng.normal(size=rows)
            if number < 5:
                scores += values
            cells[f"{party} {number}"] = values[order]
        if party == "bank":
            first = order
        pl.DataFrame(cells).write_parquet(folder / f"{party}.parquet")
    target = np.where(scores + rng.normal(size=rows) > 0, "yes", "no")[first]
    table = pl.read_parquet(folder / "bank.parquet").with_columns(pl.Series("bought", target))
    table.write_parquet(folder / "bank.parquet")


def job_files(folder: Path, trees: int, memory: float | None) -> tuple[Plan, dict[str, Private]]:
    plan = Plan.model_validate(
        {
            "kind": "train",
            "engine": "shares",
            "parties": {party: {"role": role} for party, role in PARTIES.items()},
            "parameters": {"psi": "aided", "model": {"learner": "gbdt", "classes": 2, "trees": trees}},
            "timeout": 3600,
        }
    )
    privates = {}
    for party in PARTIES:
        private = Private(memory=memory, consent=Consent(aided=True), policy=Policy(maximum_served_megabytes=20000), seed=1)
        if party != "helper":
            private = private.model_copy(update={"table": TableSettings(path=folder / f"{party}.parquet", id=("id",))})
        if party == "bank":
            private = private.model_copy(update={"target": "bought"})
        privates[party] = private
    return plan, privates


if __name__ == "__main__":
    main()
