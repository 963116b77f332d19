"""Candidates: the combinations of settings that a plan wants tried, the same and in the same order at all parties."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from unpooled.tuning.settings import MOST_CANDIDATES, Settings, TuningSettings, Value
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import learner_of
from unpooled.vertical.stages import Stage, stage


@dataclass(frozen=True)
class Candidate:
    """Settings that are tried, and the learner's parameters with these."""

    settings: Settings
    parameters: LearnerParameters


def candidates_of(base: LearnerParameters, tuning: TuningSettings) -> tuple[Candidate, ...]:
    """All candidates, or those drawn; empty if nothing is tuned. Names go by the alphabet, and the last varies first.

    Within a section `tuning` beside the learner's, so that a ValidationError names the setting at fault.

    >>> from unpooled.vertical.trees.parameters import GbdtParameters
    >>> tuning = TuningSettings(settings={"trees": [10, 20], "depth": [3, 4]})
    >>> [each.settings for each in candidates_of(GbdtParameters(), tuning)][:2]
    [{'depth': 3, 'trees': 10}, {'depth': 3, 'trees': 20}]
    """
    if not tuning.settings:
        return ()
    names = sorted(tuning.settings)
    for name in names:
        _check_setting(base, name, tuning.settings[name])
    count = prod(len(values) for values in tuning.settings.values())
    if count > MOST_CANDIDATES:
        raise fault_in_tuning((), f"{count:,} combinations are more than {MOST_CANDIDATES:,}: name fewer values")
    if tuning.draws is not None and tuning.draws > count:
        raise fault_in_tuning(("draws",), f"there are only {count} combinations")
    every = [dict(zip(names, values, strict=True)) for values in product(*(tuning.settings[name] for name in names))]
    return tuple(_candidate(base, every[number]) for number in _drawn(count, tuning))


def in_words(settings: Settings) -> str:
    """Settings as a plan has them.

    >>> in_words({"depth": 4, "balanced": True})
    'depth = 4, balanced = true'
    """
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())


def most_asking(base: LearnerParameters, candidates: Sequence[Candidate]) -> LearnerParameters:
    """The parameters, among those that may be learned with, that ask and take most, as far as a learner can tell."""

    def size(parameters: LearnerParameters) -> tuple[int, int]:
        learner = learner_of(parameters)
        rounds = learner.rounds(parameters, 1, "plain")[0] if learner.rounds else ""
        return learner.questions(parameters, 1) or 0, getattr(parameters, rounds, None) or 0

    return max((candidate.parameters for candidate in candidates), key=size, default=base)


def stages_of(
    base: LearnerParameters, candidates: Sequence[Candidate], models: int, groups: Sequence[int]
) -> list[Stage]:
    """So many models of each candidate, then groups of models with the best one's parameters."""
    tried = [stage(candidate.parameters, [models]) for candidate in candidates]
    return [*tried, Stage(tuple(each.parameters for each in candidates) or (base,), tuple(groups))]


def _drawn(count: int, tuning: TuningSettings) -> list[int]:
    """The numbers of the combinations that are tried, in their order; by digests, which are the same everywhere."""
    if tuning.draws is None:
        return list(range(count))
    mixed = sorted(range(count), key=lambda number: hashlib.sha256(f"{tuning.seed} {number}".encode()).digest())
    return sorted(mixed[: tuning.draws])


def _check_setting(base: LearnerParameters, name: str, values: Sequence[Value]) -> None:
    """Refuse a setting that cannot be tried, and values that it cannot have."""
    place = ("settings", name)
    if name not in type(base).model_fields:
        raise fault_in_tuning(place, "unknown key")
    tunable = learner_of(base).tunable
    if name not in tunable:
        can = ", ".join(sorted(tunable & type(base).model_fields.keys()))
        raise fault_in_tuning(place, f"it is the same for all candidates; {base.learner} can be tuned by {can}")
    if not values:
        raise fault_in_tuning(place, "there are no values to try")
    for number, value in enumerate(values):
        if value in values[:number]:
            raise fault_in_tuning((*place, number), "this value is there already")
        try:
            type(base).model_validate({"learner": base.learner, name: value})
        except ValidationError as error:
            found = [fault for fault in error.errors() if fault["loc"] and fault["loc"][0] == name]
            if found:  # what is wrong only together with other settings is found with these
                raise fault_in_tuning((*place, number), found[0]["msg"]) from None


def _candidate(base: LearnerParameters, settings: dict[str, Any]) -> Candidate:
    try:
        return Candidate(settings, type(base).model_validate(base.model_dump() | settings))
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise fault_in_tuning(("settings",), f"with {in_words(settings)}: {said}") from None


def fault_in_tuning(place: tuple[str | int, ...], said: str) -> ValidationError:
    """An error of a section `tuning`, naming the key."""
    kind = PydanticCustomError("tuning", "{said}", {"said": said})
    return ValidationError.from_exception_data(
        "tuning", [InitErrorDetails(type=kind, loc=("tuning", *place), input=None)]
    )
