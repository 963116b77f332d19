"""Letters between two services: each is handled once and in order, whatever is lost, and nonsense is refused."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from peering_services import LONG, Cut, Other, Party, Say, between, shaken

from unpooled.errors import InputError, LedgerError, PeerFailed, PeerLost, PeerSilent, ProtocolError, WireError
from unpooled.ledger import read_ledger, reconcile
from unpooled.serve.messages import ExchangeHello, LettersTaken
from unpooled.serve.peering import post, talk
from unpooled.serve.peering.exchange import exchange
from unpooled.serve.peering.post import MOST_LETTERS, Post, put
from unpooled.serve.peering.talk import MOST_BYTES, Talk
from unpooled.serve.state import audit_log
from unpooled.version import PROTOCOL_VERSION
from unpooled.wire import encode, read_header

EPOCH = "0" * 32


@pytest.fixture
def pair(bank: Party, telco: Party) -> tuple[Party, Party]:
    bank.knows(telco)
    telco.knows(bank)
    return bank, telco


def test_letters_go_both_ways_and_an_answer_comes_at_once(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    bank.tell(telco, "one", "two")
    telco.tell(bank, "three", "ask me")
    assert between(bank, telco)[0] == [4, 4]
    assert telco.heard == ["bank: one", "bank: two"]
    assert bank.heard == ["telco: three", "telco: ask me"]
    assert (bank.pending(), telco.pending()) == (1, 0), "the bank's answer waits"
    assert between(telco, bank)[0] == [1, 1]
    telco.tell(bank, "ask again")
    assert between(telco, bank)[0] == [2, 2], "the acceptor's answer came in the same exchange"
    assert telco.heard[2:] == ["bank: answer", "bank: answer"]
    assert between(bank, telco)[0] == [0, 0]
    for party in pair:
        party.ledger.close()
    ledgers = [read_ledger(party.ledger.path) for party in pair]
    assert reconcile(*ledgers) == []
    scopes = [entry.scope for entry in ledgers[0].entries if entry.kind.endswith("Say") and entry.way == "sent"]
    assert scopes == ["letter 1", "letter 2", "letter 3", "letter 4"]


@pytest.mark.parametrize("side", [0, 1], ids=["caller", "acceptor"])
def test_a_side_killed_at_any_point_loses_nothing_and_handles_nothing_twice(
    pair: tuple[Party, Party], side: int
) -> None:
    bank, telco = pair
    sent = list[str]()

    def write() -> None:
        for text in (f"{len(sent)}", f"{len(sent) + 1}"):
            sent.append(text)
            bank.tell(telco, text)
            telco.tell(bank, text)

    write()
    points = between(bank, telco)[1][side]
    assert points > 15
    for point in range(points):
        write()
        ends, _ = between(bank, telco, cut=(point, None) if side == 0 else (None, point))
        assert ends[side] is Cut
        between(bank, telco)
        assert telco.heard == [f"bank: {text}" for text in sent], point
        assert bank.heard == [f"telco: {text}" for text in sent], point
        assert (bank.pending(), telco.pending()) == (0, 0), point


def test_two_exchanges_at_once_handle_each_letter_once(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    texts = [str(number) for number in range(20)]
    bank.tell(telco, *texts)
    telco.tell(bank, *texts)
    with ThreadPoolExecutor(4) as pool:
        for exchanging in [pool.submit(between, *way) for way in (pair, pair[::-1], pair, pair[::-1])]:
            exchanging.result()
    assert telco.heard == [f"bank: {text}" for text in texts]
    assert bank.heard == [f"telco: {text}" for text in texts]
    assert (bank.pending(), telco.pending()) == (0, 0)


def test_many_letters_take_several_exchanges(pair: tuple[Party, Party], monkeypatch: pytest.MonkeyPatch) -> None:
    bank, telco = pair
    texts = [str(number) for number in range(MOST_LETTERS + 3)]
    bank.tell(telco, *texts)
    assert [between(bank, telco)[0][0] for _ in range(3)] == [MOST_LETTERS, 3, 0]
    assert telco.heard == [f"bank: {text}" for text in texts]
    monkeypatch.setattr(post, "MOST_LETTERS_BYTES", 100)
    bank.tell(telco, "a" * 90, "b" * 90, "c")
    assert [between(bank, telco)[0][0] for _ in range(3)] == [1, 1, 1]


def test_a_refused_letter_counts_as_taken_and_is_in_the_audit_log(
    pair: tuple[Party, Party], monkeypatch: pytest.MonkeyPatch
) -> None:
    bank, telco = pair
    monkeypatch.setattr(post, "_NOTED_AN_HOUR", 3)
    bank.tell(telco, "one", "refuse this")
    with bank.database.transaction() as connection:
        put(connection, "telco", Other("not for letters"))
    bank.tell(telco, "two", *("refuse" for _ in range(10)))
    between(bank, telco)
    assert telco.heard == ["bank: one", "bank: two"], "what the refused one did is undone"
    assert bank.pending() == 0
    noted = audit_log.acts(telco.database)
    assert len(noted) == 3, "a peer cannot fill the audit log"
    assert {act.who for act in noted} == {"peer bank"}
    assert noted[-1].about.startswith("letter 2, ")
    assert noted[-1].about.endswith("Say: refuse this: no")
    assert "cannot be a" in noted[-2].about
    assert audit_log.verify(telco.database) == 3


def test_a_letter_that_meets_an_internal_error_comes_again(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    bank.tell(telco, "one", "fail", "two")
    with pytest.raises(PeerFailed, match="telco stopped: internal error"):
        between(bank, telco)
    assert telco.heard == ["bank: one"]
    telco.post._handle = lambda connection, peer, said: connection.execute(
        "INSERT INTO heard VALUES (?, ?)", (peer, said.text)
    )
    between(bank, telco)
    assert telco.heard == ["bank: one", "bank: fail", "bank: two"]
    assert bank.pending() == 0


def test_whoever_waits_for_letters_is_told_once_they_are_kept(pair: tuple[Party, Party]) -> None:
    _, telco = pair
    seen = []
    telco.post = Post(telco.database, (Say,), telco.post._handle, taken=lambda: seen.append(telco.heard))
    letters = [read_header(encode(Say(text), scope=f"letter {n}").joined()) for n, text in ((1, "one"), (1, "one"))]
    telco.post.meet("bank", EPOCH)
    seen.clear()
    for each in letters:
        telco.post.take("bank", EPOCH, each)
    assert seen == [["bank: one"]]


def test_a_letter_that_is_too_large_is_not_put(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    with pytest.raises(InputError, match=f"telco.*{MOST_BYTES}"):
        bank.tell(telco, "x" * MOST_BYTES)
    bank.tell(telco, "x" * (MOST_BYTES - 1000))
    assert between(bank, telco)[0] == [1, 1], "its number was not used up"


# a peer that does not keep to the protocol


def told_to(telco: Party, bank: Party, act: Callable[[Talk, socket.socket, Callable[[bytes], bytes]], None]) -> object:
    """What the telco, as acceptor, says of a bank that does this; and what the bank is told."""
    secured = shaken(bank.certs, "bank", "telco")
    ours, theirs = socket.socketpair()

    def accept() -> object:
        try:
            with Talk("telco", "bank", theirs, secured[1], telco.ledger) as conversation:
                return exchange(conversation, telco.post, calls=False)
        except (ProtocolError, WireError, PeerSilent, PeerLost, LedgerError) as error:
            return error
        finally:
            telco.database.close()

    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(accept)
        conversation = Talk("bank", "telco", ours, secured[0], bank.ledger)
        with ours:
            act(conversation, ours, secured[0].encrypt)
        return accepting.result(LONG)


HELLO = ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 0, "", 1)


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ([ExchangeHello(PROTOCOL_VERSION + 1, EPOCH, "", 0, "", 0)], "bank 2, so .* telco must upgrade"),
        ([ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 0, "", MOST_LETTERS + 1)], f"bank announced {MOST_LETTERS + 1}"),
        ([ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 0, "", -1)], "bank announced -1"),
        ([ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 1, "", 0)], "bank has received letter 1, which was not sent"),
        ([ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 2**70, "", 0)], "bank has received letter"),
        ([ExchangeHello(PROTOCOL_VERSION, EPOCH, "", -(2**70), "", 0)], "bank has received letter"),
        ([LettersTaken(0, "")], "expected ExchangeHello"),
        ([HELLO, Say("x")], "bank sent a .*Say where a letter was expected"),
        ([HELLO, (Say("x"), "letter 2")], "letter 2 of bank came where 1 was expected"),
        ([HELLO, (Say("x"), "letter 99999999999999999999999")], "where a letter was expected"),
        ([HELLO, (Say("x"), "letter 01")], "where a letter was expected"),
    ],
)
def test_what_the_protocol_does_not_allow_ends_the_exchange_and_both_know_why(
    pair: tuple[Party, Party], said: list[object], complaint: str
) -> None:
    bank, telco = pair

    def act(conversation: Talk, *_: object) -> None:
        for words in said:
            conversation.send(encode(*words) if isinstance(words, tuple) else encode(words))
        with pytest.raises(PeerFailed, match=f"telco failed: .*{complaint}"):
            conversation.receive()

    error = told_to(telco, bank, act)
    assert isinstance(error, ProtocolError | WireError)
    assert telco.heard == []
    bank.tell(telco, "in order again")
    between(bank, telco)
    assert telco.heard == ["bank: in order again"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((MOST_BYTES + 1).to_bytes(8, "little"), "announced a frame of"),
        (bytes(8), "announced a frame of 0"),
        (b"\xff" * 1000, "announced a frame of"),
        ((5).to_bytes(8, "little") + b"abcde", "not a message"),
    ],
)
def test_garbage_ends_the_exchange(pair: tuple[Party, Party], words: bytes, complaint: str) -> None:
    bank, telco = pair

    def act(conversation: Talk, connection: socket.socket, encrypt: Callable[[bytes], bytes]) -> None:
        connection.sendall(encrypt(words))
        with pytest.raises(PeerFailed, match=complaint):
            conversation.receive()

    assert isinstance(told_to(telco, bank, act), WireError)


def test_bytes_that_are_not_tls_end_the_exchange(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    error = told_to(telco, bank, lambda _talk, connection, _encrypt: connection.sendall(b"\0" * 100))
    assert isinstance(error, PeerLost)


def test_a_malformed_letter_is_refused_and_the_next_one_is_handled(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    whole = encode(Say("x"), scope="letter 1").joined()

    def act(conversation: Talk, connection: socket.socket, encrypt: Callable[[bytes], bytes]) -> None:
        conversation.tell(ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 0, "", 2))
        connection.sendall(encrypt((len(whole) - 1).to_bytes(8, "little") + whole[:-1]))
        conversation.send(encode(Say("y"), scope="letter 2"))
        assert conversation.hear(ExchangeHello).received == 2

    assert told_to(telco, bank, act) == 2
    assert telco.heard == ["bank: y"]
    assert "letter 1" in audit_log.acts(telco.database)[0].about


def test_a_silent_peer_holds_nobody_for_ever(pair: tuple[Party, Party], monkeypatch: pytest.MonkeyPatch) -> None:
    bank, telco = pair
    monkeypatch.setattr(talk, "FRAME_SECONDS", 0.2)
    monkeypatch.setattr(talk, "_LAST_SECONDS", 0.2)

    def act(conversation: Talk, connection: socket.socket, *_: object) -> None:
        connection.settimeout(LONG)
        while connection.recv(100):
            pass

    assert isinstance(told_to(telco, bank, act), PeerSilent)
    monkeypatch.setattr(talk, "FRAME_SECONDS", LONG)
    monkeypatch.setattr(talk, "WHOLE_SECONDS", 0.2)
    assert isinstance(told_to(telco, bank, act), PeerSilent)


def test_what_cannot_be_recorded_is_not_sent(pair: tuple[Party, Party]) -> None:
    bank, telco = pair
    assert telco.ledger._ledger
    telco.ledger._ledger._whole = False

    def act(conversation: Talk, *_: object) -> None:
        conversation.tell(ExchangeHello(PROTOCOL_VERSION, EPOCH, "", 0, "", 0))
        with pytest.raises(PeerFailed, match="its ledger cannot be"):  # said once the ledger was mended
            conversation.receive()

    assert isinstance(told_to(telco, bank, act), LedgerError)


def test_a_peer_whose_state_is_older_than_it_was_is_told_so(pair: tuple[Party, Party]) -> None:
    """The telco's state was restored from a backup: it has forgotten a letter that the bank no longer has."""
    bank, telco = pair
    bank.tell(telco, "one", "two")
    between(bank, telco)
    with telco.database.transaction() as connection:
        connection.execute("UPDATE exchanged SET received = 1")
    bank.tell(telco, "three")
    with pytest.raises((ProtocolError, PeerFailed), match=r"letter 3 of bank came where 2 was expected.*older"):
        between(bank, telco)


def test_a_sender_that_has_forgotten_what_it_sent_is_noticed(pair: tuple[Party, Party]) -> None:
    """The bank's state was restored: it uses numbers again that the telco has, as many, fewer, or more."""
    bank, telco = pair
    bank.tell(telco, "one", "two", "three")
    between(bank, telco)
    with bank.database.transaction() as connection:
        connection.execute("UPDATE exchanged SET sent = 1")
    for text in ("another two", "another three", "four"):
        bank.tell(telco, text)
        with pytest.raises((ProtocolError, PeerFailed), match="older than it was"):
            between(bank, telco)
        with pytest.raises((ProtocolError, PeerFailed), match="older than it was"):
            between(telco, bank)
    assert telco.heard == ["bank: one", "bank: two", "bank: three"]


def test_a_refusal_is_logged_without_what_cannot_be_shown(
    pair: tuple[Party, Party], caplog: pytest.LogCaptureFixture
) -> None:
    bank, telco = pair
    bank.tell(telco, "refuse \x1b[31m\n" + "x" * 2000)
    with caplog.at_level(logging.INFO, "unpooled.serve"):
        between(bank, telco)
    (act,) = audit_log.acts(telco.database)
    for text in (act.about, caplog.messages[-1]):
        assert text.isprintable()
        assert len(text) < 700
