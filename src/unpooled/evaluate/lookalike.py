"""How good a look-alike list was, once outcomes are known.

>>> listed = [("1",), ("2",), ("3",), ("4",)]
>>> outcomes = Outcomes(positive={("1",), ("2",), ("7",)}, known={(str(number),) for number in range(1, 11)})
>>> evaluate(listed, ["first", "first", "second", "third"], [1, 1, 2, 2], outcomes).whole
Part(rows=4, known=4, positive=2, precision=0.5, recall=0.6666666666666666, lift=1.6666666666666667)
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TypeVar

Id = tuple[str, ...]
Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True)
class Outcomes:
    """Who turned out positive, and whose outcome is known; with None, all others are taken as negative.

    With None nothing can be said about everyone, since it is not known who that is.
    """

    positive: AbstractSet[Id]
    known: AbstractSet[Id] | None = None

    @property
    def fraction(self) -> float | None:
        """The fraction of positives among everyone whose outcome is known."""
        return len(self.positive) / len(self.known) if self.known else None


@dataclass(frozen=True)
class Part:
    """A part of a list: its rows, how many have a known outcome, and how many of these are positive.

    Precision is positives over known; recall is positives over all positives; lift is precision over the fraction of
    positives among everyone known. Each is None if undefined.
    """

    rows: int
    known: int
    positive: int
    precision: float | None
    recall: float | None
    lift: float | None


@dataclass(frozen=True)
class Evaluation:
    """The whole list, its tiers, and the rows of each iteration, 0 for those that were never promoted.

    `positives` and `everybody` count the outcomes; `everybody` and `fraction`, the fraction of positives, are None if
    only positives are known.
    """

    positives: int
    everybody: int | None
    fraction: float | None
    whole: Part
    tiers: Mapping[str, Part]
    iterations: Mapping[int, Part]


def evaluate(ids: Sequence[Id], tiers: Sequence[str], iterations: Sequence[int], outcomes: Outcomes) -> Evaluation:
    """Compare a list, with a tier and an iteration for each row, with outcomes."""
    return Evaluation(
        positives=len(outcomes.positive),
        everybody=None if outcomes.known is None else len(outcomes.known),
        fraction=outcomes.fraction,
        whole=_part(ids, outcomes),
        tiers=_parts(ids, tiers, outcomes),
        iterations=dict(sorted(_parts(ids, iterations, outcomes).items())),
    )


def _parts(ids: Sequence[Id], groups: Sequence[Group], outcomes: Outcomes) -> dict[Group, Part]:
    members: dict[Group, list[Id]] = {}
    for one, group in zip(ids, groups, strict=True):
        members.setdefault(group, []).append(one)
    return {group: _part(found, outcomes) for group, found in members.items()}


def _part(ids: Collection[Id], outcomes: Outcomes) -> Part:
    known = len(ids) if outcomes.known is None else sum(one in outcomes.known for one in ids)
    positive = sum(one in outcomes.positive for one in ids)
    precision = positive / known if known else None
    recall = positive / len(outcomes.positive) if outcomes.positive else None
    lift = precision / outcomes.fraction if precision is not None and outcomes.fraction else None
    return Part(len(ids), known, positive, precision, recall, lift)
