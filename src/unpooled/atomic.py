"""Files are written whole or not at all, also across a power cut: under a temporary name first, then renamed.

Only the owner can read what this package writes: files have the mode 0600, folders 0700.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unpooled.errors import InputError

if sys.platform != "win32":
    import fcntl

OWNER_ONLY = 0o600
OWNER_ENTERS = 0o700
_UNFINISHED = ".unfinished"


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a temporary path; if the block succeeds it replaces `path`, otherwise it is removed.

    A `lasting` file is flushed to the disk first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "list.csv") as temporary:
    ...         _ = temporary.write_text("id\\n1\\n")
    ...     sorted(p.name for p in Path(folder).iterdir())
    ['list.csv']
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_UNFINISHED)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if lasting:
            _flush(temporary, os.O_RDWR)
        temporary.chmod(OWNER_ONLY)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # so that also a full disk names the file
        raise
    if lasting:
        flush_folder(path.parent)


def remove_unfinished(*folders: Path) -> None:
    """Remove temporary files of a killed process, from folders that nobody else writes to now."""
    for folder in folders:
        for path in folder.glob(f".*{_UNFINISHED}"):
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Flush a folder's entries to the disk, where the system can."""
    with suppress(OSError):
        _flush(folder, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents, for the owner only; an existing folder stays as it is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=OWNER_ENTERS, exist_ok=True)


def close_folder(folder: Path) -> None:
    """Make a folder if needed, and restrict it to its owner."""
    make_folder(folder)
    folder.chmod(OWNER_ENTERS)


def owner_only(path: str, flags: int) -> int:
    """For `open(..., opener=owner_only)`: a file for the owner only, also if it exists already."""
    handle = os.open(path, flags, OWNER_ONLY)
    Path(path).chmod(OWNER_ONLY)
    return handle


@contextmanager
def locked(path: Path, *, wait: bool) -> Iterator[None]:
    """Hold a file's lock, where the system has locks; without `wait`, BlockingIOError if another process has it."""
    with open(path, "w", opener=owner_only) as file:
        if sys.platform != "win32":
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield


@contextmanager
def naming(path: Path, what: str = "written") -> Iterator[None]:
    """Let errors such as a full disk, or a folder that is gone, name the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be {what}: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes, *, lasting: bool = True) -> None:
    with replacing(path, lasting=lasting) as temporary:
        temporary.write_bytes(content)
