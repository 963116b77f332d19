"""What services tell each other: about the exchange of letters itself, and in letters about jobs."""

from __future__ import annotations

from unpooled.wire import message


@message(
    discloses="how many letters of the receiver's service this party's has, a digest of the last, and how many follow",
    to="the receiver",
)
class ExchangeHello:
    """Begins one side's part of an exchange: `received` is the last letter it has, `letters` of its own follow."""

    version: int
    received: int
    digest: str
    letters: int


@message(
    discloses="how many letters of the receiver's service this party's has, and a digest of the last",
    to="the receiver",
)
class LettersTaken:
    """Ends an exchange: the last letter that the caller has now."""

    received: int
    digest: str


@message(
    discloses="a plan that is offered, its purpose and dates, and the name of the person who offers it",
    to="the other parties of the plan",
)
class JobOffer:
    job: str
    drafted_by: str
    purpose: str
    plan: str
    created: str
    expires: str
    every: str
    until: str


@message(
    discloses="whether this party takes part in a job, who decided that, and the reason that was given",
    to="the other parties of the plan",
)
class JobDecision:
    job: str
    digest: str
    choice: str
    by: str
    reason: str


@message(
    discloses="how far this party's run of a job is: ready, running, finished or failed, and its error if that holds "
    "no data",
    to="the other parties of the plan",
)
class JobRun:
    job: str
    occurrence: int
    attempt: int
    state: str
    error: str
    resumable: bool


@message(discloses="that a job is to pause, and who decided that", to="the other parties of the plan")
class JobPause:
    job: str
    occurrence: int
    attempt: int
    by: str


@message(
    discloses="that a job was cancelled, who decided that, and the reason that was given",
    to="the other parties of the plan",
)
class JobCancelled:
    job: str
    by: str
    reason: str


JOB_MESSAGES = (JobOffer, JobDecision, JobRun, JobPause, JobCancelled)
