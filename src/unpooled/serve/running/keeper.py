"""The thread that starts, resumes and ends runs: it looks at all open jobs and does what comes next for each.

What it does follows from the database alone, and is written there first. So a service that was killed goes on where it
was: a run whose process is gone counts as lost, and is resumed.
"""

from __future__ import annotations

import logging
import socket
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from unpooled.errors import UnpooledError
from unpooled.jobs.private import Private
from unpooled.report.page import write_report
from unpooled.run import folder as run_folder
from unpooled.serve.context import Context
from unpooled.serve.jobs.approvals import approved_settings, lapse
from unpooled.serve.jobs.changes import end_job, set_run
from unpooled.serve.jobs.life import NOTHING, Step, next_step
from unpooled.serve.jobs.records import Ended, Job, RunState, job_named, jobs_in
from unpooled.serve.running.process import Outcome, RunProcess, folder_of, outcome, start
from unpooled.serve.state.audit_log import note

log = logging.getLogger("unpooled.serve")

_LOOK_SECONDS = 0.5
_PURGE_EVERY = timedelta(hours=1)
_ENDS: dict[str, Ended] = {"finish": "finished", "fail": "failed", "expire": "expired"}


@dataclass(frozen=True)
class _Begin:
    """A process to be started, once the database says that it is running."""

    job: Job
    step: Step
    private: Private


class Keeper:
    """Keeps this party's runs going; `changed` is called whenever there may be letters to send.

    `begin` starts a process.
    """

    def __init__(
        self, context: Context, changed: Callable[[], None] = lambda: None, begin: Callable[..., RunProcess] = start
    ) -> None:
        self._context = context
        self._changed = changed
        self._start = begin
        self._processes: dict[str, RunProcess] = {}
        self._wake = threading.Event()
        self._ending = False
        self._purged_at = datetime.min.replace(tzinfo=UTC)
        self._thread = threading.Thread(target=self._run, name="unpooled-keeper", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Look at once: something has changed."""
        self._wake.set()

    def close(self) -> None:
        """Stop all runs, so that they can be resumed, and the thread."""
        self._ending = True
        self._wake.set()
        self._thread.join()

    def connections_of(self, key: str) -> socket.socket | None:
        """Where connections of a run are passed to; None if there is no such run."""
        return next((one.connections for one in list(self._processes.values()) if one.key == key), None)

    def _run(self) -> None:
        try:
            while not self._ending:
                self._wake.clear()
                self.look()
                self._wake.wait(_LOOK_SECONDS)
        finally:
            for one in self._processes.values():
                one.stop()
            for job in list(self._processes):
                with suppress(Exception):
                    self._ended(job)
            self._context.database.close()

    def look(self) -> None:
        """Do what comes next for each open job; an error about one, as on a full disk, leaves it for the next time."""
        for job, one in list(self._processes.items()):
            if one.process.poll() is not None:
                self._try(job, lambda job=job: self._ended(job))  # type: ignore[misc]
        try:
            with self._context.database.reading() as connection:
                jobs = jobs_in(connection, only_open=True)
        except Exception:
            log.exception("the state cannot be read")
            return
        for found in sorted(jobs, key=lambda each: (each.offer.created, each.id)):
            if self._next(found) != NOTHING:
                self._try(found.id, lambda job=found.id: self._step(job))  # type: ignore[misc]
        for job in set(self._processes) - {each.id for each in jobs}:
            self._processes[job].stop()
        self._purge()

    def _try(self, job: str, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            log.exception("job %s", job)

    def _next(self, job: Job) -> Step:
        context, drafted = self._context, job.offer.drafter == self._context.party
        return next_step(
            job,
            context.party,
            datetime.now(UTC),
            alive=job.id in self._processes,
            room=drafted and self._begun() < context.settings.runs_at_once,
            resumes=context.settings.automatic_resumes,
        )

    def _begun(self) -> int:
        """How many jobs that were drafted here are about to run, or do."""
        row = self._context.database.row(
            "SELECT count(*) AS begun FROM jobs, runs WHERE job = id AND party = ?1 AND drafter = ?1 "
            "AND jobs.ended = '' AND state IN ('ready', 'running')",
            self._context.party,
        )
        return int(row["begun"]) if row else 0

    def _get_ready(self, connection: sqlite3.Connection, job: Job) -> _Begin | None:
        """Say that this party is ready for an attempt, or that it runs; the approval must hold for that."""
        party, step = self._context.party, self._next(job)
        if step.what not in ("ready", "start"):
            return None
        private = approved_settings(connection, self._context, job)
        if isinstance(private, str):
            lapse(connection, self._context, job, private)
            return None
        state: RunState = "ready" if step.what == "ready" else "running"
        set_run(connection, party, job, step.occurrence, step.attempt, state)
        return _Begin(job, step, private) if state == "running" else None

    def _step(self, name: str) -> None:
        context = self._context
        with context.database.transaction() as connection:
            job = job_named(connection, name)
            step = self._next(job)
            begin = self._get_ready(connection, job)
            if step.what in _ENDS:
                end_job(connection, name, _ENDS[step.what])
                note(connection, "service", f"a job has {_ENDS[step.what]}", job.offer.purpose, name)
        if step.what == "stop":
            self._processes[name].stop()
        elif step.what == "lost":
            self._lost(job, step)
        elif begin:
            self._begin(begin)
        self._changed()

    def _begin(self, begin: _Begin) -> None:
        context, job, step = self._context, begin.job, begin.step
        try:
            self._processes[job.id] = self._start(
                context.folder, context.party, job.plan, begin.private, job.id, step.occurrence, step.attempt
            )
        except (OSError, UnpooledError) as error:
            self._keep_outcome(job, step.occurrence, step.attempt, Outcome(False, str(error)))

    def _lost(self, job: Job, step: Step) -> None:
        """A run of which only the database knows: the service was killed while it ran."""
        home = folder_of(self._context.folder, job.id, step.occurrence) / self._context.party
        if not run_folder.is_taken(home):  # otherwise its process is just ending
            self._keep_outcome(job, step.occurrence, step.attempt, outcome(home, None))

    def _ended(self, name: str) -> None:
        one = self._processes[name]
        one.close()
        with self._context.database.reading() as connection:
            job = job_named(connection, name)
        home = folder_of(self._context.folder, name, one.occurrence) / self._context.party
        self._keep_outcome(job, one.occurrence, one.attempt, outcome(home, one.process.returncode))
        del self._processes[name]
        self._changed()

    def _keep_outcome(self, job: Job, occurrence: int, attempt: int, found: Outcome) -> None:
        """Keep how a run has ended, and write its report; the others are not told the error, which may hold data."""
        party = self._context.party
        state: RunState = "finished" if found.finished else "failed"
        home = folder_of(self._context.folder, job.id, occurrence) / party
        with suppress(UnpooledError, OSError):
            write_report(home)
        with self._context.database.transaction() as connection:
            set_run(
                connection,
                party,
                job,
                occurrence,
                attempt,
                state,
                found.error,
                resumable=found.resumable,
            )
            about = f"attempt {attempt}: {found.error}" if found.error else f"attempt {attempt}"
            note(connection, "service", f"run {state}", about, job.id)
            if not self._ending:  # a failed run is ready again in the same moment, if it resumes by itself
                self._get_ready(connection, job_named(connection, job.id))

    def _purge(self) -> None:
        """Remove the working files of runs that ended long ago."""
        days, now = self._context.settings.purge_after_days, datetime.now(UTC)
        if not days or now < self._purged_at + _PURGE_EVERY:
            return
        self._purged_at = now
        before = (now - timedelta(days=days)).isoformat(timespec="seconds")
        rows = self._context.database.rows(
            "SELECT id FROM jobs WHERE ended <> '' AND purged = 0 AND created < ?1 "
            "AND NOT EXISTS (SELECT 1 FROM runs WHERE job = id AND (runs.ended = '' OR runs.ended >= ?1))",
            before,
        )
        for row in rows:
            self._try(row["id"], lambda job=row["id"]: self._purge_job(job))  # type: ignore[misc]

    def _purge_job(self, job: str) -> None:
        for run in sorted(self._context.folder.runs.glob(f"{job}-*")):
            with suppress(UnpooledError):
                run_folder.purge(run, force=True)
        with self._context.database.transaction() as connection:
            connection.execute("UPDATE jobs SET purged = 1 WHERE id = ?", (job,))
            note(connection, "service", "removed the working files of a job", "", job)
