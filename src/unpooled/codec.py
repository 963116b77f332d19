"""How the fields of a message become bytes: a closed set of types, compiled from the field's annotation.

==========================  =====================================================================
annotation                  bytes (all numbers little-endian)
==========================  =====================================================================
``bool``                    1 byte, 0 or 1
``int``                     length u32, then two's complement of any size
``float``                   8 bytes
``str``, ``bytes``          length u32, then UTF-8 or the bytes
``T | None``                1 byte, 0 or 1, then T
``tuple[int, ...]``         count u32, width u32, then count numbers of that width (ciphertexts travel so)
``tuple[T, ...]``           count u32, then each T
``NDArray[dtype]``          dimensions u8, each u64, zeros up to a multiple of 16, then the raw array
a message class             its fields in order
==========================  =====================================================================

Reading follows the declaration, so nothing nests deeper than declared, and every count is compared with the bytes
that are really there before anything is allocated.
"""

from __future__ import annotations

import math
import struct
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

Bools = NDArray[np.bool_]
Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Ints32 = NDArray[np.int32]
Floats = NDArray[np.float64]
Ring = NDArray[np.uint64]


class Writer:
    """Collects a frame as parts; large arrays stay where they are, as views."""

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
    """Reads a frame from front to back; asking for more than there is raises."""

    def __init__(self, data: memoryview, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def take(self, count: int, where: str) -> memoryview:
        if count > self.left:
            raise WireError(f"{where}: needs {count} bytes, but {self.left} are left")
        start = self.position
        self.position += count
        return self.data[start : self.position]

    def number(self, form: struct.Struct, where: str) -> int:
        value: int = form.unpack(self.take(form.size, where))[0]
        return value

    def flag(self, where: str) -> bool:
        byte = self.take(1, where)[0]
        if byte > 1:
            raise WireError(f"{where}: {byte} is neither 0 nor 1")
        return byte == 1


@dataclass(frozen=True)
class Codec:
    """How one type is written and read; `smallest`: the fewest bytes a value takes, `depth`: how deep it nests."""

    write: Callable[[Writer, Any, str], None]
    read: Callable[[Reader, str], Any]
    smallest: int
    depth: int = 0


U8, U32, U64, F64 = struct.Struct("<B"), struct.Struct("<I"), struct.Struct("<Q"), struct.Struct("<d")


def _wrong(where: str, expected: str, value: object) -> WireError:
    return WireError(f"{where}: expected {expected}, got {type(value).__name__}")


def _check_count(count: int, bytes_each: int, reader: Reader, where: str) -> None:
    if count > MAX_ITEMS:
        raise WireError(f"{where}: {count} items, at most {MAX_ITEMS} are allowed")
    if count * bytes_each > reader.left:
        raise WireError(f"{where}: announces {count} items, but only {reader.left} bytes are left")


def _write_bool(out: Writer, value: Any, where: str) -> None:
    if type(value) is not bool:
        raise _wrong(where, "bool", value)
    out.add(b"\1" if value else b"\0")


def _width(value: int) -> int:
    return value.bit_length() // 8 + 1


def _write_int(out: Writer, value: Any, where: str) -> None:
    if type(value) is not int:
        raise _wrong(where, "int", value)
    width = _width(value)
    if width > MAX_INT_BYTES:
        raise WireError(f"{where}: an int of {width} bytes, at most {MAX_INT_BYTES} are allowed")
    out.add(U32.pack(width) + value.to_bytes(width, "little", signed=True))


def _read_int(reader: Reader, where: str) -> int:
    width = reader.number(U32, where)
    if not 1 <= width <= MAX_INT_BYTES:
        raise WireError(f"{where}: an int of {width} bytes, 1 to {MAX_INT_BYTES} are allowed")
    return int.from_bytes(reader.take(width, where), "little", signed=True)


def _write_float(out: Writer, value: Any, where: str) -> None:
    if type(value) is not float:
        raise _wrong(where, "float", value)
    out.add(F64.pack(value))


def _read_float(reader: Reader, where: str) -> float:
    value: float = F64.unpack(reader.take(8, where))[0]
    return value


def _write_text(out: Writer, value: Any, where: str) -> None:
    if type(value) is not str:
        raise _wrong(where, "str", value)
    try:
        data = value.encode()
    except UnicodeEncodeError as error:
        raise WireError(f"{where}: the text is not valid Unicode") from error
    _write_bytes(out, data, where)


def _read_text(reader: Reader, where: str) -> str:
    try:
        return str(reader.take(reader.number(U32, where), where), "utf-8")
    except UnicodeDecodeError as error:
        raise WireError(f"{where}: the text is not UTF-8") from error


def _write_bytes(out: Writer, value: Any, where: str) -> None:
    if type(value) is not bytes:
        raise _wrong(where, "bytes", value)
    if len(value) >= 2**32:
        raise WireError(f"{where}: {len(value)} bytes, fewer than 4 GiB are allowed; send an array")
    out.add(U32.pack(len(value)) + value)


def _read_bytes(reader: Reader, where: str) -> bytes:
    return bytes(reader.take(reader.number(U32, where), where))


def _write_ints(out: Writer, value: Any, where: str) -> None:
    if type(value) is not tuple or any(type(item) is not int for item in value):
        raise _wrong(where, "a tuple of int", value)
    width = max(map(_width, value), default=0)
    if width > MAX_INT_BYTES or len(value) > MAX_ITEMS:
        raise WireError(f"{where}: {len(value)} ints of {width} bytes are more than is allowed")
    out.add(U32.pack(len(value)) + U32.pack(width))
    out.add(b"".join(item.to_bytes(width, "little", signed=True) for item in value))


def _read_ints(reader: Reader, where: str) -> tuple[int, ...]:
    count, width = reader.number(U32, where), reader.number(U32, where)
    if width > MAX_INT_BYTES or (width == 0) != (count == 0):
        raise WireError(f"{where}: {count} ints of {width} bytes are not allowed")
    _check_count(count, width, reader, where)
    data = reader.take(count * width, where)
    starts = range(0, count * width, width or 1)
    return tuple(int.from_bytes(data[start : start + width], "little", signed=True) for start in starts)


def _tuple_of(item: Codec) -> Codec:
    if not item.smallest:
        raise TypeError("a tuple of messages without fields does not travel: its length could not be checked")

    def write(out: Writer, value: Any, where: str) -> None:
        if type(value) is not tuple:
            raise _wrong(where, "a tuple", value)
        if len(value) > MAX_ITEMS:
            raise WireError(f"{where}: {len(value)} items, at most {MAX_ITEMS} are allowed")
        out.add(U32.pack(len(value)))
        for index, element in enumerate(value):
            item.write(out, element, f"{where}[{index}]")

    def read(reader: Reader, where: str) -> tuple[Any, ...]:
        count = reader.number(U32, where)
        _check_count(count, item.smallest, reader, where)
        return tuple(item.read(reader, f"{where}[{index}]") for index in range(count))

    return Codec(write, read, 4, item.depth + 1)


def _optional(item: Codec) -> Codec:
    def write(out: Writer, value: Any, where: str) -> None:
        _write_bool(out, value is not None, where)
        if value is not None:
            item.write(out, value, where)

    def read(reader: Reader, where: str) -> Any:
        return item.read(reader, where) if reader.flag(where) else None

    return Codec(write, read, 1, item.depth)


def _check_shape(shape: tuple[int, ...], where: str) -> None:
    if len(shape) > MAX_DIMENSIONS:
        raise WireError(f"{where}: {len(shape)} dimensions, at most {MAX_DIMENSIONS} are allowed")
    if any(length > MAX_DIMENSION for length in shape):
        raise WireError(f"{where}: a dimension is longer than {MAX_DIMENSION}")


def _array_of(dtype: np.dtype[Any]) -> Codec:
    if dtype not in DTYPES:
        raise TypeError(f"arrays of {dtype} do not travel")
    stored = dtype.newbyteorder("<")

    def write(out: Writer, value: Any, where: str) -> None:
        if type(value) is not np.ndarray:  # a masked array would travel without its mask
            raise _wrong(where, f"an array of {dtype}", value)
        if value.dtype != dtype:
            raise WireError(f"{where}: expected an array of {dtype}, got an array of {value.dtype}")
        _check_shape(value.shape, where)
        out.add(U8.pack(value.ndim) + b"".join(U64.pack(length) for length in value.shape))
        out.add(bytes(-out.size % ALIGNMENT))
        flat = np.ascontiguousarray(value, dtype=stored).reshape(-1)
        if flat.nbytes:
            out.add_view(flat.data.cast("B"))

    def read(reader: Reader, where: str) -> NDArray[Any]:
        dimensions = reader.number(U8, where)
        shape = tuple(reader.number(U64, where) for _ in range(dimensions))
        _check_shape(shape, where)
        if any(reader.take(-reader.position % ALIGNMENT, where)):
            raise WireError(f"{where}: the padding is not zero")
        count = math.prod(shape)
        data = reader.take(count * stored.itemsize, where)
        if dtype.kind == "b" and count and np.frombuffer(data, np.uint8).max() > 1:
            raise WireError(f"{where}: a truth value is neither 0 nor 1")
        try:
            return np.frombuffer(data, stored).reshape(shape).astype(dtype, copy=False)
        except ValueError as error:
            raise WireError(f"{where}: not a possible shape") from error

    return Codec(write, read, 1)


_SIMPLE = {
    bool: Codec(_write_bool, lambda reader, where: reader.flag(where), 1),
    int: Codec(_write_int, _read_int, 5),
    float: Codec(_write_float, _read_float, 8),
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
    raise TypeError(f"{annotation} does not travel; see unpooled.codec for what does")


def fields_codec(cls: type) -> Codec:
    """The codec of a dataclass: its fields, in order."""
    hints = get_type_hints(cls)
    members = [(field.name, codec_for(hints[field.name])) for field in fields(cls)]
    depth = 1 + max((codec.depth for _, codec in members), default=0)
    if depth > MAX_DEPTH:
        raise TypeError(f"{cls.__name__} nests {depth} deep, at most {MAX_DEPTH} are allowed")

    def write(out: Writer, value: Any, where: str) -> None:
        if type(value) is not cls:
            raise _wrong(where, cls.__name__, value)
        for name, codec in members:
            codec.write(out, getattr(value, name), f"{where}.{name}")

    def read(reader: Reader, where: str) -> Any:
        return cls(**{name: codec.read(reader, f"{where}.{name}") for name, codec in members})

    return Codec(write, read, sum(codec.smallest for _, codec in members), depth)
