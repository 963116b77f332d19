"""What a learner offers: one `Learner` describes each, and jobs are written against that alone.

`vertical/learners.py` lists them. A new one is a folder beside `trees` and `linear` with such a description, and a
place in that list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel, Field

from unpooled.arrays import Bools, Floats, Ints
from unpooled.checkpoint import Notebook
from unpooled.secure.engine import Rules
from unpooled.secure.evidence import Arrays, Line
from unpooled.secure.outline import Exchange, Setup
from unpooled.settings import Section
from unpooled.vertical.explained import Contributions
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team


class LearnerParameters(Section):
    """What every learner can be told; a learner's own class gives `learner` its name, and adds its settings."""

    learner: str
    classes: int = Field(2, description="how many classes the target has; 0 for a number", ge=0)


class Part(Protocol):
    """What a passive party keeps of a model; `learner` is the name of the `Learner` that made it."""

    @property
    def learner(self) -> str: ...
    @property
    def party(self) -> str: ...
    @property
    def columns(self) -> Sequence[str]:
        """The names of the columns, in the order of the prepared table."""

    def model_dump_json(self) -> str: ...


class Model(Protocol):
    """What the active party keeps: one or several models that were fitted together, and its own part of them."""

    @property
    def learner(self) -> str: ...
    @property
    def part(self) -> Part: ...
    @property
    def owners(self) -> tuple[str, ...]: ...
    @property
    def parameters(self) -> LearnerParameters: ...
    @property
    def classes(self) -> tuple[str, ...]: ...
    def model_dump_json(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, by target what it says of all rows, and what the result tells of the fit.

    Of two classes the score is the probability of the second, of several that of each, else the number; rows × outputs.
    There are no scores where they take messages of their own (`Learner.score`).
    """

    model: Model
    scores: tuple[Floats, ...] | None
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Limits:
    """The most that a passive party answers: bits in all fits, and by `COUNTED` between two pages of a notebook."""

    bits: int
    between_pages: Mapping[str, int]


class Check(Protocol):
    """What an honest party would have sent in one fit, to compare with."""

    @property
    def notes(self) -> Sequence[str]: ...
    def problem_of(self, line: Line, seed: str, told: Line) -> str:
        """What is wrong with a product that was opened; nothing if all is well."""


@dataclass(frozen=True)
class Audited:
    """One fit that a party has opened: `inputs` by what it committed to, its `pages`, and what the checker `received`.

    `own` are the checker's pages of the same names that `Audit.pages` gives for what it received.
    """

    setup: Setup
    opener: str
    fit: int
    inputs: Mapping[str, Arrays]
    pages: Mapping[str, Arrays]
    received: Sequence[Line]
    own: Mapping[str, Arrays]


@dataclass(frozen=True)
class Audit:
    """How a learner's products are checked after a run (`secure.evidence`)."""

    pages: Callable[[Sequence[Line]], list[str]]
    """The pages that some products need."""
    check: Callable[[Any, Audited], Check]


@dataclass(frozen=True)
class Explaining:
    """How a learner's models are explained: what each column adds to the margin of a row."""

    outline: Callable[[Setup, Any], list[Exchange]]
    """What is sent; without parameters what depends on these has an `only_if`."""
    contributions: Callable[[Team, Any, Columns, Ints, Ints], Contributions]
    """At the active party: what columns add in some rows, in rising order, each for one of the outputs of `score`."""
    help_contributions: Callable[[Team, Any, Columns, int], tuple[Ints, Floats]]
    """At a passive party: take part in that for at most so many rows; which these are, and what its columns add."""
    margin: Callable[[Any], str]
    """What a margin is, in words."""
    lacks: Callable[[Any], str]
    """What a model, or a party's part of it, lacks to be explained; nothing if it can be."""


@dataclass(frozen=True, kw_only=True)
class Learner:
    """A learner: what it can be told, what it sends, and what it does at the active party and at passive ones.

    `Any` stands for the learner's own types: its parameters, and its columns as `prepare` leaves them.
    """

    name: str
    """What models and parts are marked with."""
    models: str
    """What its models are called in a sentence: "trees"."""
    parameters: tuple[type[LearnerParameters], ...]
    model: type[BaseModel]
    part: type[BaseModel]

    outline: Callable[[Setup, Any], list[Exchange]]
    """What a fit of one model sends, and the scoring of its rows, if `scores_in_fit` says that this comes after it."""
    score_outline: Callable[[Setup], list[Exchange]]
    """What the scoring of new rows sends; `only_if` says what depends on the model."""
    fit: Callable[[Team, Any, Any, Sequence[Target], Sequence[str], Notebook | None], Fitted]
    """At the active party: a model for each target, all in step; the texts are the names of the classes."""
    lend: Callable[[Team, Any, Any, int, Notebook | None], Part]
    """At a passive party: take part in the fit of so many models."""
    score: Callable[[Team, Any, Columns], list[Floats]]
    """At the active party: what each of the models says of rows, as `Fitted.scores` has it."""
    help_score: Callable[[Team, Any, Columns, bool], None]
    """At a passive party: take part in that; true if these are the rows that were learned from."""
    importance: Callable[[Any], dict[str, Any]]
    """What a party's result tells of its own part."""
    without_last: Callable[[Any, int], Any]
    """A model of several targets, or a party's part of it, without the models of the last so many."""

    title: Callable[[Any], str] = lambda parameters: str(parameters.learner)
    """What a report calls a model with these parameters."""
    scores_in_fit: Callable[[Any], bool] = lambda _: False
    check: Callable[[Setup, Any, bool, bool], None] = lambda *_: None
    """Refuse, with a PlanError, parameters that the parties or the engine of a plan do not support.

    The first bool says that models are fitted to bags of the rows, the second that rows have weights.
    """
    takes_missing: bool = True
    """Whether columns may have missing values."""
    needs_columns: bool = False
    """Whether a passive party without columns is left out of a fit, and so keeps no pages of it."""
    questions: Callable[[Any, int], int | None] = lambda *_: None
    """The most columns that so many models ask about the same rows (`secure.engine.Rules`); None: see there."""
    product_rows: Callable[[Any, int], int] = lambda parameters, rows: 2 * rows * max(parameters.classes, 1)
    """The most rows that a product has by so many common ones: what a coordinator serves."""
    shown_test: Callable[[int, float], Bools | None] = lambda *_: None
    """Which of so many rows are a test, if all parties know them; None: the active party draws them, of weight zero."""
    prepare: Callable[[Team, Any, Columns, int | None], Any] = lambda _team, _parameters, columns, _most: columns
    """A party's columns as `fit` and `lend` take them, once for all fits; a passive one may limit its thresholds."""
    limits: Callable[[Rules, Any, Any, Sequence[int]], Limits | None] = lambda *_: None
    """What groups of so many models each ask of a passive party; None: what is asked has no limit of its own."""
    table_limits: Callable[[Rules, Any, Columns, Sequence[int]], tuple[int, int] | None] = lambda *_: None
    """The same before the start: the most bits that are asked about a table, and how many it has."""
    revealed: Callable[[Any, Sequence[Any]], dict[str, int]] = lambda *_: {}
    """What a passive party's parts of models reveal of its columns, as `prepare` left them: how many different
    `thresholds`, out of how many (`all_thresholds`), and how many bits the table has (`table_bits`)."""
    notes: Callable[[Any, float], list[str]] = lambda _, __: []
    """What is worth knowing of a fit with such a fraction of test rows."""
    said_before: Callable[[Rules, Any, bool], list[str]] = lambda *_: []
    """What is to be known before the start of a choice that the plan makes; the bool says that labels are a secret."""
    rounds: Callable[[Any, int, str], tuple[str, int]] | None = None
    """For a forecast: the parameter that says how many rounds a fit has, each of which takes about as much as another;
    and how many of them show what a round takes, with so many models fitted together, and an engine."""
    gradient_fits: Callable[[Any, int], int] = lambda *_: 0
    """Of how many fits at least other parties are shown gradients, where so many models are fitted."""
    batch_rows: Callable[[Any, int], int] | None = None
    """How many rows a step of a round has where a party has so many columns; None if a round has no steps."""
    rounds_of: Callable[[Any, int], int] | None = None
    """How many rounds of so many steps a fit has, if its parameter leaves that open."""
    full_rows: Callable[[Any], int] = lambda _: 0
    """With how many rows a model is about as large as its parameters allow; 0 if that does not depend on the rows."""
    ends_early: Callable[[Any], type | None] = lambda _: None
    """The message that the active party sends once a round, if fits may end before the last one."""
    for_bags: LearnerParameters | None = None
    """What suits the small bags of a look-alike search better than the defaults."""
    for_secret_labels: Mapping[str, Any] = field(default_factory=dict)
    """Settings that hide from passive parties who is alike, for jobs whose labels are a secret, such as look-alikes.
    They may also limit what such a job, which has many models, shows of passive parties' columns."""
    tunable: frozenset[str] = frozenset()
    """The settings that may be chosen by trying: none that protects a party, and none that says how its columns are
    made ready or rows are cut into batches, which is the same in all fits."""
    audit: Audit | None = None
    explaining: Explaining | None = None
