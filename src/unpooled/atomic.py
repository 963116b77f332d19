"""Files appear whole or not at all, after a power cut too: written under a temporary name beside, then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

OWNER_ONLY = 0o600
EVERYBODY_READS = 0o644
_UNFINISHED = ".unfinished"


@contextmanager
def replacing(path: Path, mode: int = EVERYBODY_READS, *, lasting: bool = True) -> Iterator[Path]:
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
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
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


def write_text(path: Path, text: str, mode: int = EVERYBODY_READS) -> None:
    """Write a whole text file, readable by its owner alone until it stands under its own name."""
    with replacing(path, mode) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes, mode: int = EVERYBODY_READS, *, lasting: bool = True) -> None:
    """Write a whole binary file in the same way."""
    with replacing(path, mode, lasting=lasting) as temporary:
        temporary.write_bytes(content)
