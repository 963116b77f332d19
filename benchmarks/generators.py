"""Generated rows beside held-out rows and rows of plain methods, on bank, credit and census; and what training costs.

So many rows (10,000) are drawn from each set, a quarter is held out, models learn from the rest with the preset `fast`
(`--preset`) and generate as many rows as they learned from. Figures are means over sets and, with `--seeds`, over
draws; ratios are of figures of the same draw. They are computed as the experiment `generators` does it.

- `MODEL_ks`: the mean KS distance of numbers to the training rows, as a multiple of the held-out rows' own;
- `copula_corr_MODEL`: the error of pairwise association as a fraction of the Gaussian copula's;
- `utility_MODEL`: the AUC on held-out rows that LightGBM trained on generated rows loses to one trained on real rows;
- `closest_MODEL`: the fraction of generated rows nearer to a training row than to any held-out row, of equally many;
- `cpu_s_MODEL`: CPU seconds of all cores, in a process of its own, to train on 10,000 rows of 20 made-up columns of
  mixed types and to generate 10,000 rows, with importing JAX and compiling. TVAE and CTGAN train for the 300 epochs of
  their preset `paper`. TabDDPM's authors count steps, not epochs: its preset `fast` is taken as the equivalent.

`--only` computes some of these bars (ks, corr, utility, closest, cpu), `--models`, `--sets` and `--rows` a part.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from unpooled.complete.generators.sampling import fit_generator, sample_rows
from unpooled.data.table import Table, table_from_frame
from unpooled.experiments.generated_rows import drawn
from unpooled.experiments.generators import ROWS, SETS, compared_with, measured, settings_of
from unpooled.experiments.generators_page import HELD_OUT, MODELS, NEAR, PLAIN, REAL

COPULA = "copula"
KS = {"tvae": 5.0, "ctgan": 7.0, "tabddpm": 4.0}
CORRELATED = {"tvae": 1.0, "tabddpm": 1.0}
UTILITY = {"tvae": 0.04, "tabddpm": 0.02}
CPU = {"tvae": ("paper", 40.0), "ctgan": ("paper", 205.0), "tabddpm": ("fast", 300.0)}
KINDS = ("ks", "corr", "utility", "closest", "cpu")
SEEDS = (1,)

Found = Mapping[str, Mapping[str, float]]
"""The figures of one draw of one set, by method."""


def one_draw(name: str, seed: int, rows: int, models: Sequence[str], preset: str) -> Found:
    """The models, the plain methods and what all are compared with."""
    sample = drawn(name, rows, seed)
    found = dict(compared_with(sample))
    for model in (*PLAIN, *models):
        found[model] = measured(sample, settings_of(model, preset if model in MODELS else ""), filling=False)
        figures = {what: round(value, 4) for what, value in found[model].items()}
        print(f"{name}, draw {seed}: {model} {json.dumps(figures)}", file=sys.stderr, flush=True)
    return found


def quality_bars(draws: Sequence[Found], models: Sequence[str], kinds: Sequence[str]) -> list[dict[str, Any]]:
    """The bars about generated rows; a model that diverged somewhere meets none."""

    def mean(model: str, figure: Callable[[Mapping[str, float], Found], float]) -> float | None:
        if any(found[model]["diverged"] for found in draws):
            return None
        return statistics.mean(figure(found[model], found) for found in draws)

    bars = []
    for model in models:
        if "ks" in kinds and model in KS:
            times = mean(model, lambda one, found: one["ks"] / found[HELD_OUT]["ks"])
            bars.append(at_most(f"{model}_ks", times, KS[model]))
        if "corr" in kinds and model in CORRELATED:
            part = mean(model, lambda one, found: one["association"] / found[COPULA]["association"])
            bars.append(at_most(f"copula_corr_{model}", part, CORRELATED[model], below=True))
        if "utility" in kinds and model in UTILITY:
            lost = mean(model, lambda one, found: found[REAL]["auc"] - one["auc"])
            bars.append(at_most(f"utility_{model}", lost, UTILITY[model]))
        if "closest" in kinds:
            bars.append(at_most(f"closest_{model}", mean(model, lambda one, _: one["closest"]), NEAR))
    return bars


def at_most(name: str, value: float | None, bar: float, *, below: bool = False) -> dict[str, Any]:
    holds = value is not None and (value < bar if below else value <= bar)
    return {"name": name, "value": None if value is None else round(value, 4), "bar": bar, "holds": holds}


def mixed_columns(rows: int) -> Table:
    """Ten numbers, some skewed, whole or with several modes, and ten categories of 2 to 20 levels; three factors."""
    rng = np.random.default_rng(20)
    factors = rng.normal(size=(rows, 3))
    cells: dict[str, Any] = {}
    for place in range(10):
        number = factors @ rng.normal(size=3) + rng.normal(size=rows)
        ways = (
            number,
            np.exp(0.5 * number),
            np.rint(10 * number),
            number + 4 * (factors[:, 0] > 0),
            np.maximum(number, 0),
        )
        cells[f"number {place}"] = ways[place % len(ways)]
    for place, levels in enumerate((2, 2, 3, 4, 5, 6, 8, 10, 15, 20)):
        scores = factors @ rng.normal(size=(3, levels)) + rng.gumbel(size=(rows, levels))
        cells[f"category {place}"] = [f"level {level}" for level in scores.argmax(axis=1)]
    return table_from_frame(pl.DataFrame({"id": range(rows), **cells}), "id", "made up")


def train_once(model: str, rows: int) -> None:
    """In a process of its own: train and generate, and print the CPU seconds of that."""
    table = mixed_columns(rows)
    before = cpu_seconds()
    fitted = fit_generator(settings_of(model, CPU[model][0]), table, np.random.default_rng(1))
    trained = cpu_seconds()
    sample_rows(fitted, rows, np.random.default_rng(2))
    print(json.dumps({"train": trained - before, "generate": cpu_seconds() - trained}))


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cost(model: str, rows: int) -> dict[str, float]:
    """The CPU seconds of training and of generating, without anything compiled before."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    command = [sys.executable, __file__, "--train", model, "--rows", str(rows)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    seconds: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{model}: CPU seconds {json.dumps(seconds)}", file=sys.stderr, flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=KINDS, choices=KINDS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--preset", default="fast", choices=("fast", "paper"))
    parser.add_argument("--train", choices=CPU, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train_once(given.train, given.rows)
        return
    figures: dict[str, Any] = {"benchmark": "generators", "cores": os.cpu_count(), "python": sys.version.split()[0]}
    bars: list[dict[str, Any]] = []
    if set(given.only) - {"cpu"}:
        places = [(name, seed) for seed in given.seeds for name in given.sets]
        draws = [one_draw(name, seed, given.rows, given.models, given.preset) for name, seed in places]
        figures["draws"] = [
            {"set": name, "seed": seed, "figures": rounded(found)}
            for (name, seed), found in zip(places, draws, strict=True)
        ]
        bars += quality_bars(draws, given.models, given.only)
    if "cpu" in given.only:
        seconds = {model: cost(model, given.rows) for model in given.models if model in CPU}
        figures["cpu_s"] = rounded(seconds)
        bars += [at_most(f"cpu_s_{model}", sum(each.values()), CPU[model][1]) for model, each in seconds.items()]
    print(json.dumps(figures | {"bars": bars}))


def rounded(found: Found) -> dict[str, dict[str, float]]:
    return {name: {what: round(value, 4) for what, value in each.items()} for name, each in found.items()}


if __name__ == "__main__":
    main()
