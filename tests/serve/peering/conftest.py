"""What the tests of exchanges between services share."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from peering_services import PARTIES, Party

from unpooled.serve.state import database
from unpooled.serve.state.database import open_database
from unpooled.transport.certificates import make_trial


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of all parties, and a state without letters: each test gets copies."""
    folder = tmp_path_factory.mktemp("originals")
    make_trial(folder / "certs", PARTIES)
    state = open_database(folder / "state.sqlite")
    with state.transaction() as connection:
        connection.execute("CREATE TABLE heard (peer TEXT, text TEXT)")
    state.close()
    return folder


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power is cut here."""
    connected = database._connected

    def quickly(path: Path) -> sqlite3.Connection:
        connection = connected(path)
        connection.execute("PRAGMA synchronous = OFF")
        return connection

    monkeypatch.setattr(database, "_connected", quickly)


@pytest.fixture
def certs(originals: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(originals / "certs", tmp_path / "certs"))


@pytest.fixture
def service(originals: Path, certs: Path) -> Iterator[Callable[[str], Party]]:
    """Makes the service of a party."""
    with ExitStack() as stack:

        def make(name: str) -> Party:
            shutil.copy(originals / "state.sqlite", certs / f"{name}.sqlite")
            party = Party(certs, name)
            stack.callback(party.close)
            return party

        yield make


@pytest.fixture
def bank(service: Callable[[str], Party]) -> Party:
    return service("bank")


@pytest.fixture
def telco(service: Callable[[str], Party]) -> Party:
    return service("telco")


@pytest.fixture
def shop(service: Callable[[str], Party]) -> Party:
    return service("shop")
