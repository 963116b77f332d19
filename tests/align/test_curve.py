"""Points by compiled loops are libsodium's to the bit, and its arithmetic is that of Python's integers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import rbcl

from unpooled import compiled
from unpooled.align import curve, ristretto
from unpooled.align.curve import field
from unpooled.align.curve.field import LANES
from unpooled.align.ristretto import POINT_BYTES, checked, hashed_and_raised, raised
from unpooled.arrays import Bytes
from unpooled.errors import ProtocolError

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
BITS = [26, 25] * 5
WEIGHTS = [2 ** sum(BITS[:place]) for place in range(10)]
EDGES = [0, 1, 2, 18, 19, 20, P - 2, P - 1, P, P + 1, P + 18, 2**255 - 1, 2**254, 2**230, 2**230 - 1, (P - 1) // 2]

Both = Callable[[Callable[[], Any]], tuple[Any, Any]]


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """What a function gives, or is refused with, by libsodium, and by compiled loops."""

    def results(function: Callable[[], Any]) -> tuple[Any, Any]:
        found = []
        for choice in (False, True):
            monkeypatch.setattr(compiled, "_choice", lambda choice=choice: choice)
            try:
                found.append(function().tolist())
            except (ProtocolError, RuntimeError) as error:
                found.append((type(error), str(error)))
        return found[0], found[1]

    monkeypatch.setattr(ristretto, "_LEAST", 1)
    monkeypatch.setattr(ristretto, "wide_vectors", lambda: True)
    return results


def scalar(number: int) -> bytes:
    return number.to_bytes(32, "little")


def rows(points: Sequence[bytes]) -> Bytes:
    return np.frombuffer(b"".join(points), np.uint8).reshape(-1, POINT_BYTES)


def digests(count: int) -> list[bytes]:
    return [hashlib.sha512(b"%d" % number).digest() for number in range(count)]


def some_points(count: int) -> list[bytes]:
    return [rbcl.crypto_core_ristretto255_from_hash(digest) for digest in digests(count)]


def multiple(number: int, point: bytes) -> bytes | None:
    """Libsodium's; nothing if it refuses."""
    try:
        found: bytes = rbcl.crypto_scalarmult_ristretto255(scalar(number), point)
    except RuntimeError:
        return None
    return found


# numbers mod p


def block(limbs: Sequence[Sequence[int]]) -> Any:
    """Numbers as limbs, in all lanes by turns."""
    lanes = [limbs[lane % len(limbs)] for lane in range(LANES)]
    return np.array(lanes, np.uint64).T.reshape(-1).copy()


def split(number: int) -> list[int]:
    return [int(limb) for limb in curve.limbs(number)]


def values(found: Any) -> list[int]:
    """The numbers of a block, which must be one-fold."""
    limbs = found.reshape(10, LANES)
    for place, bits in enumerate(BITS):
        assert (limbs[place] <= 1.01 * 2**bits).all()
    return [sum(int(limb) * weight for limb, weight in zip(lane, WEIGHTS, strict=True)) for lane in limbs.T]


def manifold(times: int) -> list[list[int]]:
    """Numbers whose limbs are as large as they may be, and others below that."""
    draw = np.random.default_rng(times)
    most = [int(1.01 * times * 2**bits) for bits in BITS]
    some = [[int(draw.integers(limb + 1)) for limb in most] for _ in range(20)]
    return [most, [limb * (place % 2) for place, limb in enumerate(most)], [most[0], *[0] * 9], *some]


def unsigned(words: Sequence[int]) -> Any:
    """As compiled loops have them."""
    return tuple(np.uint64(word) for word in words)


def number_of(limbs: Sequence[int]) -> int:
    return sum(limb * weight for limb, weight in zip(limbs, WEIGHTS, strict=True))


ONE_FOLD = [split(number) for number in EDGES] + manifold(1)


@pytest.mark.parametrize(
    ("loop", "ones", "others", "by_hand"),
    [
        (field.multiply, ONE_FOLD, ONE_FOLD[::-1], lambda f, g: f * g),
        (field.multiply, manifold(3), manifold(3)[::-1], lambda f, g: f * g),
        (field.multiply, manifold(10), manifold(3), lambda f, g: f * g),
        (field.add, ONE_FOLD, ONE_FOLD[::-1], lambda f, g: f + g),
        (field.add, manifold(5), manifold(3), lambda f, g: f + g),
        (field.subtract, ONE_FOLD, ONE_FOLD[::-1], lambda f, g: f - g),
        (field.subtract, manifold(10), manifold(1), lambda f, g: f - g),
    ],
)
def test_two_numbers(loop: Any, ones: Any, others: Any, by_hand: Callable[[int, int], int]) -> None:
    f, g, made = block(ones), block(others), block([[0] * 10])
    for shift in range(0, LANES, 5):  # other pairs
        g = np.roll(g.reshape(10, LANES), shift, axis=1).reshape(-1).copy()
        loop(made, f, g)
        pairs = zip(f.reshape(10, LANES).T.tolist(), g.reshape(10, LANES).T.tolist(), strict=True)
        expected = [by_hand(number_of(one), number_of(other)) % P for one, other in pairs]
        assert [value % P for value in values(made)] == expected


@pytest.mark.parametrize("limbs", [ONE_FOLD, manifold(3)])
def test_squares_and_roots(limbs: list[list[int]]) -> None:
    f, made = block(limbs), block([[0] * 10])
    numbers = [number_of(limbs[lane % len(limbs)]) for lane in range(LANES)]
    field.square(made, f)
    assert [value % P for value in values(made)] == [number**2 % P for number in numbers]
    field.raise_to_root(made, f, np.zeros((4, field.SIZE), np.uint64))
    assert [value % P for value in values(made)] == [pow(number, (P - 5) // 8, P) for number in numbers]


@pytest.mark.parametrize("limbs", ONE_FOLD)
def test_one_number(limbs: list[int]) -> None:
    given, number = unsigned(limbs), number_of(limbs) % P
    canonical = unsigned(field.canonical(given))
    assert [int(limb) for limb in canonical] == split(number)
    assert (int(field.is_zero(canonical)) != 0) is (number == 0)
    assert (int(field.is_negative(canonical)) != 0) is (number % 2 == 1)
    words = field.to_words(canonical)
    assert b"".join(int(word).to_bytes(8, "little") for word in words) == scalar(number)
    assert field.from_words(*unsigned(words)) == canonical
    assert number_of([int(limb) for limb in field.absolute(given)]) == (number if number % 2 == 0 else P - number)


def test_the_constants_are_what_they_are_called() -> None:
    zero, one, two, root, d, twice, left, squared, root_left, inverse = curve._constants()
    assert (zero, one, two, twice) == (0, 1, 2, 2 * d % P)
    assert (root**2 % P, d * 121666 % P) == (P - 1, -121665 % P)
    assert (left, squared) == ((1 - d**2) % P, (d - 1) ** 2 % P)
    assert (root_left**2 % P, inverse**2 * (-1 - d) % P) == ((-d - 1) % P, 1)


# the standard's own examples

GENERATOR = "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2d76"
MULTIPLES = [
    "6a493210f7499cd17fecb510ae0cea23a110e8d5b901f8acadd3095c73a3b919",
    "94741f5d5d52755ece4f23f044ee27d5d1ea1e2bd196b462166b16152a9d0259",
]
"""The second and the third; the others are compared with libsodium's."""


def test_multiples_of_the_generator() -> None:
    base = bytes.fromhex(GENERATOR)
    found = [curve.raised(scalar(number), rows([base]))[0].tobytes() for number in range(1, 17)]
    assert [point.hex() for point in found[:3]] == [GENERATOR, *MULTIPLES]
    assert found == [multiple(number, base) for number in range(1, 17)]
    assert not curve.raised(scalar(0), rows([base]))[1].any()


FULL, HIGH = "ff" * 32, "00" * 31 + "80"
SAME = [
    "ed" + "ff" * 31 + "12" + "00" * 31,
    "ed" + "ff" * 30 + "7f" + FULL,
    HIGH + "ff" * 31 + "7f",
    "00" * 32 + "12" + "00" * 30 + "80",
]


def test_digests_that_are_no_canonical_numbers() -> None:
    """RFC 9496, appendix A.3: these all give the same point."""
    made = curve.raised_digests(scalar(1), b"".join(bytes.fromhex(digest) for digest in SAME))
    same = "304282791023b73128d277bdcb5c7746ef2eac08dde9f2983379cb8e5ef0517f"
    assert [row.tobytes().hex() for row in made] == [same] * 4


# beside libsodium

SCALARS = [
    *range(18),
    ORDER - 1,
    ORDER,
    ORDER + 1,
    2 * ORDER,
    8 * ORDER - 1,
    2**252,
    2**255 - 1,
    2**255,
    2**256 - 1,
    *[int(digit * 64, 16) for digit in "123456789abcde"],
    int("78" * 32, 16),
    int("08" * 32, 16),
]
POINTS = some_points(40)


@pytest.mark.parametrize("number", SCALARS)
def test_special_scalars(number: int) -> None:
    expected = [multiple(number, point) for point in POINTS]
    made, valid = curve.raised(scalar(number), rows(POINTS))
    assert [row.tobytes() if good else None for row, good in zip(made, valid, strict=True)] == expected
    by_hash = curve.raised_digests(scalar(number), b"".join(digests(len(POINTS))))
    assert [row.tobytes() for row in by_hash] == [point or bytes(POINT_BYTES) for point in expected]


def test_thousands_of_points_and_scalars() -> None:
    draw = np.random.default_rng(1)
    points = some_points(2000)
    for part in range(0, len(points), 100):
        some, number = points[part : part + 100], int.from_bytes(draw.bytes(32), "little")
        made, valid = curve.raised(scalar(number), rows(some))
        assert valid.all()
        assert [row.tobytes() for row in made] == [multiple(number, point) for point in some]
        hashes = [draw.bytes(64) for _ in range(100)]
        from_hash = rbcl.crypto_core_ristretto255_from_hash
        expected = [multiple(number, from_hash(digest)) for digest in hashes]
        assert [row.tobytes() for row in curve.raised_digests(scalar(number), b"".join(hashes))] == expected


@pytest.mark.parametrize("count", [0, 1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 5])
def test_any_number_of_points(both: Both, count: int) -> None:
    secret, keys = scalar(ORDER // 3), [b"%d" % number for number in range(count)]
    one, other = both(lambda: hashed_and_raised(secret, b"", keys))
    assert one == other
    assert len(one) == count
    points = rows(some_points(count)).copy()
    one, other = both(lambda: raised(secret, "bank", points))
    assert one == other
    one, other = both(lambda: checked("bank", points))
    assert one == other == points.tolist()


def encodings() -> list[bytes]:
    """Arbitrary ones, of which about one in sixteen is a point; points with a bit changed; what is at the edges."""
    draw = np.random.default_rng(2)
    found = [draw.bytes(32) for _ in range(1000)]
    found += [scalar(int.from_bytes(text, "little") & (2**255 - 2)) for text in found]
    for bit in range(256):
        changed = bytearray(POINTS[bit % len(POINTS)])
        changed[bit // 8] ^= 1 << bit % 8
        found.append(bytes(changed))
    numbers = {edge + more for edge in (0, P, 2 * P, 2**255, 2**256 - 40) for more in range(-40, 40)}
    found += [scalar(number) for number in sorted(numbers) if 0 <= number < 2**256]
    return found + [bytes((*point[:31], point[31] | 0x80)) for point in POINTS]


def test_what_libsodium_refuses_is_refused() -> None:
    given = encodings()
    plain = [point[31] < 128 and point != bytes(32) for point in given]
    valid = [rbcl.crypto_core_ristretto255_is_valid_point(point) for point in given]
    expected = [first and second for first, second in zip(plain, valid, strict=True)]
    assert curve.valid(rows(given)).tolist() == expected
    made, found = curve.raised(scalar(ORDER - 5), rows(given))
    assert found.tolist() == expected
    multiples = [multiple(ORDER - 5, point) for point, good in zip(given, expected, strict=True) if good]
    assert [row.tobytes() for row in made[found]] == multiples
    assert 100 < sum(expected) < len(given) // 2


@pytest.mark.parametrize("place", [0, 1, LANES - 1, LANES, 2 * LANES + 3])
@pytest.mark.parametrize("bad", [bytes(32), scalar(P), scalar(1), scalar(P - 1), b"\xff" * 32])
def test_the_first_invalid_point_is_named(both: Both, place: int, bad: bytes) -> None:
    points = rows([*some_points(2 * LANES + 4), scalar(3)]).copy()
    points[place] = np.frombuffer(bad, np.uint8)
    for check in (checked, lambda sender, given: raised(scalar(5), sender, given)):
        one, other = both(lambda check=check: check("telco", points))
        assert one == other
        assert f"telco: value {place + 1} of" in one[1]


def test_a_secret_that_hides_nothing_is_refused(both: Both) -> None:
    for number in (0, ORDER):
        one, other = both(lambda number=number: hashed_and_raised(scalar(number), b"", [b"anna", b"bert"]))
        assert one == other
        assert one[0] is RuntimeError


def test_points_that_are_not_side_by_side_in_memory(both: Both) -> None:
    points = rows(POINTS)[::2]
    one, other = both(lambda: raised(scalar(77), "bank", points))
    assert one == other


def test_few_points_are_left_to_libsodium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_choice", lambda: True)
    monkeypatch.setattr(curve, "raised", None)
    few = rows(POINTS[: ristretto._LEAST - 1])
    assert raised(scalar(1), "bank", few).tolist() == few.tolist()


def test_a_processor_with_short_vectors_leaves_all_to_libsodium(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_choice", lambda: True)
    monkeypatch.setattr(ristretto, "wide_vectors", lambda: False)
    monkeypatch.setattr(curve, "raised", None)
    points = rows(POINTS)
    assert raised(scalar(1), "bank", points).tolist() == points.tolist()
    assert not ristretto.many(100_000)


def test_a_few_points_show_what_many_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a forecast, whatever the process has done before; `_choice` is what the environment says."""
    monkeypatch.setattr(compiled, "_choice", lambda: None)
    monkeypatch.setattr(compiled, "_cells", 0)
    monkeypatch.setattr(ristretto, "wide_vectors", lambda: True)
    used: list[int] = []
    in_loops = curve.valid
    monkeypatch.setattr(curve, "valid", lambda points: used.append(len(points)) or in_loops(points))
    points = rows(POINTS)
    for so_many, expected in ((1_000, []), (100_000, [len(points)])):
        with ristretto.as_with(so_many):
            used.clear()
            checked("bank", points)
            assert used == expected
    assert compiled._cells == 0
    assert ristretto.many(100_000)
    monkeypatch.setattr(compiled, "_choice", lambda: False)
    assert not ristretto.many(100_000)
