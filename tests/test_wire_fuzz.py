"""Whatever bytes arrive, the answer is a message or a `WireError`, soon, and in memory that the bytes account for."""

from __future__ import annotations

import random
import struct
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from unpooled.arrays import Bools, Bytes, Floats, Ints, Ints32, Ring
from unpooled.codec import MAX_DIMENSION, MAX_INT_BYTES, MAX_ITEMS
from unpooled.control import Abort, Goodbye, PlanOffer
from unpooled.errors import WireError
from unpooled.wire import encode, message, read_body, read_header

FRAMES = 20_000
MEASURED_FRAMES = 400
SLOWEST_SECONDS = 1.0

# The dearest byte is a truth value that is a message of its own in a tuple: an object with its dictionary, about 80
# bytes, and its place in the tuple, 8 bytes and an eighth to spare. Every further message around it would cost 80 more,
# so the factor is that of the kinds below, not of whatever could be declared. The slack is for an error and its text.
ALLOCATED_PER_BYTE = 128
SLACK_BYTES = 16 * 2**10


@message(discloses="nothing: made for this test")
class Flag:
    yes: bool


@message(discloses="nothing: made for this test")
class Scalars:
    yes: bool
    number: int
    real: float
    text: str
    raw: bytes
    perhaps: float | None


@message(discloses="nothing: made for this test")
class Numbers:
    ciphertexts: tuple[int, ...]
    gaps: tuple[int | None, ...]
    floats: tuple[float, ...]


@message(discloses="nothing: made for this test")
class Nested:
    flags: tuple[Flag, ...]
    one: Scalars | None
    many: tuple[Scalars, ...]
    words: tuple[tuple[str, ...], ...]


@message(discloses="nothing: made for this test")
class Arrays:
    ring: Ring
    ints: Ints
    ints32: Ints32
    floats: Floats
    mask: Bools
    raw: Bytes
    perhaps: Floats | None
    several: tuple[Floats, ...]


def samples(scale: int) -> list[object]:
    """A message of every kind, with everything that can be longer `scale` long."""
    rng = np.random.default_rng(scale)
    scalars = Scalars(True, -(3 ** (10 * scale)), 0.1, "naïve" * scale, bytes(range(scale)), 1.5)
    return [
        scalars,
        Numbers(tuple(7**i for i in range(scale)), (None, 1) * scale, (0.5,) * scale),
        Nested((Flag(True),) * 10 * scale, scalars, (scalars,) * 2, (("a", ""), ()) * scale),
        Arrays(
            rng.integers(0, 2**64, (scale, 3), dtype=np.uint64),
            np.arange(scale),
            np.zeros((2, scale, 1, 2), np.int32),
            np.array(0.5),
            rng.random(scale) < 0.5,
            np.zeros((scale, 0), np.uint8),
            None,
            (np.zeros(scale), np.zeros((2, 2))),
        ),
        Abort("bank", "it failed" * scale),
        PlanOffer(1, ("seed", "rows") * scale, (b"12345678",) * scale),
        Goodbye(),
    ]


# mutations: bytes -> bytes

LENGTHS = [0, 1, 2, 7, 127, 128, 255, 2**16, 2**22, 2**22 + 1, 2**31, 2**32 - 1, 2**40, 2**63, 2**64 - 1]


def flip_bits(r: random.Random, data: bytearray, _other: bytes) -> None:
    for _ in range(r.randint(1, 4)):
        data[r.randrange(len(data))] ^= 1 << r.randrange(8)


def edit_a_length(r: random.Random, data: bytearray, _other: bytes) -> None:
    number = (r.choice(LENGTHS) + r.randint(-1, 1)) % 2**64
    width = r.choice([1, 2, 4, 8])
    start = r.randrange(len(data))
    data[start : start + width] = number.to_bytes(8, "little")[:width]


def cut(r: random.Random, data: bytearray, _other: bytes) -> None:
    start = r.randrange(len(data))
    del data[start : r.choice([len(data), start + 1, start + 4, start + 8])]


def repeat(r: random.Random, data: bytearray, _other: bytes) -> None:
    start = r.randrange(len(data))
    piece = data[start : start + r.randint(1, 16)]
    data[start:start] = piece * r.randint(1, 8)


def splice(r: random.Random, data: bytearray, other: bytes) -> None:
    data[r.randrange(len(data)) :] = other[r.randrange(len(other)) :]


def overwrite(r: random.Random, data: bytearray, _other: bytes) -> None:
    start = r.randrange(len(data))
    count = r.randint(1, 12)
    data[start : start + count] = r.randbytes(count)


def replace_the_fields(r: random.Random, data: bytearray, _other: bytes) -> None:
    start = read_header(data).start
    data[start:] = r.randbytes(r.randrange(60))


def replace_all(r: random.Random, data: bytearray, _other: bytes) -> None:
    data[:] = r.randbytes(r.randrange(60))


MUTATIONS: list[Callable[[random.Random, bytearray, bytes], None]] = [
    flip_bits,
    edit_a_length,
    cut,
    repeat,
    splice,
    overwrite,
    replace_the_fields,
    replace_all,
]


def mutated(count: int, scale: int, seed: int) -> Iterator[tuple[type, str, bytes]]:
    """Kinds, the mutation's name, and frames of those kinds that were tampered with."""
    r = random.Random(seed)
    frames = [(type(sample), encode(sample, "fit/tree 3").joined()) for sample in samples(scale)]
    for _ in range(count):
        kind, original = r.choice(frames)
        data = bytearray(original)
        mutation = r.choice(MUTATIONS)
        mutation(r, data, r.choice(frames)[1])
        yield kind, mutation.__name__, bytes(data)


def answer(kind: type, data: bytes) -> object:
    """The message, or None for a WireError; anything else is a failure."""
    try:
        return read_body(read_header(data), kind)
    except WireError:
        return None


def test_mutated_frames_are_messages_or_refused() -> None:
    decoded: Counter[type] = Counter()
    refused: Counter[str] = Counter()
    slowest = 0.0
    for kind, mutation, data in mutated(FRAMES, scale=3, seed=1):
        begin = time.thread_time()
        found = answer(kind, data)
        slowest = max(slowest, time.thread_time() - begin)
        if found is None:
            refused[mutation] += 1
        else:
            assert type(found) is kind
            assert encode(found).size <= len(data)
            decoded[kind] += 1
    assert sum(decoded.values()) + sum(refused.values()) == FRAMES
    assert slowest < SLOWEST_SECONDS
    # mutations that are all refused, or all let through, would show nothing
    assert all(decoded[type(sample)] > FRAMES // 500 for sample in samples(1))
    assert all(refused[mutation.__name__] > FRAMES // 100 for mutation in MUTATIONS)


def allocated(kind: type, data: bytes) -> tuple[object, int]:
    """The answer, and the most memory that was in use on the way to it."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    found = answer(kind, data)
    return found, tracemalloc.get_traced_memory()[1] - before


@pytest.fixture
def _traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("_traced")
def test_mutated_frames_take_no_more_memory_than_their_bytes_account_for() -> None:
    for kind, _, data in mutated(MEASURED_FRAMES, scale=100, seed=2):
        assert allocated(kind, data)[1] <= ALLOCATED_PER_BYTE * len(data) + SLACK_BYTES


@pytest.mark.usefixtures("_traced")
def test_the_dearest_bytes_stay_within_the_bound_which_is_not_far_above() -> None:
    data = encode(Nested((Flag(True),) * 20_000, None, (), ())).joined()
    found, peak = allocated(Nested, data)
    assert isinstance(found, Nested)
    assert ALLOCATED_PER_BYTE / 4 * len(data) < peak <= ALLOCATED_PER_BYTE * len(data)


U32, U64 = struct.Struct("<I").pack, struct.Struct("<Q").pack


@pytest.mark.usefixtures("_traced")
@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Numbers, U32(MAX_ITEMS) + U32(1) + bytes(12)),
        (Numbers, U32(MAX_ITEMS) + U32(MAX_INT_BYTES) + bytes(12)),
        (Numbers, U32(2**32 - 1) + U32(2**32 - 1) + bytes(12)),
        (Numbers, U32(0) + U32(0) + U32(MAX_ITEMS) + bytes(12)),
        (Nested, U32(MAX_ITEMS) + bytes(16)),
        (Nested, U32(0) + b"\0" + U32(0) + U32(4) + U32(MAX_ITEMS) * 4),
        (Scalars, b"\1" + U32(MAX_INT_BYTES) + bytes(16)),
        (Scalars, b"\1" + U32(1) + b"\0" + bytes(8) + U32(2**32 - 1) + b"text"),
        (Arrays, b"\xff" + U64(2**63) * 2),
        (Arrays, b"\1" + U64(2**63)),
        (Arrays, b"\4" + U64(MAX_DIMENSION) * 4 + bytes(32)),
        (Arrays, b"\2" + U64(2**32) * 2 + bytes(32)),
        (Arrays, b"\4" + U64(0) + U64(MAX_DIMENSION) * 3 + bytes(32)),
        (Goodbye, bytes(20)),
    ],
)
def test_a_frame_that_announces_more_than_it_holds_costs_nothing(kind: type, fields: bytes) -> None:
    header = encode(next(sample for sample in samples(1) if type(sample) is kind)).joined()
    start = read_header(header).start
    found, peak = allocated(kind, header[:start] + fields)
    assert found is None
    assert peak <= SLACK_BYTES
