"""Running a job with all its parties in this process, and keeping what each of them saw."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Bools, Floats, Ints
from unpooled.attacks.record import Record
from unpooled.attacks.stage import Stage
from unpooled.attacks.trees_seen import TreesSeen, trees_seen
from unpooled.data.prepare import fit, transform
from unpooled.data.table import Table
from unpooled.jobs.align.job import ALIGNED
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.learning.model_files import MODEL
from unpooled.run.progress import Watcher
from unpooled.run.simulate import simulate_job
from unpooled.vertical.learners import learner_of


@dataclass(frozen=True, eq=False)
class View:
    """What a party has at the end: what it saw, its own columns of the common rows, and who these are.

    `columns` are as the learner takes them, `people` the numbers of the common rows in their order. `weights` are its
    part of a linear model, columns × models, and `learned` says which rows a linear model learned from.
    """

    party: str
    role: str
    record: Record
    people: Ints
    columns: Floats
    learned: Bools
    weights: Floats | None

    @cached_property
    def trees(self) -> TreesSeen:
        return trees_seen(self.record)


def views_of(stage: Stage, watcher: Watcher | None = None) -> dict[str, View]:
    """Run the job; what each party but the active one has seen. What the active party sees of learning, it sees in the
    messages that it exchanges with these."""
    plan = stage.plan
    others = [party for party in plan.parties if party != plan.active]
    records = {party: Record() for party in others}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        simulate_job(
            plan,
            stage.privates,
            stage.tables,
            folder,
            watchers={plan.active: watcher} if watcher else {},
            observers={party: record.note for party, record in records.items()},
        )
        return {party: _view(stage, party, records[party], folder / party) for party in others}


def _view(stage: Stage, party: str, record: Record, folder: Path) -> View:
    role, parameters = stage.plan.parties[party].role, parameters_of(stage.plan)
    if role != "passive":
        return View(party, role, record, np.empty(0, np.int64), np.empty((0, 0)), np.empty(0, bool), None)
    table = stage.tables[party]
    listed = pl.read_csv(folder / ALIGNED, infer_schema=False)[table.id[0]]
    people = listed.cast(pl.Int64).to_numpy()
    learner = learner_of(parameters.model)  # type: ignore[attr-defined]
    test = learner.shown_test(len(people), getattr(parameters, "test_fraction", 0.0))
    learned = np.ones(len(people), bool) if test is None else ~test
    columns, weights = _columns(stage, party, table, people), _weights(folder / MODEL, stage.output)
    return View(party, role, record, people, columns, learned, weights)


def _columns(stage: Stage, party: str, table: Table, people: Ints) -> Floats:
    """A party's columns of the common rows, prepared as in the job."""
    private = stage.privates[party]
    by_person = {int(person): row for row, person in enumerate(table.frame[table.id[0]].to_list())}
    rows = np.array([by_person[person] for person in people.tolist()], np.int64)
    features = features_of(table, private).take(rows)
    return transform(fit(features, private.prepare), features).matrix


def _weights(path: Path, output: int) -> Floats | None:
    """A party's own weights, if it has a part of linear models: of one output, columns × models."""
    content: Any = json.loads(path.read_text()) if path.exists() else {}
    parts = content.get("parts") or [content]
    if any("weights" not in part for part in parts):
        return None
    return np.array([[row[output] for row in part["weights"]] for part in parts]).T
