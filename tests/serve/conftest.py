"""A service with a person of each role, and browsers that are signed in there."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from browsing import CHEAP, PASSWORD, Browser
from fastapi import FastAPI

from unpooled.serve.accounts import people
from unpooled.serve.accounts.people import ROLES
from unpooled.serve.console.app import make_app
from unpooled.serve.console.console import Console
from unpooled.serve.folder import StateFolder
from unpooled.serve.settings import ServiceSettings
from unpooled.serve.state import database as database_module
from unpooled.serve.state.database import Database, open_database


@pytest.fixture(autouse=True)
def _unflushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk with every transaction: no test cuts the power."""
    connected = database_module._connected

    def unflushed(path: Path) -> sqlite3.Connection:
        connection = connected(path)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(database_module, "_connected", unflushed)


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
def console(folder: StateFolder, database: Database) -> Console:
    return Console(ServiceSettings(party="bank"), folder, database, hasher=CHEAP)


@pytest.fixture
def app(console: Console) -> FastAPI:
    return make_app(console)


@pytest.fixture
def browser(app: FastAPI, staff: dict[str, str]) -> Callable[..., Browser]:
    """A new browser, in which somebody of a role is signed in."""

    def opened(role: str = "") -> Browser:
        return Browser(app).sign_in(staff[role]) if role else Browser(app)

    return opened
