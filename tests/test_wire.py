"""Messages say what they disclose; frames are read whole, or refused."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import unpooled
from unpooled import wire
from unpooled.arrays import Bools, Floats, Ints32, Ring
from unpooled.codec import ALIGNMENT, MAX_INT_BYTES
from unpooled.errors import WireError
from unpooled.wire import (
    HEAD_BYTES,
    MAX_SCOPE_BYTES,
    WIRE_VERSION,
    disclosure_named,
    disclosure_of,
    encode,
    kind_of,
    largest_named,
    message,
    read_body,
    read_header,
)


@message(discloses="how many rows this party has", to="the receiver")
class Count:
    rows: int


@message(discloses="nothing: made for this test")
class Everything:
    yes: bool
    number: int
    ciphertexts: tuple[int, ...]
    real: float
    text: str
    raw: bytes
    perhaps: float | None
    counts: tuple[Count, ...]
    ring: Ring
    mask: Bools
    bins: Ints32


@dataclass(frozen=True)
class LooksLikeCount:
    rows: int


EVERYTHING = Everything(
    yes=True,
    number=-(2**70),
    ciphertexts=(3**200, -1, 0),
    real=0.1,
    text="naïve",
    raw=b"\0\1",
    perhaps=None,
    counts=(Count(1), Count(2)),
    ring=np.arange(6, dtype=np.uint64).reshape(2, 3),
    mask=np.array([True, False]),
    bins=np.array(7, dtype=np.int32),
)
DATA = encode(EVERYTHING, "fit/tree 3").joined()


def back(data: bytes) -> Everything:
    return read_body(read_header(data), Everything)


# what a message is


def test_a_message_is_frozen_and_says_its_kind_and_disclosure() -> None:
    assert kind_of(Count).endswith("test_wire.Count")
    assert str(disclosure_of(Count)) == "how many rows this party has, to the receiver"
    assert str(disclosure_of(Everything)) == "nothing: made for this test"
    assert disclosure_named(kind_of(Count)) == disclosure_of(Count)
    with pytest.raises(FrozenInstanceError):
        Count(1).rows = 2  # type: ignore[misc]


def test_a_kind_that_this_side_does_not_know_is_not_taken_for_harmless() -> None:
    unknown = disclosure_named("nobody.Knows")
    assert unknown.to
    assert not unknown.what.startswith("nothing")


@pytest.mark.parametrize(
    ("discloses", "to", "complaint"),
    [
        ("", "", "discloses"),
        ("  ", "the receiver", "discloses"),
        ("the sum", "", "'the sum'"),
        ("the sum", " ", "'the sum'"),
    ],
)
def test_a_message_without_a_full_disclosure_cannot_be_declared(discloses: str, to: str, complaint: str) -> None:
    with pytest.raises(TypeError, match=complaint):
        message(discloses=discloses, to=to)
    with pytest.raises(TypeError):
        message()  # type: ignore[call-arg]


def test_a_message_with_a_field_that_does_not_travel_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="object"):

        @message(discloses="nothing: made for this test")
        class Loose:
            anything: object

    with pytest.raises(TypeError, match="LooksLikeCount"):

        @message(discloses="nothing: made for this test")
        class Smuggler:
            count: LooksLikeCount


def test_a_message_whose_name_cannot_travel_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="Zählung"):

        @message(discloses="nothing: made for this test")
        class Zählung:
            rows: int


def test_what_merely_looks_like_a_message_cannot_be_sent_or_asked_for() -> None:
    class Inherits(Count):
        pass

    for impostor in (LooksLikeCount(1), Inherits(1)):
        with pytest.raises(WireError, match=type(impostor).__name__):
            encode(impostor)
        with pytest.raises(WireError, match=type(impostor).__name__):
            read_body(read_header(encode(Count(1)).joined()), type(impostor))
        with pytest.raises(WireError, match=type(impostor).__name__):
            disclosure_of(type(impostor))


def messages_of_the_package() -> dict[str, type]:
    """Every message declared anywhere in unpooled, found by importing all of it."""
    found = {}
    for module in pkgutil.walk_packages(unpooled.__path__, "unpooled."):
        if module.name != "unpooled.__main__":
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and "__disclosure__" in vars(value):
                    found[kind_of(value)] = value
    return found


def test_every_message_of_the_package_says_what_it_discloses_and_to_whom() -> None:
    kinds = messages_of_the_package()
    assert {"Abort", "Goodbye", "PlanOffer"} <= kinds.keys()
    for name, kind in kinds.items():
        disclosure = disclosure_of(kind)
        assert disclosure.what.strip(), name
        assert disclosure.to.strip() or disclosure.what.startswith("nothing"), name
        assert disclosure_named(name) == disclosure


# frames


def test_a_frame_has_kind_scope_and_message() -> None:
    header = read_header(DATA)
    assert (header.kind, header.scope) == (kind_of(Everything), "fit/tree 3")
    for _ in range(2):  # reading the body leaves the header as it was
        message = read_body(header, Everything)
        assert (message.number, message.ciphertexts, message.text) == (-(2**70), (3**200, -1, 0), "naïve")
        assert [count.rows for count in message.counts] == [1, 2]
        np.testing.assert_array_equal(message.ring, EVERYTHING.ring)


@pytest.mark.parametrize("buffer", [bytes, bytearray, lambda data: memoryview(bytearray(data))])
def test_arrays_are_aligned_read_only_views_whatever_holds_the_frame(buffer: type) -> None:
    data = buffer(DATA)
    message = back(data)
    for array in (message.ring, message.mask, message.bins):
        assert not array.flags.writeable
        assert np.shares_memory(array, np.frombuffer(data, np.uint8))
        assert (array.ctypes.data - np.frombuffer(data, np.uint8).ctypes.data) % ALIGNMENT == 0


def test_every_truncation_and_every_trailing_byte_is_refused() -> None:
    for length in range(len(DATA)):
        with pytest.raises(WireError):
            back(DATA[:length])
    with pytest.raises(WireError, match=r"Everything: .*1 "):
        back(DATA + b"\0")


FRAME = b"UPL" + bytes([WIRE_VERSION])


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "frame"),
        (b"upl" + DATA[3:], "frame"),
        (
            DATA[:3] + bytes([WIRE_VERSION + 1]) + DATA[4:],
            f"{WIRE_VERSION + 1}.*{WIRE_VERSION}; this side",
        ),
        (FRAME + b"\0\0\0", "kind: "),
        (FRAME + b"\1 \0\0", "kind: "),
        (FRAME + b"\1\xe9\0\0", "kind: "),
        (FRAME + b"\xc9" + b"a" * 201 + b"\0\0", "kind: "),
        (FRAME + b"\1a\1\4" + b"x" * 1025, "scope: .*1025.*1024"),
        (FRAME + b"\1a\1\0\xff", "scope: .*UTF-8"),
        (FRAME + b"\1a\1\0\n", "scope: .*printable"),
        (FRAME + b"\1a\2\0x", "frame: "),
    ],
)
def test_a_broken_header_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        read_header(data)


def test_a_message_of_another_kind_is_refused() -> None:
    with pytest.raises(WireError, match=r"Count.*Everything"):
        read_body(read_header(DATA), Count)


def test_a_scope_must_be_short_and_printable() -> None:
    assert read_header(encode(Count(1), "é" * (MAX_SCOPE_BYTES // 2)).joined()).scope == "é" * (MAX_SCOPE_BYTES // 2)
    with pytest.raises(WireError, match=r"scope.*1026.*1024"):
        encode(Count(1), "é" * (MAX_SCOPE_BYTES // 2 + 1))
    for scope in ("two\nlines", "\x1b[31m", "\ud800"):
        with pytest.raises(WireError, match="scope"):
            encode(Count(1), scope)


def test_a_frame_beyond_the_limit_neither_leaves_nor_arrives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", len(DATA))
    assert encode(EVERYTHING, "fit/tree 3").size == len(DATA)
    assert back(DATA).yes
    monkeypatch.setattr(wire, "MAX_FRAME_BYTES", len(DATA) - 1)
    with pytest.raises(WireError, match=rf"Everything.*{len(DATA)}.*{len(DATA) - 1}"):
        encode(EVERYTHING, "fit/tree 3")
    with pytest.raises(WireError, match=rf"frame.*{len(DATA)}"):
        read_header(DATA)


@message(discloses="nothing: made for this test")
class Arrays:
    arrays: tuple[Floats, ...]


def test_large_arrays_are_not_copied_by_encoding() -> None:
    array = np.arange(1000.0)
    parts = encode(Arrays((array,))).parts
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), array) for part in parts)


@given(st.lists(st.integers(0, 400), max_size=5), st.text(max_size=200).filter(str.isprintable))
def test_the_head_of_a_frame_is_its_beginning_and_enough_to_know_the_message(lengths: list[int], scope: str) -> None:
    frame = encode(Arrays(tuple(np.arange(length, dtype=float) for length in lengths)), scope)
    assert len(frame.joined()) == frame.size
    assert frame.head() == frame.joined()[:HEAD_BYTES]
    assert read_header(frame.head())[:2] == (kind_of(Arrays), scope)


@message(discloses="nothing: made for this test")
class Closed:
    count: int
    share: float | None
    flag: bool


@message(discloses="nothing: made for this test")
class Open:
    closed: Closed
    text: str


def test_the_largest_frame_of_a_kind_is_known_where_no_field_is_open() -> None:
    largest = largest_named(kind_of(Closed))
    most = 2 ** (8 * MAX_INT_BYTES - 1) - 1
    assert largest == 4 + MAX_INT_BYTES + 9 + 1
    assert encode(Closed(most, 0.5, True)).size == largest + len(encode(Closed(0, None, True)).joined()) - 7
    assert largest_named(kind_of(Open)) is None
    assert largest_named(kind_of(Arrays)) is None
    assert largest_named("nobody.Knows") is None
