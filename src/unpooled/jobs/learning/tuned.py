"""What jobs that tune a learner have in common: what is sent, said before and kept, and the table of a report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, NonNegativeInt, PositiveInt

from unpooled.drawing.html import render
from unpooled.drawing.measures import short_name
from unpooled.drawing.words import listed, many
from unpooled.errors import InputError
from unpooled.jobs.kind import Rehearsed
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.run_files import RESULT
from unpooled.tuning.candidates import Candidate, in_words, most_asking
from unpooled.tuning.search import LESS_IS_BETTER, Chosen, Tuned
from unpooled.tuning.settings import Measure, Settings
from unpooled.vertical.learner import LearnerParameters

TUNING = "tuning"
_TEMPLATE = Path(__file__).with_name("tuned.html")


@dataclass(frozen=True)
class TriedResult:
    """What a candidate's measure was, on average over folds, its spread, and in each."""

    settings: Settings
    mean: FiniteFloat
    spread: Annotated[FiniteFloat, Field(ge=0)]
    folds: tuple[FiniteFloat, ...]


@dataclass(frozen=True)
class TuningResult:
    """What is known of a search over settings: at every owner which candidate is best, at the active party all."""

    candidates: PositiveInt
    models: NonNegativeInt
    chosen: PositiveInt
    settings: Settings
    measure: Measure | Literal["recall"] | None = None
    tried: tuple[TriedResult, ...] = ()

    def __post_init__(self) -> None:
        if self.chosen > self.candidates or len(self.tried) != (self.candidates if self.measure else 0):
            raise ValueError("tuning: the candidates are not as many as is said")
        if any(one.settings.keys() != self.settings.keys() for one in self.tried):
            raise ValueError("tuning: the candidates have different settings")


def choice_outline(plan: Plan, candidates: Sequence[Candidate]) -> list[Exchange]:
    """Who is told which candidate is best."""
    return [Exchange(plan.active, party, Chosen, 1, 60) for party in plan.with_role("passive") if candidates]


def said_of_tuning(plan: Plan, candidates: Sequence[Candidate], models: int, rest: int) -> list[str]:
    """How many models tuning learns besides `rest`, and what others are shown the more, in sentences."""
    if not candidates:
        return []
    tried, passive = models * len(candidates), listed(plan.with_role("passive"))
    return [
        f"Tuning learns {many(tried, 'model')} more ({many(len(candidates), 'candidate')}, {models} each), besides "
        f"{many(rest, 'model')} with the best settings. So {plan.active} learns from the columns of {passive} what "
        f"{tried + rest:,} models tell instead of {rest:,}, and limits count all of them; passive parties take part in "
        "learning as many, and are told which candidate is best."
    ]


def rehearsed_once(parameters: Any, candidates: Sequence[Candidate]) -> Rehearsed:
    """A rehearsal without tuning, whose model takes as much as any that is tried."""
    if not candidates:
        return Rehearsed({})
    asking = most_asking(parameters.model, candidates).model_dump(mode="json", exclude_none=True)
    guess = "how much candidates take: each is forecast as the one that asks most, so it may come to less"
    return Rehearsed({TUNING: {}, "model": asking}, guess)


def audited_parameters(
    base: LearnerParameters, candidates: Sequence[Candidate], fit: int, result: Mapping[str, Any]
) -> LearnerParameters:
    """With which parameters a fit was learned, by its number, and what a party's result says of the choice."""
    if not candidates:
        return base
    if fit >= len(candidates) and TUNING not in result:
        raise InputError(f"{RESULT} is not there: it says which candidate was chosen, and so what the last fits are")
    return candidates[fit if fit < len(candidates) else result[TUNING]["chosen"] - 1].parameters


def result_of(tuned: Tuned | None, models: int) -> dict[str, Any]:
    """What the active party's result says."""
    if tuned is None:
        return {}
    found = chosen_result([each.candidate for each in tuned.tried], models, tuned.chosen)
    tried = [
        {
            "settings": dict(each.candidate.settings),
            "mean": each.mean,
            "spread": each.spread,
            "folds": list(each.measures),
        }
        for each in tuned.tried
    ]
    found[TUNING] |= {"measure": tuned.measure, "tried": tried}
    return found


def chosen_result(candidates: Sequence[Candidate], models: int, chosen: int) -> dict[str, Any]:
    """What every owner's result says of so many models for each candidate; nothing if none was tried."""
    if not candidates:
        return {}
    settings = dict(candidates[chosen - 1].settings)
    said = {"candidates": len(candidates), "models": models * len(candidates), "chosen": chosen, "settings": settings}
    return {TUNING: said}


def tuning_html(result: TuningResult | None, note: str) -> str:
    """The candidates as a table, the chosen one marked; nothing if none was tried. `note` says what figures are of."""
    if result is None:
        return ""
    names = list(result.settings)
    return render(
        _TEMPLATE,
        result=result,
        note=note,
        names=names,
        measure=short_name(result.measure) if result.measure else "",
        less=result.measure in LESS_IS_BETTER,
        chosen=in_words(result.settings),
        written=json.dumps,
    )
