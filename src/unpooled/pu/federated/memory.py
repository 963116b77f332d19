"""What parties keep of a search for look-alikes, so that it can go on after an interruption.

Each party keeps every group of models that is whole, and of the group that is not the trees that have grown. When a
search goes on, all go back to what all of them have: one may have been stopped before it could keep what another has.
What a party has ever begun and answered (`secure.asked`) is kept beside that, and does not fall when it goes back.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from unpooled import atomic
from unpooled.checkpoint import Notebook, Page
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.pu.federated.messages import GoOnFrom, StandsAt
from unpooled.secure.query_count import Asked
from unpooled.vertical.team import Team

ANY_TREES = 2**31 - 1
"""How many pages of trees a party says that it has which lends no columns, and so keeps none: it goes on from any."""
_TREES = "trees-"

M = TypeVar("M", bound=BaseModel)


class Memory:
    """A page for each group of models, and while one is learned a notebook for its trees.

    `asked` is what this party has ever begun and answered, which does not fall when a search goes back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.groups = Notebook(folder / "groups")
        self.asked = Asked(folder)
        self._growing = self.trees_of(len(self.groups))

    def trees_of(self, group: int) -> Notebook:
        return Notebook(self._trees(group))

    def keep(self, model: BaseModel, **arrays: NDArray[np.generic]) -> None:
        """Keep a group that is whole.

        Its trees stay until the next one is whole, for others may not have got so far.
        """
        self.groups.write(model=np.frombuffer(model.model_dump_json().encode(), np.uint8), **arrays)
        shutil.rmtree(self._trees(len(self.groups) - 2), ignore_errors=True)

    def begin(self, team: Team, group: int, models: int) -> Notebook:
        """Count the models of a group that begins now, or goes on; the notebook for its trees."""
        self.asked.count(team.products, team.digest, models)
        self._growing = self.trees_of(group)
        return self._growing

    def counting(self, team: Team, at_once: Mapping[str, int] | None) -> AbstractContextManager[None]:
        """Count what this party is asked; `at_once` is the most for trees that grow together, of which is a page."""
        if not team.passive:
            return nullcontext()
        return self.asked.counting(team.products, team.digest, at_once, lambda: len(self._growing))

    def stands_at(self) -> tuple[int, int]:
        """How many groups are whole, and how many pages of trees the next one has."""
        return len(self.groups), len(self.trees_of(len(self.groups)))

    def go_back_to(self, groups: int, trees: int) -> None:
        """Forget what lies behind a point that all parties have reached, and trees that nobody needs any more."""
        if groups > len(self.groups) or trees > len(self.trees_of(groups)):
            raise InputError("the checkpoint does not go back far enough to resume the run: begin a new one")
        for trees_of in self._folder.glob(f"{_TREES}*"):
            if int(trees_of.name.removeprefix(_TREES)) not in (groups - 1, groups):
                with atomic.naming(trees_of, "removed"):
                    shutil.rmtree(trees_of)
        self.groups.keep_first(groups)
        self.trees_of(groups).keep_first(trees)

    def _trees(self, group: int) -> Path:
        return self._folder / f"{_TREES}{group}"


def model_in(page: Page, kinds: Mapping[bool, type[M]], *, linear: bool) -> M:
    """The model on a page, or a party's part of it."""
    try:
        return kinds[linear].model_validate_json(page["model"].tobytes())
    except (KeyError, ValidationError):
        raise InputError("a page of a checkpoint has no model, so the run cannot be resumed") from None


def go_on(team: Team, memory: Memory, *, lends: bool = True) -> int:
    """Agree at all parties on where to go on; how many groups of models are whole there.

    1. every passive party says how far its checkpoint goes; one that `lends` no columns keeps no trees, and goes on
       from any
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
        if trees == ANY_TREES:
            trees = len(memory.trees_of(groups))
        for owner in team.passive:
            session.send(owner, GoOnFrom(groups, trees))  # 2
    else:
        stands_at = memory.stands_at() if lends else (len(memory.groups), ANY_TREES)
        session.send(team.active, StandsAt(*stands_at))  # 1
        said = session.recv(team.active, GoOnFrom)  # 2
        groups, trees = said.groups, said.trees
        if not (0, 0) <= (groups, trees) <= stands_at or min(groups, trees) < 0:
            raise ProtocolError(f"{team.active} sent GoOnFrom with a point that {session.party} has not reached")
        if groups < len(memory.groups) - 1:  # all that was answered since would be asked, and might be other questions
            raise RefusedError(
                f"{session.party} goes back one group of models at the most, and {team.active} wants to go further: "
                "begin a new run"
            )
    memory.go_back_to(groups, trees if lends else 0)
    return groups
