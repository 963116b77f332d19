"""Parties as threads that run the code of `unpooled join` and `unpooled resume`, one of them cut off at a chosen point.

A cut is the end of a process by `kill -9`: from then on the party sends and writes nothing, whatever its `except` and
`finally` clauses try, and its peers see a lost connection. Everything that a party does to the outside world is an
event, numbered per party: file changes below the run folder (seen by an audit hook), lines of its ledger, and messages.
Events of its own thread are counted apart from the ledger lines of arriving messages, which are written in the peer's
thread here, as in a transport thread elsewhere, so that a number means the same in each run.

A point is where a cut happens: before an event, and after a message. After any other event is before the next one. A
ledger line is cut in its middle, and a file that is about to get its name is left half written: repairing that leads to
the same state as a cut before it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from unpooled import atomic
from unpooled.budget.places import Places
from unpooled.budget.row_sets import ROWS
from unpooled.data.sources import TableSettings
from unpooled.errors import PeerLost
from unpooled.jobs import preflight, work
from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import CheckedJob, Result
from unpooled.ledger import Ledger
from unpooled.run import folder as run_folder
from unpooled.run.conversation import Linked, take_part
from unpooled.secure import engine
from unpooled.transport.mailbox import Mailbox
from unpooled.vertical.resume import Loans
from unpooled.wire import Frame

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink")
_GLANCE_SECONDS = 0.2
BEGUN = "begun"


class Cut(BaseException):
    """The end of a party's process; nothing in its software expects it."""


class Point(NamedTuple):
    """Where a party is cut off: in its own thread or in that of a peer whose message arrives, and at which event."""

    party: str
    thread: str
    number: int
    what: str


@dataclass(eq=False)
class Attempt:
    """One run of all parties, from beginning or resuming to the end of all, with a cut or without.

    `points` are those that it came by, unless there is a cut. `told` is by party what it has really answered, in all
    ways that are counted, and how many models it has really begun: what it had said before it was cut off.
    """

    plan: Plan
    privates: Mapping[str, Private]
    root: Path
    cut: Point | None = None
    points: list[Point] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    told: dict[str, Counter[str]] = field(default_factory=dict)
    lines: dict[str, threading.Lock] = field(default_factory=lambda: defaultdict(threading.Lock))
    _untold: dict[str, Counter[str]] = field(default_factory=dict)
    _dead: set[str] = field(default_factory=set)
    _gone: list[str] = field(default_factory=list)
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter)
    _boxes: dict[str, Mailbox] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _turn: Any = field(default_factory=threading.Lock)

    def go(self) -> None:
        """Run until all parties have ended; who would make the folders that they share here depends on chance."""
        for folder in ("books", "anchors"):
            atomic.make_folder(self.root / folder)
        threads = [threading.Thread(target=self._run, args=(party,), name=party) for party in self.plan.parties]
        for thread in threads:
            _AT_WORK[thread] = self
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(_GLANCE_SECONDS)
        finally:
            for thread in threads:
                del _AT_WORK[thread]

    def _run(self, party: str) -> None:
        try:
            self.results[party] = self._as_a_person_would(party)
        except BaseException as error:
            self.errors[party] = error
        finally:
            self.leave(party, "the connection was lost")

    def _as_a_person_would(self, party: str) -> Result:
        """What `unpooled join` does, or `unpooled resume` in a folder where a run has begun."""
        home, job = self.root / party, checked(self.plan, party, self.privates[party])
        peers = tuple(peer for peer in self.plan.parties if peer != party)
        resume = (home / run_folder.PLAN).exists()
        if resume:
            run_folder.private_path(home)
        else:
            run_folder.create(home)
            run_folder.keep_private(home, home.parent / f"{party}.toml")

        def ready() -> tuple[CheckedJob[Any], Linked]:
            with_table = preflight.loaded(job)
            preflight.preflight(with_table)
            return with_table, lambda ledger: Line(self, Mailbox(party, peers, ledger))

        return take_part(job, home, ready, resume=resume, books=self.books)

    @property
    def books(self) -> Places:
        return Places(self.root / "books", self.root / "anchors")

    # Events

    def event(self, party: str, what: str, thread: str = "", half: Callable[[], None] | None = None) -> None:
        """Count an event of a party; Cut if that is dead, or to be cut off now, when it has perhaps done `half`."""
        with self._changed:
            if party in self._dead:
                raise Cut
            key = party, thread or party
            number, self._numbers[key] = self._numbers[key], self._numbers[key] + 1
            if self.cut is None:
                self.points.append(Point(*key, number, what))
            if self.cut is None or (*key, number) != self.cut[:3]:
                return
        if half:
            half()
        self.die(party)
        raise Cut

    def die(self, party: str) -> None:
        with self._changed:
            self._dead.add(party)
            box = self._boxes.get(party)
        if box is not None:
            box._note(lambda _: Cut())
        self.leave(party, "the connection was lost")

    def alive(self, party: str) -> bool:
        return party not in self._dead

    # The network

    def arrive(self, party: str, mailbox: Mailbox) -> None:
        """Wait for all others; PeerLost if one of them is gone."""
        with self._changed:
            self._boxes[party] = mailbox
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._gone or len(self._boxes) == len(self.plan.parties))
            if self._gone:
                raise PeerLost(f"{self._gone[0]} did not come", self._gone[0])

    def leave(self, party: str, reason: str) -> None:
        with self._changed:
            self._gone.append(party)
            self._changed.notify_all()
            others = [box for peer, box in self._boxes.items() if peer != party]
        for box in others:
            box.lose(party, reason)

    def deliver(self, party: str, peer: str, frame: Frame) -> None:
        self.event(party, "message")
        try:
            self._boxes[peer].deliver(party, frame.joined(), self.plan.timeout)
        except Cut:  # the peer's, as the message arrived: it is lost on its way
            if self.alive(peer):
                raise
        self.told.setdefault(party, Counter()).update(self._untold.pop(party, Counter()))
        self.event(party, "message sent")

    def untold(self, party: str, what: str, count: int) -> None:
        """Something a party has counted, and that its next message will tell."""
        self._untold.setdefault(party, Counter())[what] += count


class Line:
    """One party's end of the connections: the transport that `take_part` is given."""

    networked = False

    def __init__(self, attempt: Attempt, mailbox: Mailbox) -> None:
        self.mailbox = mailbox
        mailbox._turn = attempt._turn  # threads that all work in small steps get in one another's way
        self._attempt = attempt

    def open(self) -> None:
        self._attempt.arrive(self.mailbox.party, self.mailbox)
        self.mailbox.take_turn()

    def send(self, peer: str, frame: Frame, *, more: bool = False) -> None:  # noqa: ARG002
        try:
            self._attempt.deliver(self.mailbox.party, peer, frame)
        except PeerLost:
            self.mailbox.check()
            raise

    def flush(self) -> None:
        """Nothing is held back."""

    def can_send(self, peer: str) -> bool:
        attempt = self._attempt
        return peer in attempt._boxes and attempt.alive(self.mailbox.party) and peer not in attempt._gone

    def close(self) -> None:
        self.mailbox.close()
        alive = self._attempt.alive(self.mailbox.party)
        self._attempt.leave(self.mailbox.party, "left the conversation" if alive else "the connection was lost")


_AT_WORK: dict[threading.Thread, Attempt] = {}
"""The attempts whose threads run now, one at a time in a process; a thread has its party's name."""


def _attempt() -> tuple[Attempt, str] | None:
    thread = threading.current_thread()
    return (_AT_WORK[thread], thread.name) if thread in _AT_WORK else None


def _see_files(event: str, args: tuple[Any, ...]) -> None:
    """Stand before every change of files by a party's thread."""
    if event != "open" and event not in _CHANGES:
        return
    found = _attempt()
    if found is None:
        return
    attempt, party = found
    if event == "open" and not args[2] & (os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND):
        return
    if isinstance(args[0], int):  # a file that is open already
        return
    path = Path(os.fsdecode(args[1] if event == "os.rename" else args[0]))
    if path.is_absolute() and attempt.root not in path.parents:  # a relative one is in a folder that is being removed
        return
    name = path.name
    if name.endswith(atomic._UNFINISHED):
        name = name[1:].rsplit(".", 2)[0]  # without what is random in it
    if path.parent.name == ROWS:
        name = ROWS  # the name of a set is random too
    attempt.event(party, f"{event} {name}", half=partial(_tear, Path(args[0])) if event == "os.rename" else None)


def _tear(path: Path) -> None:
    """Leave half of a file; this is not the party's doing, so it is no event."""
    attempt, content = _AT_WORK.pop(threading.current_thread()), path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    _AT_WORK[threading.current_thread()] = attempt


def _see_lines(self: Ledger, members: str) -> None:
    """Stand before every line of a ledger, whoever's thread adds it."""
    found = _attempt()
    if found is None:
        return _append(self, members)
    attempt, thread = found
    party = self.path.parent.name
    line = f'{{"at": {time.time():.3f}, {members}'.encode()
    half = partial(self._file.write, line[: len(line) // 2])
    with attempt.lines[party]:  # nothing comes after a torn line
        attempt.event(party, "line " + members.partition(', "discloses"')[0], thread, half)
        return _append(self, members)


def _see_counts(of: Any, name: str, digest: str, amount: int, most: int | None) -> None:
    _count(of, name, digest, amount, most)
    if found := _attempt():
        found[0].untold(found[1], name, amount)


def _see_models(self: Loans, models: int) -> Any:
    notebook = _begin(self, models)
    if found := _attempt():
        found[0].untold(found[1], BEGUN, models)
    return notebook


@lru_cache(maxsize=16)
def _table(settings: str, party: str, folder: Path | None) -> Any:
    return _read_table(TableSettings.model_validate_json(settings), party, folder)


_append, _count, _begin = Ledger._append, engine._count, Loans.begin
_read_table, _clean_table = work.load, work.clean


def _clean(table: Any, settings: Any, ids: Any = None) -> Any:
    """What cleaning made of the same table before."""
    kept = _CLEANED.get(id(table))
    if kept is None or kept[0] is not table:
        kept = _CLEANED[id(table)] = table, _clean_table(table, settings, ids)
    return kept[1]


_CLEANED: dict[int, Any] = {}


@lru_cache(maxsize=1)
def _see_files_from_now_on() -> None:
    sys.addaudithook(_see_files)  # which stays, and lets all threads pass but those at work


@contextmanager
def watching() -> Iterator[None]:
    """Let this process simulate: it sees what parties do, has no worker processes, which would escape, and is fast.

    Tables are read and cleaned once, for they do not change, and files are not waited for until they are on the disk.
    """
    _see_files_from_now_on()
    replaced = (
        (Ledger, "_append", _see_lines),
        (engine, "_count", _see_counts),
        (Loans, "begin", _see_models),
        (work, "load", lambda settings, party, folder: _table(settings.model_dump_json(), party, folder)),
        (work, "clean", _clean),
        (atomic, "_flush", lambda *_: None),
    )
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, LOKY_MAX_CPU_COUNT="1"))
        for owner, name, instead in replaced:
            stack.enter_context(patch.object(owner, name, instead))
        yield
