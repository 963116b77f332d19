"""Every route is tried by every role, by nobody, and without a CSRF token."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from unpooled.serve.accounts.people import ROLES, may
from unpooled.serve.console.console import Console
from unpooled.serve.console.security import OPEN, Needs, NeedsToken, check_routes, needed_by

Browsing = Callable[..., Any]


def routes_of(app: FastAPI) -> Iterator[tuple[APIRoute, str, str]]:
    for route in app.routes:
        assert isinstance(route, APIRoute), route
        for method in sorted(route.methods):
            yield (
                route,
                method,
                route.path.replace("{number}", "1")
                .replace("{name}", "x")
                .replace("{job}", "ab" * 16)
                .replace("{what}", "dry-run"),
            )


def test_every_route_needs_a_role_or_is_listed_as_open(app: FastAPI) -> None:
    without = {route.path for route, _, _ in routes_of(app) if needed_by(route) is None}
    assert without == OPEN


def test_an_app_with_a_forgotten_route_does_not_start(app: FastAPI) -> None:
    app.add_api_route("/forgotten", lambda: "secret")
    with pytest.raises(AssertionError, match="/forgotten"):
        check_routes(app)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_may_do_what_it_says(app: FastAPI, browser: Browsing, role: str) -> None:
    person = browser(role)
    tried = 0
    for route, method, path in routes_of(app):
        needed = needed_by(route)
        if not isinstance(needed, Needs) or path == "/sign-out":
            continue
        response = person.request(method, path, data={"csrf": person.csrf} if method == "POST" else None)
        if may(role, needed.role):  # type: ignore[arg-type]
            assert response.status_code in {200, 303, 400, 404, 422}, path
            assert "/sign-in" not in response.headers.get("location", ""), path
            if path == "/account/sessions/end-others":
                continue
        else:
            assert response.status_code == 403, path
            assert f"needs the role {needed.role}" in response.text, path
        tried += 1
    assert tried > 10


def test_nobody_gets_anywhere(app: FastAPI, browser: Browsing) -> None:
    for route, method, path in routes_of(app):
        needed = needed_by(route)
        response = browser().request(method, path)
        if isinstance(needed, Needs):
            assert response.status_code == 303, path
            assert response.headers["location"].startswith("/sign-in"), path
        elif isinstance(needed, NeedsToken):
            assert response.status_code == 401, path


def test_nothing_is_changed_without_the_csrf_token_of_the_session(
    app: FastAPI, browser: Browsing, console: Console
) -> None:
    person, other = browser("administrator"), browser("administrator")
    before = list(console.database.rows("SELECT line FROM audit_log"))
    for route, method, path in routes_of(app):
        if method == "GET" or not isinstance(needed_by(route), Needs):
            continue
        for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": other.csrf}, {"csrf": "é"}):
            response = person.post(path, data=fields)
            assert (response.status_code, "from another session" in response.text) == (403, True), (path, fields)
        file = {"csrf": ("csrf", person.csrf.encode())}
        assert person.post(path, files=file).status_code == 403, path
    assert console.database.rows("SELECT line FROM audit_log") == before
    assert person.get("/").status_code == 200


def test_changes_come_from_a_page_of_this_console_only(app: FastAPI, browser: Browsing) -> None:
    for route, method, path in routes_of(app):
        if method == "GET" or isinstance(needed_by(route), NeedsToken):  # no page elsewhere has a token
            continue
        person = browser("administrator")
        for headers in (
            {"origin": "http://elsewhere.example"},
            {"origin": "https://127.0.0.1:7480"},
            {"origin": "http://127.0.0.1:7481"},
            {"origin": "null"},
            {"origin": ""},
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"sec-fetch-site": "none"},
        ):
            response = person.post(path, data={"csrf": person.csrf}, headers=headers)
            assert (response.status_code, "not from a page" in response.text) == (403, True), (path, headers)
        response = person.post(path, data={"csrf": person.csrf}, headers={"sec-fetch-site": "same-origin"})
        assert "not from a page" not in response.text
