"""What parties keep of a search for look-alikes, so that it can go on after an interruption.

Each party keeps every group of models that is whole, and of the group that is not the trees that have grown. When a
search goes on, all go back to what all of them have: one may have been stopped before it could keep what another has.
What a party has ever begun and answered is kept beside that, and does not fall when it goes back. It is counted ahead:
before the first answer about a group of trees, or of linear models, all that may be asked for the group counts, and at
the end what was; so a party that is killed has counted too much rather than too little.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from unpooled import atomic
from unpooled.checkpoint import Notebook, Page, naming
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.pu.messages import GoOnFrom, StandsAt
from unpooled.vertical.team import Team

ANY_TREES = 2**31 - 1
"""How many pages of trees a party says that it has which lends no columns, and so keeps none: it goes on from any."""
_ASKED = "asked.json"
_TREES = "trees-"

M = TypeVar("M", bound=BaseModel)


class Memory:
    """A page for each group of models, and while one is learned a notebook for its trees.

    `begun` is how many models this party has ever begun, and `answered` how many columns it was ever asked, by what is
    added to the digest of the rows, which has a new salt each time. Neither falls when a search goes back.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.groups = Notebook(folder / "groups")
        self.begun, self.answered = _asked(folder / _ASKED)
        self._growing, self._pages, self._ahead = self.trees_of(len(self.groups)), 0, Counter[str]()

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
        self.begun += models
        self._growing = self.trees_of(group)
        self.count(team)
        return self._growing

    @contextmanager
    def counting(self, team: Team, at_once: int | None) -> Iterator[None]:
        """Let what was answered before an interruption count, and count on; by the end what has been is kept.

        `at_once` is how many columns are asked at most between two pages of trees, for which is counted ahead; without
        it, as for linear models, all that may be asked is.
        """
        if not team.passive:
            yield
            return
        team.products.answered.update({team.digest + name: count for name, count in self.answered.items()})
        team.products.count_ahead = partial(self._count_ahead, team, at_once)
        try:
            yield
        finally:
            team.products.count_ahead = None
            self.count(team)

    def count(self, team: Team) -> None:
        """Keep how much was ever answered, and no more."""
        self._ahead.clear()
        self._write(team)

    def _count_ahead(self, team: Team, at_once: int | None, rows: str, asked: int, most: int) -> None:
        """Keep as answered what may be asked about some rows until the next page, before the first of it is."""
        name, answered = rows.removeprefix(team.digest), team.products.answered[rows]
        if len(self._growing) != self._pages:
            self._pages = len(self._growing)
            self._ahead.clear()
        if answered + asked > self._ahead[name]:
            ahead = most if at_once is None else min(answered + at_once, most)
            self._ahead[name] = max(ahead, answered + asked)
            self._write(team)

    def _write(self, team: Team) -> None:
        if team.passive:
            answered = team.products.answered
            self.answered |= Counter({name.removeprefix(team.digest): count for name, count in answered.items()})
        counted = {"begun": self.begun, "answered": self.answered | self._ahead}
        path, text = self._folder / _ASKED, json.dumps(counted)
        with naming(path, "written"):
            atomic.write_text(path, text + "\n", atomic.OWNER_ONLY)

    def stands_at(self) -> tuple[int, int]:
        """How many groups are whole, and how many pages of trees the next one has."""
        return len(self.groups), len(self.trees_of(len(self.groups)))

    def go_back_to(self, groups: int, trees: int) -> None:
        """Forget what lies behind a point that all parties have reached, and trees that nobody needs any more."""
        if groups > len(self.groups) or trees > len(self.trees_of(groups)):
            raise InputError("the checkpoint does not go back far enough to resume the run: begin a new one")
        for trees_of in self._folder.glob(f"{_TREES}*"):
            if int(trees_of.name.removeprefix(_TREES)) not in (groups - 1, groups):
                with naming(trees_of, "removed"):
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


def _asked(path: Path) -> tuple[int, Counter[str]]:
    """How many models were ever begun, and what was answered, if anything was."""
    if not path.exists():
        return 0, Counter()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return int(kept["begun"]), Counter({name: int(count) for name, count in kept["answered"].items()})
    except (OSError, KeyError, ValueError, AttributeError, TypeError):
        raise InputError(f"{path}: does not say what was answered, so the run cannot be resumed") from None


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
