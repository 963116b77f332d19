"""What parties keep of a search: where all can go on, what is thrown away for that, and pages that are damaged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.pu.memory import Memory, go_on, model_in, restore_answered
from unpooled.pu.messages import GoOnFrom, StandsAt
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules
from unpooled.session import Session
from unpooled.vertical.team import Team, alone

OWNERS = ("telco", "bank", "railway")


class Kept(BaseModel):
    """Stands for a model."""

    number: int


def memory(folder: Path, groups: int, trees: int) -> Memory:
    """A memory with so many groups, as a search would leave it, and trees of the next one."""
    made = Memory(folder)
    for group in range(groups):
        made.trees_of(group).write(tree=np.array([group]))
        made.trees_of(group).write(tree=np.array([group]))
        made.keep(alone(), Kept(number=group), scores=np.array([group * 0.5]))
    for tree in range(trees):
        made.trees_of(groups).write(tree=np.array([tree]))
    assert made.stands_at() == (groups, trees)
    return made


def agree(memories: dict[str, Memory], **instead: Any) -> dict[str, int]:
    """What the parties agree on; a role may be given in a party's place."""

    def role(session: Session) -> int:
        engine = Engine(session, Rules("plain"), OWNERS, "bank", None)
        return go_on(Team("bank", OWNERS, engine, "rows"), memories[session.party])

    return simulate_roles({party: instead.get(party, role) for party in OWNERS}).results


@pytest.mark.parametrize(
    ("points", "agreed"),
    [
        ({"telco": (0, 0), "bank": (0, 0), "railway": (0, 0)}, (0, 0)),
        ({"telco": (2, 1), "bank": (2, 1), "railway": (2, 1)}, (2, 1)),
        ({"telco": (2, 1), "bank": (2, 3), "railway": (2, 2)}, (2, 1)),
        ({"telco": (2, 3), "bank": (2, 0), "railway": (2, 2)}, (2, 0)),
        ({"telco": (2, 0), "bank": (1, 2), "railway": (2, 0)}, (1, 2)),
        ({"telco": (1, 2), "bank": (1, 1), "railway": (2, 0)}, (1, 1)),
        ({"telco": (0, 0), "bank": (1, 2), "railway": (1, 2)}, (0, 0)),
        ({"telco": (0, 0), "bank": (3, 2), "railway": (1, 2)}, (0, 0)),
    ],
)
def test_all_go_on_from_what_all_have(
    tmp_path: Path, points: dict[str, tuple[int, int]], agreed: tuple[int, int]
) -> None:
    memories = {party: memory(tmp_path / party, *points[party]) for party in OWNERS}
    assert agree(memories) == dict.fromkeys(OWNERS, agreed[0])
    for party in OWNERS:
        assert memories[party].stands_at() == Memory(tmp_path / party).stands_at() == agreed
        assert [page["scores"].item() for page in memories[party].groups.pages()] == [0.0, 0.5, 1.0][: agreed[0]]


def test_a_party_alone_goes_on_from_what_it_has(tmp_path: Path) -> None:
    assert go_on(alone(), memory(tmp_path, 2, 1)) == 2
    assert Memory(tmp_path).stands_at() == (2, 1)


@pytest.mark.parametrize("point", [(2, 2), (3, 0), (-1, 0), (0, -1), (1, 10**9)])
def test_a_point_that_was_not_reached_is_refused(tmp_path: Path, point: tuple[int, int]) -> None:
    memories = {party: memory(tmp_path / party, 2, 1) for party in OWNERS}

    def bank(session: Session) -> int:
        for party in ("telco", "railway"):
            session.recv(party, StandsAt)
            session.send(party, GoOnFrom(*point))
        return 0

    refused = "bank sent GoOnFrom with a point that (telco|railway) has not reached|does not go back far enough"
    with pytest.raises((ProtocolError, InputError), match=refused):
        agree(memories, bank=bank)
    assert Memory(tmp_path / "telco").stands_at() == (2, 1), "nothing was thrown away for it"


@pytest.mark.parametrize("point", [(-1, 0), (0, -1)])
def test_a_party_that_stands_nowhere_is_refused(tmp_path: Path, point: tuple[int, int]) -> None:
    memories = {party: memory(tmp_path / party, 2, 1) for party in OWNERS}

    def telco(session: Session) -> int:
        session.send("bank", StandsAt(*point))
        return session.recv("bank", GoOnFrom).groups

    with pytest.raises(ProtocolError, match="a party sent StandsAt that cannot be"):
        agree(memories, telco=telco)


def test_trees_are_kept_until_the_next_group_is_whole(tmp_path: Path) -> None:
    kept = memory(tmp_path, 3, 0)
    assert [len(kept.trees_of(group)) for group in range(4)] == [0, 0, 2, 0]


def test_it_does_not_go_back_to_trees_that_are_gone(tmp_path: Path) -> None:
    kept = memory(tmp_path, 3, 0)
    with pytest.raises(InputError, match="does not go back far enough to resume the run: begin a new one"):
        kept.go_back_to(1, 2)


def test_models_come_back(tmp_path: Path) -> None:
    page = memory(tmp_path, 2, 0).groups.read(1)
    assert model_in(page, {False: Kept}, linear=False) == Kept(number=1)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"number": "x"}', b"\xff"])
def test_a_page_without_a_model_is_refused(content: bytes | None) -> None:
    page: dict[str, Any] = {} if content is None else {"model": np.frombuffer(content, np.uint8)}
    with pytest.raises(InputError, match="a page of a checkpoint has no model"):
        model_in(page, {False: Kept}, linear=False)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a page"])
def test_a_damaged_page_is_named(tmp_path: Path, content: bytes) -> None:
    kept = memory(tmp_path, 2, 0)
    (tmp_path / "groups" / "page-00001.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"page-00001\.npz: this page of a checkpoint cannot be read"):
        list(kept.groups.pages())


def test_what_was_answered_is_counted_on_under_the_rows_new_digest(tmp_path: Path) -> None:
    def role(session: Session) -> None:
        before, after = (Engine(session, Rules("plain"), OWNERS, "bank", None) for _ in range(2))
        before.answered.update({"old": 7, "old batch 2": 9})
        Memory(tmp_path / session.party).keep(Team("bank", OWNERS, before, "old"), Kept(number=1))
        restore_answered(Team("bank", OWNERS, after, "new"), Memory(tmp_path / session.party).groups.read(0))
        assert after.answered == {"new": 7, "new batch 2": 9}

    simulate_roles(dict.fromkeys(OWNERS, role))
    with pytest.raises(InputError, match="cannot be resumed"):
        restore_answered(alone(), {"model": np.zeros(1)})


def test_nobody_goes_back_further_than_a_group_of_models(tmp_path: Path) -> None:
    memories = {party: memory(tmp_path / party, 0 if party == "bank" else 2, 1) for party in OWNERS}
    with pytest.raises(
        RefusedError, match=r"(telco|railway) goes back one group of models at the most, and bank wants"
    ):
        agree(memories)
    assert Memory(tmp_path / "telco").stands_at() == (2, 1)
