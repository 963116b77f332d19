"""What a kind of job consists of: everything that the rest of the package asks of it.

A new kind is a folder with a `KIND` of this type, and a place in the tuple of `kinds.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from unpooled.arrays import Bools
from unpooled.data.sources import TableSettings
from unpooled.data.table import Table
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan, Role
from unpooled.jobs.query_bounds import Answers
from unpooled.jobs.run_files import Figure, RunFiles, Section
from unpooled.jobs.scores import RowFile
from unpooled.jobs.work import CheckedJob, Result, Work
from unpooled.secure.evidence import Arrays
from unpooled.session import Session
from unpooled.settings import Section as Settings
from unpooled.vertical.learner import LearnerParameters

P = TypeVar("P", bound=Settings)


@dataclass(frozen=True)
class Agreement:
    """A key of the private file's `consent`, and what a party agrees to with it.

    The text may name `{party}`, the `{active}` party and the `{seeker}`. With `only_with` it is asked for only if the
    plan sets the parameter of this name. `example` is what an example file says.
    """

    key: str
    text: str
    only_with: str = ""
    example: Any = True


@dataclass(frozen=True)
class Audit(Generic[P]):
    """Which learner's inputs can be checked afterwards, and what is wrong with labels and weights that were opened."""

    model: Callable[[P], LearnerParameters]
    problem: Callable[[Arrays], str]


@dataclass(frozen=True)
class Example:
    """What example files of a kind say, besides tables and consents.

    `parameters` are the plan's with the example tables, `paillier_parameters` those with which this slow engine ends
    soon. `private` has settings by role, in which `{party}` stands for the party's name; `seeded` says whether draws
    come out the same each time.
    """

    parameters: Mapping[str, Any]
    paillier_parameters: Mapping[str, Any]
    private: Mapping[Role, Mapping[str, Any]]
    seeded: bool


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
    outline: Callable[[Plan, P], list[Exchange]]
    role: Callable[[Session, Work[P]], Result]

    tables: Mapping[str, RowFile]
    """The files with a line for each person that parties may have at the end, by what they are called in Python."""

    private_needs: Mapping[Role, tuple[str, ...]]
    """The keys that the private file of a party must have, besides its table."""
    consents: Mapping[Role, tuple[Agreement, ...]]
    table: Callable[[CheckedJob[P]], TableSettings | None]
    """How a party's table is read; None for one that has none."""
    check_files: Callable[[CheckedJob[P]], None]
    """Refuse, before the start, what else the private file names and cannot serve."""
    check_table: Callable[[CheckedJob[P], Table], None]
    """Refuse, before the start, a party's table, which has been cleaned."""
    check_common: Callable[[CheckedJob[P], Table, Bools | None], None]
    """Refuse the active party's rows that all owners have, with whether the seeker knows each, if there is one."""
    answers: Callable[[CheckedJob[P]], Answers | None]
    """The most that a party answers about its rows; None if it answers nothing."""
    audit: Audit[P] | None
    groups: Callable[[P], list[int]]
    """How many models are learned together, step by step, at the most; empty if none is learned."""
    shorter: Callable[[P], Mapping[str, Any]]
    """Parameters of the plan with which fewer models are learned, for a rehearsal of a slow engine."""

    example: Example
    headline: Callable[[Result], list[Figure]]
    """The figures of a party's result that are said at the end; none for a coordinator."""
    section: Callable[[RunFiles, P], Section]


def agreements_of(kind: Kind[P], role: Role, parameters: P) -> list[Agreement]:
    """What a party in a role must agree to, with these parameters."""
    asked = kind.consents.get(role, ())
    return [one for one in asked if not one.only_with or getattr(parameters, one.only_with)]


def own_table(job: CheckedJob[P]) -> TableSettings | None:
    """The table as the private file describes it."""
    return job.private.table


def no_files(_job: CheckedJob[P]) -> None:
    """Nothing but the table is needed."""


def any_table(_job: CheckedJob[P], _table: Table) -> None:
    """Every table will do."""


def any_rows(_job: CheckedJob[P], _table: Table, _known: Bools | None) -> None:
    """All rows in common will do."""


def no_answers(_job: CheckedJob[P]) -> None:
    """Nothing is answered about rows."""
