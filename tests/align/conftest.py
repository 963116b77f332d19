"""What the tests of alignment share: tables of ids, an alignment with all parties as threads, what each received."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
import pytest

from unpooled import control
from unpooled.align.normalise import IdRules
from unpooled.align.opening import Limits
from unpooled.align.rows import Aligned, Method, Places, find_common, help_find_common, help_label, label
from unpooled.data.table import Table, table_from_frame
from unpooled.ledger import Record, read_ledger
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session
from unpooled.wire import kind_of

SEEKER, COORDINATOR = "shop", "coordinator"
KEY_BITS = 1024
ANY = Limits(0, 0)

Ids = Sequence[str | int] | Mapping[str, Sequence[str | int]]


@dataclass
class Ran:
    """An alignment that ended: what every party has, the error it ended with, its ledger, what it was sent."""

    ids: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    rows: dict[str, list[int]] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    labels: dict[tuple[str, ...], int] = field(default_factory=dict)
    asked_about: int | None = None
    error: BaseException | None = None
    errors: dict[str, BaseException] = field(default_factory=dict)
    ledgers: dict[str, Record] = field(default_factory=dict)
    received: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)

    def kinds(self, party: str, way: str) -> set[str]:
        """The kinds of message that a party sent or received, without those about the conversation itself."""
        kinds = {entry.kind for entry in self.ledgers[party].entries if entry.way == way}
        return kinds - control.KINDS

    def given(self, party: str, kind: type) -> list[Any]:
        """The messages of a kind that a party received."""
        return [message for _, message in self.received[party] if type(message) is kind]


def as_table(party: str, ids: Ids) -> Table:
    columns = dict(ids) if isinstance(ids, Mapping) else {"id": list(ids)}
    series = [pl.Series(name, list(cells), None if cells else pl.String) for name, cells in columns.items()]
    return table_from_frame(pl.DataFrame(series), list(columns), party)


def run_alignment(
    owners: Mapping[str, Ids | Table],
    *,
    seeker: Ids | Table | None = None,
    coordinator: bool = False,
    psi: Any = "ecdh",
    bits: int = KEY_BITS,
    normalise: Any = "exact",
    limits: Mapping[str, Limits] | None = None,
    meddle: Mapping[str, Callable[[Session], None]] | None = None,
) -> Ran:
    """Align with all parties here; the first owner is the active one. `meddle` gets a party's session beforehand."""
    given = dict(owners) | ({SEEKER: seeker} if seeker is not None else {})
    tables = {party: ids if isinstance(ids, Table) else as_table(party, ids) for party, ids in given.items()}
    active, *passive = owners
    places = Places(active, tuple(passive), None if seeker is None else SEEKER, COORDINATOR if coordinator else None)
    method = Method(psi, bits, IdRules(normalise=normalise))
    ran = Ran()

    def part(session: Session) -> None:
        party = session.party
        own = (limits or {}).get(party, ANY)
        if party == COORDINATOR:
            help_find_common(session, places, method, own)
        elif party == SEEKER:
            ran.asked_about = help_label(session, places, tables[party], method, own)
        else:
            aligned = find_common(session, places, tables[party], method, own)
            if party == active and seeker is not None:
                labels = label(session, places, tables[party], aligned, method, own)
                ran.labels = dict(zip(ids_of(tables[party], aligned), labels.tolist(), strict=True))
            ran.ids[party] = ids_of(tables[party], aligned)
            ran.rows[party] = aligned.rows.tolist()
            ran.digests[party] = aligned.digest

    def role(session: Session) -> None:
        ran.received[session.party] = []
        watch(session, ran.received[session.party])
        if meddle and session.party in meddle:
            meddle[session.party](session)
        try:
            part(session)
        except BaseException as error:
            ran.errors[session.party] = error
            raise

    parties = [*tables, *([COORDINATOR] if coordinator else [])]
    with TemporaryDirectory() as folder:
        try:
            simulate_roles(dict.fromkeys(parties, role), timeout=120, folder=Path(folder))
        except BaseException as error:
            ran.error = error
        ran.ledgers = {party: read_ledger(Path(folder) / party / "ledger.jsonl") for party in parties}
    return ran


def ids_of(table: Table, aligned: Aligned) -> list[tuple[str, ...]]:
    return table.take(aligned.rows).ids.rows()


def watch(session: Session, received: list[tuple[str, Any]]) -> None:
    take = session.recv

    def recv(peer: str, *kinds: type, **limits: Any) -> object:
        message = take(peer, *kinds, **limits)
        received.append((peer, message))
        return message

    session.recv = recv  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def table() -> Callable[[str, Ids], Table]:
    """A party's table of ids, in one column or several."""
    return as_table


@pytest.fixture(scope="session")
def align() -> Callable[..., Ran]:
    """An alignment that succeeds."""

    def succeed(*args: Any, **settings: Any) -> Ran:
        ran = run_alignment(*args, **settings)
        if ran.error:
            raise ran.error
        return ran

    return succeed


@pytest.fixture(scope="session")
def fail() -> Callable[..., Ran]:
    """An alignment that fails: `error` is the original error, `errors` has that of every party."""

    def failed(*args: Any, **settings: Any) -> Ran:
        ran = run_alignment(*args, **settings)
        assert ran.error is not None, "the alignment succeeded"
        assert not isinstance(ran.error, AssertionError), ran.error
        return ran

    return failed


@pytest.fixture(scope="session")
def changing() -> Callable[..., Callable[[Session], None]]:
    """For `meddle`: a party that follows the protocol but for one kind of message, which it changes on its way out.

    `change` gets the message and its number from 1, and returns what leaves instead: a message or a list of messages.
    """

    def change_kind(kind: type, change: Callable[[Any, int], Any], to: str | None = None) -> Callable[[Session], None]:
        def meddle(session: Session) -> None:
            leave, count = session.send, 0

            def send(peer: str, message: object, **how: Any) -> None:
                nonlocal count
                if kind_of(type(message)) != kind_of(kind) or to not in (None, peer):
                    leave(peer, message, **how)
                    return
                count += 1
                changed = change(message, count)
                for one in changed if isinstance(changed, list) else [changed]:
                    leave(peer, one, **how)

            session.send = send  # type: ignore[method-assign]

        return meddle

    return change_kind
