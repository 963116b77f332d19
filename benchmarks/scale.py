"""How CPU time and memory grow with rows: a boosted tree by the engine `shares`, each party a process of its own.

Two owners of columns with a Parquet table each, and a coordinator. The job is `train`, from reading to the model: the
parties read, align (`aided`), prepare, bin and grow. Columns and trees are as many at all numbers of rows. The owners'
private files limit their `memory`, so that columns stay on disk. CPU seconds and peak memory are those that each
party's `status.json` tells; parties compute without worker processes, whose memory is not in there.

- `rows_growth`: CPU seconds per row of all parties together, at the most rows over those at a tenth of them.
  `without_start` is the same without what the job takes with a thousand rows: to start, and to load compiled loops.
- `million_rows_gb`: the most memory that the parties take, added up; `largest_gb` is that of the largest party.

- `ray_equal`: how many results are other ones if they are computed on a party's Ray cluster (`scale_ray`, which has
  more figures of it).

With --unlimited the same without `memory`, all in memory. `--only` computes a part: rows, ray.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table

import scale_ray
from unpooled.jobs.plan import Plan, Role
from unpooled.jobs.private import Private
from unpooled.run import folder as run_folder
from unpooled.run.spawn import books_in, spawn

ACTIVE, PASSIVE, COORDINATOR = "bank", "telco", "helper"
PARTIES: dict[str, Role] = {ACTIVE: "active", PASSIVE: "passive", COORDINATOR: "coordinator"}
MEMORY_GB = 3.0
GROWTH_BAR, MEMORY_BAR_GB = 1.2, 4.0
FEW_ROWS = 1_000
PARTS = ("rows", "ray")
_TELLING = 5
"""Columns of each owner that the target depends on."""

Taken = dict[str, dict[str, float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50, help="of each of the two owners")
    parser.add_argument("--trees", type=int, default=1)
    parser.add_argument("--unlimited", action="store_true", help="no `memory` in the private files")
    options = parser.parse_args()
    figures: dict[str, Any] = {"benchmark": "scale", "bars": []}
    if "rows" in options.only:
        add(figures, many_rows(options.rows, options.columns, options.trees, None if options.unlimited else MEMORY_GB))
    if "ray" in options.only:
        add(figures, {"bars": scale_ray.report()["bars"]})
    print(json.dumps(figures))


def add(figures: dict[str, Any], found: dict[str, Any]) -> None:
    """A part's figures, with the bars of all parts together and last."""
    bars = figures.pop("bars") + found.pop("bars")
    figures |= found | {"bars": bars}


def many_rows(most: int, columns: int, trees: int, memory: float | None) -> dict[str, Any]:
    """CPU time and memory with so many rows, and with fewer."""
    sizes = FEW_ROWS, most // 10, most
    with patch.dict(os.environ, LOKY_MAX_CPU_COUNT="1"):
        found = {rows: measured(rows, columns, trees, memory) for rows in sizes}
    shown = Table("rows", "party", "CPU seconds", "peak memory, MB")
    for rows, parties in found.items():
        for party, taken in parties.items():
            shown.add_row(f"{rows:,}", party, f"{taken['cpu_seconds']:,.1f}", f"{taken['peak_memory_mb']:,.0f}")
    Console(stderr=True).print(shown)
    seconds = {rows: sum(taken["cpu_seconds"] for taken in parties.values()) for rows, parties in found.items()}
    start, few, many = (seconds[rows] for rows in sizes)
    peaks = [taken["peak_memory_mb"] / 1000 for taken in found[most].values()]
    return {
        "rows": most,
        "columns": columns,
        "trees": trees,
        "memory": memory,
        "without_start": round((many - start) / (few - start) / 10, 2),
        "largest_gb": round(max(peaks), 2),
        "bars": [
            bar("rows_growth", many / few / 10, GROWTH_BAR),
            bar("million_rows_gb", sum(peaks), MEMORY_BAR_GB),
        ],
    }


def bar(name: str, value: float, most: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 2), "bar": most, "holds": value <= most}


def measured(rows: int, columns: int, trees: int, memory: float | None) -> Taken:
    """What a job with so many rows takes at each party."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_tables(folder, rows, columns)
        run = folder / "run"
        spawn(plan_of(trees), {party: private_of(party, folder, memory) for party in PARTIES}, run, books=books_in(run))
        return {party: run_folder.read_json(run / party / run_folder.STATUS) for party in PARTIES}


def write_tables(folder: Path, rows: int, columns: int) -> None:
    """A table of numbers for each owner, of the same people in other orders; the active party's has a target."""
    rng = np.random.default_rng(26)
    scores = rng.normal(size=rows)
    for party in (PASSIVE, ACTIVE):  # the target depends on both
        order = rng.permutation(rows)
        cells: dict[str, Any] = {"id": np.char.mod("p%08d", order)}
        for number in range(columns):
            values = rng.normal(size=rows)
            cells[f"{party} {number}"] = values[order]
            if number < _TELLING:
                scores += values
        if party == ACTIVE:
            cells["bought"] = np.where(scores > 0, "yes", "no")[order]
        pl.DataFrame(cells).write_parquet(folder / f"{party}.parquet")


def plan_of(trees: int) -> Plan:
    return Plan.model_validate(
        {
            "kind": "train",
            "engine": "shares",
            "parties": {party: {"role": role} for party, role in PARTIES.items()},
            "parameters": {"psi": "aided", "model": {"trees": trees}},
            "timeout": 3600,
        }
    )


def private_of(party: str, folder: Path, memory: float | None) -> Private:
    if party == COORDINATOR:
        return Private()
    settings: dict[str, Any] = {
        "table": {"path": str(folder / f"{party}.parquet"), "id": "id"},
        "memory": memory,
        "consent": {"aided": True},
    }
    return Private.model_validate(settings | ({"target": "bought"} if party == ACTIVE else {}))


if __name__ == "__main__":
    main()
