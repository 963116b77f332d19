"""One run's process at this party: started as a child of the service, and ended with it."""

from __future__ import annotations

import hashlib
import signal
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

from unpooled import atomic
from unpooled.jobs.files import write_toml
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run import folder as run_folder
from unpooled.run.spawn import start_party
from unpooled.serve.folder import StateFolder

_GRACE_SECONDS = 5.0


@dataclass(frozen=True)
class RunProcess:
    """A process; connections of the others name its run by `key`, and are passed to it through `connections`."""

    job: str
    occurrence: int
    attempt: int
    key: str
    process: subprocess.Popen[bytes]
    connections: socket.socket

    def stop(self) -> None:
        """Ask it to end; it tells its peers, and what it has done so far is kept."""
        if self.process.poll() is None:
            self.process.terminate()

    def close(self) -> None:
        """End it if it has not ended, and give back what it needed."""
        self.stop()
        try:
            self.process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdin:
            self.process.stdin.close()
        self.connections.close()


@dataclass(frozen=True)
class Outcome:
    """How a process has ended."""

    finished: bool
    error: str = ""
    resumable: bool = True


def folder_of(folder: StateFolder, job: str, occurrence: int) -> Path:
    """The folder of a run; this party's files are in the one folder within it."""
    return folder.runs / f"{job}-{occurrence}"


def run_key(job: str, occurrence: int, attempt: int) -> str:
    """What connections of an attempt are told apart by; it is no secret, certificates tell who calls."""
    return hashlib.sha256(f"{job} {occurrence} {attempt}".encode()).hexdigest()[:32]


def start(
    folder: StateFolder, party: str, plan: Plan, private: Private, job: str, occurrence: int, attempt: int
) -> RunProcess:
    """Start an attempt, or resume the run where an earlier attempt has left it."""
    run = folder_of(folder, job, occurrence)
    home = run / party
    atomic.close_folder(run)
    write_toml(run / run_folder.PLAN, plan)
    run_folder.keep_copy(home, private)
    run_folder.forget_status(home)
    key = run_key(job, occurrence, attempt)
    ours, theirs = socket.socketpair()
    try:
        with theirs, open(home / run_folder.LOG, "ab", opener=atomic.owner_only) as output:
            process = start_party(
                run,
                party,
                output.fileno(),
                resume=True,
                books=folder.books,
                more=("--through", str(theirs.fileno()), "--run-key", key),
                pass_fds=(theirs.fileno(),),
            )
    except BaseException:
        ours.close()
        raise
    return RunProcess(job, occurrence, attempt, key, process, ours)


def outcome(home: Path, code: int | None) -> Outcome:
    """How a process has ended, by its code, if that is known, and by the status that it left."""
    status = run_folder.read_json(home / run_folder.STATUS)
    state = status.get("state")
    if state == "finished" and code in (0, None):
        return Outcome(finished=True)
    if state == "failed":
        return Outcome(False, str(status.get("error", "")), bool(status.get("resumable", True)))
    if code is not None and code > 0:  # it refused before it began
        return Outcome(False, _last_line(home / run_folder.LOG), resumable=False)
    how = f"by {signal.Signals(-code).name}" if code is not None and code < 0 else "with the service"
    return Outcome(False, f"its process was ended {how}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1].removeprefix("error: ") if lines else "its process ended without a word"
