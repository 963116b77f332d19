"""Checkpoints: what a party keeps on its own disk, so that an interrupted job can be resumed.

A notebook has numbered pages of arrays; a page is written whole or not at all, and never changed. A last page that
cannot be read, as after a power cut, counts as not written. Only results are kept, never keys, masks or random seeds: a
resumed job makes new keys and masks, and the random seed of its draws is kept with the party's private settings.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     notebook = Notebook(Path(folder) / "trees")
...     notebook.write(first=np.arange(3))
...     notebook.write(first=np.arange(2))
...     notebook.keep_first(1)
...     [page["first"].tolist() for page in notebook.pages()]
[[0, 1, 2]]
"""

from __future__ import annotations

import io
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unpooled import atomic
from unpooled.errors import ResumeError

FORMAT = 2
_HEADER = "header.json"
_one_reads = threading.Lock()  # numpy has Python parse headers, which sometimes fails in threads with Python 3.11

Page = dict[str, NDArray[np.generic]]


class Notebook:
    """The pages in a folder, which is created with the first page."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._length = next(number for number in count() if not self._path(number).exists())
        if self._length:
            last = self._path(self._length - 1)
            with atomic.naming(last, "read"):
                self._length -= _page_in(last.read_bytes()) is None

    def __len__(self) -> int:
        return self._length

    def write(self, **arrays: NDArray[np.generic]) -> None:
        path = self._path(len(self))
        with atomic.naming(path, "written"):
            if not len(self):
                _make_folder(self.folder)
            content = io.BytesIO()  # a file would be written to in many small pieces
            np.savez(content, allow_pickle=False, **arrays)
            with atomic.replacing(path) as temporary:
                temporary.write_bytes(content.getbuffer())
        self._length += 1

    def read(self, number: int) -> Page:
        """One page, counted from 0."""
        path = self._path(number)
        with atomic.naming(path, "read"):
            content = path.read_bytes()
        page = _page_in(content)
        if page is None:
            raise ResumeError(f"{path}: this page of a checkpoint cannot be read: it is damaged")
        return page

    def pages(self) -> Iterator[Page]:
        return map(self.read, range(len(self)))

    def keep_first(self, length: int) -> None:
        """Remove all pages after the first `length`, the last one first."""
        self._length = min(len(self), length)
        for path in sorted(self.folder.glob("page-*.npz"), reverse=True):
            if path.name >= self._path(len(self)).name:
                with atomic.naming(path, "removed"):
                    path.unlink()

    def _path(self, number: int) -> Path:
        return self.folder / f"page-{number:05}.npz"


def _page_in(content: bytes) -> Page | None:
    """What a page holds; None if it is damaged."""
    try:
        with _one_reads, np.load(io.BytesIO(content), allow_pickle=False) as page:
            return dict(page)
    except Exception:  # zipfile and numpy raise many classes of errors for damaged bytes
        return None


def _make_folder(folder: Path) -> None:
    """Make a folder for the owner only that survives a power cut."""
    atomic.make_folder(folder)
    atomic.flush_folder(folder.parent)


def open_checkpoint(folder: Path, party: str, about: Mapping[str, str], *, resume: bool) -> Path:
    """The folder of a party's checkpoint: a new one or, to resume, the existing one if it is about the same job.

    `about` has digests and versions by name; if one has changed, the error says which.
    """
    header = {"format": str(FORMAT), **about}
    if resume and (folder / _HEADER).exists():
        try:
            written = json.loads((folder / _HEADER).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            written = None
        if not isinstance(written, dict):
            raise ResumeError(
                f"{party}: {folder / _HEADER}: cannot be read, so the run cannot be resumed; begin a new run"
            )
        if changed := [name for name in {**header, **written} if header.get(name) != written.get(name)]:
            what = " and the ".join(changed)
            raise ResumeError(f"{party}: the run cannot be resumed: the {what} changed since it began; begin a new run")
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    with atomic.naming(folder / _HEADER, "written"):
        _make_folder(folder)
        atomic.write_text(folder / _HEADER, json.dumps(header) + "\n")
    return folder
