"""How the fields of a message become bytes: a closed set of types, compiled from the field's annotation.

==========================  =====================================================================
annotation                  bytes (all numbers little-endian)
==========================  =====================================================================
``bool``                    1 byte, 0 or 1
``int``                     length u32, then two's complement of any size
``float``                   8 bytes
``str``, ``bytes``          length u32, then UTF-8 or the bytes
``T | None``                1 byte, 0 or 1, then T
``tuple[int, ...]``         count u32, width u32, then count numbers of that width (for ciphertexts)
``tuple[T, ...]``           count u32, then each T
``NDArray[dtype]``          dimensions u8, each u64, zeros up to a multiple of 16, then the raw array
a message class             its fields in order
==========================  =====================================================================

Decoding follows the declaration, so nothing nests deeper than declared, and every count is compared with the bytes
that are there before anything is allocated.
"""

from __future__ import annotations

import math
import struct
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from unpooled.errors import WireError

MAX_ITEMS = 2**22
MAX_INT_BYTES = 2**16
MAX_DEPTH = 8
MAX_DIMENSIONS = 4
MAX_DIMENSION = 2**40
ALIGNMENT = 16

DTYPES = {
    np.dtype(t)
    for t in (bool, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, float)
}


class Fault(WireError):
    """What is wrong with a value; `path` says where in the message, and is built only while the error propagates."""

    def __init__(self, text: str, path: str = "") -> None:
        super().__init__(f"{path}: {text}" if path else text)
        self.text = text
        self.path = path

    def inside(self, outer: str) -> Fault:
        return Fault(self.text, outer + self.path)


class Writer:
    """Collects the parts of a frame; large arrays are views, not copies."""

    def __init__(self) -> None:
        self.parts: list[bytes | bytearray | memoryview] = [bytearray()]
        self.size = 0

    def add(self, data: bytes) -> None:
        tail = self.parts[-1]
        if not isinstance(tail, bytearray):
            tail = bytearray()
            self.parts.append(tail)
        tail += data
        self.size += len(data)

    def add_view(self, view: memoryview) -> None:
        self.parts.append(view)
        self.size += len(view)


class Reader:
    """Reads a frame from front to back; reading past its end raises."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self.data = data
        self.end = len(data)
        self.position = position

    @property
    def left(self) -> int:
        return self.end - self.position

    def take(self, count: int) -> memoryview:
        start = self.position
        stop = start + count
        if stop > self.end:
            raise Fault(f"needs {count} bytes, but {self.left} are left")
        self.position = stop
        return self.data[start:stop]

    def number(self, form: struct.Struct) -> int:
        value: int = form.unpack(self.take(form.size))[0]
        return value

    def flag(self) -> bool:
        byte = self.take(1)[0]
        if byte > 1:
            raise Fault(f"{byte} is not a truth value, 0 or 1")
        return byte == 1


@dataclass(frozen=True)
class Codec:
    """How one type is written and read.

    `smallest` and `largest` are the fewest and the most bytes of a value (None: no limit), `depth` is its nesting.
    """

    write: Callable[[Writer, Any], None]
    read: Callable[[Reader], Any]
    smallest: int
    depth: int = 0
    largest: int | None = None


U8, U16, U32, U64, F64 = (struct.Struct(f"<{form}") for form in "BHIQd")


def _wrong(expected: str, value: object) -> Fault:
    return Fault(f"expected {expected}, got {type(value).__name__}")


def _check_count(count: int, bytes_each: int, reader: Reader) -> None:
    if count > MAX_ITEMS:
        raise Fault(f"{count} items, at most {MAX_ITEMS} are allowed")
    if count * bytes_each > reader.left:
        raise Fault(f"announces {count} items, but only {reader.left} bytes are left")


def _write_bool(out: Writer, value: Any) -> None:
    if type(value) is not bool:
        raise _wrong("bool", value)
    out.add(b"\1" if value else b"\0")


def _width(value: int) -> int:
    return value.bit_length() // 8 + 1


def _write_int(out: Writer, value: Any) -> None:
    if type(value) is not int:
        raise _wrong("int", value)
    width = _width(value)
    if width > MAX_INT_BYTES:
        raise Fault(f"an int of {width} bytes, at most {MAX_INT_BYTES} are allowed")
    out.add(U32.pack(width) + value.to_bytes(width, "little", signed=True))


def _read_int(reader: Reader) -> int:
    width = reader.number(U32)
    if not 1 <= width <= MAX_INT_BYTES:
        raise Fault(f"an int of {width} bytes, 1 to {MAX_INT_BYTES} are allowed")
    return int.from_bytes(reader.take(width), "little", signed=True)


def _write_float(out: Writer, value: Any) -> None:
    if type(value) is not float:
        raise _wrong("float", value)
    out.add(F64.pack(value))


def _read_float(reader: Reader) -> float:
    value: float = F64.unpack(reader.take(8))[0]
    return value


def _write_text(out: Writer, value: Any) -> None:
    if type(value) is not str:
        raise _wrong("str", value)
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise Fault("the text is not valid Unicode") from error
    _write_bytes(out, data)


def _read_text(reader: Reader) -> str:
    try:
        return str(reader.take(reader.number(U32)), "utf-8")
    except UnicodeDecodeError as error:
        raise Fault("the text is not UTF-8") from error


def _write_bytes(out: Writer, value: Any) -> None:
    if type(value) is not bytes:
        raise _wrong("bytes", value)
    if len(value) >= 2**32:
        raise Fault(f"{len(value)} bytes, fewer than 4 GiB are allowed; send an array")
    out.add(U32.pack(len(value)) + value)


def _read_bytes(reader: Reader) -> bytes:
    return bytes(reader.take(reader.number(U32)))


def _write_ints(out: Writer, value: Any) -> None:
    if type(value) is not tuple or any(type(item) is not int for item in value):
        raise _wrong("a tuple of int", value)
    width = max(map(_width, value), default=0)
    if width > MAX_INT_BYTES or len(value) > MAX_ITEMS:
        raise Fault(f"{len(value)} ints of {width} bytes are more than is allowed")
    out.add(U32.pack(len(value)) + U32.pack(width))
    out.add(b"".join(item.to_bytes(width, "little", signed=True) for item in value))


def _read_ints(reader: Reader) -> tuple[int, ...]:
    count, width = reader.number(U32), reader.number(U32)
    if width > MAX_INT_BYTES or (width == 0) != (count == 0):
        raise Fault(f"{count} ints of {width} bytes are not allowed")
    _check_count(count, width, reader)
    data = reader.take(count * width)
    starts = range(0, count * width, width or 1)
    return tuple(int.from_bytes(data[start : start + width], "little", signed=True) for start in starts)


def _tuple_of(item: Codec) -> Codec:
    if not item.smallest:
        raise TypeError("a tuple of messages without fields cannot be sent: its length could not be checked")

    def write(out: Writer, value: Any) -> None:
        if type(value) is not tuple:
            raise _wrong("a tuple", value)
        if len(value) > MAX_ITEMS:
            raise Fault(f"{len(value)} items, at most {MAX_ITEMS} are allowed")
        out.add(U32.pack(len(value)))
        for index, element in enumerate(value):
            try:
                item.write(out, element)
            except Fault as fault:
                raise fault.inside(f"[{index}]") from None

    def read(reader: Reader) -> tuple[Any, ...]:
        count = reader.number(U32)
        _check_count(count, item.smallest, reader)
        items: list[Any] = []
        for index in range(count):
            try:
                items.append(item.read(reader))
            except Fault as fault:
                raise fault.inside(f"[{index}]") from None
        return tuple(items)

    return Codec(write, read, 4, item.depth + 1)


def _optional(item: Codec) -> Codec:
    def write(out: Writer, value: Any) -> None:
        _write_bool(out, value is not None)
        if value is not None:
            item.write(out, value)

    def read(reader: Reader) -> Any:
        return item.read(reader) if reader.flag() else None

    return Codec(write, read, 1, item.depth, None if item.largest is None else 1 + item.largest)


_SHAPES = [struct.Struct(f"<{dimensions}Q") for dimensions in range(MAX_DIMENSIONS + 1)]
_PADDING = [bytes(length) for length in range(ALIGNMENT)]
_SMALL = 2**11  # bytes of an array


def _shape_form(dimensions: int) -> struct.Struct:
    if dimensions > MAX_DIMENSIONS:
        raise Fault(f"{dimensions} dimensions, at most {MAX_DIMENSIONS} are allowed")
    return _SHAPES[dimensions]


def _check_shape(shape: tuple[int, ...]) -> None:
    if max(shape, default=0) > MAX_DIMENSION:
        raise Fault(f"a dimension is longer than {MAX_DIMENSION}")


def _array_of(dtype: np.dtype[Any]) -> Codec:
    if dtype not in DTYPES:
        raise TypeError(f"arrays of {dtype} cannot be sent")
    stored = dtype if sys.byteorder == "little" else dtype.newbyteorder("<")

    def write(out: Writer, value: Any) -> None:
        if type(value) is not np.ndarray:  # a masked array would be sent without its mask
            raise _wrong(f"an array of {dtype}", value)
        if value.dtype is not dtype and value.dtype != dtype:
            raise Fault(f"expected an array of {dtype}, got an array of {value.dtype}")
        form = _shape_form(value.ndim)
        _check_shape(value.shape)
        head = U8.pack(value.ndim) + form.pack(*value.shape)
        out.add(head + _PADDING[-(out.size + len(head)) % ALIGNMENT])
        if value.nbytes > _SMALL:
            out.add_view(np.ascontiguousarray(value, dtype=stored).data.cast("B"))
        elif value.nbytes:  # copying takes less than one part more
            out.add(value.astype(stored, copy=False).tobytes())

    def read(reader: Reader) -> NDArray[Any]:
        form = _shape_form(reader.number(U8))
        shape: tuple[int, ...] = form.unpack(reader.take(form.size))
        _check_shape(shape)
        padding = reader.take(-reader.position % ALIGNMENT)
        if padding != _PADDING[len(padding)]:
            raise Fault("the padding is not zero")
        count = math.prod(shape)
        data = reader.take(count * stored.itemsize)
        if dtype.kind == "b" and count and np.frombuffer(data, np.uint8).max() > 1:
            raise Fault("a truth value is neither 0 nor 1")
        try:
            flat = np.frombuffer(data, stored)
            return flat if len(shape) == 1 and stored is dtype else flat.reshape(shape).astype(dtype, copy=False)
        except ValueError as error:
            raise Fault("impossible shape") from error

    return Codec(write, read, 1)


_SIMPLE = {
    bool: Codec(_write_bool, lambda reader: reader.flag(), 1, largest=1),
    int: Codec(_write_int, _read_int, 5, largest=4 + MAX_INT_BYTES),
    float: Codec(_write_float, _read_float, 8, largest=8),
    str: Codec(_write_text, _read_text, 4),
    bytes: Codec(_write_bytes, _read_bytes, 4),
}


def codec_for(annotation: Any) -> Codec:
    """The codec of a field's type; a type outside the table above is a TypeError."""
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    if isinstance(annotation, type) and "__codec__" in vars(annotation):
        codec: Codec = vars(annotation)["__codec__"]
        return codec
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType) and len(arguments) == 2 and arguments[1] is type(None):
        return _optional(codec_for(arguments[0]))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return Codec(_write_ints, _read_ints, 8, 1) if arguments[0] is int else _tuple_of(codec_for(arguments[0]))
    if origin is np.ndarray:
        return _array_of(np.dtype(get_args(arguments[1])[0]))
    raise TypeError(f"{annotation} cannot be sent; see unpooled.codec for the types that can")


def fields_codec(cls: type) -> Codec:
    """The codec of a dataclass: its fields, in order."""
    hints = get_type_hints(cls)
    members = [(field.name, codec_for(hints[field.name])) for field in fields(cls)]
    depth = 1 + max((codec.depth for _, codec in members), default=0)
    if depth > MAX_DEPTH:
        raise TypeError(f"{cls.__name__} nests {depth} deep, at most {MAX_DEPTH} are allowed")

    def write(out: Writer, value: Any) -> None:
        if type(value) is not cls:
            raise _wrong(cls.__name__, value)
        for name, codec in members:
            try:
                codec.write(out, getattr(value, name))
            except Fault as fault:
                raise fault.inside(f".{name}") from None

    def read(reader: Reader) -> Any:
        values: dict[str, Any] = {}
        for name, codec in members:
            try:
                values[name] = codec.read(reader)
            except Fault as fault:
                raise fault.inside(f".{name}") from None
        return cls(**values)

    closed = [codec.largest for _, codec in members if codec.largest is not None]
    largest = sum(closed) if len(closed) == len(members) else None
    return Codec(write, read, sum(codec.smallest for _, codec in members), depth, largest)
