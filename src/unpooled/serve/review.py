"""What an approver sees before deciding: the dry run of a job with this party's table, and attacks on a simulated run.

Both are computed in processes of their own, from files in a folder for each job and choice of settings, and kept there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from unpooled import atomic
from unpooled.jobs.files import write_toml
from unpooled.jobs.kind import Agreement, agreements_of
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.serve.context import Context
from unpooled.serve.jobs.records import Job
from unpooled.serve.tables import Choices, digest_of_settings, private_of

_AT_ONCE = 2
_ATTACKS = "found-attacks.html"  # beside it, `audit` writes a JSON file of the same name
_MOST_SECONDS = 1800
What = Literal["dry-run", "attacks"]


@dataclass(frozen=True)
class Review:
    """A dry run, or attacks: being computed, or what was found, or why that was not possible."""

    state: Literal["none", "working", "done", "failed"]
    found: dict[str, Any] | None = None
    error: str = ""


def agreements(plan: Plan, party: str) -> list[tuple[Agreement, str]]:
    """What a party agrees to by taking part, each with its text."""
    kind, role = kind_named(plan.kind), plan.parties[party].role
    others = {each: ", ".join(plan.with_role(each)) for each in ("seeker", "passive", "coordinator")}
    asked = agreements_of(kind, party, role, parameters_of(plan))
    return [(one, one.text.format(party=party, active=plan.active, **others)) for one in asked]


class Reviewer:
    """Computes reviews in the background, a few at a time."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="unpooled-review")
        self._working: set[tuple[Path, What]] = set()
        self._children: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()

    def close(self) -> None:
        """End what is being computed."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:
            for child in self._children:
                child.kill()
        self._pool.shutdown()

    def request(self, job: Job, choices: Choices, what: What, *, again: bool = False) -> None:
        """Begin to compute a review, unless it is being computed, or it is there and not wanted `again`."""
        private = self._private(job, choices)
        folder = self._folder(job, private)
        with self._lock:
            if (folder, what) in self._working or (not again and (folder / f"{what}.json").exists()):
                return
            (folder / f"{what}.json").unlink(missing_ok=True)
            self._working.add((folder, what))
        self._pool.submit(self._compute, job.plan, private, folder, what)

    def review(self, job: Job, choices: Choices, what: What) -> Review:
        """How far a review is, and what it found."""
        folder = self._folder(job, self._private(job, choices))
        try:
            kept = json.loads((folder / f"{what}.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            with self._lock:
                return Review("working" if (folder, what) in self._working else "none")
        if "error" in kept:
            return Review("failed", error=kept["error"])
        return Review("done", kept["found"])

    def page(self, job: Job, choices: Choices) -> Path:
        """The page about attacks, if these were computed."""
        return self._folder(job, self._private(job, choices)) / _ATTACKS

    def _private(self, job: Job, choices: Choices) -> Private:
        """The party's settings as if it agreed to all that the job asks: a review says what that would mean."""
        asked = {one.key: True for one, _ in agreements(job.plan, self._context.party) if one.key != "describe"}
        granted = choices.model_copy(update={"consent": choices.consent.model_copy(update=asked)})
        with self._context.database.reading() as connection:
            return private_of(connection, self._context.folder, granted)

    def _folder(self, job: Job, private: Private) -> Path:
        return self._context.folder.reviews / f"{job.id}-{digest_of_settings(private)[:16]}"

    def _compute(self, plan: Plan, private: Private, folder: Path, what: What) -> None:
        try:
            kept = self._computed(plan, private, folder, what)
            atomic.write_text(folder / f"{what}.json", json.dumps(kept, ensure_ascii=False))
        finally:
            with self._lock:
                self._working.discard((folder, what))

    def _computed(self, plan: Plan, private: Private, folder: Path, what: What) -> dict[str, Any]:
        atomic.close_folder(folder)
        write_toml(folder / "plan.toml", plan)
        write_toml(folder / "private.toml", private)
        own = ["--as", self._context.party, "--private", str(folder / "private.toml"), "--json"]
        words = {
            "dry-run": ["join", str(folder / "plan.toml"), "--dry-run", *own],
            "attacks": ["audit", str(folder / "plan.toml"), "--page", str(folder / _ATTACKS), *own],
        }[what]
        child = subprocess.Popen(
            [sys.executable, "-m", "unpooled", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | self._context.folder.books.environment,
        )
        with self._lock:
            self._children.add(child)
        try:
            said, complaint = child.communicate(timeout=_MOST_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            return {"error": f"it took longer than {_MOST_SECONDS // 60} minutes"}
        finally:
            with self._lock:
                self._children.discard(child)
        if child.returncode:
            return {"error": complaint.strip().removeprefix("error: ") or "it was ended"}
        return {"found": json.loads(said.strip().splitlines()[-1])}
