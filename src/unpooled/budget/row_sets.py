"""The common rows of an alignment as a set of keyed digests, so that a later one can be compared with it.

They are of the party's own ids, as its table writes them, so that they do not depend on a plan's rules for ids. The key
is the book's, and whoever has it can test ids on them; the ids themselves are in clear in the run's `aligned.csv`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from unpooled import atomic

ROWS = "rows"

Digests = NDArray[np.uint64]


def digests_of(key: bytes, ids: pl.DataFrame) -> Digests:
    """A digest for each row, sorted."""
    texts = ids.select(pl.concat_str(pl.all().cast(pl.String), separator="\x1f")).to_series()
    digests = b"".join(hashlib.blake2b(text.encode(), key=key, digest_size=8).digest() for text in texts)
    return np.sort(np.frombuffer(digests, "<u8"))


def name_of(key: bytes, digests: Digests) -> str:
    """The digest of a set."""
    return hashlib.blake2b(digests.tobytes(), key=key, digest_size=16).hexdigest()


def keep(folder: Path, key: bytes, digests: Digests) -> str:
    """Keep a set in a book's folder; returns its name."""
    name = name_of(key, digests)
    if not (path := folder / ROWS / name).exists():
        atomic.close_folder(folder / ROWS)
        atomic.write_bytes(path, digests.tobytes())
    return name


def kept(folder: Path, key: bytes, name: str) -> Digests | None:
    """A set of an earlier alignment; None if its file is missing or was changed."""
    try:
        digests = np.frombuffer((folder / ROWS / name).read_bytes(), "<u8")
    except (OSError, ValueError):
        return None
    return digests if name_of(key, digests) == name else None


def difference(one: Digests, other: Digests) -> int:
    """How many rows are in one of two sets only."""
    return len(np.setxor1d(one, other, assume_unique=True))
