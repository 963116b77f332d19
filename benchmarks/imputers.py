"""Imputers: the error of cells that adversarial ones and ensembles fill, and what training costs.

- `gain_breast_rmse`: the root mean squared error of cells that GAIN with its default settings fills in scikit-learn's
  breast cancer data (569 × 30), 20 % of the cells missing at random, all columns on a scale from 0 to 1 over all
  cells; the mean over five seeds. VGAIN, GAIN with the preset `paper`, IterativeImputer and the mean stand beside it.
- `gain_cpu_s`: CPU seconds of all cores, in a process of its own with importing JAX and compiling, to train GAIN for
  10,000 steps on 20,000 rows of 16 made-up numbers; the greater of the two presets, without stopping early.
  `process_cpu_s` has what the whole process took, with all that this benchmark imports for other figures.
- `ensemble_not_worse`: the error of the ensembles `stacking` and `dynamic`, as a multiple of the error of the best of
  their own members: the greatest over both ensembles, the four sets of the experiment `imputers`, cells hidden at
  random and in a block, and two errors, each by itself: RMSE in standard deviations, the mean over columns of numbers,
  and the fraction of wrong cells, the mean over all other columns. Errors are means over three draws, and the best
  member is the one with the smallest. All have their default settings, and members answer with the median or the most
  frequent value of five draws, as they do inside an ensemble.
- `vf_gain_beats_gain`, `attack_r2`: see `vf_gain.py`.

`--only` computes some of these.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import polars as pl
from sklearn.datasets import load_breast_cancer
from threadpoolctl import threadpool_limits

from unpooled import workers
from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import complete, fit
from unpooled.complete.completers.from_sklearn import IterativeSettings
from unpooled.complete.ensembles.settings import members_of
from unpooled.complete.imputers.settings import GainSettings, VgainSettings
from unpooled.data.table import Table, table_from_frame
from unpooled.experiments.hidden_cells import BLOCK, RANDOM, hide, judged
from unpooled.experiments.imputers import SETS, guessed, settings_of
from vf_gain import vf_gain

SEEDS = (1, 2, 3, 4, 5)
HIDDEN = 0.2
ROWS, COLUMNS = 20_000, 16
BREAST, CPU = 0.063, 10.0
PRESETS = ("fast", "paper")
LEARNED = ("stacking", "dynamic")
DRAWS, DRAWN_ROWS = (21, 22, 23), 3_000
NOT_WORSE = 1.02

Found = tuple[dict[str, Any], list[dict[str, Any]]]
"""Figures by name, and bars."""


def numbers(values: Floats) -> Table:
    columns = {f"number {place}": column for place, column in enumerate(values.T)}
    return table_from_frame(pl.DataFrame({"id": range(len(values)), **columns}), "id", "benchmark")


def filled(settings: CompleterSettings, values: Floats, hidden: Bools, seed: int) -> Floats:
    """Values with the hidden ones filled, by a completer that saw only the others."""
    table = numbers(values)
    fitted = fit(settings, table, np.random.default_rng([seed, 1]), hidden)
    done = complete(fitted, table, np.random.default_rng([seed, 2]), hidden)
    return done.table.frame.drop("id").to_numpy()


def gain_breast() -> Found:
    """The error on breast cancer data."""
    values = load_breast_cancer().data
    values = (values - values.min(axis=0)) / np.ptp(values, axis=0)
    methods: dict[str, CompleterSettings] = {
        "gain": GainSettings(held_out=0),
        "gain_paper": GainSettings(preset="paper", held_out=0),
        "vgain": VgainSettings(held_out=0),
        "iterative": IterativeSettings(held_out=0),
    }
    errors: dict[str, list[float]] = {name: [] for name in (*methods, "mean")}
    for seed in SEEDS:
        hidden = np.random.default_rng(seed).random(values.shape) < HIDDEN
        means = np.nanmean(np.where(hidden, np.nan, values), axis=0)
        answers = {name: filled(settings, values, hidden, seed) for name, settings in methods.items()}
        for name, answer in {**answers, "mean": np.broadcast_to(means, values.shape)}.items():
            errors[name].append(float(np.sqrt(((answer - values)[hidden] ** 2).mean())))
        print(
            f"seed {seed}: {json.dumps({name: round(each[-1], 4) for name, each in errors.items()})}", file=sys.stderr
        )
    figures = {f"breast_rmse_{name}": [round(each, 4) for each in found] for name, found in errors.items()}
    return figures, [at_most("gain_breast_rmse", statistics.mean(errors["gain"]), BREAST)]


def gain_cost() -> Found:
    """The CPU seconds of both presets."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    training, whole = {}, {}
    for preset in PRESETS:
        command = [sys.executable, __file__, "--train", preset]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        training[preset], whole[preset] = map(float, done.stdout.splitlines()[-1].split())
    return {"cpu_s": training, "process_cpu_s": whole}, [at_most("gain_cpu_s", max(training.values()), CPU)]


def ensembles() -> Found:
    """The errors of ensembles beside those of their members, on every set and with both ways of hiding."""
    tasks = [(name, way, seed) for name in SETS for way in (RANDOM, BLOCK) for seed in DRAWS]
    errors: dict[tuple[str, str, str], dict[str, list[float]]] = {}
    for (name, way, seed), found in zip(tasks, workers.in_order(errors_of, tasks), strict=True):
        print(f"{name}, {way}, draw {seed}: {json.dumps(found)}", file=sys.stderr, flush=True)
        for completer, each in found.items():
            for what, error in each.items():
                errors.setdefault((name, way, what), {}).setdefault(completer, []).append(error)
    ratios = {}
    for (name, way, what), by_completer in errors.items():
        means = {completer: statistics.mean(each) for completer, each in by_completer.items()}
        best = min((each for each in means if each not in LEARNED), key=means.__getitem__)
        for ensemble in LEARNED:
            ratios[f"{name}, {way}, {what}: {ensemble} / {best}"] = round(means[ensemble] / means[best], 4)
    return {"ensemble_ratios": ratios}, [at_most("ensemble_not_worse", max(ratios.values()), NOT_WORSE)]


def errors_of(task: tuple[str, str, int]) -> dict[str, dict[str, float]]:
    """By completer both errors of its best guess, on one draw of a set with cells hidden in one way."""
    name, way, seed = task
    hidden = hide(name, DRAWN_ROWS, way, seed)
    members = members_of(settings_of(LEARNED[0]))
    found = {}
    with threadpool_limits(1):
        for completer in (*LEARNED, *(member.completer for member in members)):
            guess = guessed(hidden, settings_of(completer)).table
            figures = judged(hidden, guess)
            found[completer] = {"rmse": round(figures["rmse"], 4)}
            if "accuracy" in figures:
                found[completer]["wrong"] = round(1.0 - figures["accuracy"], 4)
    return found


def train_once(preset: str) -> None:
    """In a process of its own: train, and print the CPU seconds of that, and those that the process has used in all."""
    rng = np.random.default_rng(20)
    values = rng.normal(size=(ROWS, 4)) @ rng.normal(size=(4, COLUMNS)) + rng.normal(size=(ROWS, COLUMNS))
    hidden = rng.random(values.shape) < HIDDEN
    settings = GainSettings.model_validate({"preset": preset, "steps": 10_000, "patience": 0, "held_out": 0})
    table, before = numbers(values), cpu_seconds()
    fit(settings, table, rng, hidden)
    print(f"{cpu_seconds() - before:.2f} {cpu_seconds():.2f}")


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def at_most(name: str, value: float, bar: float) -> dict[str, Any]:
    return {"name": name, "value": round(value, 4), "bar": bar, "holds": value <= bar}


MEASURES: Mapping[str, Callable[[], Found]] = {
    "gain_breast": gain_breast,
    "gain_cost": gain_cost,
    "ensembles": ensembles,
    "vf_gain": vf_gain,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=tuple(MEASURES), choices=MEASURES)
    parser.add_argument("--train", choices=PRESETS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.train:
        train_once(given.train)
        return
    figures: dict[str, Any] = {"benchmark": "imputers", "cores": os.cpu_count(), "python": sys.version.split()[0]}
    bars: list[dict[str, Any]] = []
    for name in given.only:
        found, held = MEASURES[name]()
        figures |= found
        bars += held
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
