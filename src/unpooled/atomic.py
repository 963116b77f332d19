"""Files appear whole or not at all, after a power cut too: written under a temporary name beside, then renamed.

Whatever this package writes is for its owner alone: files have the mode 0600, and folders 0700.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from unpooled.errors import InputError

OWNER_ONLY = 0o600
OWNER_ENTERS = 0o700
_UNFINISHED = ".unfinished"


@contextmanager
def replacing(path: Path, *, lasting: bool = True) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well it takes `path`'s place, otherwise it is removed.

    A file that is to be `lasting` is on the disk by then, and not only on its way there.

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
            error.filename = str(path)  # of a full disk too it is said which file had no room
        raise
    if lasting:
        flush_folder(path.parent)


def remove_unfinished(*folders: Path) -> None:
    """Remove what a process that was killed had not finished, from folders into which nobody else writes now."""
    for folder in folders:
        for path in folder.glob(f".*{_UNFINISHED}"):
            path.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system knows how to."""
    with suppress(OSError):
        _flush(folder, os.O_RDONLY)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folder(folder: Path) -> None:
    """Make a folder, with those above it, that its owner alone enters; one that is there already stays as it is."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(mode=OWNER_ENTERS, exist_ok=True)


def close_folder(folder: Path) -> None:
    """Let nobody but its owner enter a folder, which is made if need be."""
    make_folder(folder)
    folder.chmod(OWNER_ENTERS)


def owner_only(path: str, flags: int) -> int:
    """For `open(..., opener=owner_only)`: a file that grows line by line, for its owner alone, also if it is there."""
    handle = os.open(path, flags, OWNER_ONLY)
    Path(path).chmod(OWNER_ONLY)
    return handle


@contextmanager
def naming(path: Path, what: str = "written") -> Iterator[None]:
    """Let errors such as a full disk, or a folder that is gone, name the file."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{path}: cannot be {what}: {error.strerror}") from error


def write_text(path: Path, text: str) -> None:
    """Write a whole text file."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes, *, lasting: bool = True) -> None:
    """Write a whole binary file."""
    with replacing(path, lasting=lasting) as temporary:
        temporary.write_bytes(content)
