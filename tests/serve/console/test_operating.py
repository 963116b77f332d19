"""Health, metrics and the log."""

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browsing import PASSWORD, Browser
from fastapi import FastAPI
from starlette.testclient import TestClient

from unpooled.serve import logs
from unpooled.serve.accounts import sessions, tokens
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.settings import ServiceSettings

Browsing = Callable[..., Any]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.write_to(stream)
    yield stream
    logs.LOGGER.handlers = []
    logs.LOGGER.propagate = True


def test_health_and_readiness(browser: Browsing) -> None:
    assert browser().get("/health").json() == {"alive": True}
    assert browser().get("/ready").json() == {"ready": True, "set_up": True}


def test_metrics_count_requests_by_route(browser: Browsing) -> None:
    person = browser("viewer")
    for path in ("/", "/nothing/here", "/static/style.css"):
        person.get(path)
    text = person.get("/metrics").text
    for line in (
        'unpooled_console_requests_total{method="GET",route="/",status="200"} 1.0',
        'unpooled_console_requests_total{method="GET",route="other",status="404"} 1.0',
        'unpooled_console_requests_total{method="GET",route="/static/{name}",status="200"} 1.0',
        'unpooled_console_requests_total{method="POST",route="/sign-in",status="303"} 1.0',
    ):
        assert line in text


@pytest.mark.usefixtures("staff")
def test_metrics_are_for_this_machine_or_with_a_token(app: FastAPI, console: Console) -> None:
    far = TestClient(app, base_url="http://127.0.0.1:7480", client=("192.0.2.7", 1))
    assert far.get("/metrics").status_code == 401
    assert far.get("/metrics", headers={"authorization": "Bearer unpooled_wrong"}).status_code == 401
    token = tokens.make(console.database, "the viewer", "prometheus", "viewer", 1)
    assert far.get("/metrics", headers={"authorization": f"Bearer {token}"}).status_code == 200
    console.settings = ServiceSettings(party="bank", behind_proxy=True)
    assert Browser(app).get("/metrics").status_code == 401


def test_the_log_has_no_personal_data(
    browser: Browsing, log: io.StringIO, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = browser("administrator")
    person.get("/people?done=the-viewer")
    person.get("/the-viewer")
    person.submit("/people", name="the newcomer", role="viewer", password=PASSWORD)

    def broken(*_: object) -> None:
        raise KeyError("the viewer")

    monkeypatch.setattr(sessions, "find", broken)
    number = person.get("/").text.split("under the number ")[1][:8]
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(line["event"], line.get("route"), line.get("status")) for line in lines[:3]] == [
        ("request", "/sign-in", 303),
        ("request", "/people", 200),
        ("request", "other", 404),
    ]
    (error,) = [line for line in lines if line["event"] == "error"]
    assert (error["error"], error["number"], error["level"]) == ("KeyError", number, "error")
    assert any("broken" in call for call in error["calls"])
    for word in ("viewer", "newcomer", "administrator", "done=", PASSWORD):
        assert word not in log.getvalue()


def test_an_error_of_a_library_is_logged_without_its_text(log: io.StringIO) -> None:
    logs.LOGGER.getChild("library").warning("the row of %s is wrong", "Ada")
    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert (line["event"], line["level"], line["from"]) == ("message", "warning", "unpooled.serve.library")
    assert "Ada" not in log.getvalue()


def test_a_console_whose_state_is_gone_says_so_plainly(console: Console, staff: dict[str, str]) -> None:
    browser = Browser(make_app(console)).sign_in(staff["viewer"])
    with console.database.transaction() as connection:
        connection.execute("DROP TABLE sessions")
    response = browser.get("/")
    assert (response.status_code, "Something went wrong" in response.text) == (500, True)
    assert "sessions" not in response.text
