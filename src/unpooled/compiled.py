"""Hot loops compiled with numba, beside the numpy code whose results they equal to the bit.

Importing numba takes a fifth of a second. A loop is compiled when it is first used on a machine, which takes up to a
few seconds, and is kept in a cache on disk. Short jobs do without: numpy does the work until a process has gone through
`LOADED_AFTER` cells, about as many as it could have gone through in the time that loading takes. Where numba is not
installed numpy does all of it. `UNPOOLED_COMPILED=0` in the environment says so too, and `UNPOOLED_COMPILED=1` that
loops are compiled from the start.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., object])

LOADED_AFTER = 2**26

_cells = 0
_from_the_start = False


@contextmanager
def from_the_start() -> Iterator[None]:
    """Use compiled loops however little there is to compute: to see on a little what a lot will take."""
    global _from_the_start  # noqa: PLW0603
    before, _from_the_start = _from_the_start, True
    try:
        yield
    finally:
        _from_the_start = before


def worthwhile(cells: int) -> bool:
    """Whether to use compiled loops for so many cells more."""
    global _cells  # noqa: PLW0603
    _cells += cells
    enough = _from_the_start or _cells > LOADED_AFTER
    return enough and _installed() if _choice() is None else bool(_choice())


@cache
def wide_vectors() -> bool:
    """Whether a register of the processor holds four numbers of 64 bits or more: loops over many numbers need that."""
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get("avx2"))


@cache
def _choice() -> bool | None:
    found = os.environ.get("UNPOOLED_COMPILED")
    return None if found is None else found == "1" and _installed()


@cache
def _installed() -> bool:
    return importlib.util.find_spec("numba") is not None


def compiled(function: F, **options: Any) -> F:
    """The function, compiled when it is first called; other threads of Python run meanwhile."""
    import numba

    made = partial(numba.njit, nogil=True, error_model="numpy", **options)  # a division by zero is no error
    try:
        return cast(F, made(cache=True)(function))
    except RuntimeError:  # nowhere to keep the cache
        return cast(F, made()(function))


def lean(function: F) -> F:
    """The same for a function that makes no arrays, so that nobody counts who has which.

    With many short functions that hand each other parts of arrays, counting takes a sixth of the time, and compiling
    several times as long.
    """
    return compiled(function, _nrt=False)


def inlined(function: F) -> F:
    """Some arithmetic that becomes part of each lean function that calls it."""
    import numba

    options: dict[str, Any] = {"forceinline": True, "error_model": "numpy", "_nrt": False}
    return cast(F, numba.njit(**options)(function))
