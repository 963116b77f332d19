"""Every type that travels comes back as it was; everything else is refused, by name."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from numpy.typing import NDArray

from unpooled import codec as codec_module
from unpooled.arrays import Bools, Floats, Ints, Ring
from unpooled.codec import (
    ALIGNMENT,
    DTYPES,
    MAX_DEPTH,
    MAX_DIMENSION,
    MAX_INT_BYTES,
    MAX_ITEMS,
    Codec,
    Fault,
    Reader,
    Writer,
    codec_for,
)
from unpooled.errors import WireError
from unpooled.wire import message


@message(discloses="nothing: made for this test")
class Empty:
    pass


@message(discloses="nothing: made for this test")
class Inner:
    x: int
    note: str | None


@message(discloses="nothing: made for this test")
class Outer:
    first: Inner
    inner: tuple[Inner, ...]
    array: Floats
    perhaps: Inner | None


BIG_INTS = st.one_of(st.integers(), st.integers(-(2**4200), 2**4200), st.sampled_from([-(2**63), 2**64, 255, -128]))
TEXTS = st.text()
INNERS = st.builds(Inner, BIG_INTS, st.none() | TEXTS)
VALUES: dict[Any, st.SearchStrategy[Any]] = {
    bool: st.booleans(),
    int: BIG_INTS,
    float: st.floats(),
    str: TEXTS,
    bytes: st.binary(),
    int | None: st.none() | BIG_INTS,
    tuple[int, ...]: st.lists(BIG_INTS, max_size=20).map(tuple),
    tuple[int | None, ...]: st.lists(st.none() | BIG_INTS).map(tuple),
    tuple[float, ...]: st.lists(st.floats()).map(tuple),
    tuple[str, ...] | None: st.none() | st.lists(TEXTS).map(tuple),
    tuple[tuple[bytes, ...], ...]: st.lists(st.lists(st.binary()).map(tuple)).map(tuple),
    tuple[Ring, ...]: st.lists(arrays(np.uint64, array_shapes(max_side=3)), max_size=4).map(tuple),
    Inner: INNERS,
    Empty: st.just(Empty()),
    Outer: st.builds(Outer, INNERS, st.lists(INNERS).map(tuple), arrays(float, (2, 3)), st.none() | INNERS),
}


def written(codec: Codec, value: object, before: bytes = b"") -> bytes:
    out = Writer()
    out.add(before)
    try:
        codec.write(out, value)
    except Fault as fault:
        raise fault.inside("field") from None
    data = b"".join(out.parts)
    assert out.size == len(data)
    return data


def read(codec: Codec, data: bytes, start: int = 0) -> Any:
    reader = Reader(memoryview(data), start)
    try:
        value = codec.read(reader)
    except Fault as fault:
        raise fault.inside("field") from None
    assert reader.left == 0
    return value


def assert_same(value: Any, back: Any) -> None:
    """Equal in type and to the bit, so that NaN is itself and 0.0 is not -0.0."""
    assert type(back) is type(value)
    if is_dataclass(value):
        for field in fields(value):
            assert_same(getattr(value, field.name), getattr(back, field.name))
    elif isinstance(value, tuple):
        assert len(back) == len(value)
        for item, item_back in zip(value, back, strict=True):
            assert_same(item, item_back)
    elif isinstance(value, np.ndarray):
        assert (back.dtype, back.shape) == (value.dtype, value.shape)
        assert back.tobytes() == value.tobytes()
    elif isinstance(value, float):
        assert struct.pack("<d", back) == struct.pack("<d", value)
    else:
        assert back == value


@pytest.mark.parametrize("annotation", VALUES, ids=str)
def test_every_type_comes_back_as_it_was_and_takes_at_least_its_smallest_size(annotation: Any) -> None:
    codec = codec_for(annotation)

    @given(VALUES[annotation], st.binary(max_size=20))
    def check(value: object, before: bytes) -> None:
        data = written(codec, value, before)
        assert_same(value, read(codec, data, len(before)))
        assert len(data) - len(before) >= codec.smallest

    check()


REARRANGED = {
    "as it is": lambda a: a,
    "Fortran order": np.asfortranarray,
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[..., ::-1] if a.ndim else a,
    "every second": lambda a: a[::2] if a.ndim else a,
    "read-only": lambda a: np.broadcast_to(a, a.shape),
}


@pytest.mark.parametrize("dtype", sorted(DTYPES, key=str), ids=str)
def test_arrays_of_every_dtype_shape_and_memory_order(dtype: np.dtype[Any]) -> None:
    codec = codec_for(NDArray[dtype.type])
    shapes = st.just(()) | array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)

    @given(arrays(dtype, shapes), st.sampled_from(list(REARRANGED.values())), st.binary(max_size=20))
    def check(array: NDArray[Any], rearrange: Any, before: bytes) -> None:
        value = rearrange(array)
        data = written(codec, value, before)
        back = read(codec, data, len(before))
        assert_same(value, back)
        assert not back.flags.writeable
        assert not back.size or np.shares_memory(back, np.frombuffer(data, np.uint8))
        assert not back.size or (len(data) - back.nbytes) % ALIGNMENT == 0

    check()


@pytest.mark.parametrize("width", [1, 2, 255, 256, MAX_INT_BYTES])
@pytest.mark.parametrize("annotation", [int, tuple[int, ...]])
def test_ints_at_the_edges_of_a_width(annotation: Any, width: int) -> None:
    codec = codec_for(annotation)
    edge = 2 ** (8 * width - 1)
    for number in (edge - 1, 1 - edge):
        value = number if annotation is int else (number, 0, -1)
        assert_same(value, read(codec, written(codec, value)))
    if width == MAX_INT_BYTES:
        with pytest.raises(WireError, match=r"^field: "):
            written(codec, edge if annotation is int else (edge,))


@pytest.mark.parametrize(
    ("annotation", "value", "complaint"),
    [
        (bool, 1, "field: .*bool.*int"),
        (int, True, "field: .*int.*bool"),
        (int, np.int64(1), "field: .*int.*int64"),
        (int | None, 1.0, "field: .*int.*float"),
        (float, 1, "field: .*float.*int"),
        (float, np.float64(1), "field: .*float.*float64"),
        (str, b"a", "field: .*str.*bytes"),
        (str, "\ud800", "field: .*Unicode"),
        (bytes, bytearray(b"a"), "field: .*bytes.*bytearray"),
        (tuple[int, ...], [1], "field: .*tuple.*list"),
        (tuple[int, ...], (1, True), "field: .*tuple.*int"),
        (tuple[str, ...], "ab", "field: .*tuple.*str"),
        (tuple[str, ...], ("a", 1), r"field\[1\]: .*str.*int"),
        (tuple[tuple[float, ...], ...], ((), (0.5, None)), r"field\[1\]\[1\]: .*float.*NoneType"),
        (Floats, [1.0], "field: .*an array of float64.*list"),
        (Floats, np.zeros(2, np.float32), "field: .*an array of float64.*an array of float32"),
        (Floats, np.zeros(2, ">f8"), "field: .*an array of float64.*an array of >f8"),
        (Floats, np.ma.masked_array([1.0], [True]), "field: .*an array of float64.*MaskedArray"),
        (Floats, np.zeros((1,) * 5), "field: .*5.*4"),
        (Bools, np.zeros((0, MAX_DIMENSION + 1), bool), "field: .*dimension"),
        (Inner, Empty(), "field: .*Inner.*Empty"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name(annotation: Any, value: object, complaint: str) -> None:
    with pytest.raises(WireError, match=complaint):
        written(codec_for(annotation), value)


def test_a_wrong_value_deep_inside_is_named_exactly() -> None:
    right = Inner(1, None)
    wrong = Outer(right, (right, right, right, Inner("one", None)), np.zeros(1), None)  # type: ignore[arg-type]
    with pytest.raises(WireError, match=r"^field\.inner\[3\]\.x: .*int.*str"):
        written(codec_for(Outer), wrong)


@pytest.mark.parametrize("annotation", [tuple[int, ...], tuple[bool, ...]])
def test_more_items_than_allowed_neither_leave_nor_arrive(annotation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec_module, "MAX_ITEMS", 3)
    codec = codec_for(annotation)
    item = annotation.__args__[0](1)
    data = written(codec, (item,) * 3)
    assert read(codec, data) == (item,) * 3
    with pytest.raises(WireError, match="4 i"):
        written(codec, (item,) * 4)
    with pytest.raises(WireError, match=r"4 .*3 "):
        read(codec, struct.pack("<I", 4) + data[4:] + b"\1")


U32, U64 = struct.Struct("<I").pack, struct.Struct("<Q").pack


@pytest.mark.parametrize(
    ("annotation", "data", "complaint"),
    [
        (bool, b"\2", "2"),
        (int | None, b"\3", "3"),
        (int, U32(0), "0 bytes"),
        (int, U32(MAX_INT_BYTES + 1) + bytes(MAX_INT_BYTES + 1), "65537"),
        (int, U32(2) + b"\1", "2.* 1 "),
        (float, bytes(7), "8.* 7 "),
        (str, U32(1) + b"\xff", "UTF-8"),
        (str, U32(3) + "\ud800".encode(errors="surrogatepass"), "UTF-8"),
        (bytes, U32(2**32 - 1), "4294967295"),
        (tuple[int, ...], U32(1) + U32(0), "1 .* 0 "),
        (tuple[int, ...], U32(0) + U32(1), "0 .* 1 "),
        (tuple[int, ...], U32(1) + U32(MAX_INT_BYTES + 1) + bytes(MAX_INT_BYTES + 1), "65537"),
        (tuple[int, ...], U32(MAX_ITEMS) + U32(1), "4194304.* 0 "),
        (tuple[int, ...], U32(2) + U32(2) + bytes(3), " 2 .* 3 "),
        (tuple[float, ...], U32(2) + bytes(15), " 2 .* 15 "),
        (tuple[bool, ...], U32(MAX_ITEMS + 1), "4194305"),
        (Floats, b"\5" + bytes(40), "5"),
        (Floats, b"\1" + U64(2**63) + bytes(7), "dimension"),
        (Floats, b"\4" + U64(MAX_DIMENSION) * 4 + bytes(15), " 0 "),
        (Ints, b"\4" + U64(0) + U64(MAX_DIMENSION) * 3 + bytes(15), "shape"),
        (Floats, b"\0" + bytes(14) + b"\1" + bytes(8), "padding"),
        (Floats, b"\0" + bytes(15) + bytes(7), "8.* 7 "),
        (Bools, b"\1" + U64(3) + bytes(7) + b"\0\1\2", "truth value"),
        (Outer, U32(1) + b"\1\0" + U32(1) + U32(9), " 1 .* 4 "),
    ],
)
def test_bytes_that_are_not_a_value_are_refused_by_name(annotation: Any, data: bytes, complaint: str) -> None:
    with pytest.raises(WireError, match=rf"^field\S*: .*{complaint}"):
        read(codec_for(annotation), data)


@pytest.mark.parametrize(
    "annotation",
    [
        object,
        complex,
        list[int],
        dict[str, int],
        tuple[int, str],
        tuple[Empty, ...],
        int | str,
        int | str | None,
        np.ndarray,
        NDArray[Any],
        NDArray[np.object_],
        NDArray[np.str_],
        NDArray[np.complex128],
        NDArray[np.float16],
        type("Inherited", (Inner,), {}),
    ],
    ids=str,
)
def test_a_type_outside_the_closed_set_does_not_travel(annotation: Any) -> None:
    with pytest.raises(TypeError):
        codec_for(annotation)


Nested4 = tuple[tuple[tuple[tuple[bool, ...], ...], ...], ...]
Nested7 = tuple[tuple[tuple[Nested4, ...], ...], ...]


def test_nesting_is_limited_where_a_message_is_declared() -> None:
    @message(discloses="nothing: made for this test")
    class Deepest:
        x: Nested7

    assert codec_for(Deepest).depth == MAX_DEPTH
    with pytest.raises(TypeError, match=r"Deeper.* 9 .* 8 "):

        @message(discloses="nothing: made for this test")
        class Deeper:
            x: tuple[Nested7, ...]
