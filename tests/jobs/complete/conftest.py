"""A clinic that completes its table with a registry, perhaps an insurer too, in this process."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook
from unpooled.complete import screening
from unpooled.complete.federated import predict_columns
from unpooled.complete.table import CompletedTable, complete_table
from unpooled.complete.variables import variables_of
from unpooled.data.prepare import fit, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run.simulate import Outcome, simulate_job
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import SEEDS
from unpooled.vertical.team import alone
from unpooled.vertical.trees.model import Part

COMMON, OTHERS, EXTRA = 130, 30, 6
ROLES = {"clinic": "active", "registry": "passive", "insurer": "passive", "coordinator": "coordinator"}
THREE = ("clinic", "registry", "coordinator")
OWN_SEEDS = {"clinic": 1, "registry": 2, "insurer": 3, "coordinator": 4}
LENDS = {"values": True, "activations": True}
AGREED = {"clinic": {"rows": True}, "registry": LENDS, "insurer": LENDS}
STAGES = ("early", "middle", "late")
TYPES = {"stage": STAGES}


def tables() -> dict[str, pl.DataFrame]:
    """The clinic's columns of all types go with the registry's and the insurer's, but for the category."""
    rng = np.random.default_rng(7)
    rows = COMMON + OTHERS + EXTRA
    x = rng.normal(size=(rows, 4)).round(3)
    ids = pl.Series("id", [f"patient-{number:03}" for number in range(rows)])
    some = x[:COMMON]
    lab = pl.Series((some[:, 2] + 0.5 * some[:, 1]).round(3)).set(pl.Series(rng.random(COMMON) < 0.1), None)
    clinic = pl.DataFrame(
        {
            "id": ids[:COMMON],
            "lab": lab,
            "visits": np.clip(np.round(4 + 2 * some[:, 1]), 0, 9).astype(np.int64),
            "seen": [date(2024, 1, 1) + timedelta(days=int(30 * value)) for value in some[:, 0]],
            "smoker": some[:, 0] > 0.3,
            "stage": pl.Series(STAGES).gather(np.digitize(some[:, 0], [-0.5, 0.7])),
            "ward": pl.Series(["north", "south", "west"]).gather(rng.integers(0, 3, COMMON)),
        }
    )
    registry = pl.DataFrame(
        {"id": ids, "age": x[:, 0], "weight": x[:, 1], "region": pl.Series(["a", "b"]).gather((x[:, 3] > 0) * 1)}
    )
    insurer = pl.DataFrame({"id": ids, "claims": x[:, 2], "score": x[:, 0] + x[:, 3]})
    return {
        "clinic": clinic[rng.permutation(COMMON)],
        "registry": registry[: COMMON + OTHERS][rng.permutation(COMMON + OTHERS)],
        "insurer": insurer[rng.permutation(rows)],
    }


@dataclass(frozen=True)
class Completing:
    """Runs the job with small models, in folders of its own under `root`."""

    root: Path
    frames: Mapping[str, pl.DataFrame] = field(default_factory=tables)

    def plan(self, parties: tuple[str, ...] = THREE, **settings: Any) -> Plan:
        """A plan; what is not the plan's own are parameters. Models are few and small unless told."""
        settings["model"] = {"trees": 2, "depth": 1} | settings.get("model", {})
        settings["predict"] = {"folds": 2, "confidence": "paper"} | settings.get("predict", {})
        if settings["model"].get("learner") == "linear":
            settings["model"] = {"epochs": 2, "insecure_batch": True, "learner": "linear"}
        own = {key: settings.pop(key) for key in list(settings) if key in Plan.model_fields}
        content = {"kind": "complete", "parties": {party: {"role": ROLES[party]} for party in parties}}
        return Plan.model_validate(content | {"parameters": settings, "timeout": 600.0} | own)

    def tables(self, plan: Plan, **frames: pl.DataFrame) -> dict[str, Table]:
        """The tables of a plan's owners, perhaps with others in their places."""
        made = {party: {**self.frames, **frames}[party] for party in plan.owners}
        return {
            party: table_from_frame(frame, "id", party, {name: TYPES[name] for name in TYPES if name in frame.columns})
            for party, frame in made.items()
        }

    def privates(self, plan: Plan, **more: Mapping[str, Any]) -> dict[str, Private]:
        """Every party's settings, with consents; `more` has further ones by party."""
        own = {
            party: {"seed": OWN_SEEDS[party], "consent": {"aided": True} | AGREED.get(party, {})}
            for party in plan.parties
        }
        return {party: Private.model_validate(given | dict(more.get(party, {}))) for party, given in own.items()}

    def run(
        self,
        plan: Plan,
        name: str = "run",
        frames: Mapping[str, pl.DataFrame] | None = None,
        **privates: Mapping[str, Any],
    ) -> Outcome[dict[str, Any]]:
        """Run it; what a party's private settings have besides is given by its name."""
        made = self.privates(plan, **privates)
        return simulate_job(plan, made, self.tables(plan, **(frames or {})), self.root / name)

    def pooled(self, plan: Plan, name: str = "run", **generate: Any) -> CompletedTable:
        """What one party makes of all columns, with the rows in the order of the handles, and the same draws."""
        return _pooled(self, plan, self.root / name, Private.model_validate({"generate": generate}))


def _pooled(completing: Completing, plan: Plan, home: Path, private: Private) -> CompletedTable:
    parameters, tables = parameters_of(plan), completing.tables(plan)
    assert isinstance(parameters, Parameters)
    handles, blocks, names = pl.read_csv(home / "registry" / "handles.csv"), list[Floats](), list[str]()
    for party in plan.with_role("passive"):
        table = _in_order(tables[party], handles["id"])
        prepared, order = transform(fit(table, private.prepare), table), _presented(home / party)
        blocks.append(prepared.matrix[:, order])
        names += [f"{party} {prepared.names[place]}" for place in order]
    columns = Columns(np.hstack(blocks), tuple(names))
    real = _in_order(tables["clinic"], handles["id"][:COMMON])
    rng = np.random.default_rng([OWN_SEEDS["clinic"], zlib.crc32(b"clinic")])
    _, predict_seed, generate_seed = (int(seed) for seed in rng.integers(SEEDS, size=3))
    by_name = {one.name: one for one in variables_of(real, len(handles), parameters.most_classes)}
    chosen = parameters.columns
    if chosen is None:
        chosen = screening.load(home / "clinic" / "screening.json").chosen(parameters.threshold)
    predicted = predict_columns(
        alone(), parameters.model, columns, [by_name[name] for name in chosen], parameters.predict, predict_seed
    )
    settings = private.generate
    return complete_table(
        real,
        handles["handle"].to_list(),
        predicted.predictions,
        settings.completer,
        np.random.default_rng(generate_seed),
        groups=[(group.columns, group.completer) for group in settings.groups],
        draws=settings.draws,
        least_confidence=settings.least_confidence,
    )


def _presented(home: Path) -> list[int]:
    """In which order a passive party shows its columns, by its part of the first models."""
    page = Notebook(home / ".working" / "checkpoint" / "groups").read(0)
    part = Part.model_validate_json(page["model"].tobytes())
    return [feature.column for feature in part.binning.features]


def _in_order(table: Table, ids: pl.Series) -> Table:
    places = {one: row for row, one in enumerate(table.frame["id"])}
    return table.take(np.array([places[one] for one in ids]))


@pytest.fixture(scope="session")
def completing_in() -> Iterator[Callable[[Path], Completing]]:
    """Makes one with folders of its own."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        frames = tables()
        yield lambda root: Completing(root, frames)


@pytest.fixture
def completing(tmp_path: Path, completing_in: Callable[[Path], Completing]) -> Completing:
    return completing_in(tmp_path)
