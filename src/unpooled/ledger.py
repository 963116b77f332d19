"""The ledger: every frame that this party sent or received, in a file that shows tampering.

One JSON object per line. The first line opens the ledger (party, plan digest), every frame is a line, the last one
closes it. Each line has the SHA-256 of itself and the line before, so a changed, removed or inserted line breaks the
chain. Lines cut from the end, or a ledger rewritten from the first line, do not: comparing it with a peer's ledger
shows those. A line has the peer, the message type, the scope, the size and the disclosure; never an id or a value.

A frame is recorded before it is sent, so a ledger may have a frame that a crash kept from arriving, never the reverse.
After a power cut the last lines may be missing, and only the peers' ledgers have them. A resumed run continues in the
same ledger, after a line that says so.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, zip_longest
from pathlib import Path
from typing import Any, Literal, Self, get_args, get_type_hints

from unpooled import atomic, chain
from unpooled.errors import LedgerError
from unpooled.wire import Disclosure

LEDGER_FORMAT = 1

Way = Literal["sent", "received"]


class Ledger:
    """Appends to one party's ledger; safe to use from several threads."""

    def __init__(self, path: Path, party: str, plan_digest: str, *, resume: bool = False) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._last = _last_chain(path, party, plan_digest) if resume else chain.START
        self._whole = True
        try:
            self._file = open(path, "ab" if resume else "xb", buffering=0, opener=atomic.owner_only)  # noqa: SIM115
        except FileExistsError:
            raise LedgerError(f"{path} exists already: a ledger is never overwritten; use a new run folder") from None
        except OSError as error:
            raise LedgerError(f"{path} cannot be written: {error.strerror}") from error
        if resume:
            self._append('"resumed": true')
        else:
            self._append(f'"ledger": {LEDGER_FORMAT}, "party": {_json(party)}, "plan": {_json(plan_digest)}')

    def record(self, way: Way, peer: str, kind: str, scope: str, size: int, disclosure: Disclosure) -> None:
        """Add a frame; call this before a frame is sent."""
        self._append(f'{_unchanging(way, peer, kind, disclosure)}, "scope": {_json(scope)}, "bytes": {size}')

    def close(self) -> None:
        """Add the closing line; a ledger without one belongs to a run that did not end normally."""
        if self._file.closed:
            return
        with self._lock:
            whole = self._whole
        with self._file:
            if whole:
                self._append('"closed": true')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close; if the block failed, an error in closing, as on a full disk, does not replace that one."""
        with nullcontext() if kind is None else suppress(LedgerError, OSError):
            self.close()

    def _append(self, members: str) -> None:
        text = f'{{"at": {time.time():.3f}, {members}'
        with self._lock:
            if not self._whole:
                raise LedgerError(f"{self.path} ends in an incomplete line, so nothing more is sent")
            line, digest = chain.chained(self._last, text)
            self._whole = False  # until the line is written: an interrupt may come at any moment in between
            try:
                written = self._file.write(line)
            except (OSError, ValueError) as error:
                raise LedgerError(f"{self.path} cannot be written, so nothing more is sent: {error}") from error
            if written != len(line):
                raise LedgerError(f"{self.path} cannot be written, so nothing more is sent: is the disk full?")
            self._last = digest
            self._whole = True


@lru_cache(maxsize=1024)
def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


@lru_cache(maxsize=1024)
def _unchanging(way: Way, peer: str, kind: str, disclosure: Disclosure) -> str:
    """The part of an entry that is the same for every message of a type; cached, since entries are on the hot path."""
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
    """A ledger that was read: its party, plan digest and frames, and whether it was closed normally.

    `resumed` has the number of frames before each resumption of the run.
    """

    path: Path
    party: str
    plan: str
    entries: tuple[Entry, ...]
    closed: bool
    resumed: tuple[int, ...] = ()

    @property
    def last(self) -> tuple[Entry, ...]:
        """The frames since the run was last resumed: earlier ones may have been lost in transit."""
        return self.entries[self.resumed[-1] :] if self.resumed else self.entries


@dataclass(frozen=True)
class Line:
    """One row of the summary: how often a message type was sent one way between a party and a peer."""

    way: Way
    peer: str
    kind: str
    disclosure: Disclosure
    frames: int
    bytes: int


_OPENING_TYPES: dict[str, type] = {"at": float, "ledger": int, "party": str, "plan": str}
_RESUMED, _CLOSED = {"at", "resumed"}, {"at", "closed"}
_ENTRY_TYPES: dict[str, type] = get_type_hints(Entry) | {"way": str}


def read_ledger(path: Path) -> Record:
    """Read a ledger and check its chain; a break is a `LedgerError` that names the line."""
    try:
        written = path.read_bytes()
        whole = written.rfind(b"\n") + 1
        lines = written[:whole].decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"{path} cannot be read: {error}") from error
    contents = [content for content, _ in chain.checked(path, lines, LedgerError)]
    if whole < len(written) or not lines:
        raise LedgerError(
            f"{path} line {len(lines) + 1}: unfinished: the run was cut short, or the end of the file was removed"
        )
    opening = contents[0]
    if opening.get("ledger") != LEDGER_FORMAT or not _has_types(opening, _OPENING_TYPES):
        raise LedgerError(f"{path} line 1: not the opening line of a ledger of format {LEDGER_FORMAT}")
    resumed, entries = list[int](), list[Entry]()
    for number, (content, following) in enumerate(zip_longest(contents[1:], contents[2:]), start=2):
        ended = following is None or following.keys() == _RESUMED
        if content.keys() == _RESUMED:
            resumed.append(len(entries))
        elif not (content.keys() == _CLOSED and ended):
            if not _has_types(content, _ENTRY_TYPES) or content["way"] not in get_args(Way):
                raise LedgerError(f"{path} line {number}: not a valid entry of a frame")
            entries.append(Entry(**content))
    closed = contents[-1].keys() == _CLOSED
    return Record(path, opening["party"], opening["plan"], tuple(entries), closed, tuple(resumed))


def mend(path: Path) -> None:
    """Remove an incomplete last line that a power cut left; a ledger without a complete line is removed.

    Only the party that continues the ledger may do that: for anybody else such a line breaks the chain.
    """
    try:
        content = path.read_bytes() if path.exists() else b"\n"
        whole = content.rfind(b"\n") + 1
        if not whole:
            path.unlink()
        elif whole < len(content):
            os.truncate(path, whole)
    except OSError as error:
        raise LedgerError(f"{path} cannot be repaired: {error.strerror}") from error


def _last_chain(path: Path, party: str, plan_digest: str) -> str:
    """The last hash of a ledger to continue; it must be intact, and of the same party and plan."""
    record = read_ledger(path)
    if (record.party, record.plan) != (party, plan_digest):
        raise LedgerError(f"{path} belongs to another party or plan, so it cannot be continued")
    return chain.last_digest(path)


def _has_types(content: dict[str, Any], types: dict[str, type]) -> bool:
    """Check types; a ledger may come from another party and will be shown, so control characters are refused too."""
    return content.keys() == types.keys() and all(
        type(value) is types[name] and (type(value) is not str or value.isprintable())
        for name, value in content.items()
    )


def summarise(record: Record) -> list[Line]:
    """The ledger's frames counted by way, peer and message type, in order of first appearance."""
    sizes: dict[tuple[Way, str, str, Disclosure], list[int]] = {}
    for entry in record.entries:
        key = entry.way, entry.peer, entry.kind, Disclosure(entry.discloses, entry.to)
        sizes.setdefault(key, []).append(entry.bytes)
    return [Line(*key, len(found), sum(found)) for key, found in sizes.items()]


def reconcile(first: Record, second: Record) -> list[str]:
    """Compare both records of the frames between two parties; returns the differences as text, none if they agree.

    For a resumed run, the frames since the last resumption are compared.
    """
    differences = []
    if first.plan != second.plan:
        differences.append(f"{first.party} and {second.party} recorded different plans")
    return [*differences, *_one_way(first, second), *_one_way(second, first)]


@dataclass(frozen=True)
class Pair:
    """Two parties whose ledgers were compared, and the differences."""

    parties: tuple[str, str]
    differences: tuple[str, ...]


def reconcile_all(records: Iterable[Record]) -> tuple[Pair, ...]:
    return tuple(Pair((a.party, b.party), tuple(reconcile(a, b))) for a, b in combinations(records, 2))


def _one_way(sender: Record, receiver: Record) -> Iterator[str]:
    sent = [e for e in sender.last if e.way == "sent" and e.peer == receiver.party]
    received = [e for e in receiver.last if e.way == "received" and e.peer == sender.party]
    between = f"from {sender.party} to {receiver.party}"
    for number, (out, arrived) in enumerate(zip(sent, received, strict=False), start=1):
        for name in ("kind", "scope", "bytes", "discloses", "to"):
            if getattr(out, name) != getattr(arrived, name):
                sides = f"{getattr(out, name)!r} at {sender.party}, {getattr(arrived, name)!r} at {receiver.party}"
                yield f"frame {number} {between}: {name} differs: {sides}"
    for knows, verb, entries, misses, others in (
        (sender, "sent", sent, receiver, received),
        (receiver, "received", received, sender, sent),
    ):
        for number, entry in enumerate(entries[len(others) :], start=len(others) + 1):
            yield f"frame {number} {between}: {knows.party} {verb} {entry.kind}, {misses.party} has no record of it"
