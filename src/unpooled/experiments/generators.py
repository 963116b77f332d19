"""The experiment `generators`: whole rows from generators beside rows from plain methods, on bank, credit and census.

A cell is one model, on rows drawn from one set (`generated_rows`): how alike its rows are to real ones, what they are
worth to a classifier, whether they are copies, how well it fills cells given the others, and what that costs. Every
cell has two more methods to compare with: the held-out rows themselves, and a classifier trained on real rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.generators.sampling import fit_generator, sample_rows, sampler_settings
from unpooled.data import datasets
from unpooled.errors import TrainingDiverged
from unpooled.experiments import generators_page
from unpooled.experiments.dealing import classify
from unpooled.experiments.experiment import Cell, Experiment, Figures, Tier
from unpooled.experiments.generated_rows import (
    DISTANCES,
    Sample,
    Stopwatch,
    drawn,
    filled_judged,
    forget_compiled,
    held_out_judged,
    judged,
    real_rows_judged,
)
from unpooled.experiments.generators_page import HELD_OUT, MODELS, PLAIN, REAL

SETS = ("census", "credit", "bank")
FIRST_SEED = 11
"""Presets were chosen on other draws."""

ROWS, ROWS_QUICK = 10_000, 2_000
_SECONDS = {"vae": 25.0, "tvae": 30.0, "ctgan": 110.0, "tabddpm": 200.0, "tablegan": 150.0, "ctab-gan": 200.0}
"""A guess of training with the fast preset and filling, at 10,000 rows."""


def cells(tier: Tier, seed: int) -> list[Cell]:
    """The cells of a tier, beginning with this random seed, one by one: those that take little time first."""
    if tier is Tier.quick:
        return sorted(_cells(("census",), ROWS_QUICK, seed, ("fast",)), key=seconds)
    if tier is Tier.standard:
        return sorted(_cells(SETS, ROWS, seed, ("fast",)), key=seconds)
    seeds = range(seed, seed + 5)
    return [cell for one in seeds for cell in sorted(_cells(SETS, 0, one, ("fast", "paper")), key=seconds)]


def _cells(sets: Sequence[str], rows: int, seed: int, presets: Sequence[str]) -> Iterator[Cell]:
    for model in PLAIN:
        for name in sets:
            yield _cell(name, rows, model, "", seed)
    for preset in presets:
        for model in MODELS:
            for name in sets:
                yield _cell(name, rows, model, preset, seed)


def _cell(name: str, rows: int, model: str, preset: str, seed: int) -> Cell:
    return {"set": name, "rows": rows, "model": model, "preset": preset, "seed": seed}


def check(wanted: Sequence[Cell]) -> None:
    """Refuse before anything is computed if a data set or a package is missing."""
    for name in dict.fromkeys(str(cell["set"]) for cell in wanted):
        datasets.load(name)
    classify(np.array([[0.0], [1.0]] * 30), np.array([0.0, 1.0] * 30), np.zeros((1, 1)))
    for model in dict.fromkeys(str(cell["model"]) for cell in wanted):
        settings_of(model, "")


def seconds(cell: Cell) -> float:
    """A guess: training takes most of the time, and more with more rows and with the papers' settings."""
    size = (int(cell["rows"]) or 3.5 * ROWS) / ROWS
    longer = 5.0 if cell["preset"] == "paper" else 1.0
    return 5.0 + size * (8.0 + longer * _SECONDS.get(str(cell["model"]), 2.0))


def settings_of(model: str, preset: str, **more: Any) -> CompleterSettings:
    """The settings of a model; plain methods have no preset."""
    return sampler_settings(model, more | ({"preset": preset} if preset else {}))


def compute(cell: Cell) -> Figures:
    """All figures of a cell."""
    sample = drawn(str(cell["set"]), int(cell["rows"]), int(cell["seed"]))
    settings = settings_of(str(cell["model"]), str(cell["preset"]))
    return {str(cell["model"]): measured(sample, settings), **compared_with(sample)}


def compared_with(sample: Sample) -> Figures:
    """What every model is compared with."""
    return {HELD_OUT: held_out_judged(sample), REAL: real_rows_judged(sample)}


def measured(sample: Sample, settings: CompleterSettings, *, filling: bool = True) -> dict[str, float]:
    """Train a model, generate rows and judge them, and unless told otherwise let it fill cells; seconds of all that."""
    forget_compiled()
    clock = Stopwatch()
    try:
        fitted = fit_generator(settings, sample.training, sample.rng(5))
    except TrainingDiverged:
        return {"diverged": 1.0, "train_cpu": clock.cpu, "train_wall": clock.wall}
    found = {"diverged": 0.0, "train_cpu": clock.cpu, "train_wall": clock.wall}
    clock = Stopwatch()
    rows = sample_rows(fitted, sample.training.frame.height, sample.rng(6))
    found |= {"sample_cpu": clock.cpu, "sample_wall": clock.wall}
    found |= judged(sample, rows)
    return found | (filled_judged(sample, fitted) if filling else {})


GENERATORS = Experiment(
    name="generators",
    file="generators",
    about="generators of whole rows beside plain methods: distribution, utility, copies, filling, cost; "
    "bank, credit, census",
    keys={"set": str, "rows": int, "model": str, "preset": str, "seed": int},
    figures=(
        *DISTANCES.values(),
        "auc",
        "closest",
        "distance",
        "copies",
        "r2",
        "accuracy",
        "rank",
        "diverged",
        "train_cpu",
        "train_wall",
        "sample_cpu",
        "sample_wall",
        "fill_cpu",
    ),
    packages=("numpy", "lightgbm", "jax", "optax"),
    seed=FIRST_SEED,
    cells=cells,
    check=check,
    seconds=seconds,
    compute=compute,
    one_core=lambda _: False,  # JAX uses all of them, and seconds are measured
    section=generators_page.section,
    pictures=generators_page.pictures,
)
