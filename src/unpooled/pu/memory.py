"""What parties keep of a search for look-alikes, so that it can go on after an interruption.

Each party keeps every group of models that is whole, and of the group that is not the trees that have grown. When a
search goes on, all go back to what all of them have: one may have been stopped before it could keep what another has.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from unpooled.checkpoint import Notebook, Page
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.pu.messages import GoOnFrom, StandsAt
from unpooled.vertical.team import Team

M = TypeVar("M", bound=BaseModel)


class Memory:
    """A page for each group of models, and while one is learned a notebook for its trees."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.groups = Notebook(folder / "groups")

    def trees_of(self, group: int) -> Notebook:
        return Notebook(self._trees(group))

    def keep(self, team: Team, model: BaseModel, **arrays: NDArray[np.generic]) -> None:
        """Keep a group that is whole, and how much this party has answered by then.

        Its trees stay until the next one is whole, for others may not have got so far.
        """
        answered = {name.removeprefix(team.digest): count for name, count in _answered(team).items()}
        texts = {"model": model.model_dump_json(), "answered": json.dumps(answered)}
        pages = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
        self.groups.write(**pages, **arrays)
        shutil.rmtree(self._trees(len(self.groups) - 2), ignore_errors=True)

    def stands_at(self) -> tuple[int, int]:
        """How many groups are whole, and how many pages of trees the next one has."""
        return len(self.groups), len(self.trees_of(len(self.groups)))

    def go_back_to(self, groups: int, trees: int) -> None:
        """Forget what lies behind a point that all parties have reached."""
        if groups > len(self.groups) or trees > len(self.trees_of(groups)):
            raise InputError("the checkpoint does not go back far enough to resume the run: begin a new one")
        for later in range(groups + 1, len(self.groups) + 1):
            shutil.rmtree(self._trees(later), ignore_errors=True)
        self.groups.keep_first(groups)
        self.trees_of(groups).keep_first(trees)

    def _trees(self, group: int) -> Path:
        return self._folder / f"trees-{group}"


def model_in(page: Page, kinds: Mapping[bool, type[M]], *, linear: bool) -> M:
    """The model on a page, or a party's part of it."""
    try:
        return kinds[linear].model_validate_json(page["model"].tobytes())
    except (KeyError, ValidationError):
        raise InputError("a page of a checkpoint has no model, so the run cannot be resumed") from None


def restore_answered(team: Team, page: Page) -> None:
    """What was answered before an interruption counts; the rows' digest, which has a new salt, is another now."""
    try:
        kept = {team.digest + name: int(count) for name, count in json.loads(page["answered"].tobytes()).items()}
    except (KeyError, ValueError, AttributeError, TypeError):
        raise InputError(
            "a page of a checkpoint does not say what was answered, so the run cannot be resumed"
        ) from None
    _answered(team).update(kept)


def _answered(team: Team) -> Counter[str]:
    return team.products.answered if team.passive else Counter()


def go_on(team: Team, memory: Memory) -> int:
    """Agree at all parties on where to go on; how many groups of models are whole there.

    1. every passive party says how far its checkpoint goes
    2. the active party says what all have
    """
    session = team.session if team.passive else None
    if session is None:
        return len(memory.groups)
    if session.party == team.active:
        points = [memory.stands_at()]
        for owner in team.passive:
            told = session.recv(owner, StandsAt)  # 1
            points.append((told.groups, told.trees))
        groups, trees = min(points)
        if min(groups, trees) < 0:
            raise ProtocolError("a party sent StandsAt that cannot be")
        for owner in team.passive:
            session.send(owner, GoOnFrom(groups, trees))  # 2
    else:
        session.send(team.active, StandsAt(*memory.stands_at()))  # 1
        said = session.recv(team.active, GoOnFrom)  # 2
        groups, trees = said.groups, said.trees
        if not (0, 0) <= (groups, trees) <= memory.stands_at() or min(groups, trees) < 0:
            raise ProtocolError(f"{team.active} sent GoOnFrom with a point that {session.party} has not reached")
        if groups < len(memory.groups) - 1:  # all that was answered since would be asked, and might be other questions
            raise RefusedError(
                f"{session.party} goes back one group of models at the most, and {team.active} wants to go further: "
                "begin a new run"
            )
    memory.go_back_to(groups, trees)
    return groups
