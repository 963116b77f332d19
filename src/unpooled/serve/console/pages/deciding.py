"""What an approver's part of a job's page shows: what is to be chosen, and what was found out with these choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode

from unpooled.attacks.findings import ATTACKS
from unpooled.attacks.stage import ATTACKED
from unpooled.errors import UnpooledError
from unpooled.serve.console.console import Console
from unpooled.serve.jobs import choosing
from unpooled.serve.jobs.choosing import ANSWERS, Consenting, Question
from unpooled.serve.jobs.records import Job
from unpooled.serve.reviewing.review import Review
from unpooled.serve.reviewing.reviewed import Reviewed, reviewed

REVIEWED = "review"
"""The part of an address that says that choices were made."""


@dataclass(frozen=True)
class Deciding:
    """The choices as they were typed, and how far the dry run and the attacks with them are."""

    questions: Sequence[Question]
    answers: Mapping[str, str]
    agreed: frozenset[str]
    consents: Sequence[Consenting]
    filling: bool
    state: Literal["none", "working", "done", "failed"]
    error: str
    found: Reviewed | None
    attacks: Review
    attacked: bool
    titles: Mapping[str, str]
    limits: Sequence[tuple[str, str]]
    query: str


def deciding(console: Console, job: Job, typed: Mapping[str, Any], agreed: frozenset[str] = frozenset()) -> Deciding:
    """The review of a job with choices as they were typed; nothing is computed here."""
    asked = choosing.questions(console.context, job)
    answers = {key: value for key in ANSWERS if isinstance(value := typed.get(key, ""), str)}
    for question in asked:
        if question.options and len(question.options) == 1 and question.needed and not answers[question.key]:
            answers[question.key] = question.options[0][0]
    dry_run, attacks = Review("none"), Review("none")
    if REVIEWED in typed:
        try:
            choices = choosing.choices_of(answers)
            reviewer = console.service.reviewer
            dry_run, attacks = reviewer.review(job, choices, "dry-run"), reviewer.review(job, choices, "attacks")
        except UnpooledError as error:
            dry_run = Review("failed", error=str(error))
    roles = {name: party.role for name, party in job.plan.parties.items()}
    return Deciding(
        questions=asked,
        answers=answers,
        agreed=agreed,
        consents=choosing.consents(job, console.party),
        filling=choosing.asks_how_to_fill(job, console.party),
        state="working" if "working" in (dry_run.state, attacks.state) else dry_run.state,
        error=dry_run.error,
        found=reviewed(dry_run.found, console.party, roles) if dry_run.found else None,
        attacks=attacks,
        attacked=job.plan.kind in ATTACKED,
        titles={attack.name: attack.title for attack in ATTACKS},
        limits=choosing.limits_of(console.context, answers.get("table", "")),
        query=query_of(answers),
    )


def query_of(answers: Mapping[str, str]) -> str:
    """The part of an address that keeps choices."""
    return urlencode({REVIEWED: 1} | {key: answers[key] for key in ANSWERS if answers.get(key)})
