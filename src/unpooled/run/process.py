"""A process of its own for one party: what it sets for itself before it begins."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # names of glibc's settings
_KEPT, _LARGE = 2**26, 2**25  # bytes


def keep_memory() -> None:
    """Let the C library keep some memory that was given back, for the next arrays of about the same size.

    Otherwise every product takes its memory from the system again, which clears it first. Where there is no such
    setting, as with another C library than glibc, all stays as it is.
    """
    with suppress(OSError, AttributeError, TypeError):
        library = ctypes.CDLL(None)
        library.mallopt(_TRIM_THRESHOLD, _KEPT)
        library.mallopt(_MMAP_THRESHOLD, _LARGE)
