"""VF_GAIN on the registry example: what activations are worth to GAIN at the clinic, and what they give away.

Patients of the registry that the clinic lacks are filled by GAIN at the clinic alone, and by GAIN with the registry's
activations, and by GAIN with the registry's columns themselves (pooled). `one_draw` computes the activations as the
parties do, with pooled columns; `vf_gain_beats_gain` is the ratio of the RMSE with activations to that at the clinic
alone, a mean over the numbers that go with the registry's columns and over draws. `attack_r2` is the largest R² that
least squares or boosted trees reach for any column of the registry, from activations of other rows with known truth; a
mean over draws of the largest.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers import filling
from unpooled.complete.imputers.settings import GainSettings
from unpooled.complete.vf_gain import bottom
from unpooled.complete.vf_gain.filling import fill_with_activations
from unpooled.complete.vf_gain.privacy import noise_for
from unpooled.complete.vf_gain.protocol import gradient_of
from unpooled.complete.vf_gain.settings import VfGainSettings
from unpooled.data.example_patients import STAGES, patient_tables
from unpooled.data.prepare import PrepareSettings, fit, transform
from unpooled.data.table import Table, table_from_frame

ROWS = 20_000
SEEDS = (1, 2, 3, 4, 5)
CORRELATED = ("creatinine", "sampled_on", "hba1c")
GAIN = GainSettings(held_out=0.0)
SETTINGS: dict[str, VfGainSettings] = {
    "default": VfGainSettings(),
    **{
        f"epsilon {epsilon:g}, columns not limited": VfGainSettings(epsilon=epsilon, column_limit=1.0)
        for epsilon in (1.0, 2.0, 4.0, 8.0)
    },
}
"""What is measured: the default, and at which ε the worth of activations returns."""


def patients(rows: int, seed: int) -> tuple[Table, Table, pl.DataFrame, int]:
    """The registry, the clinic's table with empty rows behind the common ones, the truth, how many are common."""
    made = patient_tables(rows, seed)
    known = made.registry["id"].is_in(made.clinic["id"].to_list()).to_numpy()
    order = np.concatenate([np.flatnonzero(known), np.flatnonzero(~known)])
    registry = made.registry[order]
    clinic = registry.select("id").join(made.clinic, on="id", how="left", maintain_order="left")
    types: Any = {"kidney_stage": tuple(STAGES)}
    own = table_from_frame(clinic, "id", "clinic", types)
    return table_from_frame(registry, "id", "registry"), own, made.truth[order], int(known.sum())


def activations(settings: VfGainSettings, registry: Table, clinic: Table, common: int, seed: int) -> tuple[Any, Floats]:
    """What the registry would send, and its columns."""
    first = clinic.take(np.arange(common))
    columns = bottom.standardised(transform(fit(registry, PrepareSettings()), registry).matrix)
    gradient = gradient_of(transform(fit(first, PrepareSettings()), first).matrix, settings.directions)
    features = bottom.features_of(columns, settings.hidden, common // 10, np.random.default_rng([seed, 1]))
    output = bottom.output_of(features, features[:common].T @ gradient / common, common, settings.units)
    radius = bottom.RADIUS * np.sqrt(settings.units)
    noise = noise_for(settings.epsilon, settings.delta, radius, settings.units)
    points = bottom.limited(output, columns, radius, noise, settings.column_limit)
    return bottom.noisy(points, noise) / bottom.STEPS_OF_NOISE, columns


def largest_r2(seen: Floats, columns: Floats, rng: np.random.Generator) -> float:
    """Of any column, by least squares and by boosted trees: learned on half of the rows, judged on the others."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    half: Bools = rng.random(len(seen)) < 0.5
    wide = np.column_stack([np.ones(len(seen)), seen])
    solved = np.linalg.lstsq(wide[half], columns[half], rcond=None)[0]
    variances = columns[~half].var(axis=0)
    used = np.flatnonzero(variances > 1e-9)
    linear = 1.0 - ((wide[~half] @ solved - columns[~half]) ** 2).mean(axis=0)[used] / variances[used]
    found = list(linear)
    for place in used[np.argsort(-linear)[:5]]:
        decoder = HistGradientBoostingRegressor(max_iter=50, max_leaf_nodes=8, random_state=1)
        decoder.fit(seen[half], columns[half, place])
        away = decoder.predict(seen[~half]) - columns[~half, place]
        found.append(1.0 - float((away**2).mean()) / float(variances[place]))
    return float(max(found))


def errors_of(done: pl.DataFrame, truth: pl.DataFrame, common: int) -> Floats:
    """The RMSE of each correlated number in the rows that the clinic lacks, in standard deviations."""
    found = []
    for name in CORRELATED:
        filled, real = (frame[name][common:].to_physical().cast(pl.Float64).to_numpy() for frame in (done, truth))
        found.append(float(np.sqrt(np.mean((filled - real) ** 2)) / real.std()))
    return np.array(found)


def one_draw(rows: int, seed: int) -> dict[str, dict[str, float]]:
    """For each setting: RMSE at the clinic alone, with activations, their ratio, and the attack; and pooled."""
    registry, clinic, truth, common = patients(rows, seed)
    fitted = filling.fit(GAIN, clinic, np.random.default_rng(seed))
    alone = errors_of(filling.complete(fitted, clinic, np.random.default_rng(seed)).table.frame, truth, common)

    def with_columns(columns: Floats) -> Floats:
        done = fill_with_activations(clinic, columns, np.random.default_rng(seed), completer=GAIN)
        return errors_of(done.table.frame, truth, common)

    found = {}
    for name, settings in SETTINGS.items():
        seen, columns = activations(settings, registry, clinic, common, seed)
        both = with_columns(seen)
        found[name] = {
            "alone": float(alone.mean()),
            "with activations": float(both.mean()),
            "ratio": float((both / alone).mean()),
            "attack": largest_r2(seen, columns, np.random.default_rng([seed, 2])),
        }
    pooled = with_columns(columns)
    found["pooled"] = {"with columns": float(pooled.mean()), "ratio": float((pooled / alone).mean())}
    return found


def vf_gain(rows: int = ROWS) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """All figures, and the two bars."""
    draws = []
    for seed in SEEDS:
        draws.append(one_draw(rows, seed))
        print(f"vf_gain, draw {seed}: {draws[-1]['default']}", file=sys.stderr, flush=True)
    means = {
        name: {what: round(statistics.mean(draw[name][what] for draw in draws), 4) for what in draws[0][name]}
        for name in draws[0]
    }
    ratio, attack = means["default"]["ratio"], means["default"]["attack"]
    bars = [
        {"name": "vf_gain_beats_gain", "value": ratio, "bar": 0.95, "holds": ratio <= 0.95},
        {"name": "attack_r2", "value": attack, "bar": 0.1, "holds": attack <= 0.1},
    ]
    return {"rows": rows, "settings": means}, bars


if __name__ == "__main__":
    import json

    figures, bars = vf_gain()
    print(json.dumps({"benchmark": "vf_gain", "vf_gain": figures, "bars": bars}))
