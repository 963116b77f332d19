"""The files of a run that people of this party may fetch: what its kind of job makes, the report, ledger and log."""

from __future__ import annotations

from pathlib import Path

from unpooled.errors import InputError
from unpooled.jobs.run_files import RESULT
from unpooled.run.folder import LEDGER, LOG, PLAN, REPORT, STATUS
from unpooled.serve.context import Context
from unpooled.serve.jobs.records import Job
from unpooled.serve.running.process import folder_of

_EVERY_RUN = {REPORT, LEDGER, LOG, PLAN, RESULT}
_NOT_SHOWN = {STATUS}
_SHOWN = {".csv", ".parquet", ".json", ".html", ".jsonl", ".txt", ".toml"}


def home_of(context: Context, job: Job, occurrence: int = 0) -> Path:
    """Where this party's files of a run are; without a number, of the latest."""
    return folder_of(context.folder, job.id, occurrence or max(job.occurrence, 1)) / context.party


def result_files(context: Context, job: Job, occurrence: int = 0) -> list[Path]:
    """The files of a run, those that its kind of job made first; never working files, and nothing in sub-folders."""
    home = home_of(context, job, occurrence)
    found = [
        path
        for path in sorted(home.glob("*"))
        if path.suffix in _SHOWN and path.is_file() and not path.is_symlink() and path.name not in _NOT_SHOWN
    ]
    return sorted((path for path in found if not path.name.startswith(".")), key=lambda path: path.name in _EVERY_RUN)


def result_file(context: Context, job: Job, name: str, occurrence: int = 0) -> Path:
    """One of these files by its name."""
    for path in result_files(context, job, occurrence):
        if path.name == name:
            return path
    raise InputError(f"this run has no file {name[:64]!r}")
