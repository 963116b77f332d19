"""Accounts: passwords, roles, and who can always administrate the service."""

import pytest
from argon2 import PasswordHasher
from browsing import CHEAP, PASSWORD

from unpooled.errors import InputError, RefusedError
from unpooled.serve.accounts import people, sessions, tokens
from unpooled.serve.state.audit_log import acts, verify
from unpooled.serve.state.database import Database


@pytest.fixture
def ada(database: Database) -> Database:
    people.add_first_administrator(database, CHEAP, "ada", PASSWORD)
    return database


def test_a_password_is_kept_as_an_argon2_hash(ada: Database) -> None:
    row = ada.row("SELECT password FROM people")
    assert row is not None
    assert row["password"].startswith("$argon2id$")
    assert people.check_password(ada, CHEAP, "ADA", PASSWORD) == people.find(ada, "ada")
    assert people.check_password(ada, CHEAP, "ada", PASSWORD + " ") is None


def test_a_hash_is_renewed_when_its_cost_has_changed(ada: Database) -> None:
    dearer = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1)
    before = people.find(ada, "ada")
    after = people.check_password(ada, dearer, "ada", PASSWORD)
    assert before
    assert after
    assert before.password != after.password == getattr(people.find(ada, "ada"), "password", None)
    assert not dearer.check_needs_rehash(after.password or "")
    assert people.check_password(ada, dearer, "ada", PASSWORD) == after


class Counting:
    """A hasher that counts how often it compares."""

    def __init__(self) -> None:
        self.compared = 0

    def verify(self, known: str, password: str) -> bool:
        self.compared += 1
        return CHEAP.verify(known, password)

    def __getattr__(self, name: str) -> object:
        return getattr(CHEAP, name)


@pytest.mark.parametrize("name", ["ada", "nobody", "no password", "disabled"])
def test_every_attempt_to_sign_in_computes_one_hash(ada: Database, name: str) -> None:
    people.add(ada, CHEAP, "ada", "no password", "viewer", None)
    people.add(ada, CHEAP, "ada", "disabled", "viewer", PASSWORD)
    people.disable(ada, "ada", "disabled")
    hasher = Counting()
    found = people.check_password(ada, hasher, name, PASSWORD if name == "disabled" else "wrong")  # type: ignore[arg-type]
    assert (found, hasher.compared) == (None, 1)


def test_refused_attempts_are_noted_but_not_what_was_typed_for_a_name(ada: Database) -> None:
    people.check_password(ada, CHEAP, "ada", "wrong")
    people.check_password(ada, CHEAP, "my secret password", "wrong")
    assert [(act.who, act.what, act.about) for act in acts(ada, most=2)] == [
        ("service", "refused a sign-in", "a name without an account"),
        ("service", "refused a sign-in", "ada"),
    ]


@pytest.mark.parametrize("password", ["", "eleven char", "x" * 1001])
def test_a_password_of_the_wrong_length_is_refused(ada: Database, password: str) -> None:
    with pytest.raises(InputError, match="a password has at"):
        people.add(ada, CHEAP, "ada", "bo", "viewer", password)
    with pytest.raises(InputError, match="a password has at"):
        people.change_own_password(ada, CHEAP, "ada", PASSWORD, password)


def test_a_name_is_no_password(ada: Database) -> None:
    with pytest.raises(InputError, match="differ from the name"):
        people.add(ada, CHEAP, "ada", "bo@bank.example", "viewer", "Bo@bank.example")


@pytest.mark.parametrize("name", ["", " bo", "b\no", "b\u202eo", "x" * 65, "Service", "peer bank"])
def test_names_that_would_mislead_are_refused(ada: Database, name: str) -> None:
    with pytest.raises(InputError, match="a name"):
        people.add(ada, CHEAP, "ada", name, "viewer", PASSWORD)


def test_one_account_for_a_name(ada: Database) -> None:
    with pytest.raises(InputError, match="already"):
        people.add(ada, CHEAP, "ada", "Ada", "viewer", PASSWORD)
    with pytest.raises(RefusedError, match="has an administrator already"):
        people.add_first_administrator(ada, CHEAP, "eve", PASSWORD)
    with pytest.raises(InputError, match="no account"):
        people.change_role(ada, "ada", "bo", "viewer")


def test_the_last_administrator_stays(ada: Database) -> None:
    with pytest.raises(RefusedError, match="ada is the only administrator"):
        people.disable(ada, "ada", "ada")
    with pytest.raises(RefusedError, match="ada is the only administrator"):
        people.change_role(ada, "ada", "ada", "viewer")
    people.add(ada, CHEAP, "ada", "bo", "administrator", PASSWORD)
    people.change_role(ada, "ada", "ada", "viewer")
    with pytest.raises(RefusedError, match="bo is the only administrator"):
        people.disable(ada, "bo", "bo")
    assert people.has_administrator(ada)


def test_whatever_changes_an_account_ends_its_sessions(ada: Database) -> None:
    people.add(ada, CHEAP, "ada", "bo", "viewer", PASSWORD)
    other = "another good password"
    for change in (
        lambda: people.change_role(ada, "ada", "BO", "approver"),
        lambda: people.change_own_password(ada, CHEAP, "bo", PASSWORD, other),
        lambda: people.reset_password(ada, CHEAP, "ada", "bo", PASSWORD),
        lambda: people.disable(ada, "ada", "bo"),
    ):
        bo, administrator = people.find(ada, "bo"), people.find(ada, "ada")
        assert bo
        assert administrator
        token, its = sessions.begin(ada, bo), sessions.begin(ada, administrator)
        assert sessions.find(ada, token)
        change()
        assert sessions.find(ada, token) is None
        assert sessions.find(ada, its)


def test_a_disabled_account_loses_its_tokens_for_good(ada: Database) -> None:
    people.add(ada, CHEAP, "ada", "bo", "viewer", PASSWORD)
    token = tokens.make(ada, "bo", "nightly", "viewer", 1)
    people.disable(ada, "ada", "bo")
    people.enable(ada, "ada", "bo")
    assert people.check_password(ada, CHEAP, "bo", PASSWORD)
    assert tokens.find(ada, token) is None


def test_the_old_password_is_needed(ada: Database) -> None:
    with pytest.raises(RefusedError, match="current password"):
        people.change_own_password(ada, CHEAP, "ada", "wrong", "another good password")
    assert people.check_password(ada, CHEAP, "ada", PASSWORD)


def test_every_act_is_in_the_audit_log(ada: Database) -> None:
    people.add(ada, CHEAP, "ada", "bo", "viewer", PASSWORD)
    people.change_role(ada, "ada", "bo", "analyst")
    people.change_role(ada, "ada", "bo", "analyst")
    people.reset_password(ada, CHEAP, "ada", "bo", "another good password")
    people.change_own_password(ada, CHEAP, "bo", "another good password", PASSWORD)
    people.disable(ada, "ada", "bo")
    people.enable(ada, "ada", "bo")
    assert [(act.who, act.what, act.about) for act in reversed(acts(ada))] == [
        ("service", "added a person", "ada: administrator"),
        ("ada", "added a person", "bo: viewer"),
        ("ada", "changed a role", "bo: viewer → analyst"),
        ("ada", "reset a password", "bo"),
        ("bo", "changed the own password", ""),
        ("ada", "disabled an account", "bo"),
        ("ada", "enabled an account", "bo"),
    ]
    assert verify(ada) == 7
