"""What a kind of job consists of: everything that the rest of the package asks of it.

A new kind is a folder with a `KIND` of this type, and a place in the tuple of `kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import polars as pl

from unpooled.arrays import Bools
from unpooled.data.sources import TableSettings
from unpooled.data.table import Table
from unpooled.jobs.examples.example_tables import ExampleTables
from unpooled.jobs.learning.query_bounds import Answers
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan, Role
from unpooled.jobs.private import Private
from unpooled.jobs.run_files import Figure, RunFiles, Section
from unpooled.jobs.work import CheckedJob, Result, Work
from unpooled.secure.evidence import Arrays
from unpooled.session import Session
from unpooled.settings import Section as Settings
from unpooled.vertical.learner import LearnerParameters

P = TypeVar("P", bound=Settings)


@dataclass(frozen=True)
class Agreement:
    """A key of the private file's `consent`, and what a party agrees to with it.

    The text may name `{party}`, the `{active}` party, the `{passive}` ones, the `{seeker}` and the `{coordinator}`.
    With `only_with` it is asked for only if the plan sets the parameter of this name, and if that names parties, only
    of those; with `value` only if the parameter has this value. `example` is what an example file says.
    """

    key: str
    text: str
    only_with: str = ""
    example: Any = True
    value: str = ""


class FrameSource(Protocol):
    """A file in a party's run folder that can be read as a data frame."""

    def read(self, folder: Path, id_columns: int, /) -> pl.DataFrame | None:
        """The frame; None if this party has no such file."""


@dataclass(frozen=True)
class Audit(Generic[P]):
    """Which learner's inputs can be checked afterwards, and what is wrong with labels and weights that were opened.

    `model` is given the number of a fit, and what the result of the party that checks says.
    `problem` is also given those of the fits that this audit has looked at before.
    """

    model: Callable[[P, int, Result], LearnerParameters]
    problem: Callable[[P, Arrays, Sequence[Arrays]], str]


@dataclass(frozen=True)
class Example:
    """What example files of a kind say, besides tables and consents.

    `parameters` are the plan's with the example `tables`, `paillier_parameters` those with which this slow engine ends
    soon. `private` has settings by role, in which `{party}` stands for the party's name; `seeded` says whether draws
    come out the same each time. `judge` takes the folders of a run and of the tables, and tells by the truth how good
    the result is, by party; a kind that has it can be shown by `unpooled demo`.
    """

    tables: ExampleTables
    parameters: Mapping[str, Any]
    paillier_parameters: Mapping[str, Any]
    private: Mapping[Role, Mapping[str, Any]]
    seeded: bool
    judge: Callable[[Path, Path], Mapping[str, Result]] | None


@dataclass(frozen=True)
class Rehearsed:
    """Parameters of the plan that differ in a rehearsal, and what of that is a guess, in words.

    Where rows take part that the active party lacks, it has at least `least_own` of them. `decided` changes parameters
    in a way that no plan can.
    """

    parameters: Mapping[str, Any]
    guess: str = ""
    least_own: int = 0
    decided: Callable[[Any], Any] = lambda parameters: parameters


@dataclass(frozen=True)
class Kind(Generic[P]):
    """A kind of job; there are no defaults, so that none of this is forgotten."""

    name: str
    summary: str
    """One sentence, for `unpooled job`, example files and reports."""
    page: str
    """Where the documentation explains it: a file in `docs`, and a heading."""

    parameters: type[P]
    takes: tuple[Role, ...]
    needs: tuple[Role, ...]
    products: bool
    """Whether it computes products, which the plan's engine protects."""
    other_rows: bool
    """Whether rows that the passive parties have and the active party lacks take part too."""
    by_column: bool
    """Whether it looks at one column of a table at a time, so that these may stay on disk."""
    outline: Callable[[Plan, P], list[Exchange]]
    role: Callable[[Session, Work[P]], Result]

    tables: Mapping[str, FrameSource]
    """The files that parties may have at the end and that Python hands back as data frames, by what they are called."""

    private_needs: Mapping[Role, tuple[str, ...]]
    """The keys that the private file of a party must have, besides its table."""
    consents: Mapping[Role, tuple[Agreement, ...]]
    table: Callable[[CheckedJob[P]], TableSettings | None]
    """How a party's table is read; None for one that has none."""
    check_files: Callable[[CheckedJob[P]], None]
    """Refuse, before the start, what else the private file names and cannot serve."""
    check_table: Callable[[CheckedJob[P], Table], None]
    """Refuse, before the start, a party's table, which has been cleaned."""
    check_common: Callable[[CheckedJob[P], Table, Bools | None, int], None]
    """Refuse the active party's rows that all owners have, with whether the seeker knows each, if there is one, and how
    many more rows all passive parties have."""
    answers: Callable[[CheckedJob[P]], Answers | None]
    """The most that a party answers about its rows; None if it answers nothing."""
    said_before: Callable[[Plan, P], list[str]]
    """What the plan's settings cost or give away, in sentences for the dry run."""
    audit: Audit[P] | None
    groups: Callable[[P], list[int]]
    """How many models are learned together, step by step, at the most; empty if none is learned."""
    rehearsed: Callable[[P, bool, Mapping[str, tuple[Table, Private]], int], Rehearsed]
    """What a rehearsal changes: whether it is encrypted, the common rows of all owners with their settings, if the
    tables are here, the active party's first, and how many columns it has."""

    example: Example
    headline: Callable[[Result], list[Figure]]
    """The figures of a party's result that are said at the end; none for a coordinator."""
    section: Callable[[RunFiles, P], Section]


def agreements_of(kind: Kind[P], party: str, role: Role, parameters: P) -> list[Agreement]:
    """What a party in a role must agree to, with these parameters."""
    asked = kind.consents.get(role, ())
    return [one for one in asked if not one.only_with or _asks(getattr(parameters, one.only_with), party, one.value)]


def _asks(parameter: Any, party: str, value: str) -> bool:
    """Whether a parameter is set, or names this party where it is a party or a list of parties, or has a value."""
    if value:
        return bool(parameter == value)
    if isinstance(parameter, str):
        return party == parameter
    return party in parameter if isinstance(parameter, tuple) else bool(parameter)


def own_table(job: CheckedJob[P]) -> TableSettings | None:
    """The table as the private file describes it."""
    return job.private.table


def no_files(_job: CheckedJob[P]) -> None:
    """Nothing but the table is needed."""


def any_table(_job: CheckedJob[P], _table: Table) -> None:
    """Every table will do."""


def any_rows(_job: CheckedJob[P], _table: Table, _known: Bools | None, _others: int) -> None:
    """All rows in common will do."""


def as_planned(
    _parameters: P, _encrypted: bool, _together: Mapping[str, tuple[Table, Private]], _columns: int
) -> Rehearsed:
    """A rehearsal changes nothing."""
    return Rehearsed({})


def no_answers(_job: CheckedJob[P]) -> None:
    """Nothing is answered about rows."""


def nothing_said(_plan: Plan, _parameters: P) -> list[str]:
    """The plan's settings speak for themselves."""
    return []
