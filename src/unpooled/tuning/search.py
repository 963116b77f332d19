"""The search: `tune` at the active party, `help_tune` at the others; a party alone (`team.alone()`) finds the same.

Every candidate is a group of models in step, one for each fold, learned from the same folds with the same draws. The
candidate with the best mean is chosen, of equal ones the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from unpooled.arrays import Floats
from unpooled.errors import ProtocolError
from unpooled.tuning.candidates import Candidate
from unpooled.vertical.resume import Fits, Loans
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.wire import message

LESS_IS_BETTER = frozenset({"log_loss", "rmse", "mae"})


@message(
    discloses="which of the plan's candidates was best in cross-validation, by its number; the rest is learned with it",
    to="a passive party",
)
class Chosen:
    number: int


class Folds(Protocol):
    """Rows divided, with what is to be learned for each fold, and what that is worth."""

    @property
    def targets(self) -> Sequence[Target]: ...
    def measured(self, measure: str, scores: Sequence[Floats]) -> list[float]:
        """By fold how good models are on rows that are left out there, by the scores of all rows for each target."""


@dataclass(frozen=True)
class Tried:
    """A candidate and its measure in each fold; mean and spread (the standard deviation) are over folds alike."""

    candidate: Candidate
    measures: tuple[float, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.measures))

    @property
    def spread(self) -> float:
        return float(np.std(self.measures))


@dataclass(frozen=True)
class Tuned:
    """All candidates as they were tried, and the number of the best, from 1."""

    measure: str
    tried: tuple[Tried, ...]
    chosen: int

    @property
    def best(self) -> Candidate:
        return self.tried[self.chosen - 1].candidate


def tune(
    team: Team,
    fits: Fits,
    candidates: Sequence[Candidate],
    folds: Folds,
    classes: Sequence[str],
    measure: str,
    rest: int = 1,
) -> Tuned:
    """At the active party: try all candidates; `rest` is how many groups of models come after that.

    1. for each candidate, its models
    2. the passive parties are told which is the best
    """
    tried, targets = [], folds.targets
    for number, candidate in enumerate(candidates, start=1):
        if not (fitted := fits.kept()):
            with _scope(team, number, len(candidates), rest):  # 1
                fitted = fits.scored(fits.fit(targets, classes, candidate.parameters))
            fits.keep(fitted)
        tried.append(Tried(candidate, tuple(folds.measured(measure, fitted.scores or ()))))
    sign = -1.0 if measure in LESS_IS_BETTER else 1.0
    tuned = Tuned(measure, tuple(tried), int(np.argmax([sign * each.mean for each in tried])) + 1)
    for owner in team.passive:
        team.session.send(owner, Chosen(tuned.chosen))  # 2
    return tuned


def help_tune(team: Team, loans: Loans, candidates: Sequence[Candidate], models: int, rest: int = 1) -> int:
    """At a passive party: lend columns for so many models of each candidate; the number of the best."""
    for number, candidate in enumerate(candidates, start=1):
        if number <= loans.group:
            continue
        notebook = loans.begin(models)
        with _scope(team, number, len(candidates), rest):  # 1
            part = loans.lend(models, notebook, candidate.parameters)
            if not loans.learner.scores_in_fit(candidate.parameters):
                loans.learner.help_score(team, part, loans.columns, True)
        loans.keep(part, models)
    chosen = team.session.recv(team.active, Chosen).number  # 2
    if not 1 <= chosen <= len(candidates):
        raise ProtocolError(f"invalid Chosen from {team.active}: the plan has {len(candidates)} candidates")
    return chosen


def rest_scope(team: Team, candidates: int) -> AbstractContextManager[None]:
    """Says that what is learned now comes after so many candidates; nothing if there were none."""
    return _step(team, candidates, candidates + 1, "the best candidate") if candidates else nullcontext()


def _step(team: Team, step: int, steps: int, scope: str) -> AbstractContextManager[None]:
    """Says where in the search we are; a party alone says nothing."""
    if not team.passive:
        return nullcontext()
    if team.evidence:
        team.evidence.fit = step
    team.progress(step, steps)
    return team.session.scope(scope)


def _scope(team: Team, number: int, candidates: int, rest: int) -> AbstractContextManager[None]:
    return _step(team, number - 1, candidates + rest, f"candidate {number} of {candidates}")
