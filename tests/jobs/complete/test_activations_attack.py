"""What parties can tell of each other's cells after a whole job with activations, on the example's patients.

The clinic tries all activations that it saw, also of people whom it lacks; it is even given the registry's true cells
of half of the people to learn from. The registry tries the product that it was shown.

The noise is new in every run, so what a run tells varies: the mean over further draws of the noise is held against 0.1,
and the run itself, which is one draw of few people, against somewhat more.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from unpooled.arrays import Bools, Floats
from unpooled.complete.vf_gain import protocol
from unpooled.complete.vf_gain.protocol import Activations
from unpooled.data.example_patients import STAGES, patient_tables
from unpooled.data.prepare import PrepareSettings, fit, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run.simulate import simulate_job

PATIENTS = 4_000
DRAWS, DECODED = 20, 4
RELATED = ("creatinine", "kidney_stage", "sampled_on", "hba1c", "diabetic", "therapy", "cholesterol")
"""Columns of the clinic that the registry's own columns predict."""
PLAN: dict[str, Any] = {
    "kind": "complete",
    "engine": "plain",
    "parties": {"clinic": {"role": "active"}, "registry": {"role": "passive"}},
    "parameters": {
        "columns": ["diabetic"],
        "activations": {},
        "predict": {"folds": 2, "confidence": "paper"},
        "model": {"trees": 2, "depth": 1},
    },
}


@dataclass(frozen=True, eq=False)
class Seen:
    """What either party saw, and the tables in the order of the job's rows."""

    activations: Floats
    drawn_again: tuple[Floats, ...]
    registry: Table
    clinic: Table
    features: Floats
    gradient: Floats


@pytest.fixture(scope="module")
def seen(tmp_path_factory: Any) -> Seen:
    made, root = patient_tables(PATIENTS), tmp_path_factory.mktemp("run")
    types: Any = {"kidney_stage": tuple(STAGES)}
    tables = {
        "clinic": table_from_frame(made.clinic, "id", "clinic", types),
        "registry": table_from_frame(made.registry, "id", "registry"),
    }
    lends = {"consent": {"values": True, "activations": True}, "seed": 2}
    fills = {"consent": {"rows": True}, "seed": 1, "generate": {"completer": {"completer": "marginal"}}}
    privates = {"registry": Private.model_validate(lends), "clinic": Private.model_validate(fills)}
    received: list[Any] = []
    shown: list[tuple[Floats, Floats]] = []
    output_of, noisy = protocol.output_of, protocol.noisy
    given: list[tuple[Any, ...]] = []

    def drawn(*points: Any) -> Floats:
        given.append(points)
        return noisy(*points)

    def spy(features: Floats, gradient: Floats, rows: int, units: int) -> Floats:
        shown.append((features[:rows], gradient))
        return output_of(features, gradient, rows, units)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(protocol, "output_of", spy)
        patched.setattr(protocol, "noisy", drawn)
        patched.setenv("LOKY_MAX_CPU_COUNT", "1")
        observers = {"clinic": lambda _peer, message: received.append(message)}
        outcome = simulate_job(Plan.model_validate(PLAN), privates, tables, Path(root), observers=observers)
    (activations,) = (one for one in received if isinstance(one, Activations))
    ids = outcome.tables["registry"]["handles"]["id"].to_list()
    features, gradient = shown[0]
    return Seen(
        activations.values.astype(float),
        tuple(noisy(*given[0]) for _ in range(DRAWS)),
        _in_order(tables["registry"], ids),
        _in_order(tables["clinic"], ids[: len(features)]),
        features,
        gradient,
    )


def _in_order(table: Table, ids: list[str]) -> Table:
    places = {one: row for row, one in enumerate(table.frame["id"])}
    return table.take(np.array([places[one] for one in ids]))


def r2(guessed: Floats, truth: Floats) -> float:
    return 1.0 - float(((guessed - truth) ** 2).mean()) / float(truth.var())


def by_least_squares(seen: Floats, columns: Floats) -> float:
    """The largest R² of any column, also judged on what it was learned from."""
    wide = np.column_stack([np.ones(len(seen)), seen])
    guessed = wide @ np.linalg.lstsq(wide, columns, rcond=None)[0]
    return max(r2(one, column) for one, column in zip(guessed.T, columns.T, strict=True))


def by_decoder(seen: Floats, columns: Floats) -> float:
    """The same by boosted trees, learned from half of the people and judged on the others."""
    half: Bools = np.random.default_rng(1).random(len(seen)) < 0.5
    found = []
    for column in columns.T:
        decoder = HistGradientBoostingRegressor(max_iter=20, random_state=1).fit(seen[half], column[half])
        found.append(r2(decoder.predict(seen[~half]), column[~half]))
    return max(found)


def test_activations_explain_a_tenth_of_no_column(seen: Seen) -> None:
    columns = transform(fit(seen.registry, PrepareSettings()), seen.registry).matrix
    columns = columns[:, columns.std(axis=0) > 0]
    assert columns.shape[1] >= 10
    assert len(seen.activations) == PATIENTS, "those whom the clinic lacks are among them"
    linear = [by_least_squares(one, columns) for one in seen.drawn_again]
    decoded = [by_decoder(one, columns) for one in seen.drawn_again[:DECODED]]
    print(f"least squares: mean {np.mean(linear):.3f}, largest {max(linear):.3f}; decoder: mean {np.mean(decoded):.3f}")
    assert np.mean(linear) <= 0.1
    assert np.mean(decoded) <= 0.1
    assert max(by_least_squares(seen.activations, columns), by_decoder(seen.activations, columns)) <= 0.12


def test_the_product_tells_the_registry_little_of_cells_that_its_columns_do_not_predict(seen: Seen) -> None:
    """By the least squares solution for the gradient; the clinic even tells it which mixture of columns that is of."""
    rows, width = seen.features.shape
    assert width <= rows // 10
    guessed = np.linalg.lstsq(seen.features.T, rows * seen.gradient, rcond=None)[0]
    prepared = transform(fit(seen.clinic, PrepareSettings()), seen.clinic)
    told = {}
    for name, column in zip(prepared.names, prepared.matrix.T, strict=True):
        centred = column - column.mean()
        mixture = np.linalg.lstsq(guessed, centred, rcond=None)[0]
        told[name] = r2(guessed @ mixture, centred)
    unrelated = {name: value for name, value in told.items() if not name.startswith(RELATED)}
    print(f"largest R² of such a column of the clinic: {max(unrelated.values()):.3f}, of any: {max(told.values()):.3f}")
    assert len(unrelated) >= 5
    assert max(unrelated.values()) <= 0.2, unrelated  # about a tenth: as many numbers as features, for so many rows
