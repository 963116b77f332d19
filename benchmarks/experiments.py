"""Whether the experiments of the VFPU paper come out as they should, on bank, credit and census.

- `federated-vs-pooled`, tier quick: federated metrics must be the pooled ones, to the last bit with trees, and the AUC
  of our learners must be close to that of scikit-learn, XGBoost and LightGBM: the means over three draws, since bags of
  so few rows make single draws uneven.
- the job's defaults on whole sets, a random tenth of the positives known, on draws that no page reports and that chose
  nothing: the fraction of positives among the first rows.

`--out FOLDER` keeps the cells of the quick tier there, and continues with them. `--draws` is how many draws of whole
sets are taken (3), `--parts` selects: quick, whole.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from unpooled import workers
from unpooled.experiments import cells as kept
from unpooled.experiments.experiment import Cell, Tier
from unpooled.experiments.lookalike import searches
from unpooled.experiments.lookalike.federated_vs_pooled import FEDERATED_VS_POOLED, gaps
from unpooled.experiments.running import Progress, compute

UNREPORTED = (41, 42, 43, 44, 45)
FIRST = {"census": (1_000, 0.97), "bank": (1_500, 0.69), "credit": (1_000, 0.70)}
DRAWS = 3
LR_DIFFERENCE, LARGEST_GAP, MEAN_GAP = 0.002, 0.01, 0.005


def more_draws(tier: Tier, seed: int) -> list[Cell]:
    """The tier's cells, and those of more draws that are not federated."""
    first, *others = (FEDERATED_VS_POOLED.cells(tier, one) for one in range(seed, seed + DRAWS))
    return [*first, *(cell for cells in others for cell in cells if FEDERATED_VS_POOLED.one_core(cell))]


MORE_DRAWS = replace(FEDERATED_VS_POOLED, cells=more_draws)


def quick(folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The quick tier, and its bars."""

    def watch(progress: Progress) -> None:
        print(f"{progress.done} of {progress.total} cells; now {progress.cell}", file=sys.stderr, flush=True)

    done = compute(MORE_DRAWS, Tier.quick, MORE_DRAWS.seed, folder, watch)
    frame = kept.frame_of(MORE_DRAWS, MORE_DRAWS.own(Tier.quick, done))
    federated = frame.filter(pl.col("method") == "federated")
    trees, linear = (
        max(federated.filter((pl.col("learner") == "linear") == is_linear)["difference"].to_list())
        for is_linear in (False, True)
    )
    compared = gaps(frame)
    apart = [abs(gap) for gap in compared["gap"].to_list()]
    bars = [
        at_most("fed_minus_pooled_trees", trees, 0.0),
        at_most("fed_minus_pooled_lr", linear, LR_DIFFERENCE),
        at_most("own_vs_libraries_largest", max(apart), LARGEST_GAP),
        at_most("own_vs_libraries_mean", statistics.mean(apart), MEAN_GAP),
    ]
    return {"own_vs_libraries": compared.to_dicts()}, bars


def whole(draws: int) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The job's defaults on whole sets, and their bars."""
    cells = [searches.search_cell(name, seed, 1.0) for seed in UNREPORTED[:draws] for name in FIRST]
    found: dict[str, list[float]] = {name: [] for name in FIRST}
    for cell, figures in zip(cells, workers.in_order(searches.compute, cells), strict=True):
        found[str(cell["set"])].append(precision(cell, figures["pooled"]))
        print(f"{cell['set']} draw {cell['seed']}: {found[str(cell['set'])][-1]:.4f}", file=sys.stderr, flush=True)
    bars = [at_least(f"{name}_{FIRST[name][0]}", statistics.mean(each), FIRST[name][1]) for name, each in found.items()]
    return {"draws": UNREPORTED[:draws], "whole_sets": found}, bars


def precision(cell: Cell, figures: Any) -> float:
    length, _ = FIRST[str(cell["set"])]
    return float(figures[f"hits_{length}"]) / length


def at_most(name: str, value: float, bar: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 5), "bar": bar, "holds": value <= bar}


def at_least(name: str, value: float, bar: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 4), "bar": bar, "holds": value >= bar}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draws", type=int, default=3, choices=range(1, len(UNREPORTED) + 1))
    parser.add_argument("--parts", default="quick,whole")
    options = parser.parse_args()
    figures: dict[str, Any] = {"benchmark": "experiments", "cores": os.cpu_count(), "python": sys.version.split()[0]}
    bars: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        parts = {"quick": lambda: quick(options.out or Path(name)), "whole": lambda: whole(options.draws)}
        for part in options.parts.split(","):
            more, judged = parts[part]()
            figures |= more
            bars += judged
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
