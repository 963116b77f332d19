"""The group ristretto255 (RFC 9496): ids are hashed to points, points are multiplied by a secret.

libsodium does a few of them, and makes secrets; many are done by compiled loops (`curve`), which give the same bytes,
where the processor has vectors that are wide enough for these to be faster.

The group has prime order and one encoding per element, so that neither a twist nor a small subgroup leaks anything
about an id.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from unpooled.align import curve
from unpooled.arrays import Bytes
from unpooled.compiled import LOADED_AFTER, from_the_start, wide_vectors, worthwhile
from unpooled.errors import InputError, ProtocolError
from unpooled.workers import few_cores, in_order

T = TypeVar("T")

POINT_BYTES = 32
_IDENTITY = bytes(POINT_BYTES)
_DOMAIN = b"unpooled align ristretto255 v1"
_TOO_MANY_BITS = 0x80
"""In the last byte: numbers have 255 bits, but the library ignores the 256th and would accept a second encoding."""

_LEAST = 16
"""Fewer points at a time take less by libsodium: compiled loops do a block of several dozen in any case."""
_RAISING, _CHECKING = 2**13, 2**10
"""So many of what `compiled` counts as a cell take about as long as multiplying, or decoding, a point by libsodium."""

_many: bool | None = None


def chunk_by_chunk(function: Callable[[T], Bytes], chunks: Iterable[T]) -> Iterator[Bytes]:
    """The function's points for each chunk, in order; several at a time.

    The library releases Python's lock, as do compiled loops. On a few cores threads do as much as processes, each of
    which would take a fifth of a second to start; on many they would wait for the lock.
    """
    return in_order(function, chunks, threads=few_cores())


@cache
def sodium() -> Any:
    """The library, loaded when first needed; rbcl copies it into the temporary folder and loads it from there."""
    try:
        import rbcl
        from rbcl._sodium import lib_path
    except OSError as error:
        raise InputError(
            f"libsodium cannot be loaded from the temporary folder {tempfile.gettempdir()} ({error}): set TMPDIR to a "
            "folder with free space that is not mounted noexec"
        ) from error
    with suppress(OSError):
        Path(lib_path).unlink()  # otherwise the copy would remain
    return rbcl


def new_secret() -> bytes:
    """A random scalar, from the system's randomness."""
    secret: bytes = sodium().crypto_core_ristretto255_scalar_random()
    return secret


def hashed_and_raised(secret: bytes, exchange: bytes, keys: Sequence[bytes]) -> Bytes:
    """Each key hashed to a point of the group and multiplied by the secret."""
    prefix = hashlib.sha512(_DOMAIN + exchange)
    digests = []
    for key in keys:
        digest = prefix.copy()
        digest.update(key)
        digests.append(digest.digest())
    if _in_loops(len(keys), _RAISING):
        made = curve.raised_digests(secret, b"".join(digests))
        if made.any(axis=1).all():
            return made
    rbcl = sodium()
    points = [rbcl.crypto_core_ristretto255_from_hash(digest) for digest in digests]
    return _rows([rbcl.crypto_scalarmult_ristretto255(secret, point) for point in points])


def raised(secret: bytes, sender: str, points: Bytes) -> Bytes:
    """Each point multiplied by the secret; invalid points, and the identity, are refused."""
    if _in_loops(points.size // POINT_BYTES, _RAISING):
        found, valid = curve.raised(secret, points)
        if not valid.all():
            raise _no_point(sender, POINT_BYTES * int(valid.argmin()))
        return found
    data, rbcl = points.tobytes(), sodium()
    made = []
    for start in range(0, len(data), POINT_BYTES):
        if data[start + POINT_BYTES - 1] & _TOO_MANY_BITS:
            raise _no_point(sender, start)
        try:
            made.append(rbcl.crypto_scalarmult_ristretto255(secret, data[start : start + POINT_BYTES]))
        except RuntimeError:
            raise _no_point(sender, start) from None
    return _rows(made)


def checked(sender: str, points: Bytes) -> Bytes:
    """Points that are only compared; invalid points, and the identity, are refused too."""
    if _in_loops(points.size // POINT_BYTES, _CHECKING):
        valid = curve.valid(points)
        if not valid.all():
            raise _no_point(sender, POINT_BYTES * int(valid.argmin()))
        return points
    data, rbcl = points.tobytes(), sodium()
    for start in range(0, len(data), POINT_BYTES):
        point = data[start : start + POINT_BYTES]
        if point == _IDENTITY or point[-1] & _TOO_MANY_BITS or not rbcl.crypto_core_ristretto255_is_valid_point(point):
            raise _no_point(sender, start)
    return points


def many(points: int) -> bool:
    """Whether a process that multiplies so many points loads compiled loops for them."""
    with from_the_start():
        return points * _RAISING > LOADED_AFTER and worthwhile(0) and wide_vectors()


@contextmanager
def as_with(points: int) -> Iterator[None]:
    """Do all as a process does that has so many, its loops loaded already: to see on a few what many will take."""
    global _many  # noqa: PLW0603
    before, _many = _many, many(points)
    try:
        if _many:
            curve.valid(np.zeros((1, POINT_BYTES), np.uint8))
            curve.raised_digests(new_secret(), bytes(64))
            curve.raised(new_secret(), np.zeros((1, POINT_BYTES), np.uint8))
        yield
    finally:
        _many = before


def _in_loops(count: int, cells: int) -> bool:
    """Whether compiled loops do so many points."""
    if count < _LEAST:
        return False
    return worthwhile(count * cells) and wide_vectors() if _many is None else _many


def _no_point(sender: str, start: int) -> ProtocolError:
    place = start // POINT_BYTES + 1
    return ProtocolError(
        f"invalid point from {sender}: value {place} of a chunk is not in the group, or is the identity"
    )


def _rows(points: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(points), np.uint8).reshape(-1, POINT_BYTES)
