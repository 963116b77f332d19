"""What a party has ever been asked in a run, kept in a file, so that its limits hold however often the run is resumed.

It is counted ahead: before the first answer all that may be asked in one go counts, and at the end what was. So a party
that is killed has counted too much rather than too little. A count never falls.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from unpooled import atomic
from unpooled.checkpoint import naming
from unpooled.errors import InputError
from unpooled.secure.engine import Engine

ASKED = "asked.json"


class Asked:
    """How many models this party has ever begun, and `answered`, how many columns it was ever asked.

    The latter is by what is added to the digest of the rows, which has a new salt each time.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / ASKED
        self.begun, self.answered = _read(self._path)
        self._ahead: Counter[str] = Counter()
        self._pages = 0

    @contextmanager
    def counting(
        self, engine: Engine, digest: str, at_once: int | None = None, pages: Callable[[], int] = int
    ) -> Iterator[None]:
        """Let what was answered before an interruption count, and count on; by the end what has been is kept.

        `at_once` is how many columns are asked at most between two `pages`, for which is counted ahead; without it all
        that may be asked is.
        """
        engine.answered.update({digest + name: count for name, count in self.answered.items()})
        engine.count_ahead = partial(self._count_ahead, engine, digest, at_once, pages)
        try:
            yield
        finally:
            engine.count_ahead = None
            self.count(engine, digest)

    def count(self, engine: Engine, digest: str, models: int = 0) -> None:
        """Keep how much was ever answered, and no more, and count models that begin now."""
        self.begun += models
        self._ahead.clear()
        self._write(engine, digest)

    def _count_ahead(
        self,
        engine: Engine,
        digest: str,
        at_once: int | None,
        pages: Callable[[], int],
        rows: str,
        asked: int,
        most: int,
    ) -> None:
        """Keep as answered what may be asked about some rows until the next page, before the first of it is."""
        name, answered = rows.removeprefix(digest), engine.answered[rows]
        if pages() != self._pages:
            self._pages = pages()
            self._ahead.clear()
        if answered + asked > self._ahead[name]:
            ahead = most if at_once is None else min(answered + at_once, most)
            self._ahead[name] = max(ahead, answered + asked)
            self._write(engine, digest)

    def _write(self, engine: Engine, digest: str) -> None:
        self.answered |= Counter({name.removeprefix(digest): count for name, count in engine.answered.items()})
        text = json.dumps({"begun": self.begun, "answered": self.answered | self._ahead})
        with naming(self._path, "written"):
            atomic.write_text(self._path, text + "\n", atomic.OWNER_ONLY)


def _read(path: Path) -> tuple[int, Counter[str]]:
    if not path.exists():
        return 0, Counter()
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return int(kept["begun"]), Counter({name: int(count) for name, count in kept["answered"].items()})
    except (OSError, KeyError, ValueError, AttributeError, TypeError):
        raise InputError(f"{path}: does not say what was answered, so the run cannot be resumed") from None
