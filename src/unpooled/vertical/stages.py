"""What a job learns, stage by stage: with which parameters, and how many models together; and the most that it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from unpooled.secure.engine import Rules
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters, Limits
from unpooled.vertical.learners import learner_of


@dataclass(frozen=True)
class Stage:
    """Groups of so many models each, all learned with the same parameters: one of `choices`, all of one learner.

    Which one is said before the stage begins, where there are several.
    """

    choices: tuple[LearnerParameters, ...]
    groups: tuple[int, ...]


def stage(parameters: LearnerParameters, groups: Sequence[int]) -> Stage:
    """A stage whose parameters are settled."""
    return Stage((parameters,), tuple(groups))


def models_in(stages: Sequence[Stage]) -> list[int]:
    """How many models are learned together, group by group."""
    return [models for one in stages for models in one.groups]


def questions_of(stages: Sequence[Stage]) -> int | None:
    """The most columns that all stages ask about the same rows; None: see `Learner.questions`."""
    total = 0
    for one in stages:
        asked = [learner_of(each).questions(each, sum(one.groups)) for each in one.choices]
        if None in asked:
            return None
        total += max(count for count in asked if count is not None)
    return total


def limits_of(rules: Rules, stages: Sequence[Stage], prepared: Any) -> Limits | None:
    """What all stages ask of a passive party; None if a fit has no limit of its own."""
    bits, between = 0, dict[str, int]()
    for one in stages:
        asked = [learner_of(each).limits(rules, each, prepared, one.groups) for each in one.choices]
        limits = [each for each in asked if each is not None]
        if len(limits) < len(asked):
            return None
        bits += max(each.bits for each in limits)
        for name in limits[0].between_pages:
            between[name] = max(between.get(name, 0), *(each.between_pages[name] for each in limits))
    return Limits(bits, between)


def table_limits_of(rules: Rules, stages: Sequence[Stage], columns: Columns) -> tuple[int, int] | None:
    """The same before the start: the most bits that are asked about a table, and how many it has."""
    bits, of_table = 0, 0
    for one in stages:
        asked = [learner_of(each).table_limits(rules, each, columns, one.groups) for each in one.choices]
        found = [each for each in asked if each is not None]
        if len(found) < len(asked):
            return None
        bits, of_table = bits + max(each for each, _ in found), found[0][1]
    return bits, of_table
