"""The group ristretto255 (RFC 9496), through libsodium: ids become points, points are raised by a secret.

The group has prime order and one encoding per element: a point gives away nothing of the id behind it but the element
itself, and neither a twist nor a small subgroup is there to leak a bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import rbcl
from rbcl._sodium import lib_path

from unpooled.codec import Bytes
from unpooled.errors import ProtocolError

with suppress(OSError):
    Path(lib_path).unlink()  # rbcl leaves a copy of libsodium in the temporary folder each time; it is loaded by now

POINT_BYTES = 32
_IDENTITY = bytes(POINT_BYTES)
_DOMAIN = b"unpooled align ristretto255 v1"


def new_secret() -> bytes:
    """A random scalar, from the system's randomness."""
    secret: bytes = rbcl.crypto_core_ristretto255_scalar_random()
    return secret


def hashed_and_raised(secret: bytes, exchange: bytes, keys: Sequence[bytes]) -> Bytes:
    """Each key hashed to a point of the group, and raised by the secret."""
    prefix = hashlib.sha512(_DOMAIN + exchange)
    points = []
    for key in keys:
        digest = prefix.copy()
        digest.update(key)
        point = rbcl.crypto_core_ristretto255_from_hash(digest.digest())
        points.append(rbcl.crypto_scalarmult_ristretto255(secret, point))
    return _rows(points)


def raised(secret: bytes, sender: str, points: Bytes) -> Bytes:
    """Each point raised by the secret; bytes that are no point, and the identity, are refused."""
    data = points.tobytes()
    made = []
    for start in range(0, len(data), POINT_BYTES):
        try:
            made.append(rbcl.crypto_scalarmult_ristretto255(secret, data[start : start + POINT_BYTES]))
        except RuntimeError:
            raise _no_point(sender, start) from None
    return _rows(made)


def checked(sender: str, points: Bytes) -> Bytes:
    """Points that are only compared; bytes that are no point, and the identity, are refused all the same."""
    data = points.tobytes()
    for start in range(0, len(data), POINT_BYTES):
        point = data[start : start + POINT_BYTES]
        if point == _IDENTITY or not rbcl.crypto_core_ristretto255_is_valid_point(point):
            raise _no_point(sender, start)
    return points


def _no_point(sender: str, start: int) -> ProtocolError:
    place = start // POINT_BYTES + 1
    return ProtocolError(f"{sender} sent, {place} values into a chunk, no point of the group or the identity")


def _rows(points: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(points), np.uint8).reshape(-1, POINT_BYTES)
