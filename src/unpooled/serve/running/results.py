"""What a run has left at this party: figures, the files that people may have, and what has left the party."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from unpooled import control
from unpooled.errors import InputError, UnpooledError
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.plan import Plan
from unpooled.jobs.run_files import RESULT, Figure
from unpooled.ledger import Line, read_ledger, summarise
from unpooled.run import folder as run_folder
from unpooled.serve.context import Context
from unpooled.serve.jobs.records import Job
from unpooled.serve.running.process import folder_of
from unpooled.serve.state.audit_log import note

FILES = {
    "reliable.csv": "the look-alike list, the most likely first",
    "ranking.csv": "all candidates, ranked",
    "predictions.csv": "predictions for the rows in common",
    "information.csv": "how much each column says about the labels",
    "woe.csv": "the weight of evidence of each bin of this party’s columns",
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
    "report.html": "the report",
    "evaluation.json": "how good the result is, by the truth",
    "result.json": "the figures, for programs",
    "budget.json": "what the run added to the table’s book",
    "ledger.jsonl": "every message sent and received",
    "plan.toml": "the plan",
    "log.txt": "the log",
}
"""The only files of a run that people and programs can have; never its working files, nor the private settings."""


def home_of(context: Context, job: Job, occurrence: int = 0) -> Path:
    """Where this party's files of a run are; without a number, of the latest."""
    return folder_of(context.folder, job.id, occurrence or max(job.occurrence, 1)) / context.party


def result_files(context: Context, job: Job, occurrence: int = 0) -> list[Path]:
    """The files of a run that there are, what matters most first."""
    home = home_of(context, job, occurrence)
    return [path for name in FILES if (path := home / name).is_file() and not path.is_symlink()]


def result_file(context: Context, job: Job, name: str, occurrence: int = 0) -> Path:
    """One of these files by its name."""
    for path in result_files(context, job, occurrence):
        if path.name == name:
            return path
    raise InputError(f"this run has no file {name[:64]!r}")


def hand_out(context: Context, by: str, job: Job, name: str, occurrence: int = 0) -> Path:
    """One of these files for somebody who saves it, which is noted in the audit log."""
    path = result_file(context, job, name, occurrence)
    with context.database.transaction() as connection:
        note(connection, by, "saved a file of a run", name, job.id)
    return path


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
