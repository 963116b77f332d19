"""The ledger: what left this party and what arrived, frame by frame, in a file that shows tampering.

One JSON object a line. The first line opens the ledger (party, plan digest), every frame is a line, the last one
closes it. Each line carries the SHA-256 of itself and the line before, so a changed, removed or inserted line
breaks the chain. A line has the peer, the kind, the scope, the size and the disclosure; never an id or a value.

A frame is recorded before it leaves, so a ledger may name a frame that a crash kept from arriving, never the reverse.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal

from unpooled.errors import LedgerError
from unpooled.wire import Disclosure

LEDGER_FORMAT = 1
_START = "0" * 64
_CHAIN_KEY = ', "chain": "'
_ENTRY_KEYS = {"at", "way", "peer", "kind", "scope", "bytes", "discloses", "to"}

Way = Literal["sent", "received"]


def _chained(previous: str, text: str) -> str:
    return hashlib.sha256(f"{previous}\n{text}".encode()).hexdigest()


class Ledger:
    """Appends to one party's ledger; safe to use from several threads."""

    def __init__(self, path: Path, party: str, plan_digest: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._last = _START
        try:
            self._file = path.open("xb", buffering=0)
        except FileExistsError:
            raise LedgerError(f"{path} exists already: a ledger is never overwritten, take a new run folder") from None
        except OSError as error:
            raise LedgerError(f"{path} cannot be written: {error.strerror}") from error
        self._append(f'"ledger": {LEDGER_FORMAT}, "party": {_json(party)}, "plan": {_json(plan_digest)}')

    def record(self, way: Way, peer: str, kind: str, scope: str, size: int, disclosure: Disclosure) -> None:
        """Add a frame; for one that leaves, call this before it does."""
        self._append(f'{_unchanging(way, peer, kind, disclosure)}, "scope": {_json(scope)}, "bytes": {size}')

    def close(self) -> None:
        """Add the closing line; a ledger without one belongs to a run that did not end in order."""
        if not self._file.closed:
            self._append('"closed": true')
            self._file.close()

    def _append(self, members: str) -> None:
        text = f'{{"at": {time.time():.3f}, {members}'
        with self._lock:
            self._last = _chained(self._last, text)
            try:
                self._file.write(f'{text}{_CHAIN_KEY}{self._last}"}}\n'.encode())
            except (OSError, ValueError) as error:
                raise LedgerError(f"{self.path} cannot be written, so nothing more is sent: {error}") from error


@lru_cache(maxsize=1024)
def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@cache
def _unchanging(way: Way, peer: str, kind: str, disclosure: Disclosure) -> str:
    """What is the same in every entry of a kind of message, ready to be written: entries are made on the hot path."""
    entry = {"way": way, "peer": peer, "kind": kind, "discloses": disclosure.what, "to": disclosure.to}
    return json.dumps(entry, ensure_ascii=False)[1:-1]


@dataclass(frozen=True)
class Entry:
    """One frame in a ledger."""

    at: float
    way: Way
    peer: str
    kind: str
    scope: str
    bytes: int
    discloses: str
    to: str


@dataclass(frozen=True)
class Record:
    """A ledger that was read back: whose it is, for which plan, its frames, and whether it was closed in order."""

    path: Path
    party: str
    plan: str
    entries: tuple[Entry, ...]
    closed: bool


@dataclass(frozen=True)
class Line:
    """One row of the summary: how often a kind of message went one way between a party and a peer."""

    way: Way
    peer: str
    kind: str
    disclosure: Disclosure
    frames: int
    bytes: int


def read_ledger(path: Path) -> Record:
    """Read a ledger and check its chain; a break is a `LedgerError` that names the line."""
    try:
        lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from error
    contents = list(_checked(path, lines))
    if not contents or contents[0].get("ledger") != LEDGER_FORMAT:
        raise LedgerError(f"{path} line 1: not the opening of a ledger of format {LEDGER_FORMAT}")
    closed = "closed" in contents[-1]
    frames = contents[1:-1] if closed else contents[1:]
    for number, content in enumerate(frames, start=2):
        if content.keys() != _ENTRY_KEYS:
            raise LedgerError(f"{path} line {number}: not a frame's entry")
    entries = tuple(Entry(**content) for content in frames)
    return Record(path, str(contents[0].get("party")), str(contents[0].get("plan")), entries, closed)


def _checked(path: Path, lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    last = _START
    for number, line in enumerate(lines, start=1):
        text, found, chain = line.rpartition(_CHAIN_KEY)
        last = _chained(last, text)
        if not found or chain != f'{last}"}}':
            raise LedgerError(f"{path} line {number}: the chain is broken: this line or one before it was changed")
        try:
            content = json.loads(text + "}")
        except ValueError as error:
            raise LedgerError(f"{path} line {number}: not JSON") from error
        if not isinstance(content, dict):
            raise LedgerError(f"{path} line {number}: not an entry")
        yield content


def summarise(record: Record) -> list[Line]:
    """The ledger's frames counted by way, peer and kind, in order of first appearance."""
    frames: Counter[tuple[Way, str, str, str, str]] = Counter()
    sizes: Counter[tuple[Way, str, str, str, str]] = Counter()
    for entry in record.entries:
        key = (entry.way, entry.peer, entry.kind, entry.discloses, entry.to)
        frames[key] += 1
        sizes[key] += entry.bytes
    return [
        Line(way, peer, kind, Disclosure(what, to), count, sizes[way, peer, kind, what, to])
        for (way, peer, kind, what, to), count in frames.items()
    ]


def reconcile(first: Record, second: Record) -> list[str]:
    """Compare what each says of the frames between them; returns the differences in plain words, none if they agree."""
    differences = []
    if first.plan != second.plan:
        differences.append(f"{first.party} and {second.party} recorded different plans")
    for sender, receiver in ((first, second), (second, first)):
        sent = [e for e in sender.entries if e.way == "sent" and e.peer == receiver.party]
        received = [e for e in receiver.entries if e.way == "received" and e.peer == sender.party]
        for number, (out, arrived) in enumerate(zip_longest(sent, received), start=1):
            where = f"frame {number} from {sender.party} to {receiver.party}"
            if arrived is None:
                rest = len(sent) - len(received)
                differences.append(f"{where}: {sender.party} sent {out.kind}, {receiver.party} has no record of it")
                if rest > 1:
                    differences.append(f"{where}: and {rest - 1} more that {receiver.party} has no record of")
                break
            if out is None:
                differences.append(
                    f"{where}: {receiver.party} received {arrived.kind}, {sender.party} did not record it"
                )
                break
            for name in ("kind", "scope", "bytes", "discloses", "to"):
                if getattr(out, name) != getattr(arrived, name):
                    sides = f"{getattr(out, name)!r} at {sender.party}, {getattr(arrived, name)!r} at {receiver.party}"
                    differences.append(f"{where}: {name} differs: {sides}")
    return differences
