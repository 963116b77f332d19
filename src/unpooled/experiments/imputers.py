"""The experiment `imputers`: completers that fill hidden cells of breast, bank, credit and census.

A cell is one completer on rows of one set, with cells hidden in one way (`hidden_cells`). Its best guess (what five
draws agree on) and its draws are judged apart: how far they are from the truth, how alike to it as a distribution, and
what a model is worth that is trained on them. The cell of `missing`, which fills nothing, also has what all completers
are compared with: the mean or most frequent value in every hidden cell, and a model that was trained on the truth.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.completers import completer_of, settings_from
from unpooled.complete.completers.filling import FEWEST_DRAWS, Completed, Fitted, complete, fit
from unpooled.complete.ensembles.settings import EnsembleSettings
from unpooled.errors import TrainingDiverged
from unpooled.experiments import imputers_page
from unpooled.experiments.dealing import classify
from unpooled.experiments.experiment import Cell, Experiment, Figures, Tier
from unpooled.experiments.generated_rows import Stopwatch, forget_compiled
from unpooled.experiments.hidden_cells import (
    BREAST,
    KINDS,
    WAYS,
    Hidden,
    downstream,
    hide,
    judged,
    mean_or_mode,
    table_of,
    trust_rank,
)
from unpooled.experiments.imputers_claims import DRAWS, GUESS, MEAN, MISSING, SAMPLED, TRUTH
from unpooled.experiments.imputers_page import ENSEMBLES, NETWORKS, PLAIN

SETS = (BREAST, "bank", "credit", "census")
FIRST_SEED = 11
"""Settings were chosen on other draws."""

ROWS, ROWS_QUICK = 3_000, 800
TRAINED_ON = 3
"""How many of the draws a downstream model is trained on each."""

SECTIONS: Mapping[str, Mapping[str, Any]] = {SAMPLED: {"completer": "iterative", "sample": True}}
"""Completers with settings other than their defaults."""

_SECONDS = {"iterative": 1.0, SAMPLED: 3.0, "knn": 0.5, "hot-deck": 0.3, "smote": 1.5, "copula": 3.0, "vote": 3.0}
_SECONDS |= dict.fromkeys(ENSEMBLES[1:], 8.0) | dict.fromkeys(NETWORKS, 9.0)
"""A guess of learning and filling, at 3,000 rows."""


def cells(tier: Tier, seed: int) -> list[Cell]:
    """The cells of a tier, beginning with this random seed, seed by seed; ensembles, which are dear, have the first."""
    if tier is Tier.quick:
        return list(_cells((BREAST, "census"), ROWS_QUICK, seed, (*PLAIN, *NETWORKS, *ENSEMBLES)))
    rows, seeds = (ROWS, 3) if tier is Tier.standard else (0, 5)
    found = list(_cells(SETS, rows, seed, (*PLAIN, *NETWORKS, *ENSEMBLES)))
    return found + [c for one in range(seed + 1, seed + seeds) for c in _cells(SETS, rows, one, (*PLAIN, *NETWORKS))]


def _cells(sets: Sequence[str], rows: int, seed: int, completers: Sequence[str]) -> Iterator[Cell]:
    for completer in completers:
        for name in sets:
            for way in WAYS:
                yield {"set": name, "rows": rows, "way": way, "completer": completer, "seed": seed}


def check(wanted: Sequence[Cell]) -> None:
    """Refuse before anything is computed if a data set or a package is missing."""
    for name in dict.fromkeys(str(cell["set"]) for cell in wanted):
        table_of(name)
    classify(np.array([[0.0], [1.0]] * 30), np.array([0.0, 1.0] * 30), np.zeros((1, 1)))
    for completer in dict.fromkeys(str(cell["completer"]) for cell in wanted):
        settings_of(completer)


def seconds(cell: Cell) -> float:
    """A guess: learning and filling take most of the time."""
    size = 0.2 if cell["set"] == BREAST else (int(cell["rows"]) or 12 * ROWS) / ROWS
    return 0.5 + size * (1.5 + _SECONDS.get(str(cell["completer"]), 0.5))


def settings_of(completer: str) -> CompleterSettings:
    """The settings of a completer, without the measurement on held-out rows; what it needs must be installed."""
    section = SECTIONS.get(completer, {"completer": completer})
    settings: CompleterSettings = settings_from({**section, "held_out": 0.0})
    completer_of(settings).check(settings)
    return settings


def compute(cell: Cell) -> Figures:
    """All figures of a cell."""
    from threadpoolctl import threadpool_limits  # comes with scikit-learn

    hidden = hide(str(cell["set"]), int(cell["rows"]), str(cell["way"]), int(cell["seed"]))
    settings = settings_of(str(cell["completer"]))
    with threadpool_limits(1):  # small matrices on several threads side by side spend most of their time waiting
        found = measured(hidden, settings)
        return {**found, **compared_with(hidden)} if cell["completer"] == MISSING else found


def compared_with(hidden: Hidden) -> Figures:
    """What all completers are compared with."""
    mean = mean_or_mode(hidden)
    return {
        MEAN: judged(hidden, mean) | {"auc": downstream(hidden, [mean])},
        TRUTH: {"auc": downstream(hidden, [hidden.truth])},
    }


def measured(hidden: Hidden, settings: CompleterSettings) -> dict[str, dict[str, float]]:
    """Fill the hidden cells and judge the best guess and, if there are several draws, the first; CPU seconds of it."""
    forget_compiled()
    clock = Stopwatch()
    try:
        fitted = fit(settings, hidden.truth, hidden.rng(1), hidden.mask)
    except TrainingDiverged:
        return {GUESS: {"diverged": 1.0, "fit_cpu": clock.cpu}}
    cost = {"fit_cpu": clock.cpu}
    clock = Stopwatch()
    done = filled(hidden, fitted)
    cost["fill_cpu"] = clock.cpu
    guess = cost | judged(hidden, done.table) | {"auc": downstream(hidden, [done.table])}
    if not several_draws(settings):
        return {GUESS: guess}
    rank = trust_rank(hidden, done)
    drawn = judged(hidden, done.draws[0]) | {"auc": downstream(hidden, done.draws[:TRAINED_ON])}
    return {GUESS: guess | ({} if rank is None else {"rank": rank}), DRAWS: drawn}


def several_draws(settings: CompleterSettings) -> bool:
    """Whether draws are judged; an ensemble answers with the middle of its members' draws: that is its best guess."""
    return settings.random and not isinstance(settings, EnsembleSettings)


def filled(hidden: Hidden, fitted: Fitted) -> Completed:
    """The hidden cells filled, five times if draws are judged."""
    draws = FEWEST_DRAWS if several_draws(fitted.settings) else 1
    return complete(fitted, hidden.truth, hidden.rng(2), hidden.mask, draws=draws)


def guessed(hidden: Hidden, settings: CompleterSettings) -> Completed:
    """The hidden cells filled as in a cell of the experiment, without judging them."""
    return filled(hidden, fit(settings, hidden.truth, hidden.rng(1), hidden.mask))


IMPUTERS = Experiment(
    name="imputers",
    file="imputers",
    about="completers that fill hidden cells: errors, distribution, worth to a model, trust, cost; breast, bank, "
    "credit, census",
    keys={"set": str, "rows": int, "way": str, "completer": str, "seed": int},
    figures=(
        "rmse_scaled",
        "rmse",
        "accuracy",
        "ks",
        "wasserstein",
        "tv",
        "association",
        *(figure for kind in KINDS[1:] for figure in (kind, f"{kind}_tv")),
        "auc",
        "rank",
        "diverged",
        "fit_cpu",
        "fill_cpu",
    ),
    packages=("numpy", "scikit-learn", "lightgbm", "jax", "optax"),
    seed=FIRST_SEED,
    cells=cells,
    check=check,
    seconds=seconds,
    compute=compute,
    one_core=lambda _: True,  # networks are so small that JAX keeps little more than one busy
    section=imputers_page.section,
    pictures=imputers_page.pictures,
)
