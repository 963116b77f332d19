"""What the JSON interface takes and gives."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from unpooled.serve.jobs.acts import USUAL_DAYS
from unpooled.serve.jobs.life import State, state_of
from unpooled.serve.jobs.records import Job
from unpooled.serve.peers import Peer
from unpooled.serve.reviewing.review import Review
from unpooled.serve.state.audit_log import Act
from unpooled.serve.tables import Choices


class Given(BaseModel):
    """What a program sends: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid")


class Draft(Given):
    """A job to draft."""

    purpose: str = Field(description="why the job is proposed; all parties see it")
    plan: str = Field(description="the plan, as TOML")
    days: int = Field(USUAL_DAYS, description="how many days the offer is open", ge=1, le=366)
    every: Literal["", "day", "week", "month"] = Field("", description="how often the job is repeated")
    until: str = Field("", description="when repeating ends, as a date or a time")


class Reason(Given):
    """Why somebody declines or cancels; the other parties are told."""

    reason: str


class Approval(Given):
    """What an approval chooses: as in the console, a table, columns with a special use, and what others may learn."""

    choices: Choices = Choices()


class DecisionShown(BaseModel):
    """What a party has decided."""

    party: str
    choice: Literal["approved", "declined", "lapsed"]
    by: str
    reason: str
    at: str


class RunShown(BaseModel):
    """How far a party's run is."""

    party: str
    occurrence: int
    attempt: int
    state: Literal["ready", "running", "finished", "failed"]
    error: str
    resumable: bool
    started: str
    ended: str


class JobShown(BaseModel):
    """A job."""

    id: str
    state: State
    kind: str
    purpose: str
    drafter: str
    drafted_by: str
    plan: str
    digest: str = Field(description="what approvals are bound to")
    created: str
    expires: str
    every: str
    until: str
    reason: str = Field(description="why it ended, if it did")
    decisions: list[DecisionShown]
    runs: list[RunShown]


class Files(BaseModel):
    """The result files of a run that can be fetched."""

    files: list[str]


class ReviewShown(BaseModel):
    """A dry run, or attacks: being computed, or what was found, or why that was not possible."""

    state: Literal["none", "working", "done", "failed"]
    found: dict[str, Any] | None
    error: str


class TableShown(BaseModel):
    """A table by its name; its settings are not shown."""

    name: str
    changed: str


class PeerShown(BaseModel):
    """Another party."""

    name: str
    address: str | None
    contact: str | None
    certificate_ends: str | None
    problem: str


class ActShown(BaseModel):
    """An entry of the audit log."""

    number: int
    at: str
    who: str
    what: str
    about: str
    job: str


def job_shown(job: Job) -> JobShown:
    offer = job.offer
    return JobShown(
        **{name: getattr(offer, name) for name in JobShown.model_fields if hasattr(offer, name) and name != "digest"},
        state=state_of(job),
        kind=job.plan.kind,
        digest=job.digest,
        reason=job.reason,
        decisions=[DecisionShown.model_validate(vars(one)) for one in job.decisions.values()],
        runs=[RunShown.model_validate(vars(one)) for one in job.runs.values()],
    )


def review_shown(review: Review) -> ReviewShown:
    return ReviewShown.model_validate(vars(review))


def peer_shown(peer: Peer) -> PeerShown:
    return PeerShown(**{name: getattr(peer, name) for name in PeerShown.model_fields})


def act_shown(act: Act) -> ActShown:
    return ActShown.model_validate(vars(act))
