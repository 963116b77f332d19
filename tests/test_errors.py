"""Errors in words: what peers are told, and what a party itself reads, never with a class name."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator

import pytest

from unpooled import errors
from unpooled.errors import Interrupted, PeerError, UnpooledError, described, resumable, told

INTERNAL = "stopped: internal error (see its own log)"


def classes(base: type[UnpooledError] = UnpooledError) -> Iterator[type[UnpooledError]]:
    for child in base.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from classes(child)


@pytest.mark.parametrize("kind", tuple(classes()), ids=lambda kind: kind.__name__)
def test_every_error_has_words_for_peers(kind: type[UnpooledError]) -> None:
    error = kind("row 17", "bank") if issubclass(kind, PeerError) else kind("row 17")
    assert ("row 17" in told(error)) is kind.shareable
    assert (told(error) == INTERNAL) is (kind is errors.InternalError)
    assert described(error) == "row 17"


@pytest.mark.parametrize("error", [ZeroDivisionError("17"), SystemExit(143), KeyboardInterrupt(), MemoryError("17")])
def test_no_class_name_is_shown_to_anybody(error: BaseException) -> None:
    for text in (told(error), described(error)):
        assert not re.search(r"\b[A-Z]\w+(Error|Exit|Interrupt)\b|17|143", text)
    assert resumable(error)


def test_an_interruption_says_by_what_and_has_a_code() -> None:
    by_hand, ended = Interrupted(signal.SIGINT), Interrupted(signal.SIGTERM)
    assert ("Ctrl-C" in described(by_hand), "SIGTERM" in described(ended)) == (True, True)
    assert (by_hand.code, ended.code) == (130, 143)
    assert told(by_hand) == told(ended) == "was interrupted"
