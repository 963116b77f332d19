"""A run's folder: for each party its plan, ledger, log, status and result."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unpooled import atomic, ledger
from unpooled.errors import InputError, ResumeError, cause_of, described, origin_of, resumable
from unpooled.jobs.files import load_plan, write_toml
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.run_files import RESULT
from unpooled.jobs.work import WORKING, Result

PLAN, LEDGER, LOG, STATUS, REPORT = "plan.toml", "ledger.jsonl", "log.txt", "status.json", "report.html"
PRIVATE = "private.toml"
_PRIVATE_PATH, _SEED, _LOCK = "private-path", "seed", "lock"


def new_folder(kind: str, parent: Path = Path("runs")) -> Path:
    """A name for a run's folder that says what and when."""
    return parent / f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def create(folder: Path) -> Path:
    """Make a run's folder, for its owner alone.

    One that already holds a run is refused, and one that holds anything while others can enter it: to close it to them
    might be wrong.
    """
    if (folder / PLAN).exists() or (folder / LEDGER).exists():
        raise InputError(f"{folder} already holds a run; runs are never overwritten, choose another folder")
    try:
        if folder.is_dir() and any(folder.iterdir()) and folder.stat().st_mode & 0o077:
            raise InputError(f"others can enter {folder}: run `chmod 700 {folder}`, or choose another folder")
        atomic.close_folder(folder)  # it names columns, and later ids: nobody else's business
    except OSError as error:
        raise InputError(f"{folder}: cannot be created: {error.strerror}") from None
    return folder


@contextmanager
def taken(folder: Path) -> Iterator[None]:
    """Lock a folder: its ledger and checkpoint have one writer.

    The one writer may mend a ledger whose last line a power cut left unfinished, and remove unfinished files.
    """
    for inner in (folder, folder / WORKING):
        atomic.close_folder(inner)
    with _locked(folder / WORKING):
        ledger.mend(folder / LEDGER)
        working = (folder / WORKING, *(folder / WORKING).rglob("*"))
        atomic.remove_unfinished(folder, *(inner for inner in working if inner.is_dir()))
        yield


@contextmanager
def _locked(working: Path) -> Iterator[None]:
    with ExitStack() as held:
        try:
            held.enter_context(atomic.locked(working / _LOCK, wait=False))
        except BlockingIOError:
            raise InputError(f"{working.parent}: a process of this run is still running") from None
        yield


def is_taken(folder: Path) -> bool:
    """Whether a process of this run is still there."""
    if not (folder / WORKING / _LOCK).exists():
        return False
    try:
        with atomic.locked(folder / WORKING / _LOCK, wait=False):
            return False
    except BlockingIOError:
        return True


@contextmanager
def status_kept(folder: Path, party: str, plan: Plan) -> Iterator[None]:
    """Keep `status.json` true: running, then finished or failed with the error, and the party it began with."""
    status: dict[str, Any] = {"party": party, "role": plan.parties[party].role, "kind": plan.kind, "started": _now()}
    _write_json(folder / STATUS, status | {"state": "running"})
    with atomic.naming(folder / PLAN):
        write_toml(folder / PLAN, plan)
    try:
        yield
    except BaseException as error:
        failed = {
            "state": "failed",
            "ended": _now(),
            "origin": origin_of(error, party),
            "cause": cause_of(error),
            "error": described(error),
            "resumable": resumable(error),
            **_taken(),
        }
        _keep_failed(folder / STATUS, status | failed)
        raise
    _write_json(folder / STATUS, status | {"state": "finished", "ended": _now()} | _taken())


def _keep_failed(path: Path, status: dict[str, Any]) -> None:
    """Write a failed status; an error in doing so must not replace the error of the run.

    On a full disk there is no room for a second file, but the first one has its room already: it is written over.
    """
    try:
        _write_json(path, status)
    except InputError:
        with suppress(OSError), path.open("r+b") as file:
            file.write(_as_json(status))
            file.truncate()


def forget_status(folder: Path) -> None:
    """Set a status back to running before a party starts again."""
    status = read_json(folder / STATUS)
    if status:
        known = {name: status.get(name) for name in ("party", "role", "kind")}
        _write_json(folder / STATUS, known | {"started": _now(), "state": "running"})


def kept_seed(folder: Path, seed: int, *, resume: bool) -> int:
    """The seed that a run began with, so that its draws are the same when it is resumed.

    It is as private as the settings, and kept among the working files, not in a checkpoint.
    """
    path = folder / WORKING / _SEED
    if resume and path.exists():
        try:
            kept = int(path.read_text(encoding="ascii"))
        except (OSError, ValueError):
            kept = -1
        if kept < 0:
            raise ResumeError(f"{path}: cannot be read, so the run cannot be resumed")
        return kept
    with atomic.naming(path):
        path.parent.mkdir(mode=atomic.OWNER_ENTERS, exist_ok=True)
        atomic.write_text(path, f"{seed}\n")
    return seed


def keep_private(folder: Path, private: Path) -> None:
    """Remember where a party's private settings are, for `unpooled resume`."""
    atomic.make_folder(folder / WORKING)
    atomic.write_text(folder / WORKING / _PRIVATE_PATH, str(private.resolve()))


def keep_copy(folder: Path, private: Private) -> None:
    """Keep a party's private settings among its working files."""
    atomic.make_folder(folder / WORKING)
    write_toml(folder / WORKING / PRIVATE, private)


def private_path(folder: Path) -> Path:
    """Where the private settings of a party are: a spawned one has a copy, one that joined has its own file."""
    copy, remembered = folder / WORKING / PRIVATE, folder / WORKING / _PRIVATE_PATH
    if copy.exists():
        return copy
    if remembered.exists():
        return Path(remembered.read_text(encoding="utf-8"))
    raise InputError(f"{folder}: the path of the private file was not kept; name it with --private")


def write_result(folder: Path, result: Result) -> None:
    _write_json(folder / RESULT, result)


def read_json(path: Path) -> dict[str, Any]:
    """A status or result; empty if the run did not get that far."""
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content


def plan_in(folder: Path) -> Plan:
    """The plan of a run, from its folder or that of a party in it."""
    if not (folder / PLAN).exists():
        raise InputError(f"{folder} is not a run's folder: it has no {PLAN}")
    return load_plan(folder / PLAN)


def parties_in(folder: Path) -> list[Path]:
    """The folders of parties in a run: itself, or its sub-folders."""
    if (folder / STATUS).exists():
        return [folder]
    return sorted(child.parent for child in folder.glob(f"*/{STATUS}"))


def how_to_resume(folder: Path, *, interrupted: bool = False) -> str:
    """How a run that failed or was interrupted can be resumed, or that it cannot be."""
    statuses = [read_json(home / STATUS) for home in parties_in(folder)]
    if not all(status.get("resumable", True) for status in statuses):
        return "this run cannot be resumed: correct the cause, then start a new run"
    how = "to resume" if interrupted else "to resume, once the cause is gone"
    everybody = " (every party has to, each in its own folder)" if (folder / STATUS).exists() else ""
    return f"{how}{everybody}: unpooled resume {shlex.quote(str(folder))}"


def purge(folder: Path, *, force: bool = False) -> list[Path]:
    """Remove a run's working files, and unfinished ones; plan, ledgers, logs, results and reports stay.

    Without working files a run cannot be resumed: one that did not finish is refused unless `force`, one that is still
    running always. Returns the folders that were removed.
    """
    if not (folder / PLAN).exists() or not parties_in(folder):
        raise InputError(f"{folder} is not a run's folder: it has no {PLAN}, or no {STATUS} in it or a sub-folder")
    # Every sub-folder: a party that was killed early has working files in its folder, but no status yet.
    working = [path for path in (folder / WORKING, *sorted(folder.glob(f"*/{WORKING}"))) if path.exists()]
    homes = sorted({*parties_in(folder), *(path.parent for path in working if path.parent != folder)})
    with ExitStack() as held:
        for path in working:
            if (path / _LOCK).exists():
                held.enter_context(_locked(path))
        unfinished = [home for home in homes if read_json(home / STATUS).get("state") != "finished"]
        if working and unfinished and not force:
            raise InputError(
                f"{unfinished[0]}: the run did not finish, and cannot be resumed without its working files; "
                "resume it, or purge it with --force"
            )
        for path in working:
            shutil.rmtree(path)
        atomic.remove_unfinished(folder, *homes)
    return working


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic.naming(path):
        atomic.write_bytes(path, _as_json(content))


def _as_json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()


def _taken() -> dict[str, float]:
    """CPU seconds of this process and its workers, and the peak memory of this process."""
    times = os.times()
    taken = {"cpu_seconds": round(times.user + times.system + times.children_user + times.children_system, 2)}
    with suppress(OSError, StopIteration):  # only Linux tells; what getrusage says is, after a fork, the parent's
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        peak = next(line for line in lines if line.startswith("VmHWM:"))
        taken["peak_memory_mb"] = round(int(peak.split()[1]) * 1.024e-3, 1)
    return taken


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
