"""Services of parties, without people: letters, doors and calls, over real TLS on this machine."""

from __future__ import annotations

import socket
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from unpooled.errors import PeerLost, RefusedError
from unpooled.serve.peering.calling import Calling
from unpooled.serve.peering.credentials import Credentials
from unpooled.serve.peering.door import Door
from unpooled.serve.peering.exchange import Exchanges, exchange
from unpooled.serve.peering.post import Post, put
from unpooled.serve.peering.record import ServiceLedger
from unpooled.serve.peering.talk import Talk
from unpooled.serve.state.database import now, open_database
from unpooled.transport.dialling import Dialler
from unpooled.transport.tls import Secured, context_of
from unpooled.transport.trust import load_identity
from unpooled.wire import message

LONG = 60.0
PARTIES = ("bank", "telco", "shop")


@message(discloses="nothing: a test")
class Say:
    text: str


@message(discloses="nothing: a test")
class Other:
    text: str


class Party:
    """One party's service; `heard` is what it has handled."""

    def __init__(self, certs: Path, name: str) -> None:
        self.name = name
        self.certs = certs
        self.database = open_database(certs / f"{name}.sqlite")
        self.ledger = ServiceLedger(certs / f"{name}.jsonl", name)
        self.credentials = Credentials(certs / name, name)
        self.post = Post(self.database, (Say,), handle)
        self.exchanges = Exchanges(name, self.post, self.database, self.ledger)
        self.runs: dict[str, socket.socket] = {}
        self.door: Door | None = None
        self.calling: Calling | None = None

    @property
    def address(self) -> str | None:
        return f"127.0.0.1:{self.door.port}" if self.door else None

    def knows(self, *peers: Party) -> None:
        with self.database.transaction() as connection:
            for peer in peers:
                connection.execute(
                    "INSERT OR REPLACE INTO peers (name, address, added) VALUES (?, ?, ?)",
                    (peer.name, peer.address, now()),
                )

    def listens(self) -> None:
        self.door = Door(self.name, "127.0.0.1:0", self.credentials, self.exchanges, self.database, self.runs.get)
        self.door.open()

    def calls(self) -> None:
        self.calling = Calling(self.name, self.credentials, self.exchanges, self.database, polls=self.door is None)
        self.calling.open()

    def tell(self, peer: Party | str, *texts: str) -> None:
        with self.database.transaction() as connection:
            for text in texts:
                put(connection, peer if isinstance(peer, str) else peer.name, Say(text))

    @property
    def heard(self) -> list[str]:
        return [f"{row['peer']}: {row['text']}" for row in self.database.rows("SELECT * FROM heard ORDER BY rowid")]

    def pending(self) -> int:
        return len(self.database.rows("SELECT 1 FROM outbox"))

    def peer(self, other: Party) -> sqlite3.Row:
        row = self.database.row("SELECT * FROM peers WHERE name = ?", other.name)
        assert row is not None
        return row

    def call(self, other: Party) -> Talk:
        """Call another party's door by hand."""
        assert other.address
        dialler = Dialler(self.credentials.identity(), other.name, other.address, lambda: None)
        connection, secured = dialler.call(time.monotonic() + LONG)
        return Talk(self.name, other.name, connection, secured, self.ledger)

    def close(self) -> None:
        if self.calling:
            self.calling.close()
        if self.door:
            self.door.close()
        self.database.close()
        self.ledger.close()


def handle(connection: sqlite3.Connection, peer: str, said: Say) -> None:
    connection.execute("INSERT INTO heard VALUES (?, ?)", (peer, said.text))
    if said.text.startswith("refuse"):
        raise RefusedError(f"{said.text}: no")
    if said.text.startswith("fail"):
        raise ZeroDivisionError
    if said.text.startswith("ask"):
        put(connection, peer, Say("answer"))


def until(condition: Callable[[], object], what: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.01)


def shaken(certs: Path, caller: str, acceptor: str) -> tuple[Secured, Secured]:
    """The two ends of a TLS connection, as they are after the handshake."""
    ends = (
        Secured(context_of(load_identity(certs / caller, caller), server=False), server=False),
        Secured(context_of(load_identity(certs / acceptor, acceptor), server=True), server=True),
    )
    done = [False, False]
    while not all(done):
        for number, end in enumerate(ends):
            done[number] = done[number] or end.shake_hands()
            ends[1 - number].receive(end.to_send())
    return ends


class Cut(BaseException):
    """The process is killed here."""


class Cutter:
    """Counts the points of an exchange, and cuts it off at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.points = 0

    def around(self, act: Callable[..., object]) -> Callable[..., object]:
        def acting(*words: object) -> object:
            self._point()
            result = act(*words)
            self._point()
            return result

        return acting

    def _point(self) -> None:
        if self.points == self.at:
            raise Cut
        self.points += 1


def between(
    caller: Party, acceptor: Party, cut: tuple[int | None, int | None] = (None, None)
) -> tuple[list[object], list[int]]:
    """One exchange; how it ended on both sides, and how many points there were at which either could be cut off."""
    cutters = [Cutter(at) for at in cut]

    def side(number: int) -> object:
        me, other = (caller, acceptor) if number == 0 else (acceptor, caller)
        letters = Post(me.database, (Say,), me.post._handle)
        conversation = Talk(me.name, other.name, sockets[number], secured[number], me.ledger)
        for thing, names in ((letters, ("take", "acknowledged")), (conversation, ("send", "receive"))):
            for name in names:
                setattr(thing, name, cutters[number].around(getattr(thing, name)))
        try:
            with conversation if cut[number] is None else sockets[number]:
                return exchange(conversation, letters, calls=number == 0)
        except (Cut, PeerLost) as error:
            return type(error)
        finally:
            me.database.close()

    secured = shaken(caller.certs, caller.name, acceptor.name)
    sockets = socket.socketpair()
    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(side, range(2)))
    return ends, [cutter.points for cutter in cutters]
