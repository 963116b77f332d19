"""Parties as threads that run what `unpooled join` and `unpooled resume` run, and one of them cut off at a chosen point.

A cut is the end of a process by `kill -9` or a power cut: from there on the party sends nothing and writes nothing,
whatever its `except` and `finally` clauses try, and its peers see a lost connection. Everything that a party does to the
world outside is an event, numbered for each party: changes of files below the run's folder (an audit hook sees them),
lines of its ledger, and messages. What its own thread does is counted apart from the lines that arriving messages of a
peer add to its ledger, in that peer's thread here as in a thread of the transport elsewhere, so that a number means the
same in each run.

A point is an event and how far it gets: the cut comes before it; or a line, or a new file before it gets its name, is
left torn; or it comes after a message. After any other event is before the next one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from unpooled import atomic
from unpooled.errors import PeerLost
from unpooled.jobs.kinds import Result
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.rehearsal import rehearse
from unpooled.ledger import Ledger
from unpooled.pu import joint
from unpooled.run import folder as run_folder
from unpooled.run.conversation import Linked, take_part
from unpooled.secure import product
from unpooled.transport.mailbox import Mailbox
from unpooled.wire import Frame

_CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink")
_GLANCE_SECONDS = 0.2


class Cut(BaseException):
    """The end of a party's process; nothing in its software expects it."""


class Point(NamedTuple):
    """Where a party is cut off: in its own thread or in that of a peer whose message arrives, and at which event."""

    party: str
    thread: str
    number: int
    how: str
    what: str


@dataclass(eq=False)
class Attempt:
    """One run of all parties, from beginning or resuming to the end of all, with a cut or without.

    `points` are those that it came by, unless there is a cut. `answered` is what each party has really answered to
    products, and `begun` how many models it has really begun: what it had said before it was cut off.
    """

    plan: Plan
    privates: Mapping[str, Private]
    root: Path
    cut: Point | None = None
    points: list[Point] = field(default_factory=list)
    results: dict[str, Result] = field(default_factory=dict)
    errors: dict[str, BaseException] = field(default_factory=dict)
    answered: Counter[str] = field(default_factory=Counter)
    begun: Counter[str] = field(default_factory=Counter)
    _untold: dict[str, Counter[str]] = field(default_factory=dict)
    _dead: set[str] = field(default_factory=set)
    _gone: list[str] = field(default_factory=list)
    _numbers: Counter[tuple[str, str]] = field(default_factory=Counter)
    _boxes: dict[str, Mailbox] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _turn: Any = field(default_factory=threading.Lock)

    def go(self) -> None:
        """Run until all parties have ended."""
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
        home, private = self.root / party, self.privates[party]
        resume = (home / run_folder.PLAN).exists()
        if resume:
            run_folder.private_path(home)
        else:
            run_folder.create(home)
            run_folder.keep_private(home, home.parent / f"{party}.toml")

        def ready() -> Linked:
            rehearse(self.plan, party, private)
            return lambda mailbox: Line(self, mailbox)

        return take_part(self.plan, party, private, home, ready, resume=resume)

    # Events

    def event(self, party: str, what: str, *ways: str, thread: str = "") -> str:
        """Count an event of a party; Cut if that is dead, or to be cut off now. The way, if it is to do half of it."""
        with self._changed:
            if party in self._dead:
                raise Cut
            key = party, thread or party
            number, self._numbers[key] = self._numbers[key], self._numbers[key] + 1
            if self.cut is None:
                self.points += [Point(*key, number, how, what) for how in ("before", *ways)]
                return ""
            if (*key, number) != self.cut[:3]:
                return ""
        if self.cut.how != "before":
            return self.cut.how
        self.die(party)
        raise Cut

    def die(self, party: str) -> None:
        with self._changed:
            self._dead.add(party)
            box = self._boxes.get(party)
        if box is not None:
            box._note(lambda _: Cut())  # type: ignore[arg-type, return-value]
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
        untold = self._untold.pop(party, Counter())
        self.answered[party] += untold["columns"]
        self.begun[party] += untold["models"]
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

    def send(self, peer: str, frame: Frame) -> None:
        try:
            self._attempt.deliver(self.mailbox.party, peer, frame)
        except PeerLost:
            self.mailbox.check()
            raise

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
    path = Path(os.fsdecode(args[1] if event == "os.rename" else args[0]))
    if path.is_absolute() and attempt.root not in path.parents:  # a relative one is in a folder that is being removed
        return
    name = path.name
    if name.endswith(atomic._UNFINISHED):
        name = name[1:].rsplit(".", 2)[0]  # without what is random in it
    if event == "os.rename" and attempt.event(party, f"{event} {name}", "torn") == "torn":
        source = Path(args[0])
        content = source.read_bytes()
        del _AT_WORK[threading.current_thread()]  # this is not the party's doing
        try:
            source.write_bytes(content[: len(content) // 2])
        finally:
            _AT_WORK[threading.current_thread()] = attempt
        attempt.die(party)
        raise Cut
    if event != "os.rename":
        attempt.event(party, f"{event} {name}")


class _Torn:
    """A file that takes half of what is written to it."""

    def __init__(self, file: Any, cut: Callable[[], None]) -> None:
        self._file, self._cut = file, cut

    def write(self, line: bytes) -> int:
        self._file.write(line[: len(line) // 2])
        self._cut()
        raise Cut


def _see_lines(self: Ledger, members: str) -> None:
    """Stand before every line of a ledger, whoever's thread adds it."""
    found = _attempt()
    if found is None:
        return _append(self, members)
    attempt, thread = found
    party = self.path.parent.name
    what = "line " + members.partition(', "discloses"')[0]
    if attempt.event(party, what, "torn", thread=thread) != "torn":
        return _append(self, members)
    file = self._file
    self._file = _Torn(file, lambda: attempt.die(party))  # type: ignore[assignment]
    try:
        return _append(self, members)
    finally:
        self._file = file


def _see_counts(engine: Any, call: Any) -> None:
    before = sum(engine.answered.values())
    _count_questions(engine, call)
    if found := _attempt():
        found[0].untold(found[1], "columns", sum(engine.answered.values()) - before)


def _see_models(team: Any, left: int) -> int:
    bags = _next_bags(team, left)
    if found := _attempt():
        found[0].untold(found[1], "models", bags)
    return bags


_append, _count_questions, _next_bags = Ledger._append, product.count_questions, joint._next_bags


def watch() -> None:
    """Let this process simulate from now on; files are not waited for until they are on the disk, for none is lost."""
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # no worker processes, which would escape
    if Ledger._append is not _see_lines:
        sys.addaudithook(_see_files)
        Ledger._append = _see_lines  # type: ignore[method-assign]
        product.count_questions = _see_counts
        joint._next_bags = _see_models
        atomic._flush = lambda *_: None
