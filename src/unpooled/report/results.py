"""What parties left in `result.json`, checked, and what their ledgers say that one learnt from another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, NonNegativeInt, TypeAdapter, ValidationError

from unpooled import control
from unpooled.errors import InputError
from unpooled.jobs.kinds import faults
from unpooled.ledger import Way
from unpooled.report.gather import PartyFiles, Story
from unpooled.run.folder import RESULT

T = TypeVar("T")

Number = Annotated[float, Field(ge=-1e150, le=1e150)]
"""One that can be drawn."""


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


def result_of(party: PartyFiles, kind: type[T]) -> T | None:
    """A party's result; None if it did not get that far, and an error if what is there is none of this kind."""
    path = party.folder / RESULT
    if not path.exists():
        return None
    try:
        return TypeAdapter(kind).validate_python(party.result)
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(faults(error))}") from None


def learnt(story: Story, learner: str, tellers: Sequence[str]) -> dict[str, tuple[Told, ...]]:
    """What a party learnt from each of others, by the ledger of the one that told it, or else by its own.

    Those of whom neither is here are left out, and so is what every job says.
    """
    found = {}
    for teller in tellers:
        ways: tuple[tuple[str, Way, str], ...] = ((teller, "sent", learner), (learner, "received", teller))
        ledgers = ((story.parties.get(party), way, peer) for party, way, peer in ways)
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
