"""Tokens for programs."""

import pytest

from unpooled.errors import InputError, RefusedError
from unpooled.serve.accounts import people, tokens
from unpooled.serve.accounts.sessions import ago
from unpooled.serve.state.audit_log import acts
from unpooled.serve.state.database import Database


def test_a_token_acts_for_a_person_and_is_not_kept(database: Database, staff: dict[str, str]) -> None:
    token = tokens.make(database, staff["approver"], " nightly ", "analyst", 30)
    assert token.startswith("unpooled_")
    assert token.encode() not in database.path.read_bytes() + database.path.with_name("state.sqlite-wal").read_bytes()
    bearer = tokens.find(database, token)
    assert bearer == tokens.Bearer(staff["approver"], "nightly", "analyst")
    assert bearer.may("analyst")
    assert not bearer.may("approver")
    assert tokens.find(database, token + "x") is None
    assert tokens.tokens_of(database, staff["approver"])[0].used


def test_a_token_has_no_role_above_its_person(database: Database, staff: dict[str, str]) -> None:
    with pytest.raises(RefusedError, match="cannot have the role approver"):
        tokens.make(database, staff["analyst"], "nightly", "approver", 1)
    token = tokens.make(database, staff["approver"], "nightly", "approver", 1)
    people.change_role(database, staff["administrator"], staff["approver"], "viewer")
    bearer = tokens.find(database, token)
    assert bearer
    assert bearer.role == "viewer"


def test_tokens_expire_and_are_revoked(database: Database, staff: dict[str, str]) -> None:
    name, other = staff["viewer"], staff["analyst"]
    token, second = (tokens.make(database, name, label, "viewer", 1) for label in ("one", "two"))
    number = tokens.tokens_of(database, name)[0].id
    with pytest.raises(InputError, match="no such token"):
        tokens.revoke(database, other, number)
    tokens.revoke(database, name, number)
    assert tokens.find(database, token) is None
    assert tokens.find(database, second)
    with database.transaction() as connection:
        connection.execute("UPDATE tokens SET expires = ?", (ago(tokens.SEEN_EVERY),))
    assert tokens.find(database, second) is None
    assert [(act.who, act.what, act.about) for act in acts(database, most=3)] == [
        (name, "revoked a token", "one"),
        (name, "made a token", "two: viewer"),
        (name, "made a token", "one: viewer"),
    ]


@pytest.mark.parametrize(("label", "days"), [("", 1), ("x" * 65, 1), ("a\nb", 1), ("ok", 0), ("ok", 367)])
def test_labels_and_ends_have_limits(database: Database, staff: dict[str, str], label: str, days: int) -> None:
    with pytest.raises(InputError):
        tokens.make(database, staff["viewer"], label, "viewer", days)


def test_a_person_has_a_limited_number_of_tokens(
    database: Database, staff: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST", 2)
    for label in ("one", "two"):
        tokens.make(database, staff["viewer"], label, "viewer", 1)
    with pytest.raises(RefusedError, match="there are 2 tokens"):
        tokens.make(database, staff["viewer"], "three", "viewer", 1)


def test_disabled_people_make_no_tokens(database: Database, staff: dict[str, str]) -> None:
    people.disable(database, staff["administrator"], staff["viewer"])
    with pytest.raises(RefusedError, match="disabled"):
        tokens.make(database, staff["viewer"], "nightly", "viewer", 1)
