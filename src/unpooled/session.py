"""A session: one party's side of a conversation. All protocols communicate through it.

`rng` and `secret` never mix: `rng` is seeded, for reproducible statistics; `secret` is the operating system's
randomness, for keys and masks, and is never stored.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar, overload

import numpy as np

from unpooled.control import Abort, Goodbye, Waiting, Working, spoken
from unpooled.errors import LedgerError, ProtocolError, UnpooledError, WireError, origin_of, told
from unpooled.ledger import Ledger
from unpooled.transport.mailbox import FREE_BYTES, SMALL_BYTES, Mailbox
from unpooled.wire import Frame, Header, disclosure_of, encode, kind_of, read_body

ITEM_BYTES = 128
"""An upper bound for a short text, or for what surrounds an array: to be added for each where a message has many."""

Observer = Callable[[str, object], None]
"""Told of everything that this party sends, receives or is shown: the peer, and the message or what was shown."""

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


@lru_cache(maxsize=1024)
def _awaited(kinds: tuple[type, ...], where: str) -> str:
    names = " or ".join(kind.__name__ for kind in kinds)
    return f"{names} (scope '{where}')" if where else names


class Transport(Protocol):
    """Moves frames. Received frames are in the mailbox; `networked` says whether frames leave the process.

    A frame that is sent with `more` may be held back until the next one to that peer, or until `flush` or `close`.
    """

    networked: bool
    mailbox: Mailbox

    def open(self) -> None: ...

    def send(self, peer: str, frame: Frame, *, more: bool = False) -> None: ...

    def flush(self) -> None: ...

    def can_send(self, peer: str) -> bool: ...

    def close(self) -> None: ...


def draws_of(party: str, seed: int) -> np.random.Generator:
    """A party's reproducible draws, in the order in which its part of a job makes them."""
    return np.random.default_rng([seed, zlib.crc32(party.encode())])


class Session:
    """Send, receive, and name the current place in the protocol.

    `where` is the current scope, such as ``fit/tree 3/level 2``, and `sent` the number of bytes sent; `guard` may
    refuse a message type or size before it is sent; `watcher` is told the progress of each scope, and `weights` says of
    some scopes how much work each of their steps is. `observer`, in simulations alone, is told all that passes here.
    """

    def __init__(
        self,
        transport: Transport,
        ledger: Ledger,
        *,
        seed: int,
        timeout: float,
        guard: Callable[[type, int], None] | None = None,
        watcher: Callable[[str, int, int], None] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.party = transport.mailbox.party
        self.peers = transport.mailbox.peers
        self.networked = transport.networked
        self.rng = draws_of(self.party, seed)
        self.secret = random.SystemRandom()
        self._transport = transport
        self._ledger = ledger
        self._timeout = timeout
        self._guard = guard
        self._watcher = watcher
        self._observer = observer
        self._last_word = time.monotonic()
        self._follows = False
        self._holds = False
        transport.mailbox.tell_waiting = lambda whom: self._tell(Waiting(whom))
        self.where = ""
        self.sent = 0
        self.weights: dict[str, Sequence[int]] = {}

    def open(self) -> None:
        self._transport.open()

    def agreed(self) -> None:
        """The plan is agreed with all peers; before that, they may send only little."""
        self._transport.mailbox.agreed()

    @contextmanager
    def scope(self, name: str, index: int | None = None) -> Iterator[None]:
        """Name the part of the protocol that the block belongs to; scopes nest."""
        outer, part = self.where, name if index is None else f"{name} {index}"
        self.where = f"{outer}/{part}" if outer else part
        try:
            yield
        finally:
            self.where = outer

    def progress(self, done: int, total: int) -> None:
        """Report the progress of the current scope; now and then this sends peers a keep-alive.

        A party that follows another's progress shows that instead of its own.
        """
        if self._watcher and not self._follows:
            self._watcher(self.where, done, total)
        now = time.monotonic()
        if now - self._last_word >= self._timeout / 4:
            self._last_word = now
            self._tell(Working())

    def follow(self, where: str, done: int, total: int) -> None:
        """From now on show the progress of another party, which this one waits for or serves."""
        self._follows = True
        if self._watcher:
            self._watcher(where, done, total)

    def send(self, peer: str, message: object, *, more: bool = False) -> None:
        """Send a message; waits while the peer's queue is full. On return it was copied, so its arrays may change.

        With `more` another message to this peer follows at once: a small one may wait for it, to travel together. It is
        on its way at the latest when this party waits for anybody, or ends.
        """
        self._transport.mailbox.check(
            "was about to send {} (scope '{}') to {}", type(message).__name__, self.where, peer
        )
        frame = encode(message, self.where)
        if self._guard:
            self._guard(type(message), frame.size)
        self.observe(peer, message)
        self._dispatch(peer, type(message), frame, more=more)

    def observe(self, peer: str, what: object) -> None:
        """Tell an observer, if there is one, what this party said to a peer, or learned from it."""
        if self._observer:
            self._observer(peer, what)

    @overload
    def recv(self, peer: str, kind: type[A], /, *, at_most: int = FREE_BYTES) -> A: ...
    @overload
    def recv(self, peer: str, kind: type[A], kind2: type[B], /, *, at_most: int = FREE_BYTES) -> A | B: ...
    @overload
    def recv(
        self, peer: str, kind: type[A], kind2: type[B], kind3: type[C], /, *, at_most: int = FREE_BYTES
    ) -> A | B | C: ...

    @overload
    def recv(self, peer: str, /, *kinds: type, at_most: int = FREE_BYTES) -> Any: ...

    def recv(self, peer: str, *kinds: type, at_most: int = FREE_BYTES) -> object:
        """The next message from a peer, which must be of one of these types; arrays in it are read-only.

        `at_most` limits the bytes of its content, with a little extra for lengths and names; a larger message is
        refused before more than its head is read.
        """
        self._flush()
        awaited = _awaited(kinds, self.where)
        judge = partial(self._judge, peer, awaited, kinds, at_most)
        header = self._transport.mailbox.take(peer, awaited, self._timeout, judge)
        kind = next(kind for kind in kinds if header.kind == kind_of(kind))
        try:
            message: object = read_body(header, kind)
        except WireError as error:
            raise WireError(f"invalid message from {peer} (scope '{header.scope}'): {error}") from None
        self.observe(peer, message)
        return message

    def _judge(self, peer: str, awaited: str, kinds: tuple[type, ...], at_most: int, header: Header, size: int) -> None:
        if all(header.kind != kind_of(kind) for kind in kinds):
            got = f"{header.kind} (scope '{header.scope}')"
            raise ProtocolError(f"{self.party} expected {awaited} from {peer}, got {got}")
        if size > at_most + SMALL_BYTES:
            sent = f"{peer} sent {header.kind} (scope '{header.scope}') with {size} bytes"
            raise ProtocolError(f"{sent}, at most {at_most + SMALL_BYTES} are allowed here")

    def finish(self) -> None:
        """Say goodbye to every peer and wait for theirs: after this, all have done their part."""
        for peer in self.peers:
            self.send(peer, Goodbye())
        for peer in self.peers:
            self._transport.mailbox.take_goodbye(peer, self._timeout)
        self._end()

    def abort(self, error: BaseException) -> None:
        """Tell every peer that can be told without waiting that this party failed, and leave.

        The notice is sent even if the ledger cannot be written, and an error in sending it does not replace the first.
        """
        origin = origin_of(error, self.party)
        notice = Abort(origin, spoken(told(error) if origin == self.party else str(error)))
        for peer in self.peers:
            if self._transport.can_send(peer):
                frame = encode(notice, self.where)
                with suppress(LedgerError):
                    self._record(peer, Abort, frame)
                with suppress(UnpooledError):
                    self._transport.send(peer, frame)
        with suppress(LedgerError, OSError):
            self._end()

    def _tell(self, news: object) -> None:
        """Tell all peers that can be told without waiting."""
        for peer in self.peers:
            if self._transport.can_send(peer):
                self._dispatch(peer, type(news), encode(news, self.where))

    def _dispatch(self, peer: str, kind: type, frame: Frame, *, more: bool = False) -> None:
        self._record(peer, kind, frame)
        self._transport.send(peer, frame, more=more)
        self._holds |= more

    def _flush(self) -> None:
        """Send what may be held back: a party that waits has sent everything."""
        if self._holds:
            self._holds = False
            self._transport.flush()

    def _record(self, peer: str, kind: type, frame: Frame) -> None:
        self._ledger.record("sent", peer, kind_of(kind), self.where, frame.size, disclosure_of(kind))
        self.sent += frame.size

    def _end(self) -> None:
        self._transport.close()
        self._ledger.close()
