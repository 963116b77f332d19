"""Counts of what a party was ever asked in a run, kept in a file, so that limits hold however often the run is resumed.

Counts are written ahead: before the first answer everything that may be asked until the next page counts, and at the
end what was really asked. So a party that is killed has counted too much rather than too little. A count never falls.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from unpooled import atomic
from unpooled.errors import ResumeError
from unpooled.secure.engine import COUNTED, Engine

ASKED = "asked.json"

Counts = dict[str, Counter[str]]
"""By what is counted (`COUNTED`), by which rows: what is added to their digest, which has a new salt each time."""

_Limits = dict[tuple[str, str], int | None]
"""By what is counted, and by which rows: the most that may be asked, as was said when it was asked last."""


class Asked:
    """How many models this party has ever begun, and what it has ever answered."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ASKED
        self.begun, self.counts = _read(self._path)
        self._ahead = _none()
        self._others = _none()
        self._pages = 0
        self._asked: _Limits = {}
        self._asked_before: _Limits = {}
        self._added = False

    @contextmanager
    def counting(
        self, engine: Engine, digest: str, at_once: Mapping[str, int] | None = None, pages: Callable[[], int] = int
    ) -> Iterator[None]:
        """Add to the counts of earlier attempts, and keep the counts on disk; a run may do so several times.

        `at_once` is the most that is asked between two `pages`, which is counted ahead; without it the count is doubled
        each time. What was asked before one page will be asked again before the next, so that all of it is counted
        ahead at once. What else the engine has counted before is kept elsewhere.
        """
        self._asked_before = {}
        for name, counted in engine.counted.items():
            own = Counter({digest + rows: count for rows, count in self.counts[name].items()})
            self._others[name] = counted - own if self._added else Counter(counted)
            if not self._added:
                counted.update(own)
        self._added = True
        engine.count_ahead = partial(self._count_ahead, engine, digest, at_once, pages)
        try:
            yield
        finally:
            engine.count_ahead = None
            self.count(engine, digest)

    def count(self, engine: Engine, digest: str, models: int = 0) -> None:
        """Keep exactly what was answered so far, and count models that begin now."""
        self.begun += models
        self._ahead = _none()
        self._write(engine, digest)

    def _count_ahead(
        self,
        engine: Engine,
        digest: str,
        at_once: Mapping[str, int] | None,
        pages: Callable[[], int],
        name: str,
        rows: str,
        amount: int,
        most: int | None,
    ) -> None:
        """Before an answer: write a count that covers all that may be asked until the next page."""
        total = engine.counted[name][rows] + amount
        if (page := pages()) != self._pages:
            self._pages, self._ahead = page, _none()
            self._asked_before, self._asked = self._asked, {}
        self._asked[name, rows] = most
        if total <= self._ahead[name][rows.removeprefix(digest)]:
            return
        for (each, about), limit in (self._asked_before | {(name, rows): most}).items():
            before = engine.counted[each][about]
            least = total if (each, about) == (name, rows) else before
            ahead = 2 * least if at_once is None else before + at_once.get(each, 0)
            self._ahead[each][about.removeprefix(digest)] = max(least, ahead if limit is None else min(ahead, limit))
        self._asked_before = {}
        self._write(engine, digest)

    def _write(self, engine: Engine, digest: str) -> None:
        for name, counted in engine.counted.items():
            own = counted - self._others[name]
            self.counts[name] |= Counter({rows.removeprefix(digest): count for rows, count in own.items()})
        text = json.dumps({"begun": self.begun} | {name: self.counts[name] | self._ahead[name] for name in COUNTED})
        with atomic.naming(self._path, "written"):
            atomic.make_folder(self._path.parent)
            atomic.write_text(self._path, text + "\n")


def _none() -> Counts:
    return {name: Counter() for name in COUNTED}


def _read(path: Path) -> tuple[int, Counts]:
    if not path.exists():
        return 0, _none()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        counts = {name: Counter({rows: int(count) for rows, count in kept[name].items()}) for name in COUNTED}
        return int(kept["begun"]), counts
    except (OSError, KeyError, ValueError, AttributeError, TypeError):
        raise ResumeError(f"{path}: cannot be read, so the run cannot be resumed") from None
