"""A telephone company, a railway and a bank, whose columns say more or less about who buys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run.simulate import Outcome, simulate_job

ROLES = {"telco": "passive", "railway": "passive", "bank": "active", "coordinator": "coordinator"}
BINS, MIN_ROWS = 5, 20


def people(rows: int = 400) -> dict[str, pl.DataFrame]:
    """Everybody's customers, in different orders; the bank does not know of all whether they buy."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4)).round(3)
    buys = pl.Series(np.where(x[:, 0] + x[:, 1] + rng.normal(size=rows) > 0.5, "yes", "no"))
    ids = pl.Series("id", [f"person-{number:03}" for number in range(rows)])
    gone = pl.Series(rng.random(rows) < 0.15)
    telco = pl.DataFrame({"id": ids, "calls": x[:, 1], "tariff": np.where(x[:, 2] > 0, "basic", "plus")})
    railway = pl.DataFrame({"id": ids, "trips": pl.Series(x[:, 3]).set(gone, None)})
    bank = pl.DataFrame({"id": ids, "age": x[:, 0], "buys": buys.set(pl.Series(rng.random(rows) < 0.05), None)})
    frames = {"telco": telco.head(rows - 10), "railway": railway.tail(rows - 10), "bank": bank}
    return {name: frame.sample(fraction=1, shuffle=True, seed=3) for name, frame in frames.items()}


@dataclass(frozen=True)
class Informing:
    """Runs the job in a folder of its own."""

    root: Path
    frames: Mapping[str, pl.DataFrame]

    def plan(self, parties: tuple[str, ...] = tuple(ROLES), **settings: Any) -> Plan:
        """A plan; what is not the plan's own are parameters."""
        own = {key: settings.pop(key) for key in list(settings) if key in Plan.model_fields}
        parameters = {"bins": BINS, "min_rows": MIN_ROWS} | settings
        roles = {party: {"role": ROLES[party]} for party in parties}
        return Plan.model_validate({"kind": "information", "parties": roles, "parameters": parameters} | own)

    def run(self, plan: Plan, name: str = "run", woe: bool = True, **changes: Any) -> Outcome[dict[str, Any]]:
        """Run it; `changes` are private settings of the bank, or with an observer by party `observers`."""
        observers = changes.pop("observers", None)
        bank = Private.model_validate({"target": "buys", "consent": {"woe": woe}} | changes)
        privates = {party: Private(seed=2) for party in plan.parties} | {"bank": bank}
        tables = {party: table_from_frame(self.frames[party], "id", party) for party in plan.owners}
        return simulate_job(plan, privates, tables, self.root / name, observers=observers)


@pytest.fixture(scope="session")
def frames() -> dict[str, pl.DataFrame]:
    return people()


@pytest.fixture
def informing(tmp_path: Path, frames: Mapping[str, pl.DataFrame]) -> Informing:
    return Informing(tmp_path, frames)
