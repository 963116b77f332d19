"""A run's files as the sections of its report see them: statuses, ledgers, and results, which are checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, Field, NonNegativeInt, TypeAdapter, ValidationError

from unpooled import control
from unpooled.errors import InputError
from unpooled.jobs.plan import Plan
from unpooled.ledger import Line, Pair, Record, Way
from unpooled.settings import faults
from unpooled.wire import Disclosure

T = TypeVar("T")

RESULT = "result.json"

Amount = Annotated[float, Field(ge=0, le=1e15)]
Number = Annotated[float, Field(ge=-1e150, le=1e150)]
"""One that can be drawn."""


@dataclass(frozen=True)
class Section:
    """What a kind of job adds to a page: a sentence for its head, which may be empty, and HTML.

    `first` is HTML that stands before who took part, for what a reader opens the page for; `title` is the page's
    heading, once the run has finished.
    """

    headline: str
    html: str
    first: str = ""
    title: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure that a command says at the end: by name and value for programs, in words for people."""

    name: str
    value: float
    words: str


@dataclass(frozen=True)
class Status:
    """What a party's `status.json` says."""

    party: str
    state: Literal["running", "finished", "failed"]
    started: AwareDatetime
    ended: AwareDatetime | None = None
    origin: str = ""
    error: str = ""
    cpu_seconds: Amount | None = None
    peak_memory_mb: Amount | None = None


@dataclass(frozen=True)
class PartyFiles:
    """What one party's folder holds: no status if it never began, and either a ledger or what is wrong with it."""

    name: str
    folder: Path
    status: Status | None
    ledger: Record | None
    ledger_fault: str
    lines: tuple[Line, ...]

    @property
    def state(self) -> str:
        return self.status.state if self.status else "absent"

    def messages(self, way: Way) -> list[Message]:
        """What went one way by kind of message, those that disclose something first."""
        grouped: dict[tuple[str, Disclosure], list[Line]] = {}
        for line in self.lines:
            if line.way == way:
                grouped.setdefault((line.kind, line.disclosure), []).append(line)
        messages = [Message(kind, disclosure, tuple(lines)) for (kind, disclosure), lines in grouped.items()]
        return sorted(messages, key=lambda message: not message.disclosure.to)


@dataclass(frozen=True)
class Message:
    """A kind of message that went one way, with a line for every peer."""

    kind: str
    disclosure: Disclosure
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Trouble:
    """Why a party did not finish."""

    party: str
    text: str


@dataclass(frozen=True)
class Setting:
    """A setting of the plan, in words."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class RunFiles:
    """All that a run's folder holds; `owner` is the party whose own folder it is, None for a run with all of them."""

    name: str
    owner: str | None
    plan: Plan
    plan_digest: str
    settings: tuple[Setting, ...]
    parties: Mapping[str, PartyFiles]
    troubles: tuple[Trouble, ...]
    flows: Mapping[tuple[str, str], int]
    pairs: tuple[Pair, ...]

    @property
    def state(self) -> Literal["finished", "failed", "unfinished"]:
        states = {party.state for party in self.parties.values()}
        if states == {"finished"}:
            return "finished"
        return "failed" if "failed" in states else "unfinished"

    @property
    def resumed(self) -> int:
        """How often the run was resumed, as far as the ledgers that are here know."""
        return max((len(party.ledger.resumed) for party in self.parties.values() if party.ledger), default=0)

    @property
    def started(self) -> datetime | None:
        """When the first party began, or began again after an interruption."""
        return min((party.status.started for party in self.parties.values() if party.status), default=None)

    @property
    def ended(self) -> datetime | None:
        """When the last party ended; None while any has not."""
        ends = [party.status.ended for party in self.parties.values() if party.status]
        return max((end for end in ends if end), default=None) if None not in ends else None

    def results(self, parties: Sequence[str], kind: type[T]) -> dict[str, T]:
        """The results of some parties, as far as they are here."""
        found = ((name, result_of(self.parties[name], kind)) for name in parties if name in self.parties)
        return {name: result for name, result in found if result is not None}


@dataclass(frozen=True)
class _Histogram:
    """How many scores lie between every two edges."""

    edges: tuple[Number, ...]
    counts: tuple[NonNegativeInt, ...]


def _consistent(histogram: _Histogram) -> _Histogram:
    if not histogram.counts or len(histogram.edges) != len(histogram.counts) + 1:
        raise ValueError("edges must be one more than counts")
    if any(low > high for low, high in pairwise(histogram.edges)):
        raise ValueError("edges must rise")
    return histogram


Histogram = Annotated[_Histogram, AfterValidator(_consistent)]


@dataclass(frozen=True)
class Told:
    """Something that one party learnt from another, and in how many messages."""

    what: str
    messages: int


def result_of(party: PartyFiles, kind: type[T], file: str = RESULT) -> T | None:
    """What a file of a party's says; None if there is none, and an InputError if it is not of this kind."""
    path = party.folder / file
    return read_checked(path, kind) if path.exists() else None


def read_checked(path: Path, kind: type[T]) -> T:
    """What a JSON file says; an InputError if it is not of this kind."""
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(faults(error))}") from None


def learnt(run: RunFiles, learner: str, tellers: Sequence[str]) -> dict[str, tuple[Told, ...]]:
    """What a party learnt from each of others, by the ledger of the one that told it, or else by its own.

    Those of whom neither is here are left out, and so is what every job says.
    """
    found = {}
    for teller in tellers:
        ways: tuple[tuple[str, Way, str], ...] = ((teller, "sent", learner), (learner, "received", teller))
        ledgers = ((run.parties.get(party), way, peer) for party, way, peer in ways)
        known = next(((files, way, peer) for files, way, peer in ledgers if files and files.ledger), None)
        if known:
            found[teller] = _disclosed(*known)
    return found


def _disclosed(files: PartyFiles, way: Way, peer: str) -> tuple[Told, ...]:
    messages: dict[str, int] = {}
    for line in files.lines:
        belongs = (line.way, line.peer) == (way, peer) and line.kind not in control.KINDS
        if belongs and line.disclosure.to:
            messages[line.disclosure.what] = messages.get(line.disclosure.what, 0) + line.frames
    return tuple(Told(what, count) for what, count in messages.items())
