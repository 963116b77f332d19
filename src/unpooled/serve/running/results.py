"""What a run has left at this party: figures, the files that people may have, and what has left the party."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from unpooled import control
from unpooled.errors import InputError, UnpooledError
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.plan import Plan
from unpooled.jobs.run_files import RESULT, Figure
from unpooled.ledger import Line, read_ledger, summarise
from unpooled.run import folder as run_folder

FILES = {
    "reliable.csv": "the look-alike list, the most likely first",
    "ranking.csv": "all candidates, ranked",
    "predictions.csv": "predictions for the rows in common",
    "aligned.csv": "the ids of the rows in common",
    "completed.parquet": "the completed table",
    "completed.csv": "the completed table",
    "provenance.parquet": "where each cell of the completed table is from",
    "provenance.csv": "where each cell of the completed table is from",
    "confidence.parquet": "how sure each cell of the completed table is",
    "confidence.csv": "how sure each cell of the completed table is",
    "draws.parquet": "several draws of the cells that were filled",
    "draws.csv": "several draws of the cells that were filled",
    "handles.csv": "which handle stands for which of this party’s rows",
    "model.json": "this party’s part of the model",
    "preparation.json": "how the table was prepared",
    "screening.json": "which columns can be predicted",
    "result.json": "the figures, for programs",
    "budget.json": "what the run added to the table’s book",
    "ledger.jsonl": "every message sent and received",
    "plan.toml": "the plan",
    "log.txt": "the log",
}
"""The only files of a run that can be had from the console; never its working files, nor the private settings."""


@dataclass(frozen=True)
class ResultFile:
    """A file to save."""

    name: str
    meaning: str
    size: int


def result_files(home: Path) -> list[ResultFile]:
    """The files that there are, what matters most first."""
    found = []
    for name, meaning in FILES.items():
        path = home / name
        if path.is_file() and not path.is_symlink():
            found.append(ResultFile(name, meaning, path.stat().st_size))
    return found


def result_file(home: Path, name: str) -> Path:
    """Where a file is; InputError unless it is one of those that can be had."""
    if name not in {one.name for one in result_files(home)}:
        raise InputError(f"there is no file {name[:40]!r} to save")
    return home / name


def has_report(home: Path) -> bool:
    """Whether there is a page about the run."""
    return (home / run_folder.REPORT).is_file()


def figures_of(plan: Plan, home: Path) -> list[Figure]:
    """The figures that are said at the end; none for a coordinator, or before the end."""
    result = run_folder.read_json(home / RESULT)
    try:
        return kind_named(plan.kind).headline(result) if result else []
    except (KeyError, TypeError, ValueError):  # a file of another version, or damaged
        return []


def messages_of(home: Path) -> tuple[tuple[Line, ...], str]:
    """What was sent and received, by type of message and peer, without control messages; or what is wrong with the
    ledger."""
    path = home / run_folder.LEDGER
    try:
        stat = path.stat()
    except OSError:
        return (), ""
    return _messages(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _messages(path: Path, _changed: int, _size: int) -> tuple[tuple[Line, ...], str]:
    try:
        lines = summarise(read_ledger(path))
    except UnpooledError as error:
        return (), str(error).replace(str(path), "the ledger")
    kept = (line for line in lines if line.kind not in control.KINDS)
    return tuple(sorted(kept, key=lambda line: (not line.disclosure.to, line.way != "sent"))), ""
