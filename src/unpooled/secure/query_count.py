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


class Asked:
    """How many models this party has ever begun, and what it has ever answered."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ASKED
        self.begun, self.counts = _read(self._path)
        self._ahead = _none()
        self._others = _none()
        self._pages = 0
        self._added = False

    @contextmanager
    def counting(
        self, engine: Engine, digest: str, at_once: Mapping[str, int] | None = None, pages: Callable[[], int] = int
    ) -> Iterator[None]:
        """Add to the counts of earlier attempts, and keep the counts on disk; a run may do so several times.

        `at_once` is the most that is asked between two `pages`, which is counted ahead; without it the count is doubled
        each time. What else the engine has counted before is kept elsewhere.
        """
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
        before = engine.counted[name][rows]
        total, kept = before + amount, rows.removeprefix(digest)
        if pages() != self._pages:
            self._pages = pages()
            self._ahead = _none()
        if total > self._ahead[name][kept]:
            ahead = 2 * total if at_once is None else before + at_once.get(name, 0)
            self._ahead[name][kept] = max(total, ahead if most is None else min(ahead, most))
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
