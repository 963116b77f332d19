"""One mailbox by itself: queues, room, bad news, and who waits for whom."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unpooled.control import Abort, Goodbye, Waiting, Working
from unpooled.errors import Deadlock, PeerError, PeerFailed, PeerLost, PeerSilent, ProtocolError
from unpooled.ledger import Entry, Ledger, read_ledger
from unpooled.transport.mailbox import EARLY_BYTES, FREE_BYTES, SMALL_BYTES, Mailbox
from unpooled.transport.waiting import FRAME_BYTES, Wait, WaitingRoom
from unpooled.wire import encode, kind_of, message, read_body

SOON = 0.05
LONG = 100.0


@message(discloses="a number", to="the receiver")
class Number:
    value: int


def number(value: int, scope: str = "") -> bytes:
    return encode(Number(value), scope).joined()


GOODBYE = encode(Goodbye()).joined()
SIZE = len(number(0))


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(tmp_path / "ledger.jsonl", "bank", "abc")
    yield ledger
    ledger.close()


@pytest.fixture
def box(ledger: Ledger) -> Mailbox:
    """The bank's, with room for two small messages of each peer."""
    return Mailbox("bank", ("telco", "shop"), ledger, room=2 * (SIZE + FRAME_BYTES))


def taken(box: Mailbox, peer: str) -> int:
    return read_body(box.take(peer, "Number", SOON), Number).value


def entries(ledger: Ledger) -> tuple[Entry, ...]:
    return read_ledger(ledger.path).entries


class Waiter(threading.Thread):
    """Does something that may wait, and keeps what came of it."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.act = act
        self.found: object = None
        self.start()

    def run(self) -> None:
        try:
            self.found = self.act()
        except PeerError as error:
            self.found = error

    def waits(self) -> bool:
        self.join(SOON)
        return self.is_alive()

    def outcome(self) -> object:
        self.join(LONG / 2)
        assert not self.is_alive()
        return self.found


def test_each_peers_messages_come_in_their_order(box: Mailbox) -> None:
    for peer, value in (("telco", 1), ("shop", 2), ("telco", 3), ("shop", 4)):
        box.deliver(peer, number(value))
    assert [taken(box, peer) for peer in ("shop", "telco", "telco", "shop")] == [2, 1, 3, 4]


def test_what_arrives_is_recorded_though_nobody_takes_it(box: Mailbox, ledger: Ledger) -> None:
    box.deliver("telco", number(7, "fit"))
    box.deliver("shop", number(7).replace(b"Number", b"Rumour"))
    known, unknown = entries(ledger)
    assert (known.way, known.peer, known.kind, known.scope) == ("received", "telco", kind_of(Number), "fit")
    assert (known.bytes, known.discloses, known.to) == (SIZE + 3, "a number", "the receiver")
    assert (unknown.peer, unknown.discloses) == ("shop", "unknown: this side does not know the kind")


def test_bytes_that_are_not_a_message_end_every_wait(box: Mailbox, ledger: Ledger) -> None:
    box.deliver("telco", b"GET / HTTP/1.1")
    for peer in ("telco", "shop"):
        with pytest.raises(PeerFailed, match="telco") as caught:
            box.take(peer, "Number", LONG)
        assert caught.value.origin == "telco"
    assert [(e.kind, e.bytes, e.discloses) for e in entries(ledger)] == [("(unreadable)", 14, "nothing: not a message")]


def test_bad_news_come_before_messages_and_the_first_of_them_stays(box: Mailbox) -> None:
    box.deliver("shop", number(1))
    box.deliver("telco", encode(Abort("telco", "ValueError")).joined())
    box.deliver("shop", encode(Abort("shop", "PeerFailed")).joined())
    box.lose("shop", "hung up")
    with pytest.raises(PeerFailed, match=r"telco.*ValueError.*bank.*Number.*shop"):
        box.take("shop", "Number", LONG)
    with pytest.raises(PeerFailed, match=r"telco.*ValueError.*bank"):
        box.check()


def test_an_abort_that_cannot_be_read_is_bad_news_all_the_same(box: Mailbox) -> None:
    box.deliver("telco", encode(Abort("telco", "ValueError")).joined()[:-1])
    with pytest.raises(PeerFailed, match=r"telco.*Abort"):
        box.check()


def test_a_lost_peer_is_bad_news_unless_it_had_finished(box: Mailbox) -> None:
    box.deliver("telco", GOODBYE)
    box.lose("telco", "the connection was lost")
    box.check()
    box.lose("shop", "the connection was lost")
    with pytest.raises(PeerLost, match="shop") as caught:
        box.check()
    assert caught.value.origin == "shop"


def test_a_peer_that_has_finished_is_not_waited_for(box: Mailbox) -> None:
    box.deliver("telco", number(1))
    box.deliver("telco", GOODBYE)
    assert taken(box, "telco") == 1
    with pytest.raises(PeerLost, match=r"telco.*bank.*Number"):
        box.take("telco", "Number", LONG)
    box.take_goodbye("telco", LONG)


def test_a_goodbye_is_refused_while_a_message_lies_there_or_another_peer_failed(box: Mailbox) -> None:
    box.deliver("telco", number(1, "fit"))
    box.deliver("telco", GOODBYE)
    with pytest.raises(ProtocolError, match=r"telco.*Number.*'fit'"):
        box.take_goodbye("telco", LONG)
    box.lose("shop", "hung up")
    with pytest.raises(PeerLost, match="shop: hung up"):
        box.take_goodbye("telco", LONG)


def test_waiting_ends_with_the_timeout(box: Mailbox) -> None:
    with pytest.raises(PeerSilent, match=r"bank.*0\.05 s.*Number.*telco"):
        box.take("telco", "Number", SOON)


@pytest.mark.parametrize(
    ("news", "error"),
    [
        (lambda box: box.lose("shop", "hung up"), PeerLost),
        (lambda box: box.deliver("shop", encode(Abort("shop", "ValueError")).joined()), PeerFailed),
        (lambda box: box.deliver("shop", b"garbage"), PeerFailed),
        (lambda box: box.deliver("telco", GOODBYE), PeerLost),
    ],
)
def test_news_reach_a_wait_that_has_begun(
    box: Mailbox, news: Callable[[Mailbox], None], error: type[PeerError]
) -> None:
    waiter = Waiter(lambda: box.take("telco", "Number", LONG))
    assert waiter.waits()
    news(box)
    assert type(waiter.outcome()) is error


# room


def test_who_delivers_to_a_full_queue_waits_until_something_is_taken(box: Mailbox) -> None:
    box.deliver("telco", number(1))
    box.deliver("telco", number(2))
    box.deliver("shop", number(9))  # a queue of its own
    waiter = Waiter(lambda: box.deliver("telco", number(3)))
    assert waiter.waits()
    assert taken(box, "telco") == 1
    assert waiter.outcome() is None
    assert [taken(box, "telco") for _ in range(2)] == [2, 3]


def test_a_frame_larger_than_the_room_is_let_in_when_there_is_any(box: Mailbox) -> None:
    box.deliver("telco", number(2**800))
    assert taken(box, "telco") == 2**800


def test_delivering_to_a_full_queue_ends_with_the_timeout(box: Mailbox) -> None:
    box.deliver("telco", number(1))
    box.deliver("telco", number(2))
    with pytest.raises(PeerSilent, match=r"telco.*0\.05 s.*bank") as caught:
        box.deliver("telco", number(3), SOON)
    assert caught.value.origin == "bank"


def test_bad_news_need_no_room(box: Mailbox) -> None:
    box.deliver("telco", number(1))
    box.deliver("telco", number(2))
    box.deliver("telco", encode(Abort("telco", "ValueError")).joined(), SOON)
    with pytest.raises(PeerFailed, match=r"telco.*ValueError"):
        box.check()


def test_a_closed_mailbox_takes_nothing_and_lets_go_of_those_who_wait(box: Mailbox) -> None:
    box.deliver("telco", number(1))
    box.deliver("telco", number(2))
    waiter = Waiter(lambda: box.deliver("telco", number(3)))
    assert waiter.waits()
    box.close()
    assert type(waiter.outcome()) is PeerLost
    with pytest.raises(PeerLost, match="bank"):
        box.deliver("shop", number(1))


# large frames


@message(discloses="nothing: made for this test")
class Blob:
    data: bytes


def blob(size: int) -> bytes:
    return encode(Blob(bytes(size))).joined()


def test_until_the_plan_is_agreed_on_little_is_let_in(ledger: Ledger) -> None:
    box = Mailbox("bank", ("telco",), ledger)
    box.deliver("telco", blob(EARLY_BYTES))
    waiter = Waiter(lambda: box.deliver("telco", blob(1)))
    assert waiter.waits()
    assert box.knock("telco", blob(10), EARLY_BYTES) is False
    box.agreed()
    assert waiter.outcome() is None
    assert box.knock("telco", blob(10), FREE_BYTES) is False


def test_a_large_frame_waits_at_the_door_until_it_is_awaited(ledger: Ledger) -> None:
    box = Mailbox("bank", ("telco",), ledger)
    box.agreed()
    frame, asked = blob(FREE_BYTES), list[tuple[str, int]]()

    def come() -> bool:
        waited = box.knock("telco", frame[:2048], len(frame))
        box.deliver("telco", frame)
        return waited

    box.deliver("telco", number(1))
    waiter = Waiter(come)
    assert waiter.waits()
    assert box.somebody_waits()
    assert taken(box, "telco") == 1, "what came before comes first"
    assert waiter.waits()
    found = box.take("telco", "Blob", LONG, judge=lambda header, size: asked.append((header.kind, size)))
    assert len(read_body(found, Blob).data) == FREE_BYTES
    assert asked == [(kind_of(Blob), len(frame))] * 2
    assert waiter.outcome() is True
    assert not box.somebody_waits()


def test_a_frame_that_came_before_the_plan_was_agreed_on_is_let_in_with_the_agreement(ledger: Ledger) -> None:
    box, frame = Mailbox("bank", ("telco",), ledger), blob(EARLY_BYTES)
    waiter = Waiter(lambda: box.knock("telco", frame[:2048], len(frame)))
    assert waiter.waits()
    box.agreed()
    assert waiter.outcome() is True
    box.deliver("telco", frame)
    assert len(read_body(box.take("telco", "Blob", LONG), Blob).data) == EARLY_BYTES


def test_a_large_frame_that_is_not_awaited_is_known_by_its_head(ledger: Ledger) -> None:
    box = Mailbox("bank", ("telco",), ledger)
    waiter = Waiter(lambda: box.knock("telco", blob(2048), 2**32))
    assert waiter.waits()
    with pytest.raises(ProtocolError, match=r"telco.*Blob"):
        box.take_goodbye("telco", LONG)
    box.leave()
    assert type(waiter.outcome()) is PeerLost
    assert entries(ledger) == (), "it has not arrived"


@pytest.mark.parametrize("news", [Goodbye(), Working(), Waiting("shop"), Abort("telco", "x" * 5000)])
def test_news_are_never_long(box: Mailbox, news: object) -> None:
    with pytest.raises(ProtocolError, match=r"telco.*65537"):
        box.check_size("telco", encode(news).joined()[:2048], SMALL_BYTES + 1)
    with pytest.raises(PeerFailed, match="telco") as caught:
        box.take("shop", "Number", LONG)
    assert caught.value.origin == "telco"


# the waiting room


def wait(whom: str, *, over: bool = False) -> Wait:
    return Wait(whom, f"Word{len(whom)}", lambda: over)


def test_a_circle_is_noticed_when_it_closes_and_told_without_the_bystanders() -> None:
    room = WaitingRoom()
    room.enter("guest", wait("bank"))
    room.enter("bank", wait("telco"))
    room.enter("telco", wait("shop"))
    with pytest.raises(Deadlock) as caught:
        room.enter("shop", wait("bank"))
    assert re.fullmatch("shop .*Word4 .*bank; bank .*Word5 .*telco; telco .*Word4 .*shop", str(caught.value))
    assert caught.value.origin == "shop"
    room.enter("shop", wait("nobody"))  # who was told does not wait any more


@pytest.mark.parametrize("over", [("bank",), ("telco",), ("bank", "telco")])
def test_a_wait_that_is_over_is_part_of_no_circle(over: tuple[str, ...]) -> None:
    room = WaitingRoom()
    room.enter("bank", wait("telco", over="bank" in over))
    room.enter("telco", wait("bank", over="telco" in over))
    room.leave("telco")
    room.leave("bank")
    room.enter("telco", wait("bank"))


# silence


def test_a_peer_that_said_it_waits_is_not_the_silent_one(box: Mailbox) -> None:
    box.deliver("telco", encode(Waiting("shop")).joined())
    with pytest.raises(PeerSilent, match=r"0\.05 s.*Number.*telco.*shop") as caught:
        box.take("telco", "Number", 0.05)
    assert caught.value.origin == "shop"


def test_a_peer_that_spoke_again_waits_no_more(box: Mailbox) -> None:
    box.deliver("telco", encode(Waiting("shop")).joined())
    box.deliver("telco", number(1))
    box.take("telco", "Number", 1)
    with pytest.raises(PeerSilent) as caught:
        box.take("telco", "Number", 0.05)
    assert caught.value.origin == "telco"


def test_peers_that_wait_for_this_party_or_for_each_other_do_not_lead_in_a_circle(box: Mailbox) -> None:
    box.deliver("telco", encode(Waiting("shop")).joined())
    box.deliver("shop", encode(Waiting("telco")).joined())
    with pytest.raises(PeerSilent) as caught:
        box.take("telco", "Number", 0.05)
    assert caught.value.origin == "shop"
    box.deliver("telco", encode(Waiting("bank")).joined())
    with pytest.raises(PeerSilent) as caught:
        box.take("telco", "Number", 0.05)
    assert caught.value.origin == "telco"


def test_half_way_through_a_wait_is_told_once(box: Mailbox) -> None:
    told: list[str] = []
    box.tell_waiting = told.append
    with pytest.raises(PeerSilent):
        box.take("telco", "Number", 0.1)
    assert told == ["telco"]
    box.deliver("telco", number(1))
    box.take("telco", "Number", 0.1)
    assert told == ["telco"]


# what a curious or careless peer may say


def test_a_peer_that_goes_on_after_its_goodbye_is_refused(box: Mailbox) -> None:
    box.deliver("telco", encode(Goodbye()).joined())
    with pytest.raises(ProtocolError, match=r"telco.*Number"):
        box.deliver("telco", number(1))
    with pytest.raises(PeerFailed, match=r"telco.*Number"):
        box.check()


def test_a_peer_cannot_flood_with_news(box: Mailbox) -> None:
    frame = encode(Waiting("shop")).joined()
    for _ in range(10_000):
        box.deliver("telco", frame)
    with pytest.raises(ProtocolError, match="10000"):
        box.deliver("telco", frame)


def test_what_a_peer_says_is_shown_as_one_printable_line(box: Mailbox) -> None:
    box.deliver("telco", encode(Abort("nobody-here", "\x1b[2J\n" + "x" * 10_000)).joined())
    with pytest.raises(PeerFailed) as caught:
        box.check()
    assert caught.value.origin == "telco"
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700


# work that takes long


class Clock:
    """A time that goes on by a tenth of the timeout whenever somebody looks: the machine's own load has no part."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += SOON / 10
        return self.now


def waited(box: Mailbox, monkeypatch: pytest.MonkeyPatch, *news: tuple[str, object]) -> float:
    """How many timeouts long the bank waits for the telco, if half-way through it hears this news."""
    clock = Clock()
    monkeypatch.setattr("unpooled.transport.mailbox.time", clock)

    def hear(_: str) -> None:
        for peer, said in news:
            box.deliver(peer, encode(said).joined())

    box.tell_waiting = hear
    with pytest.raises(PeerSilent):
        box.take("telco", "Number", SOON)
    return clock.now / SOON


def test_the_timeout_begins_anew_when_the_peer_says_that_it_is_at_work(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waited(box, monkeypatch) < 1.4
    assert waited(box, monkeypatch, ("telco", Working())) >= 1.5


def test_work_of_the_one_whom_the_peer_waits_for_counts_and_that_of_others_does_not(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert waited(box, monkeypatch, ("shop", Working())) < 1.4
    assert waited(box, monkeypatch, ("telco", Waiting("shop")), ("shop", Working())) >= 1.5


def test_a_peer_at_work_waits_for_nobody_any_more(box: Mailbox) -> None:
    box.deliver("telco", encode(Waiting("shop")).joined())
    box.deliver("telco", encode(Working()).joined())
    with pytest.raises(PeerSilent) as caught:
        box.take("telco", "Number", SOON)
    assert caught.value.origin == "telco"


def test_that_a_peer_is_at_work_is_recorded_and_takes_no_place_in_the_queue(box: Mailbox, ledger: Ledger) -> None:
    box.deliver("telco", encode(Working()).joined())
    box.deliver("telco", number(1))
    box.deliver("telco", number(2))  # room for two
    box.deliver("telco", encode(Working()).joined(), SOON)
    assert [taken(box, "telco"), taken(box, "telco")] == [1, 2]
    assert [entry.kind for entry in entries(ledger)].count(kind_of(Working)) == 2


def test_a_peer_may_be_at_work_after_its_goodbye_but_not_for_ever(box: Mailbox) -> None:
    """Its last words may cross: who has said goodbye may have been asked to wait."""
    box.deliver("telco", GOODBYE)
    box.deliver("telco", encode(Working()).joined())
    box.check()
    for _ in range(10_000 - 2):
        box.deliver("telco", encode(Working()).joined())
    with pytest.raises(ProtocolError, match="10000"):
        box.deliver("telco", encode(Working()).joined())


def test_half_way_is_told_in_time_however_long_the_peer_is_at_work(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may wait for this party, and must hear whom it waits for."""
    clock = Clock()
    monkeypatch.setattr("unpooled.transport.mailbox.time", clock)
    told: list[float] = []

    def next_of_a_busy_peer(peer: str, what: str, deadline: float) -> None:
        clock.now += 0.3 * SOON
        box.deliver(peer, encode(Working()).joined())
        if clock.now > 5 * SOON:
            box.lose(peer, "enough")

    monkeypatch.setattr(box, "_next", next_of_a_busy_peer)
    box.tell_waiting = lambda _: told.append(clock.now / SOON)
    with pytest.raises(PeerLost, match="enough"):
        box.take("telco", "Number", SOON)
    assert len(told) == 1
    assert 0.5 <= told[0] <= 1
