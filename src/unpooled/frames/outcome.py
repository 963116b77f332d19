"""What parties have at the end of a job, as data frames and objects: all that a run folder has, and its report."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from unpooled.frames.kept import Kept
from unpooled.frames.models import ModelPart, load_model
from unpooled.frames.report import Report
from unpooled.jobs.files import write_toml
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.learning.model_files import MODEL
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import Result
from unpooled.ledger import Record
from unpooled.report.gather import gather
from unpooled.report.page import draw
from unpooled.run.folder import PLAN

_MEASURED = ("metrics", "judged")
"""What results call figures that were measured with the truth, by the rows that they are of."""


@dataclass(frozen=True, eq=False, repr=False)
class PartyOutcome:
    """What one party has at the end of a job: its `result`, its `ledger`, and by name its `tables`."""

    party: str
    plan: Plan
    result: Result
    ledger: Record
    tables: dict[str, pl.DataFrame]
    files: Kept

    def __repr__(self) -> str:
        said = [figure.words for figure in kind_named(self.plan.kind).headline(self.result)]
        tables = [f"tables: {', '.join(self.tables)}"] if self.tables else []
        return f"<{self.party}, {self.plan.kind}: {'; '.join([*said, *tables]) or 'nothing of its own'}>"

    @property
    def folder(self) -> Path | None:
        """The party's run folder; None if its files are in memory."""
        return self.files.folder

    @cached_property
    def model(self) -> ModelPart | None:
        """The party's part of the model, if the job learned one and the party is an owner of columns."""
        with self.files.on_disk() as folder:
            return load_model(folder) if (folder / MODEL).exists() else None

    @cached_property
    def metrics(self) -> dict[str, float]:
        """The figures of the result by name: what is said first, and all that was measured, such as `test_auc`."""
        return metrics_of(self.plan, self.result)

    @cached_property
    def report(self) -> Report:
        """The party's own page."""
        return Report(f"{self.party}, {self.plan.kind}", partial(_page, self.files.on_disk))


@dataclass(frozen=True, eq=False, repr=False)
class Outcome:
    """What every party of a simulation has at the end; `outcome["bank"]` is one party's, and so is `.tables["bank"]`.

    `folder` has the files, if the simulation was given one.
    """

    parties: dict[str, PartyOutcome]
    folder: Path | None = None

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.parties.values()))

    def __getitem__(self, party: str) -> PartyOutcome:
        return self.parties[party]

    @cached_property
    def results(self) -> dict[str, Result]:
        """By party what it found, as in `result.json`."""
        return {name: one.result for name, one in self.parties.items()}

    @cached_property
    def ledgers(self) -> dict[str, Record]:
        """By party the record of everything that it sent and received."""
        return {name: one.ledger for name, one in self.parties.items()}

    @cached_property
    def tables(self) -> dict[str, dict[str, pl.DataFrame]]:
        """By party and name the tables with a row for each person, cell or column."""
        return {name: one.tables for name, one in self.parties.items()}

    @cached_property
    def models(self) -> dict[str, ModelPart]:
        """By party its part of the model; parties without one are left out."""
        return {name: one.model for name, one in self.parties.items() if one.model is not None}

    @cached_property
    def metrics(self) -> dict[str, dict[str, float]]:
        """By party the figures of its result."""
        return {name: one.metrics for name, one in self.parties.items()}

    @cached_property
    def reports(self) -> dict[str, Report]:
        """By party its own page."""
        return {name: one.report for name, one in self.parties.items()}

    @cached_property
    def report(self) -> Report:
        """The page of the whole run, which no party of a real run has."""
        return Report(", ".join(self.parties), partial(_page, self._on_disk))

    @contextmanager
    def _on_disk(self) -> Iterator[Path]:
        if self.folder is not None:
            yield self.folder
            return
        with tempfile.TemporaryDirectory() as made:
            plan = next(iter(self.parties.values())).plan
            root = Path(made) / plan.kind
            for name, one in self.parties.items():
                one.files.put(root / name)
            write_toml(root / PLAN, plan)
            yield root


def metrics_of(plan: Plan, result: Mapping[str, Any]) -> dict[str, float]:
    """The figures that are said at the end of a job, and by the rows that they are of all that were measured."""
    found = {figure.name: figure.value for figure in kind_named(plan.kind).headline(dict(result))}
    for block in _MEASURED:
        for rows, figures in result.get(block, {}).items():
            if isinstance(figures, dict):
                found |= {f"{rows}_{name}": value for name, value in figures.items()}
    return found


def _page(on_disk: Callable[[], AbstractContextManager[Path]]) -> str:
    with on_disk() as folder:
        return draw(gather(folder))
