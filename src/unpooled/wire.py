"""Messages, and the frames that carry them.

A message is a frozen dataclass that declares what it discloses and to whom. The name of its type is its tag:

>>> @message(discloses="how many rows this party has", to="the receiver")
... class RowTotal:
...     rows: int
>>> frame = encode(RowTotal(1000), scope="align")
>>> header = read_header(frame.joined())
>>> header.kind, header.scope
('...RowTotal', 'align')
>>> read_body(header, RowTotal).rows
1000

A frame is: the letters ``UPL``, the version of this format, the message type (length u8, ASCII), the scope (length u16,
UTF-8), the fields (`unpooled.codec`). Any bytes that arrive give a message or a `WireError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar, dataclass_transform

from unpooled.codec import U8, U16, Codec, Fault, Reader, Writer, fields_codec
from unpooled.errors import WireError

WIRE_VERSION = 4
MAX_FRAME_BYTES = 2**32
MAX_SCOPE_BYTES = 2**10
HEAD_BYTES = 2**11
"""An upper bound on the size of everything before a message's fields."""
_MAGIC = b"UPL"
_KIND_START = 5
_KIND = re.compile(rb"[A-Za-z_][A-Za-z0-9_.<>]{0,199}")

Buffer = bytes | bytearray | memoryview
T = TypeVar("T")

_declared: dict[str, type] = {}


class Disclosure(NamedTuple):
    """What the receiver of a message learns, and who that is; `to` is empty where it learns nothing."""

    what: str
    to: str

    def __str__(self) -> str:
        return f"{self.what}, to {self.to}" if self.to else self.what


@dataclass_transform(frozen_default=True, eq_default=False)
def message(*, discloses: str, to: str = "") -> Callable[[type[T]], type[T]]:
    """Make a class a message: a frozen dataclass with a codec, a type name and a disclosure.

    `to` may be left out only where `discloses` begins with "nothing".
    """
    if not discloses.strip():
        raise TypeError("a message must declare what it discloses; if nothing, write 'nothing: ' and why")
    if not to.strip() and not discloses.startswith("nothing"):
        raise TypeError(f"a message that discloses {discloses!r} must declare to whom")

    def decorate(cls: type[T]) -> type[T]:
        if hasattr(cls, "__post_init__"):
            raise TypeError(
                f"{cls.__name__} must not have __post_init__: any bytes that arrive give a message or a WireError"
            )
        made: Any = dataclass(frozen=True, eq=False)(cls)
        made.__codec__ = fields_codec(made)
        made.__disclosure__ = Disclosure(discloses, to)
        made.__kind__ = _kind_named(cls)
        if not _KIND.fullmatch(made.__kind__.encode()):
            raise TypeError(f"{made.__kind__} is not a valid name of a message type")
        _declared[made.__kind__] = made
        return made  # type: ignore[no-any-return]

    return decorate


def _kind_named(cls: type) -> str:
    """The name of a message type; one from outside the package is prefixed with its module."""
    if not cls.__module__.startswith("unpooled."):
        return f"{cls.__module__}.{cls.__qualname__}"
    other = _declared.get(cls.__qualname__, cls)
    if other.__module__ != cls.__module__:
        raise TypeError(f"{cls.__qualname__} is already a message of {other.__module__}")
    return cls.__qualname__


def kind_of(kind: type) -> str:
    """The name of a message type in frames and ledgers."""
    name: str | None = kind.__dict__.get("__kind__")
    if name is None:
        raise WireError(f"{kind.__name__} is not a message: it does not declare what it discloses")
    return name


def disclosure_of(kind: type) -> Disclosure:
    """What a message type discloses."""
    kind_of(kind)
    disclosure: Disclosure = kind.__disclosure__  # type: ignore[attr-defined]
    return disclosure


def is_declared(kind: str) -> bool:
    """Whether a message type has this name."""
    return kind in _declared


def disclosure_named(kind: str) -> Disclosure:
    """What a message type discloses, by its name in a frame."""
    declared = _declared.get(kind)
    return (
        disclosure_of(declared) if declared else Disclosure("unknown: this side does not know the kind", "the receiver")
    )


def largest_named(kind: str) -> int | None:
    """The most bytes that the fields of a message type take; None if unlimited, or if the type is unknown."""
    declared: Any = _declared.get(kind)
    codec: Codec | None = declared.__codec__ if declared else None
    return codec.largest if codec else None


@dataclass(slots=True)
class Frame:
    """An encoded message in parts, to be sent one after the other. Large arrays are views, not copies."""

    parts: tuple[Buffer, ...]
    size: int

    def joined(self) -> bytes:
        return b"".join(self.parts)

    def head(self) -> bytes:
        """The beginning, up to at least the message type and the scope."""
        return b"".join(self.parts if self.size <= HEAD_BYTES else _first(self.parts, HEAD_BYTES))


def _first(parts: Iterable[Buffer], size: int) -> Iterator[Buffer]:
    for part in parts:
        yield part[:size]
        size -= min(size, len(part))


class Header(NamedTuple):
    """A frame's message type and scope, its bytes, and where in them the fields begin."""

    kind: str
    scope: str
    data: memoryview
    start: int


def encode(value: object, scope: str = "") -> Frame:
    """The frame of a message; a field that cannot be sent is a `WireError` naming it."""
    kind = type(value)
    out = Writer()
    out.add(_opening(kind_of(kind), scope))
    codec: Codec = kind.__codec__  # type: ignore[attr-defined]
    try:
        codec.write(out, value)
    except Fault as fault:
        raise WireError(str(fault.inside(kind.__name__))) from None
    if out.size > MAX_FRAME_BYTES:
        raise WireError(f"{kind.__name__} takes {out.size} bytes, at most {MAX_FRAME_BYTES} are allowed")
    return Frame(tuple(out.parts), out.size)


@lru_cache(maxsize=1024)
def _opening(kind: str, scope: str) -> bytes:
    """Everything before the fields; cached, since it is often the same."""
    if not scope.isprintable():
        raise WireError("a scope must be printable")
    name, scope_bytes = kind.encode(), scope.encode()
    if len(scope_bytes) > MAX_SCOPE_BYTES:
        raise WireError(f"a scope of {len(scope_bytes)} bytes, at most {MAX_SCOPE_BYTES} are allowed")
    return _MAGIC + U8.pack(WIRE_VERSION) + U8.pack(len(name)) + name + U16.pack(len(scope_bytes)) + scope_bytes


def read_header(data: Buffer) -> Header:
    """The message type and scope of a frame."""
    if len(data) > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {len(data)} bytes, at most {MAX_FRAME_BYTES} are allowed")
    view = memoryview(data).toreadonly()
    if view[:3] != _MAGIC:
        raise WireError("frame: does not begin like a message of unpooled")
    kind_end = _KIND_START + (view[_KIND_START - 1] if len(view) >= _KIND_START else 0)
    start = kind_end + 2 + int.from_bytes(view[kind_end : kind_end + 2], "little")
    if len(view) < start:
        raise WireError("frame: ends within its message type or scope")
    if start > kind_end + 2 + MAX_SCOPE_BYTES:
        raise WireError(f"scope: {start - kind_end - 2} bytes, at most {MAX_SCOPE_BYTES} are allowed")
    kind, scope = _read_opening(bytes(view[:start]), kind_end)
    return Header(kind, scope, view, start)


@lru_cache(maxsize=1024)
def _read_opening(opening: bytes, kind_end: int) -> tuple[str, str]:
    if opening[3] != WIRE_VERSION:
        behind = "the sender" if opening[3] < WIRE_VERSION else "this side"
        differs = f"wire format {opening[3]}, this side has {WIRE_VERSION}"
        raise WireError(f"frame: {differs}; {behind} must upgrade unpooled")
    kind = opening[_KIND_START:kind_end]
    if not _KIND.fullmatch(kind):
        raise WireError("kind: not a name")
    try:
        scope = opening[kind_end + 2 :].decode()
    except UnicodeDecodeError as error:
        raise WireError("scope: not UTF-8") from error
    if not scope.isprintable():
        raise WireError("scope: not printable")
    return kind.decode(), scope


def read_body(header: Header, kind: type[T]) -> T:
    """The message behind a header, which must be of this type and have no bytes left over."""
    if header.kind != kind_of(kind):
        raise WireError(f"expected {kind_of(kind)}, got {header.kind}")
    reader = Reader(header.data, header.start)
    codec: Codec = kind.__codec__  # type: ignore[attr-defined]
    try:
        value: T = codec.read(reader)
    except Fault as fault:
        raise WireError(str(fault.inside(kind.__name__))) from None
    if reader.left:
        raise WireError(f"{kind.__name__}: {reader.left} bytes too many")
    return value
