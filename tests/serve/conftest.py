"""A service with a person of each role, and browsers that are signed in there."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from argon2 import PasswordHasher
from fastapi import FastAPI
from starlette.testclient import TestClient

from unpooled.serve.accounts import people
from unpooled.serve.accounts.people import ROLES
from unpooled.serve.console.app import make_app
from unpooled.serve.console.context import Context
from unpooled.serve.database import Database, open_database
from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import ServiceSettings

HERE = "http://127.0.0.1:7480"
PASSWORD = "correct horse battery"
CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


class Browser(TestClient):
    """Sends the Origin header as browsers do, and forms with the CSRF token of the page that was opened last."""

    def __init__(self, app: FastAPI, origin: str = HERE) -> None:
        super().__init__(
            app, base_url=origin, headers={"origin": origin}, follow_redirects=False, client=("127.0.0.1", 50_000)
        )

    def sign_in(self, name: str, password: str = PASSWORD) -> "Browser":
        response = self.post("/sign-in", data={"name": name, "password": password})
        assert response.status_code == 303, response.text
        return self

    @property
    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.get("/").text)
        assert found
        return found[1]

    def submit(self, path: str, **fields: object):  # type: ignore[no-untyped-def]
        return self.post(path, data={"csrf": self.csrf, **fields})


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    folder = StateFolder(tmp_path / "state")
    folder.make()
    return folder


@pytest.fixture
def database(folder: StateFolder) -> Database:
    return open_database(folder.database)


@pytest.fixture
def staff(database: Database) -> dict[str, str]:
    """The name of somebody for each role."""
    for role in reversed(ROLES):
        people.add(database, CHEAP, "service", f"the {role}", role, PASSWORD)
    return {role: f"the {role}" for role in ROLES}


@pytest.fixture
def service(folder: StateFolder, database: Database) -> Context:
    return Context(ServiceSettings(party="bank"), folder, database, CHEAP)


@pytest.fixture
def app(service: Context) -> FastAPI:
    return make_app(service)


@pytest.fixture
def browser(app: FastAPI, staff: dict[str, str]) -> Callable[..., Browser]:
    """A new browser, in which somebody of a role is signed in."""

    def opened(role: str = "") -> Browser:
        return Browser(app).sign_in(staff[role]) if role else Browser(app)

    return opened
