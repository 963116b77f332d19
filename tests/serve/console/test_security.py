"""Cookies, headers, hosts and limits."""

from collections.abc import Callable
from http.cookies import SimpleCookie
from typing import Any

import pytest
from browsing import HERE, PASSWORD, Browser
from fastapi import FastAPI

from unpooled.serve.accounts import sessions, tokens
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.console.limits import Window
from unpooled.serve.settings import ServiceSettings

Browsing = Callable[..., Any]


def cookie_of(response: Any) -> Any:
    (cookie,) = SimpleCookie(response.headers["set-cookie"]).values()
    return cookie


def test_the_cookie_is_for_this_console_alone(browser: Browsing, staff: dict[str, str]) -> None:
    cookie = cookie_of(browser().post("/sign-in", data={"name": staff["viewer"], "password": PASSWORD}))
    assert cookie.key == "unpooled-7480"
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "strict", "/")
    assert (cookie["secure"], cookie["domain"], cookie["max-age"]) == ("", "", "")


@pytest.mark.usefixtures("staff")
def test_by_https_the_cookie_is_bound_to_host_and_https(console: Console) -> None:
    console.settings = ServiceSettings(party="bank", behind_proxy=True, console_names=("console.bank.example",))
    browser = Browser(make_app(console), "https://console.bank.example")
    response = browser.post("/sign-in", data={"name": "the viewer", "password": PASSWORD})
    cookie = cookie_of(response)
    assert (cookie.key, cookie["secure"], cookie["path"]) == ("__Host-unpooled-7480", True, "/")
    assert browser.get("/").status_code == 200
    assert cookie_of(browser.submit("/sign-out"))["secure"]
    assert response.headers["strict-transport-security"]


HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def test_headers_are_on_every_response(app: FastAPI, browser: Browsing, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    person = browser("administrator")
    paths = ["/", "/people", "/account", "/audit-log", "/audit-log.jsonl", "/sign-in", "/setup", "/health", "/ready"]
    statuses = {path: person.get(path) for path in [*paths, "/metrics", "/nothing", "/static/style.css", "/sign-out"]}
    statuses |= {
        "no session": browser().get("/people"),
        "no origin": browser().post("/sign-in", headers={"origin": ""}),
        "no fields": browser().post("/sign-in"),
        "host": person.get("/", headers={"host": "elsewhere.example"}),
        "long": person.post("/sign-in", content=b"x" * (2**20 + 1)),
    }
    monkeypatch.setattr(sessions, "find", broken)
    statuses["500"] = person.get("/")
    assert {key: response.status_code for key, response in statuses.items()} == {
        **dict.fromkeys(paths, 200),
        "/setup": 403,
        **{"/metrics": 200, "/nothing": 404, "/static/style.css": 200, "/sign-out": 405},
        **{"no session": 303, "no origin": 403, "no fields": 422, "host": 400, "long": 413, "500": 500},
    }
    for key, response in statuses.items():
        assert {name: response.headers.get(name) for name in HEADERS} == HEADERS, key
        kept = "public, max-age=31536000, immutable" if key.startswith("/static") else "no-store"
        assert response.headers["cache-control"] == kept, key
        assert "strict-transport-security" not in response.headers
        assert "Traceback" not in response.text


@pytest.mark.parametrize("host", ["127.0.0.1:7480", "localhost:7480", "[::1]:7480", "127.0.0.1"])
def test_hosts_of_this_machine_are_answered(browser: Browsing, host: str) -> None:
    assert browser().get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["rebound.example", "127.0.0.1.rebound.example:7480", "", "localhost@elsewhere"])
def test_other_hosts_are_not(browser: Browsing, host: str) -> None:
    assert browser("viewer").get("/", headers={"host": host}).status_code == 400


def test_a_session_given_by_somebody_else_is_not_taken_over(browser: Browsing, staff: dict[str, str]) -> None:
    victim = browser()
    victim.cookies.set("unpooled-7480", "chosen-by-an-attacker", domain="127.0.0.1")
    victim.sign_in(staff["viewer"])
    tokens_held = [cookie.value for cookie in victim.cookies.jar]
    assert "chosen-by-an-attacker" not in tokens_held[-1]
    attacker = browser()
    attacker.cookies.set("unpooled-7480", "chosen-by-an-attacker", domain="127.0.0.1")
    assert attacker.get("/").status_code == 303


def test_signing_in_again_ends_the_earlier_session(browser: Browsing, staff: dict[str, str], console: Console) -> None:
    person = browser("viewer")
    earlier = person.cookies["unpooled-7480"]
    person.sign_in(staff["analyst"])
    assert sessions.find(console.database, earlier) is None
    now = sessions.find(console.database, person.cookies["unpooled-7480"])
    assert now
    assert now.person == staff["analyst"]


def test_passwords_cannot_be_tried_without_end(browser: Browsing, staff: dict[str, str], console: Console) -> None:
    def attempt(name: str, password: str) -> int:
        return int(browser().post("/sign-in", data={"name": name, "password": password}).status_code)

    name = staff["approver"]
    assert [attempt(name, "wrong") for _ in range(12)] == [403] * 10 + [429] * 2
    assert attempt(name.upper(), PASSWORD) == 429
    assert attempt(staff["viewer"], PASSWORD) == 303
    assert [attempt(f"guessed {number}", "wrong") for number in range(60)][-20:] == [429] * 20
    assert attempt(staff["viewer"], PASSWORD) == 429
    assert int(browser().post("/sign-in", data={"name": "x", "password": "y"}).headers["retry-after"]) > 0


def test_a_stolen_session_does_not_serve_to_guess_the_password(browser: Browsing) -> None:
    thief = browser("viewer")
    fields = {"old": "wrong", "new": "another good password", "again": "another good password"}
    assert [thief.submit("/account/password", **fields).status_code for _ in range(11)] == [400] * 10 + [429]


def test_requests_are_limited(console: Console, browser: Browsing) -> None:
    console.requests = Window(3, 60.0, clock=lambda: 60.0)
    responses = [browser().get("/health") for _ in range(4)]
    assert [response.status_code for response in responses] == [200, 200, 200, 429]
    assert responses[-1].headers["retry-after"] == "61"
    assert "Too many requests: wait 61 seconds." in responses[-1].text


def test_a_window_slides() -> None:
    now = 100.0
    window = Window(10, 10.0, clock=lambda: now)
    assert [bool(window.take("a")) for _ in range(11)] == [False] * 10 + [True]
    assert not window.take("b")
    now = 115.0
    assert [bool(window.take("a")) for _ in range(6)] == [False] * 5 + [True]
    window.give_back("a")
    assert not window.take("a")
    now = 140.0
    assert not window.take("a")


def test_a_window_forgets_keys_not_used_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unpooled.serve.console.limits._KEYS", 3)
    window = Window(1, 10.0, clock=lambda: 0.0)
    for key in "abcd":
        window.take(key)
    assert not window.take("a")
    assert window.take("d")


@pytest.mark.parametrize(
    "wanted", ["//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example", "elsewhere", "/\t/elsewhere"]
)
def test_signing_in_never_leads_elsewhere(browser: Browsing, staff: dict[str, str], wanted: str) -> None:
    fields = {"name": staff["viewer"], "password": PASSWORD, "next": wanted}
    assert browser().post("/sign-in", data=fields).headers["location"] == "/"
    assert "elsewhere" not in browser().get("/sign-in", params={"next": wanted}).text


def test_after_signing_in_the_wanted_page_opens(browser: Browsing, staff: dict[str, str]) -> None:
    person = browser()
    location = person.get("/audit-log").headers["location"]
    assert location == "/sign-in?next=/audit-log"
    assert 'name="next" value="/audit-log"' in person.get(location).text
    fields = {"name": staff["approver"], "password": PASSWORD, "next": "/audit-log"}
    assert person.post("/sign-in", data=fields).headers["location"] == "/audit-log"


def test_a_link_from_elsewhere_finds_the_session(browser: Browsing) -> None:
    response = browser().get("/account", headers={"sec-fetch-site": "cross-site"})
    assert (response.status_code, 'content="0; url=/account"' in response.text) == (200, True)


def test_a_token_is_no_session(app: FastAPI, console: Console, staff: dict[str, str]) -> None:
    token = tokens.make(console.database, staff["administrator"], "nightly", "administrator", 1)
    program = Browser(app)
    for path in ("/", "/people", "/account"):
        assert program.get(path, headers={"authorization": f"Bearer {token}"}).status_code == 303
    program.cookies.set("unpooled-7480", token, domain="127.0.0.1")
    assert program.get("/").status_code == 303
    assert HERE.endswith("7480")
