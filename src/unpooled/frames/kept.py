"""What a party has kept of a run: its files, in a folder, or in memory where a simulation had no folder."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.secure.evidence import RECEIVED

_NOT_IN_MEMORY = (RECEIVED,)
"""Evidence, which is of no use without the working files that belong to it."""


@dataclass(frozen=True, repr=False)
class Kept:
    """A party's files of a run; `copies` are their contents by name, if there is no folder."""

    party: str
    folder: Path | None
    copies: Mapping[str, bytes]

    @contextmanager
    def on_disk(self) -> Iterator[Path]:
        """The folder, or a temporary one with the copies, which is gone afterwards."""
        if self.folder is not None:
            if not self.folder.is_dir():
                raise InputError(f"{self.party}: {self.folder}: the folder of this run is gone")
            yield self.folder
            return
        with tempfile.TemporaryDirectory() as made:
            yield self.put(Path(made) / self.party)

    def put(self, folder: Path) -> Path:
        """Write the copies into a new folder."""
        atomic.make_folder(folder)
        for name, content in self.copies.items():
            (folder / name).write_bytes(content)
        return folder


def kept_in(folder: Path, party: str, *, copied: bool) -> Kept:
    """A party's files in its run folder, which will be gone if they are `copied`; working files are left out."""
    if not copied:
        return Kept(party, folder.resolve(), {})
    files = (path for path in sorted(folder.iterdir()) if path.is_file() and path.name not in _NOT_IN_MEMORY)
    return Kept(party, None, {path.name: path.read_bytes() for path in files})
