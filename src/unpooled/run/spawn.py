"""All parties of a job as processes of this machine, each started with `unpooled join`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from unpooled import atomic
from unpooled.budget.places import Places
from unpooled.errors import CAUSES, INTERNAL, JobFailed, ResumeError
from unpooled.jobs.files import write_toml
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private, check_certificates
from unpooled.jobs.run_files import RESULT
from unpooled.jobs.work import WORKING, Result
from unpooled.run import folder as run_folder
from unpooled.run.progress import Watch, read_progress
from unpooled.transport.certificates import make_trial

log = logging.getLogger("unpooled.run")

_GRACE_SECONDS = 4.0
_GLANCE_SECONDS = 0.05
_ENDED = (-signal.SIGKILL, 128 + signal.SIGTERM)


def spawn(
    plan: Plan,
    privates: Mapping[str, Private],
    folder: Path,
    watch: Watch | None = None,
    books: Places | None = None,
) -> dict[str, Result]:
    """Run a job with all parties on this machine; `folder` gets a sub-folder for each. JobFailed if any fails.

    Parties without an address get a free port; if none has certificates, they are made for this run. `watch` is told
    again and again how far the parties are. `books` is where the books of their tables are, if not in the usual places.
    """
    check_certificates(privates)
    run_folder.create(folder)
    plan, privates = _completed(plan, privates, folder)
    write_toml(folder / run_folder.PLAN, plan)
    for party in plan.parties:
        run_folder.keep_copy(folder / party, privates[party])
    return _run(plan, folder, watch, resume=False, books=books)


def spawn_again(folder: Path, watch: Watch | None = None) -> dict[str, Result]:
    """Resume an interrupted run of `spawn`, with the same plan, addresses, certificates and books."""
    plan = run_folder.plan_in(folder)
    if absent := [party for party in plan.parties if not (folder / party / WORKING).is_dir()]:
        raise ResumeError(f"{folder}: the working files of {absent[0]} are missing, so the run cannot be resumed")
    books = books_in(folder)
    return _run(plan, folder, watch, resume=True, books=books if books.books.is_dir() else None)


def books_in(folder: Path) -> Places:
    """Where a run of made-up tables has their books: in its own folder."""
    return Places(folder / WORKING / "books", folder / WORKING / "anchors")


def _run(plan: Plan, folder: Path, watch: Watch | None, *, resume: bool, books: Places | None) -> dict[str, Result]:
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with ExitStack() as stack:
        stack.callback(_end_all, processes)
        for party in plan.parties:
            run_folder.forget_status(folder / party)
            output = stack.enter_context(open(folder / party / run_folder.LOG, "ab", opener=atomic.owner_only))
            processes[party] = start_party(folder, party, output.fileno(), resume=resume, books=books)
        _wait(processes, folder, watch)
        left = [party for party, process in processes.items() if process.poll() is None]
    codes = {party: process.returncode for party, process in processes.items()}
    if any(codes.values()):
        # Those that had to be ended once the job had failed are not why it failed.
        codes |= {party: -signal.SIGTERM for party in left if codes[party] in _ENDED}
        raise JobFailed(explain_failure(folder, codes))
    return {party: run_folder.read_json(folder / party / RESULT) for party in plan.parties}


def _completed(plan: Plan, privates: Mapping[str, Private], folder: Path) -> tuple[Plan, dict[str, Private]]:
    with ExitStack() as held:
        parties = {
            name: party if party.address else party.model_copy(update={"address": _free_address(held)})
            for name, party in plan.parties.items()
        }
    plan = plan.model_copy(update={"parties": parties})
    completed = {name: private.at(Path.cwd()) for name, private in privates.items()}
    if any(private.certificates is None for private in completed.values()):
        root = folder.resolve() / WORKING / "certificates"
        make_trial(root, list(plan.parties))
        completed = {n: private.model_copy(update={"certificates": root / n}) for n, private in completed.items()}
    return plan, completed


def _free_address(held: ExitStack) -> str:
    """A loopback port that is free now; all are held until the last is chosen, so that no two are the same."""
    listener = held.enter_context(socket.create_server(("127.0.0.1", 0)))
    return f"127.0.0.1:{listener.getsockname()[1]}"


def start_party(
    folder: Path,
    party: str,
    output: int,
    *,
    resume: bool,
    books: Places | None,
    more: Sequence[str] = (),
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a party's process; the plan is in `folder`, and the party's private file among its working files.

    It ends when this process ends, however that ends. `more` are further words of the command.
    """
    home = folder / party
    private = home / WORKING / run_folder.PRIVATE
    words = ["join", str(folder / run_folder.PLAN), "--as", party, "--private", str(private), "--run", str(home)]
    if resume and (home / run_folder.PLAN).exists():  # otherwise it never began
        words = ["resume", str(home), "--again"]
    # Its standard input closes when this process ends, and `--attached` makes it end then too.
    return subprocess.Popen(
        [sys.executable, "-m", "unpooled", *words, "--attached", *more],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=os.environ | books.environment if books else None,
        pass_fds=pass_fds,
    )


def _wait(processes: Mapping[str, subprocess.Popen[bytes]], folder: Path, watch: Watch | None) -> None:
    """Wait for all; once one has failed, the others get some seconds to end by themselves."""
    deadline = None
    while None in (codes := [process.poll() for process in processes.values()]):
        _look(folder, processes, watch)
        if deadline is None and any(codes):
            deadline = time.monotonic() + _GRACE_SECONDS
        if deadline is not None and time.monotonic() > deadline:
            return
        time.sleep(_GLANCE_SECONDS)
    _look(folder, processes, watch)


def _look(folder: Path, parties: Iterable[str], watch: Watch | None) -> None:
    if watch:
        said = {party: read_progress(folder / party) for party in parties}
        watch({party: progress for party, progress in said.items() if progress})


def _end_all(processes: Mapping[str, subprocess.Popen[bytes]]) -> None:
    for process in processes.values():
        if process.poll() is None:
            process.terminate()
    for process in processes.values():
        try:
            process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin:
            process.stdin.close()


def explain_failure(folder: Path, codes: Mapping[str, int]) -> str:
    """What went wrong at each party, the original error first; a killed process comes before all."""
    lines = []
    for party, code in codes.items():
        status = run_folder.read_json(folder / party / run_folder.STATUS)
        if code == 0:
            continue
        if code == -signal.SIGTERM:
            lines.append((len(CAUSES) + 1, f"{party}: was ended, since the job had failed"))
        elif status.get("state") == "failed":
            error = str(status["error"]).removeprefix(f"{party}: ")
            log = f" (see {folder / party / run_folder.LOG})" if error == INTERNAL else ""
            named = f"{party}: {error}{log}"
            lines.append((CAUSES.index(status["cause"]), named))
        elif code < 0:
            lines.append((-1, f"{party}: its process was ended by {signal.Signals(-code).name}"))
        else:
            lines.append((len(CAUSES), f"{party}: ended with code {code}; see {folder / party / run_folder.LOG}"))
    return "\n".join(line for _, line in sorted(lines, key=lambda ranked: ranked[0]))
