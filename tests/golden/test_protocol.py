"""What parties of one protocol version have in common is what `protocol.txt` says; a released one stays as it is."""

from __future__ import annotations

import pytest

from protocol_shape import COMMAND, PROTOCOL, UNRELEASED, Shape, changed, read, renewed, shape

OLD = Shape(3, "released with 1.0.0", {"message A": ("x: int",), "plan check, shares": ()})


def test_the_protocol_is_the_one_that_is_written_down() -> None:
    written, now = read(PROTOCOL.read_text(encoding="utf-8")), shape()
    wanted = renewed(written, now)
    assert changed(written, wanted) + changed(wanted, written) == [], f"run {COMMAND}"
    assert written.version == now.version, f"run {COMMAND}"


def test_a_shape_is_read_as_it_was_written() -> None:
    assert read(OLD.text()) == OLD


@pytest.mark.parametrize("lines", [("x: float",), ("x: int", "y: int"), ()])
def test_a_released_version_cannot_change(lines: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"protocol 3 was released with 1.0.0 .*: message A.*raise PROTOCOL_VERSION"):
        renewed(OLD, Shape(3, UNRELEASED, OLD.entries | {"message A": lines}))
    with pytest.raises(ValueError, match="in: message A"):
        renewed(OLD, Shape(3, UNRELEASED, {"plan check, shares": ()}))


def test_a_released_version_may_get_messages_and_kinds_of_job_that_it_did_not_have() -> None:
    more = OLD.entries | {"message B": ()}
    assert renewed(OLD, Shape(3, UNRELEASED, more)) == Shape(3, "released with 1.0.0", more)


def test_another_version_or_one_that_is_not_released_is_written_as_it_is() -> None:
    other = {"message A": ("x: float",)}
    assert renewed(OLD, Shape(4, UNRELEASED, other)) == Shape(4, UNRELEASED, other)
    assert renewed(Shape(4, UNRELEASED, OLD.entries), Shape(4, UNRELEASED, other)) == Shape(4, UNRELEASED, other)
