"""What parties keep of a search: where all can go on, what is thrown away for that, and pages that are damaged."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import COUNTED, Engine, Rules
from unpooled.session import Session
from unpooled.vertical import resume
from unpooled.vertical.resume import Checkpoint, CheckpointAt, ResumeFrom
from unpooled.vertical.team import Team, alone

OWNERS = ("telco", "bank", "railway")


class Kept(BaseModel):
    """Stands for a model."""

    number: int
    learner: str = ""
    party: str = ""
    columns: tuple[str, ...] = ()


def memory(folder: Path, groups: int, trees: int) -> Checkpoint:
    """A memory with so many groups, as a search would leave it, and trees of the next one."""
    made = Checkpoint(folder)
    for group in range(groups):
        made.notebook(group).write(tree=np.array([group]))
        made.notebook(group).write(tree=np.array([group]))
        made.keep(Kept(number=group), scores=np.array([group * 0.5]))
    for tree in range(trees):
        made.notebook(groups).write(tree=np.array([tree]))
    assert made.position() == (groups, trees)
    return made


def agree(memories: dict[str, Checkpoint], without_columns: str = "", **instead: Any) -> dict[str, int]:
    """What the parties agree on; a role may be given in a party's place."""

    def role(session: Session) -> int:
        engine, lends = Engine(session, Rules("plain"), OWNERS, "bank", None), session.party != without_columns
        return resume.agree(Team("bank", OWNERS, engine, "rows"), memories[session.party], lends=lends)

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
        assert memories[party].position() == Checkpoint(tmp_path / party).position() == agreed
        assert [page["scores"].item() for page in memories[party].groups.pages()] == [0.0, 0.5, 1.0][: agreed[0]]


def test_a_party_alone_goes_on_from_what_it_has(tmp_path: Path) -> None:
    assert resume.agree(alone(), memory(tmp_path, 2, 1)) == 2
    assert Checkpoint(tmp_path).position() == (2, 1)


@pytest.mark.parametrize("point", [(2, 2), (3, 0), (-1, 0), (0, -1), (1, 10**9)])
def test_a_point_that_was_not_reached_is_refused(tmp_path: Path, point: tuple[int, int]) -> None:
    memories = {party: memory(tmp_path / party, 2, 1) for party in OWNERS}

    def bank(session: Session) -> int:
        for party in ("telco", "railway"):
            session.recv(party, CheckpointAt)
            session.send(party, ResumeFrom(*point))
        return 0

    with pytest.raises((ProtocolError, InputError), match=r"ResumeFrom from bank|resume"):
        agree(memories, bank=bank)
    assert Checkpoint(tmp_path / "telco").position() == (2, 1), "nothing was thrown away for it"


@pytest.mark.parametrize("point", [(-1, 0), (0, -1)])
def test_a_party_that_stands_nowhere_is_refused(tmp_path: Path, point: tuple[int, int]) -> None:
    memories = {party: memory(tmp_path / party, 2, 1) for party in OWNERS}

    def telco(session: Session) -> int:
        session.send("bank", CheckpointAt(*point))
        return session.recv("bank", ResumeFrom).groups

    with pytest.raises(ProtocolError, match="CheckpointAt from telco"):
        agree(memories, telco=telco)


def test_trees_are_kept_until_the_next_group_is_whole(tmp_path: Path) -> None:
    kept = memory(tmp_path, 3, 0)
    assert [len(kept.notebook(group)) for group in range(4)] == [0, 0, 2, 0]


def test_it_does_not_go_back_to_trees_that_are_gone(tmp_path: Path) -> None:
    kept = memory(tmp_path, 3, 0)
    with pytest.raises(InputError, match="resume"):
        kept.go_back_to(1, 2)


def test_models_come_back(tmp_path: Path) -> None:
    page = memory(tmp_path, 2, 0).groups.read(1)
    assert resume._model_on(page, Kept) == Kept(number=1)


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"number": "x"}', b"\xff"])
def test_a_page_without_a_model_is_refused(content: bytes | None) -> None:
    page: dict[str, Any] = {} if content is None else {"model": np.frombuffer(content, np.uint8)}
    with pytest.raises(InputError, match="model"):
        resume._model_on(page, Kept)


@pytest.mark.parametrize("content", [b"", b"PK", b"not a page"])
def test_a_damaged_page_is_named(tmp_path: Path, content: bytes) -> None:
    kept = memory(tmp_path, 2, 0)
    (tmp_path / "groups" / "page-00001.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"page-00001\.npz"):
        list(kept.groups.pages())


@pytest.mark.parametrize(
    ("points", "agreed"),
    [
        ({"telco": 0, "bank": (0, 0), "railway": (0, 0)}, (0, 0)),
        ({"telco": 1, "bank": (1, 3), "railway": (1, 2)}, (1, 2)),
        ({"telco": 2, "bank": (1, 2), "railway": (1, 2)}, (1, 2)),
        ({"telco": 1, "bank": (2, 0), "railway": (2, 1)}, (1, 2)),
        ({"telco": 1, "bank": (2, 0), "railway": (1, 1)}, (1, 1)),
    ],
)
def test_a_party_without_columns_goes_on_from_any_tree(
    tmp_path: Path, points: dict[str, Any], agreed: tuple[int, int]
) -> None:
    telco = Checkpoint(tmp_path / "telco")
    for group in range(points["telco"]):
        telco.keep(Kept(number=group))
    memories = {party: memory(tmp_path / party, *points[party]) for party in ("bank", "railway")} | {"telco": telco}
    assert agree(memories, without_columns="telco") == dict.fromkeys(OWNERS, agreed[0])
    assert [memories[party].position() for party in ("bank", "railway")] == [agreed, agreed]
    assert telco.position() == (agreed[0], 0)


# After a power cut


@pytest.mark.parametrize("content", [b"", b"PK", bytes(300)])
def test_a_group_whose_page_is_torn_is_learned_from_its_trees(tmp_path: Path, content: bytes) -> None:
    memories = {party: memory(tmp_path / party, 2, 1) for party in OWNERS}
    (tmp_path / "telco" / "groups" / "page-00001.npz").write_bytes(content)
    memories["telco"] = Checkpoint(tmp_path / "telco")
    assert memories["telco"].position() == (1, 2)
    assert agree(memories) == dict.fromkeys(OWNERS, 1)
    for party in OWNERS:
        kept = Checkpoint(tmp_path / party)
        assert kept.position() == (1, 2)
        assert len(kept.notebook(2)) == 0, "trees of a group that has not begun"


def test_a_page_of_trees_that_is_torn_is_grown_again(tmp_path: Path) -> None:
    memories = {party: memory(tmp_path / party, 1, 3) for party in OWNERS}
    (tmp_path / "bank" / "pages-1" / "page-00002.npz").write_bytes(b"PK")
    memories["bank"] = Checkpoint(tmp_path / "bank")
    assert agree(memories) == dict.fromkeys(OWNERS, 1)
    assert {Checkpoint(tmp_path / party).position() for party in OWNERS} == {(1, 2)}


# What was ever answered


def engine_of(session: Session) -> Engine:
    return Engine(session, Rules("plain"), OWNERS, "bank", None)


def test_what_was_answered_is_counted_on_under_the_rows_new_digest(tmp_path: Path) -> None:
    def role(session: Session) -> None:
        home, before, after = tmp_path / session.party, engine_of(session), engine_of(session)
        home.mkdir()
        with suppress(KeyError), Checkpoint(home).counting(Team("bank", OWNERS, before, "old"), None):
            before.answered.update({"old": 7, "old batch 2": 9})
            before.bits.update({"old": 640})
            before.opened.update({"old": 4})
            raise KeyError  # it is kept, however it ends
        resumed = Checkpoint(home)
        with resumed.counting(Team("bank", OWNERS, after, "new"), None):
            assert after.answered == {"new": 7, "new batch 2": 9}
            assert (after.bits, after.opened) == ({"new": 640}, {"new": 4})
            after.answered.update({"new": 3})
        with resumed.counting(Team("bank", OWNERS, after, "new"), {}):
            assert after.answered == {"new": 10, "new batch 2": 9}, "what was kept is added once"
        kept = {"answered": {"": 10, " batch 2": 9}, "bits": {"": 640}, "opened": {"": 4}}
        assert Checkpoint(home).asked.counts == kept

    simulate_roles(dict.fromkeys(OWNERS, role))


def test_what_another_counts_is_kept_once(tmp_path: Path) -> None:
    """A job that asks about several sets of rows has a count for each."""

    def role(session: Session) -> None:
        home, engine = tmp_path / session.party, engine_of(session)
        first, second = (Checkpoint(home / name) for name in ("first", "second"))
        with first.counting(Team("bank", OWNERS, engine, "some"), None):
            engine.answered.update({"some": 7})
        with second.counting(Team("bank", OWNERS, engine, "all"), None):
            engine.answered.update({"all": 9})
        with first.counting(Team("bank", OWNERS, engine, "some"), None):
            engine.answered.update({"some": 1})
        assert engine.answered == {"some": 8, "all": 9}
        assert Checkpoint(home / "first").asked.counts["answered"] == {"": 8}
        assert Checkpoint(home / "second").asked.counts["answered"] == {"": 9}

    simulate_roles(dict.fromkeys(OWNERS, role))


def test_going_back_lowers_no_count(tmp_path: Path) -> None:
    def role(session: Session) -> None:
        kept, engine = memory(tmp_path / session.party, 2, 2), engine_of(session)
        team = Team("bank", OWNERS, engine, "rows")
        kept.begin(team, 0, models=4)
        for counted in engine.counted.values():
            counted["rows"] += 20
        kept.begin(team, 1, models=3)
        kept.go_back_to(0, 0)
        again = Checkpoint(tmp_path / session.party)
        assert (again.asked.begun, again.asked.counts) == (7, {key: {"": 20} for key in COUNTED})
        engine.answered["rows"] = 5
        again.begin(team, 0, models=0)
        assert Checkpoint(tmp_path / session.party).asked.counts == {key: {"": 20} for key in COUNTED}

    simulate_roles(dict.fromkeys(OWNERS, role))


def test_what_is_answered_is_counted_before_it_is(tmp_path: Path) -> None:
    """A group of trees asks 10 columns at the most, and 25 may be asked in all."""

    def role(session: Session) -> None:
        home, engine = tmp_path / session.party, engine_of(session)
        home.mkdir()
        kept, team = Checkpoint(home), Team("bank", OWNERS, engine, "rows")
        counted = []

        def ask(columns: int) -> None:
            assert engine.count_ahead
            engine.count_ahead("answered", "rows", columns, 25)
            counted.append(Checkpoint(home).asked.counts["answered"][""])
            engine.answered["rows"] += columns

        with kept.counting(team, {"answered": 10}):
            notebook = kept.begin(team, 0, models=1)
            ask(2)
            ask(4)
            notebook.write(tree=np.array(0))
            ask(1)
            ask(9)
            notebook.write(tree=np.array(0))
            ask(8)
        assert counted == [10, 10, 16, 16, 25]
        assert Checkpoint(home).asked.counts["answered"] == {"": 24}, "in the end it is what was answered"
        assert engine.count_ahead is None

    simulate_roles(dict.fromkeys(OWNERS, role))


def test_of_linear_models_as_much_again_is_counted_ahead(tmp_path: Path) -> None:
    def role(session: Session) -> None:
        home, engine = tmp_path / session.party, engine_of(session)
        home.mkdir()
        with Checkpoint(home).counting(Team("bank", OWNERS, engine, "rows"), None):
            assert engine.count_ahead
            engine.count_ahead("answered", "rows batch 1", 30, 40)
            engine.count_ahead("answered", "rows loss", 1, 40)
            engine.count_ahead("bits", "rows", 640, None)
            counts = Checkpoint(home).asked.counts
            assert counts == {"answered": {" batch 1": 40, " loss": 2}, "bits": {"": 1280}, "opened": {}}

    simulate_roles(dict.fromkeys(OWNERS, role))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"begun": 1}', '{"begun": "x", "answered": {}}', '{"begun": 1, "answered": {}}']
)
def test_a_count_that_cannot_be_read_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "asked.json").write_text(content)
    with pytest.raises(InputError, match=r"asked\.json"):
        Checkpoint(tmp_path)


def test_a_count_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file where the folder should be")

    def role(session: Session) -> None:
        with pytest.raises(InputError, match=r"asked\.json.*File exists"):
            Checkpoint(tmp_path / "taken").begin(Team("bank", OWNERS, engine_of(session), "rows"), 0, models=1)

    simulate_roles(dict.fromkeys(OWNERS, role))


def test_nobody_goes_back_further_than_a_group_of_models(tmp_path: Path) -> None:
    memories = {party: memory(tmp_path / party, 0 if party == "bank" else 2, 1) for party in OWNERS}
    with pytest.raises(RefusedError, match=r"(telco|railway).*bank"):
        agree(memories)
    assert Checkpoint(tmp_path / "telco").position() == (2, 1)
