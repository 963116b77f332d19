"""The group: it is the one of RFC 9496, raising commutes, and whatever is no point of it is refused."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import rbcl

from unpooled import compiled
from unpooled.align import curve, ristretto
from unpooled.align.ristretto import POINT_BYTES, checked, hashed_and_raised, new_secret, raised
from unpooled.arrays import Bytes
from unpooled.errors import InputError, ProtocolError

EXCHANGE = b"the exchange's name"
KEYS = [b"anna", b"bert", b"", b"\x00", b"anna\x00"]


@pytest.fixture(params=["libsodium", "loops"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Points by libsodium, and by compiled loops."""
    monkeypatch.setattr(compiled, "_choice", lambda: request.param == "loops")
    monkeypatch.setattr(ristretto, "_LEAST", 1)


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
def test_hashes_are_mapped_to_the_points_of_the_standard(text: str, point: str) -> None:
    """RFC 9496, appendix A.3; its inputs are the SHA-512 digests of these sentences."""
    digest = hashlib.sha512(text.encode()).digest()
    assert rbcl.crypto_core_ristretto255_from_hash(digest).hex() == point
    assert curve.raised_digests(bytes([1, *[0] * 31]), digest).tobytes().hex() == point


@pytest.mark.usefixtures("way")
def test_a_key_is_hashed_with_the_exchange_and_raised() -> None:
    secret = new_secret()
    digest = hashlib.sha512(b"unpooled align ristretto255 v1" + EXCHANGE + b"anna").digest()
    by_hand = rbcl.crypto_scalarmult_ristretto255(secret, rbcl.crypto_core_ristretto255_from_hash(digest))
    assert hashed_and_raised(secret, EXCHANGE, [b"anna"]).tobytes() == by_hand


@pytest.mark.usefixtures("way")
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


BAD = {
    "the identity": ["00" * 32],
    "not canonical": ["00" + "ff" * 31, "ff" * 31 + "7f", "f3" + "ff" * 30 + "7f", "ed" + "ff" * 30 + "7f"],
    "negative": [
        "01" + "00" * 31,
        "01" + "ff" * 30 + "7f",
        "ed57ffd8c914fb201471d1c3d245ce3c746fcbe63a3679d51b6a516ebebe0e20",
        "c34c4e1826e5d403b78e246e88aa051c36ccf0aafebffe137d148a2bf9104562",
        "c940e5a4404157cfb1628b108db051a8d439e1a421394ec4ebccb9ec92a8ac78",
        "47cfc5497c53dc8e61c91d17fd626ffb1c49e2bca94eed052281b510b1117a24",
        "f1c6165d33367351b0da8f6e4511010c68174a03b6581212c71c0e1d026c3c72",
        "87260f7a2f12495118360f02c26a470f450dadf34a413d21042b43b9d93e1309",
    ],
    "x^2 is no square": [
        "26948d35ca62e643e26a83177332e6b6afeb9d08e4268b650f1f5bbd8d81d371",
        "4eac077a713c57b4f4397629a4145982c661f48044dd3f96427d40b147d9742f",
        "de6a7b00deadc788eb6b6c8d20c0ae96c2f2019078fa604fee5b87d6e989ad87",
        "bcab477be20861e01e4a0e295284146a510150d9817763caf1a6f4b422d67042",
        "2a292df7e32cababbd9de088d1d1abec9fc0440f637ed2fba145094dc14bea08",
        "f4a9e534fc0d216c44b218fa0c42d99635a0127ee2e53c712f70609649fdff22",
        "8268436f8c4126196cf64b3c7ddbda90746a378625f9813dd9b8457077256731",
        "2810e5cbc2cc4d4eece54f61c6f69758e289aa7ab440b3cbeaa21995c2f4232b",
    ],
    "xy is negative": [
        "3eb858e78f5a7254d8c9731174a94f76755fd3941c0ac93735c07ba14579630e",
        "a45fdc55c76448c049a1ab33f17023edfb2be3581e9c7aade8a6125215e04220",
        "d483fe813c6ba647ebbfd3ec41adca1c6130c2beeee9d9bf065c8d151c5f396e",
        "8a2e1d30050198c65a54483123960ccc38aef6848e1ec8f5f780e8523769ba32",
        "32888462f8b486c68ad7dd9610be5192bbeaf3b443951ac1a8118419d9fa097b",
        "227142501b9d4355ccba290404bde41575b037693cef1f438c47f8fbf35d1165",
        "5c37cc491da847cfeb9281d407efc41e15144c876e0170b499a96a22ed31e01e",
        "445425117cb8c90edcbc7c1cc0e74f747f2c1efa5630a967c64f287792a48a4b",
    ],
    "y is zero": ["ec" + "ff" * 30 + "7f"],
    "a point of the standard with a bit too many": [
        "e2f2ae0a6abc4e71a884a961c500515f58e30b6aa582dd8db6a65945e08d2df6",
        "3066f82a1a747d45120d1740f14358531a8f04bbffe6a819f86dfe50f44a0ac6",
        "e2705652ff9f5e44d3e841bf1c251cf7dddb77d140870d1ab2ed64f1a9ce86a8",
    ],
}
"""The encodings that RFC 9496, appendix A.2, says must be refused, the identity, and points with the top bit set."""


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("check", [partial(raised, new_secret()), checked], ids=["raised", "checked"])
@pytest.mark.parametrize(("sort", "bad"), [(sort, bad) for sort, encodings in BAD.items() for bad in encodings])
def test_what_is_no_point_is_refused_naming_sender_and_place(
    check: Callable[[str, Bytes], Bytes], sort: str, bad: str
) -> None:
    with pytest.raises(ProtocolError) as caught:
        check("telco", with_bad_point(bad))
    assert re.search(r"telco.*\b3\b", str(caught.value)), sort


def test_a_temporary_folder_from_which_nothing_is_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a folder mounted noexec, where loading the library's copy fails."""

    def refuse(name: str) -> None:
        raise OSError(f"{name}: failed to map segment from shared object")

    for name in [name for name in sys.modules if name.split(".")[0] == "rbcl"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("ctypes.cdll.LoadLibrary", refuse)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ristretto.sodium.cache_clear()
    try:
        with pytest.raises(InputError, match="TMPDIR") as caught:
            new_secret()
        assert str(tmp_path) in str(caught.value)
    finally:
        ristretto.sodium.cache_clear()


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
