"""Reading a table to see what is in it: rows, columns, types, and what looks wrong; in the background."""

from __future__ import annotations

from pathlib import Path

from unpooled.jobs.private import Private
from unpooled.serve.background import Background, Result
from unpooled.serve.context import Context
from unpooled.serve.tables import TableEntry, digest_of_settings


class Checker:
    """Checks tables as `unpooled check` does; a check is of a table with its settings as they were then."""

    def __init__(self, context: Context, background: Background) -> None:
        self._folder = context.folder.checks
        self._background = background

    def request(self, entry: TableEntry) -> None:
        """Read a table again, whatever was found before."""
        file, private = self._file(entry)
        file.unlink(missing_ok=True)
        words = ["check", "--private", str(file.with_name(_PRIVATE)), "--page", str(file.with_name("page.html"))]
        self._background.request(file, [*words, "--json"], {_PRIVATE: private}, codes=(0, 1))

    def result(self, entry: TableEntry) -> Result:
        return self._background.result(self._file(entry)[0])

    def _file(self, entry: TableEntry) -> tuple[Path, Private]:
        private = Private().model_copy(update={"table": entry.table, "prepare": entry.prepare})
        return self._folder / digest_of_settings(private)[:16] / "found.json", private


_PRIVATE = "table.toml"
