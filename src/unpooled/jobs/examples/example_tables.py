"""The made-up tables that examples of kinds of job use: who has them, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unpooled.data import example, example_patients
from unpooled.jobs.plan import Role


@dataclass(frozen=True)
class ExampleTables:
    """The parties with their roles, in the plan's order, and the tables of those that have one.

    `types` are those that cannot be inferred. `write` puts the tables and `truth.csv` into a folder: so many rows, by a
    random seed. `person` is what the column of ids is called in commented examples.
    """

    roles: Mapping[str, Role]
    types: Mapping[str, Mapping[str, Any]]
    write: Callable[[Path, int, int], list[Path]]
    rows: int
    person: str

    @property
    def active(self) -> str:
        return next(name for name, role in self.roles.items() if role == "active")


CUSTOMERS = ExampleTables(
    roles={"shop": "seeker", "telco": "passive", "bank": "active", "coordinator": "coordinator"},
    types=example.TYPES,
    write=example.write,
    rows=example.ROWS,
    person="customer",
)
PATIENTS = ExampleTables(
    roles={"registry": "passive", "clinic": "active", "coordinator": "coordinator"},
    types=example_patients.TYPES,
    write=example_patients.write_patients,
    rows=example_patients.ROWS,
    person="patient",
)
