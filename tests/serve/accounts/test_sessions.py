"""Sessions end, and the database does not tell their tokens."""

from datetime import timedelta

import pytest

from unpooled.errors import RefusedError
from unpooled.serve.accounts import people, sessions
from unpooled.serve.accounts.people import Person
from unpooled.serve.accounts.sessions import IDLE, LONGEST, ago
from unpooled.serve.state.audit_log import acts
from unpooled.serve.state.database import Database

MINUTE = timedelta(minutes=1)


@pytest.fixture
def viewer(database: Database, staff: dict[str, str]) -> Person:
    found = people.find(database, staff["viewer"])
    assert found
    return found


def turn_back(database: Database, column: str, span: timedelta) -> None:
    with database.transaction() as connection:
        connection.execute(f"UPDATE sessions SET {column} = ?", (ago(span),))  # noqa: S608


def test_a_token_finds_its_session_and_is_not_kept(database: Database, viewer: Person) -> None:
    token = sessions.begin(database, viewer)
    session = sessions.find(database, token)
    assert session
    assert (session.person, session.role, session.may("analyst")) == (viewer.name, "viewer", False)
    assert token.encode() not in database.path.read_bytes() + database.path.with_name("state.sqlite-wal").read_bytes()
    assert sessions.find(database, session.digest) is None
    assert sessions.find(database, "") is None


def test_tokens_and_csrf_tokens_differ_between_sessions(database: Database, viewer: Person) -> None:
    made = {sessions.begin(database, viewer) for _ in range(20)}
    assert len(made | {sessions.csrf_of(token) for token in made}) == 40
    assert min(map(len, made)) >= 43


@pytest.mark.parametrize(
    ("column", "span", "lives"),
    [
        ("seen", IDLE - MINUTE, True),
        ("seen", IDLE, False),
        ("created", LONGEST - MINUTE, True),
        ("created", LONGEST, False),
    ],
)
def test_a_session_expires(database: Database, viewer: Person, column: str, span: timedelta, lives: bool) -> None:
    token = sessions.begin(database, viewer)
    turn_back(database, column, span)
    assert bool(sessions.find(database, token)) == lives
    sessions.begin(database, viewer)
    assert len(database.rows("SELECT * FROM sessions")) == 1 + lives


def test_using_a_session_keeps_it_alive(database: Database, viewer: Person) -> None:
    token = sessions.begin(database, viewer)
    turn_back(database, "seen", IDLE - MINUTE)
    assert sessions.find(database, token)
    assert database.row("SELECT 1 FROM sessions WHERE seen > ?", ago(MINUTE))


def test_signing_out_ends_one_session_or_all_others(database: Database, viewer: Person) -> None:
    first, second, third = (sessions.begin(database, viewer) for _ in range(3))
    assert sessions.count(database, viewer.name) == 3
    session = sessions.find(database, first)
    assert session
    sessions.end(database, session)
    assert not sessions.find(database, first)
    session = sessions.find(database, second)
    assert session
    sessions.end_others(database, session)
    assert sessions.find(database, second)
    assert not sessions.find(database, third)
    assert [act.what for act in acts(database, most=2)] == ["signed out everywhere else", "signed out"]


def test_an_account_that_changed_while_somebody_signed_in(database: Database, viewer: Person) -> None:
    people.disable(database, "service", viewer.name)
    with pytest.raises(RefusedError, match="was changed while you signed in"):
        sessions.begin(database, viewer)
