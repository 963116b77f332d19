"""The group: it is the one of RFC 9496, raising commutes, and whatever is no point of it is refused."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import rbcl

from unpooled.align.ristretto import POINT_BYTES, hashed_and_raised, new_secret, raised
from unpooled.codec import Bytes
from unpooled.errors import ProtocolError

EXCHANGE = b"the exchange's name"
KEYS = [b"anna", b"bert", b"", b"\x00", b"anna\x00"]


@pytest.mark.parametrize(
    ("text", "point"),
    [
        (
            "Ristretto is traditionally a short shot of espresso coffee",
            "3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0a46",
        ),
        (
            "This produces a concentrated shot of coffee per volume.",
            "ae81e7dedf20a497e10c304a765c1767a42d6e06029758d2d7e8ef7cc4c41179",
        ),
        (
            "Just pulling a normal shot short will produce a weaker shot",
            "e2705652ff9f5e44d3e841bf1c251cf7dddb77d140870d1ab2ed64f1a9ce8628",
        ),
        (
            "and is not a Ristretto as some believe.",
            "80bd07262511cdde4863f8a7434cef696750681cb9510eea557088f76d9e5065",
        ),
    ],
)
def test_the_library_maps_hashes_to_the_points_of_the_standard(text: str, point: str) -> None:
    """RFC 9496, appendix A.3; its inputs are the SHA-512 digests of these sentences."""
    assert rbcl.crypto_core_ristretto255_from_hash(hashlib.sha512(text.encode()).digest()).hex() == point


def test_a_key_is_hashed_with_the_exchange_and_raised() -> None:
    secret = new_secret()
    digest = hashlib.sha512(b"unpooled align ristretto255 v1" + EXCHANGE + b"anna").digest()
    by_hand = rbcl.crypto_scalarmult_ristretto255(secret, rbcl.crypto_core_ristretto255_from_hash(digest))
    assert hashed_and_raised(secret, EXCHANGE, [b"anna"]).tobytes() == by_hand


def test_raising_by_several_secrets_commutes() -> None:
    a, b, c = new_secret(), new_secret(), new_secret()
    one = raised(a, "bank", raised(b, "bank", hashed_and_raised(c, EXCHANGE, KEYS)))
    other = raised(c, "bank", raised(a, "bank", hashed_and_raised(b, EXCHANGE, KEYS)))
    assert one.shape == (len(KEYS), POINT_BYTES)
    np.testing.assert_array_equal(one, other)


def test_different_keys_exchanges_and_secrets_give_different_points() -> None:
    secret, other = new_secret(), new_secret()
    points = [
        *hashed_and_raised(secret, EXCHANGE, KEYS),
        *hashed_and_raised(secret, b"another", KEYS),
        *hashed_and_raised(other, EXCHANGE, KEYS),
    ]
    assert len({point.tobytes() for point in points}) == 3 * len(KEYS)


def test_every_secret_is_another_one() -> None:
    assert len({new_secret() for _ in range(100)}) == 100


def with_bad_point(hexadecimal: str) -> Bytes:
    points = hashed_and_raised(new_secret(), EXCHANGE, KEYS).copy()
    points[2] = np.frombuffer(bytes.fromhex(hexadecimal), np.uint8)
    return points


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param("00" * 32, id="the identity"),
        pytest.param("00" + "ff" * 31, id="not canonical"),
        pytest.param("ff" * 31 + "7f", id="not canonical, below 2^255"),
        pytest.param("f3" + "ff" * 30 + "7f", id="not canonical, just beyond the prime"),
        pytest.param("ed" + "ff" * 30 + "7f", id="the prime itself"),
        pytest.param("01" + "00" * 30 + "80", id="a bit too many"),
        pytest.param("01" + "00" * 31, id="negative"),
        pytest.param("01" + "ff" * 30 + "7f", id="negative and not canonical"),
        pytest.param("ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20", id="negative, larger"),
        pytest.param("26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371", id="x^2 is no square"),
        pytest.param("4eac077a713c57b4f4397629a4145982c661f48044dd3f96427d40b147d9742f", id="x^2 is no square either"),
        pytest.param("3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e", id="xy is negative"),
        pytest.param("a45fdc55c76448c049a1ab33f17023edfb2be3581e9c7aade8a6125215e04220", id="xy is negative too"),
    ],
)
def test_what_is_no_point_is_refused_naming_sender_and_place(bad: str) -> None:
    """The encodings that RFC 9496, appendix A.2, says must be refused, a few of each sort, and the identity."""
    with pytest.raises(ProtocolError) as caught:
        raised(new_secret(), "telco", with_bad_point(bad))
    assert str(caught.value) == "telco sent, 3 values into a chunk, no point of the group or the identity"


def test_most_points_with_a_bit_flipped_are_no_points() -> None:
    """About one number in sixteen encodes a point, so a flipped bit is seen most times, but not always."""
    points = hashed_and_raised(new_secret(), EXCHANGE, [b"anna"])
    refused = 0
    for bit in range(8 * POINT_BYTES):
        flipped = points.copy()
        flipped[0, bit // 8] ^= 1 << bit % 8
        try:
            raised(new_secret(), "telco", flipped)
        except ProtocolError:
            refused += 1
    assert refused > 150


SCRIPT = """
import tempfile, pathlib
from unpooled.align import ristretto
print(len(ristretto.hashed_and_raised(ristretto.new_secret(), b"", [b"anna"])))
print(sorted(path.name for path in pathlib.Path(tempfile.gettempdir()).iterdir()))
"""


def test_the_librarys_copy_does_not_stay_in_the_temporary_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["1", "[]"]
    assert list(tmp_path.iterdir()) == []
