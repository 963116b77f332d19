"""What people do in the console, page by page."""

import json
import tomllib
from collections.abc import Callable
from typing import Any

import pytest
from browsing import CHEAP, PASSWORD, Browser

from unpooled.serve.accounts import people, tokens
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.console.rendering import NAVIGATION
from unpooled.serve.state.audit_log import acts

Browsing = Callable[..., Any]
SCRIPT = "<script>alert(1)</script>"
OTHER = "another good password"


def whats(console: Console, most: int) -> list[tuple[str, str]]:
    return [(act.who, act.what) for act in reversed(acts(console.database, most=most))]


def test_signing_in_and_out(browser: Browsing, staff: dict[str, str], console: Console) -> None:
    person = browser()
    refused = person.post("/sign-in", data={"name": staff["viewer"], "password": "wrong"})
    assert (refused.status_code, "not right" in refused.text) == (403, True)
    person.sign_in(staff["viewer"])
    assert "Welcome, the viewer" in person.get("/").text
    response = person.submit("/sign-out")
    assert response.headers["location"] == "/sign-in"
    assert person.get("/").status_code == 303
    name = staff["viewer"]
    assert whats(console, 3) == [("service", "refused a sign-in"), (name, "signed in"), (name, "signed out")]


def test_an_expired_session_leads_to_the_sign_in_page(browser: Browsing, console: Console) -> None:
    person = browser("viewer")
    with console.database.transaction() as connection:
        connection.execute("UPDATE sessions SET seen = '2020-01-01T00:00:00+00:00'")
    assert person.get("/account").headers["location"] == "/sign-in?next=/account"


def test_the_navigation_shows_what_a_role_may_open(browser: Browsing) -> None:
    for role in ("viewer", "administrator"):
        person = browser(role)
        text = person.get("/").text
        for address, _, _ in NAVIGATION:
            allowed = person.get(address).status_code == 200
            assert (f'<a href="{address}"' in text.split("<main")[0].split("<nav")[1]) == allowed


def test_pages_have_landmarks_labels_and_a_way_to_skip(browser: Browsing) -> None:
    person = browser("administrator")
    for path in ("/", "/people", "/account", "/audit-log", "/nothing"):
        text = person.get(path).text
        for part in ('<html lang="en">', '<nav aria-label="Main">', '<main id="main"', 'href="#main"', "<h1>"):
            assert part in text, (path, part)
        assert text.count("<h1>") == 1
        fields = [
            line for line in text.splitlines() if ("<input" in line or "<select" in line) and "hidden" not in line
        ]
        for line in fields:
            (name,) = [part.split('"')[1] for part in line.split() if part.startswith("id=")]
            assert f'for="{name}"' in text, line
        assert "style=" not in text
        assert "<script" not in text


def test_the_own_password_is_changed(browser: Browsing, console: Console, staff: dict[str, str]) -> None:
    person, elsewhere = browser("viewer"), browser("viewer")
    differ = person.submit("/account/password", old=PASSWORD, new=OTHER, again=PASSWORD)
    wrong = person.submit("/account/password", old="wrong", new=OTHER, again=OTHER)
    short = person.submit("/account/password", old=PASSWORD, new="short", again="short")
    for response, text in ((differ, "differ"), (wrong, "current password is not right"), (short, "at least 12")):
        assert (response.status_code, text in response.text) == (400, True)
    assert person.submit("/account/password", old=PASSWORD, new=OTHER, again=OTHER).status_code == 303
    assert "was changed" in person.get("/account?done=password").text
    assert elsewhere.get("/").status_code == 303
    browser().sign_in(staff["viewer"], OTHER)


def test_other_browsers_are_signed_out(browser: Browsing) -> None:
    person, elsewhere = browser("viewer"), browser("viewer")
    assert "2 browsers are signed in" in person.get("/account").text
    assert person.submit("/account/sessions/end-others").status_code == 303
    assert "Only this browser" in person.get("/account").text
    assert elsewhere.get("/").status_code == 303


def test_a_token_is_shown_once(browser: Browsing, console: Console, staff: dict[str, str]) -> None:
    person = browser("approver")
    assert "You have no tokens" in person.get("/account").text
    text = person.submit("/account/tokens", label=SCRIPT, role="analyst", days=7).text
    token = text.split("<pre")[1].split("<code>")[1].split("</code>")[0]
    bearer = tokens.find(console.database, token)
    assert bearer
    assert bearer.role == "analyst"
    again = person.get("/account").text
    assert token not in again
    assert "&lt;script&gt;alert(1)" in again
    for fields in ({"role": "administrator", "days": 7}, {"role": "king", "days": 7}, {"role": "viewer", "days": 999}):
        assert person.submit("/account/tokens", label="x", **fields).status_code == 400
    number = tokens.tokens_of(console.database, staff["approver"])[0].id
    assert browser("administrator").submit(f"/account/tokens/{number}/revoke").status_code == 400
    assert person.submit(f"/account/tokens/{number}/revoke").status_code == 303
    assert tokens.find(console.database, token) is None


def test_an_administrator_manages_people(browser: Browsing, console: Console) -> None:
    admin = browser("administrator")
    assert admin.submit("/people", name="bo", role="viewer", password=PASSWORD).status_code == 303
    for fields, text in (
        ({"name": "Bo", "role": "viewer", "password": PASSWORD}, "already"),
        ({"name": "cy", "role": "king", "password": PASSWORD}, "no such role"),
        ({"name": "cy", "role": "viewer", "password": ""}, "at least 12"),
        ({"name": "service", "role": "viewer", "password": PASSWORD}, "must not begin"),
    ):
        response = admin.submit("/people", **fields)
        assert (response.status_code, text in response.text) == (400, True)
    bo = browser().sign_in("bo")
    assert admin.submit("/people/role", name="bo", role="approver").status_code == 303
    assert bo.get("/").status_code == 303
    assert admin.submit("/people/password", name="bo", password=OTHER).status_code == 303
    bo.sign_in("bo", OTHER)
    assert admin.submit("/people/disable", name="bo").status_code == 303
    assert bo.get("/").status_code == 303
    assert bo.post("/sign-in", data={"name": "bo", "password": OTHER}).status_code == 403
    assert admin.submit("/people/enable", name="bo").status_code == 303
    bo.sign_in("bo", OTHER)
    response = admin.submit("/people/disable", name="the administrator")
    assert (response.status_code, "only administrator" in response.text) == (400, True)
    assert admin.submit("/people/role", name="nobody", role="viewer").status_code == 400
    assert admin.submit("/people/enable", name="nobody").status_code == 400
    found = people.find(console.database, "bo")
    assert found
    assert found.role == "approver"


def test_script_in_names_is_escaped(browser: Browsing) -> None:
    admin = browser("administrator")
    name = '"><img src=x onerror=alert(1)>' + SCRIPT
    assert admin.submit("/people", name=name, role="approver", password=PASSWORD).status_code == 303
    person = browser().sign_in(name)
    for page in (admin.get("/people"), admin.get("/audit-log"), person.get("/"), person.get("/account")):
        assert "&lt;script&gt;" in page.text
        assert "<script" not in page.text
        assert "<img" not in page.text
    assert "<b>" not in admin.get("/sign-in", params={"next": "/<b>"}).text


def test_the_audit_log_is_shown_checked_and_saved(browser: Browsing, console: Console) -> None:
    admin = browser("administrator")
    assert "signed in" in admin.get("/audit-log").text
    assert "are as they were written" in admin.get("/audit-log/check").text
    lines = admin.get("/audit-log.jsonl").text.splitlines()
    assert [json.loads(line)["what"] for line in lines] == ["added a person"] * 4 + ["signed in"]
    with console.database.transaction() as connection:
        connection.execute("DROP TRIGGER audit_log_unchanged")
        connection.execute("UPDATE audit_log SET line = replace(line, 'the viewer', 'the shadow')")
    assert "the chain is broken" in admin.get("/audit-log/check").text


@pytest.fixture
def fresh(console: Console) -> Console:
    console.settings = None
    return console


GIVEN = {"party": "bank", "address": "bank.example:7433", "name": "ada", "password": PASSWORD, "again": PASSWORD}


def test_a_service_is_set_up_once(fresh: Console) -> None:
    browser = Browser(make_app(fresh))
    assert "not set up yet" in browser.get("/sign-in").text
    assert browser.get("/ready").status_code == 503
    form = browser.get("/setup", params={"key": fresh.setup_key})
    assert (form.status_code, "first administrator" in form.text) == (200, True)
    response = browser.post("/setup", data={"key": fresh.setup_key, **GIVEN})
    assert (response.status_code, response.headers["location"]) == (303, "/")
    assert "Add people" in browser.get("/").text
    written = tomllib.loads(fresh.folder.settings.read_text())
    assert written == {"party": "bank", "address": "bank.example:7433"}
    assert fresh.party == "bank"
    assert browser.get("/ready").status_code == 200
    for late in (
        browser.get("/setup", params={"key": fresh.setup_key}),
        browser.post("/setup", data=GIVEN | {"key": fresh.setup_key}),
    ):
        assert (late.status_code, "set up already" in late.text) == (403, True)
    assert whats(fresh, 2) == [("service", "added a person"), ("ada", "signed in")]


def test_setting_up_needs_the_key(fresh: Console) -> None:
    browser = Browser(make_app(fresh))
    for key in ("guessed", "wrong", fresh.setup_key[:-1]):
        assert browser.get("/setup", params={"key": key}).status_code == 403
        assert browser.post("/setup", data={"key": key, **GIVEN}).status_code == 403
    assert [browser.get("/setup?key=x").status_code for _ in range(5)][-1] == 429
    assert not fresh.folder.settings.exists()
    assert people.everybody(fresh.database) == []


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"party": "Bank!"}, "party: use a small letter"),
        ({"address": "somewhere"}, "address: an address is HOST:PORT"),
        ({"again": "x"}, "passwords differ"),
        ({"password": "short", "again": "short"}, "at least 12"),
        ({"name": "service"}, "must not begin"),
    ],
)
def test_a_wrong_set_up_says_what_is_wrong(fresh: Console, wrong: dict[str, str], text: str) -> None:
    browser = Browser(make_app(fresh))
    response = browser.post("/setup", data={"key": fresh.setup_key, **GIVEN, **wrong})
    assert (response.status_code, text in response.text) == (400, True), response.text
    assert people.everybody(fresh.database) == []
    assert browser.post("/setup", data={"key": fresh.setup_key, **GIVEN}).status_code == 303


def test_settings_written_by_hand_stay(console: Console) -> None:
    assert console.settings
    console.settings = console.settings.model_copy(update={"approvals": 2, "purge_after_days": 0})
    console.settings = type(console.settings).model_validate(console.settings.model_dump())
    browser = Browser(make_app(console))
    assert 'value="bank"' in browser.get("/setup", params={"key": console.setup_key}).text
    assert browser.post("/setup", data={"key": console.setup_key, **GIVEN, "address": ""}).status_code == 303
    assert console.settings.approvals == 2
    assert console.settings.address is None
    assert people.check_password(console.database, CHEAP, "ada", PASSWORD)
