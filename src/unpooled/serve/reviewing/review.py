"""What an approver sees before deciding: the dry run of a job with this party's table, and attacks on a simulated run.

Both are computed in processes of their own, from files in a folder for each job and choice of settings, and kept there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from unpooled.jobs.kind import Agreement, agreements_of
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.serve.background import Background, Result
from unpooled.serve.context import Context
from unpooled.serve.jobs.records import Job
from unpooled.serve.tables import Choices, digest_of_settings, private_of

_ATTACKS = "found-attacks.html"  # beside it, `audit` writes a JSON file of the same name
What = Literal["dry-run", "attacks"]
Review = Result
"""A dry run, or attacks: being computed, or what was found, or why that was not possible."""


def agreements(plan: Plan, party: str) -> list[tuple[Agreement, str]]:
    """What a party agrees to by taking part, each with its text."""
    kind, role = kind_named(plan.kind), plan.parties[party].role
    others = {each: ", ".join(plan.with_role(each)) for each in ("seeker", "passive", "coordinator")}
    asked = agreements_of(kind, party, role, parameters_of(plan))
    return [(one, one.text.format(party=party, active=plan.active, **others)) for one in asked]


class Reviewer:
    """Computes reviews in the background."""

    def __init__(self, context: Context, background: Background) -> None:
        self._context = context
        self._background = background

    def request(self, job: Job, choices: Choices, what: What, *, again: bool = False) -> None:
        """Begin to compute a review, unless it is being computed, or it is there and not wanted `again`."""
        private = self._private(job, choices)
        folder = self._folder(job, private)
        own = ["--as", self._context.party, "--private", str(folder / "private.toml"), "--json"]
        words = {
            "dry-run": ["join", str(folder / "plan.toml"), "--dry-run", *own],
            "attacks": ["audit", str(folder / "plan.toml"), "--page", str(folder / _ATTACKS), *own],
        }[what]
        inputs = {"plan.toml": job.plan, "private.toml": private}
        self._background.request(folder / f"{what}.json", words, inputs, again=again)

    def review(self, job: Job, choices: Choices, what: What) -> Review:
        """How far a review is, and what it found."""
        folder = self._folder(job, self._private(job, choices))
        return self._background.result(folder / f"{what}.json")

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
