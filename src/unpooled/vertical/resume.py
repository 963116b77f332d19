"""What parties keep of a job that learns, so that it can go on after an interruption.

Each party keeps every group of models that is whole, and of the group that is not the pages of its learner. When a job
is resumed, all go back to what all of them have: one may have been stopped before it could keep what another has. What
a party has ever begun and answered (`secure.query_count`) is kept beside that, and does not fall when it goes back.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from unpooled import atomic
from unpooled.checkpoint import Notebook, Page
from unpooled.errors import ProtocolError, ResumeError, ResumeRefused
from unpooled.secure.engine import limit_bits
from unpooled.secure.outline import Exchange, Setup
from unpooled.secure.query_count import Asked
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Fitted, LearnerParameters, Model, Part
from unpooled.vertical.learners import learner_of
from unpooled.vertical.stages import Stage, limits_of, models_in
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.wire import message

AGAIN = 30
"""How many times over a passive party does again what lies between two pages, in a run that is resumed: three times in
each of ten interruptions, for what is under way, what another party has not kept, and a page lost in a power cut."""
ANY_PAGES = 2**31 - 1
"""How many pages a party says that it has which lends no columns, and so keeps none: it resumes from any."""
_PAGES = "pages-"


@message(discloses="how far this party's checkpoint goes", to="the active party")
class CheckpointAt:
    """Groups of models that are whole, and pages of the next one."""

    groups: int
    pages: int


@message(discloses="how far all parties' checkpoints go", to="a passive party")
class ResumeFrom:
    groups: int
    pages: int


class Checkpoint:
    """A page for each group of models, and while one is learned a notebook for the learner's own pages.

    `asked` is what this party has ever begun and answered, which does not fall when a job goes back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.groups = Notebook(folder / "groups")
        self.asked = Asked(folder)
        self._current = self.notebook(len(self.groups))

    def notebook(self, group: int) -> Notebook:
        """The pages of a group that is not whole."""
        return Notebook(self._pages_of(group))

    def keep(self, kept: Model | Part, **arrays: NDArray[np.generic]) -> None:
        """Keep a group that is whole.

        Its pages stay until the next one is whole, for others may not have got so far.
        """
        self.groups.write(model=np.frombuffer(kept.model_dump_json().encode(), np.uint8), **arrays)
        shutil.rmtree(self._pages_of(len(self.groups) - 2), ignore_errors=True)

    def begin(self, team: Team, group: int, models: int) -> Notebook:
        """Count the models of a group that begins now, or is resumed; the notebook for its pages."""
        self.asked.count(team.products, team.digest, models)
        self._current = self.notebook(group)
        return self._current

    def counting(self, team: Team, between_pages: Mapping[str, int] | None) -> AbstractContextManager[None]:
        """Count what this party is asked, ahead by the most that is asked between two pages of the learner."""
        if not team.passive:
            return nullcontext()
        return self.asked.counting(team.products, team.digest, between_pages, lambda: len(self._current))

    def position(self) -> tuple[int, int]:
        """How many groups are whole, and how many pages the next one has."""
        return len(self.groups), len(self.notebook(len(self.groups)))

    def go_back_to(self, groups: int, pages: int) -> None:
        """Remove what lies behind a point that all parties have reached, and pages that nobody needs any more."""
        if groups > len(self.groups) or pages > len(self.notebook(groups)):
            raise ResumeError("the checkpoint does not go back far enough to resume the run: begin a new one")
        for folder in self._folder.glob(f"{_PAGES}*"):
            if int(folder.name.removeprefix(_PAGES)) not in (groups - 1, groups):
                with atomic.naming(folder, "removed"):
                    shutil.rmtree(folder)
        self.groups.keep_first(groups)
        self.notebook(groups).keep_first(pages)

    def _pages_of(self, group: int) -> Path:
        return self._folder / f"{_PAGES}{group}"


def agree(team: Team, checkpoint: Checkpoint, *, lends: bool = True) -> int:
    """Agree at all parties on where to resume; how many groups of models are whole there.

    1. every passive party says how far its checkpoint goes; one that `lends` no columns keeps no pages, and resumes
       from any
    2. the active party says what all have
    """
    session = team.session if team.passive else None
    if session is None:
        return len(checkpoint.groups)
    if session.party == team.active:
        positions = [checkpoint.position()]
        for owner in team.passive:
            told = session.recv(owner, CheckpointAt)  # 1
            if min(told.groups, told.pages) < 0:
                raise ProtocolError(f"invalid CheckpointAt from {owner}: a negative number")
            positions.append((told.groups, told.pages))
        groups, pages = min(positions)
        if pages == ANY_PAGES:
            pages = len(checkpoint.notebook(groups))
        for owner in team.passive:
            session.send(owner, ResumeFrom(groups, pages))  # 2
    else:
        position = checkpoint.position() if lends else (len(checkpoint.groups), ANY_PAGES)
        session.send(team.active, CheckpointAt(*position))  # 1
        said = session.recv(team.active, ResumeFrom)  # 2
        groups, pages = said.groups, said.pages
        if not (0, 0) <= (groups, pages) <= position or min(groups, pages) < 0:
            raise ProtocolError(f"invalid ResumeFrom from {team.active}: {session.party} has not got so far")
        if groups < len(checkpoint.groups) - 1:  # what was answered since would be asked again, perhaps differently
            raise ResumeRefused(
                f"{session.party} goes back one group of models at the most, and {team.active} wants to go further: "
                "begin a new run"
            )
    checkpoint.go_back_to(groups, pages if lends else 0)
    return groups


def agreement_outline(setup: Setup) -> list[Exchange]:
    """What `agree` sends."""
    return [
        *(Exchange(party, setup.active, CheckpointAt, 1, 60) for party in setup.passive),
        *(Exchange(setup.active, party, ResumeFrom, 1, 60) for party in setup.passive),
    ]


class Fits:
    """At the active party: fits group after group of models; those that all parties have kept are read instead."""

    def __init__(
        self, team: Team, parameters: LearnerParameters, columns: Columns, checkpoint: Checkpoint | None = None
    ) -> None:
        self.learner = learner_of(parameters)
        self._team, self._parameters, self._columns, self._checkpoint = team, parameters, columns, checkpoint
        self._prepared = self.learner.prepare(team, parameters, columns, None)
        self._whole = agree(team, checkpoint) if checkpoint else 0
        self.group = 0

    def counting(self) -> AbstractContextManager[None]:
        return self._checkpoint.counting(self._team, None) if self._checkpoint else nullcontext()

    def kept(self) -> Fitted | None:
        """The next group of models, if all parties have kept it."""
        if self._checkpoint is None or self.group >= self._whole:
            return None
        page = self._checkpoint.groups.read(self.group)
        self.group += 1
        scores = tuple(page["scores"].astype(float)) if "scores" in page else None
        return Fitted(_model_on(page, self.learner.model), scores, json.loads(page["summary"].tobytes()))

    def fit(
        self, targets: Sequence[Target], classes: Sequence[str], parameters: LearnerParameters | None = None
    ) -> Fitted:
        """Fit the next group of models, if need be with other parameters of the same learner."""
        notebook = self._checkpoint.notebook(self.group) if self._checkpoint else None
        parameters = parameters or self._parameters
        return self.learner.fit(self._team, parameters, self._prepared, targets, classes, notebook)

    def scored(self, fitted: Fitted) -> Fitted:
        """The same with scores of all rows, which may take messages of their own."""
        if fitted.scores is not None:
            return fitted
        return replace(fitted, scores=tuple(self.learner.score(self._team, fitted.model, self._columns)))

    def keep(self, fitted: Fitted) -> None:
        """Keep the group that was fitted."""
        self.group += 1
        if self._checkpoint:
            scores = {} if fitted.scores is None else {"scores": np.stack(fitted.scores)}
            summary = np.frombuffer(json.dumps(fitted.summary).encode(), np.uint8)
            self._checkpoint.keep(fitted.model, summary=summary, **scores)


class Loans:
    """At a passive party: lends columns for as many models as there are to be in all `stages`.

    These are of one learner, and columns are prepared once for all of them, as the first one's parameters say.
    If the run was resumed it may be asked again what it has answered, or something else; so it lends only so much more.
    `part` is its part of the last group that is whole, `left` how many models are still to come.
    """

    def __init__(
        self,
        team: Team,
        stages: Sequence[Stage],
        columns: Columns,
        most_thresholds: int | None,
        checkpoint: Checkpoint | None,
    ) -> None:
        parameters = stages[0].choices[0]
        self.learner = learner_of(parameters)
        self.columns = columns
        self._team, self._parameters, self._checkpoint = team, parameters, checkpoint
        self._prepared = self.learner.prepare(team, parameters, columns, most_thresholds)
        self._limits = limits_of(team.products.rules, stages, self._prepared)
        groups = models_in(stages)
        self.part: Part | None = None
        self._parts: list[Part] = []
        self.left, self.group = sum(groups), 0
        self._most = self.left + AGAIN * max(groups)
        if checkpoint:
            self._resume(checkpoint, lends=bool(columns.names) or not self.learner.needs_columns)
        self._tell_revealed()
        if self._limits:
            again = AGAIN * self._limits.between_pages["bits"] if self._resumed else 0
            limit_bits(team.products, team.digest, len(columns.matrix), self._limits.bits + again)

    @property
    def _resumed(self) -> bool:
        return bool(self._checkpoint and self._checkpoint.asked.begun)

    def _resume(self, checkpoint: Checkpoint, *, lends: bool) -> None:
        self.group = agree(self._team, checkpoint, lends=lends)
        for page in checkpoint.groups.pages():
            self.left -= int(page["models"])
            self.part = _model_on(page, self.learner.part)
            self._parts.append(self.part)
        rules = self._team.products.rules
        if self._resumed and self._limits and rules.questions is not None:
            again = AGAIN * self._limits.between_pages["answered"]
            self._team.products.rules = replace(rules, questions=rules.questions + again)

    def counting(self) -> AbstractContextManager[None]:
        between_pages = self._limits.between_pages if self._limits else None
        return self._checkpoint.counting(self._team, between_pages) if self._checkpoint else nullcontext()

    def begin(self, models: int) -> Notebook | None:
        """Begin a group of models; ResumeRefused if the run was resumed so often that there are too many."""
        self.left -= models
        if self._checkpoint is None:
            return None
        if self._checkpoint.asked.begun + models > self._most:
            raise ResumeRefused(
                f"{self._team.session.party} begins at most {self._most} models in a run, however often that is "
                f"resumed, and {self._team.active} wants more: begin a new run"
            )
        return self._checkpoint.begin(self._team, self.group, models)

    def lend(self, models: int, notebook: Notebook | None, parameters: LearnerParameters | None = None) -> Part:
        """Take part in the fit of a group of models."""
        return self.learner.lend(self._team, parameters or self._parameters, self._prepared, models, notebook)

    def kept(self, group: int) -> Part:
        """This party's part of a group that is whole, from its checkpoint."""
        if self._checkpoint is None or group >= len(self._checkpoint.groups):
            raise ResumeError("the checkpoint has no such group of models")
        part: Part = _model_on(self._checkpoint.groups.read(group), self.learner.part)
        return part

    def keep(self, part: Part, models: int) -> None:
        """Keep this party's part of a group that is whole."""
        self.part = part
        self.group += 1
        self._parts.append(part)
        self._tell_revealed()
        if self._checkpoint:
            self._checkpoint.keep(part, models=np.array(models))

    def _tell_revealed(self) -> None:
        """Let the engine know what all groups so far show of this party's columns."""
        self._team.products.revealed[self._team.digest] = self.learner.revealed(self._prepared, self._parts)


def _model_on(page: Page, kind: type[BaseModel]) -> Any:
    """The model on a page, or a party's part of it."""
    try:
        return kind.model_validate_json(page["model"].tobytes())
    except (KeyError, ValidationError):
        raise ResumeError("a page of a checkpoint has no model, so the run cannot be resumed") from None
