"""Jobs as people look at them: which wait for whom, what may be done with one, and what a newcomer does first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unpooled.drawing.words import listed, times
from unpooled.serve.accounts.people import Role, may
from unpooled.serve.certificates import own_certificate
from unpooled.serve.context import Context
from unpooled.serve.jobs.life import STATES, State, latest_attempt, state_of
from unpooled.serve.jobs.records import Job, jobs_in

_OPEN: tuple[State, ...] = ("running", "failed", "paused", "waiting", "offered", "draft")
"""States of jobs that have not ended, in the order in which a list has them."""


@dataclass(frozen=True)
class Looker:
    """Whoever looks at jobs: a person of this party, with a role."""

    person: str
    role: Role


@dataclass(frozen=True)
class JobLine:
    """A job in a list; `waits` says what it waits for this person to do, if it does."""

    job: Job
    state: State
    waits: str

    @property
    def words(self) -> str:
        return STATES[self.state]


@dataclass(frozen=True)
class Approval:
    """One person's approval of a job at this party."""

    person: str
    at: str


@dataclass(frozen=True)
class FirstStep:
    """What is to be done before jobs can run, where, and by whom at least."""

    what: str
    why: str
    address: str
    role: Role
    done: bool


def job_lines(context: Context, looker: Looker, only: str = "") -> list[JobLine]:
    """The jobs, those first that wait for this person, then the open ones; of one state only, if that is named."""
    with context.database.reading() as connection:
        jobs = jobs_in(connection)
        approved = {(row["job"], row["person"]) for row in connection.execute("SELECT job, person FROM approvals")}
    lines = []
    for job in jobs:
        state = state_of(job)
        if only in ("", state):
            waits = _waits(job, state, context.party, looker, approved=(job.id, looker.person) in approved)
            lines.append(JobLine(job, state, waits))
    return sorted(lines, key=lambda line: (not line.waits, bool(line.job.ended), _place(line)))


def count_by_state(context: Context) -> dict[State, int]:
    """How many jobs there are in each state that any is in, in the order of the states."""
    with context.database.reading() as connection:
        found = [state_of(job) for job in jobs_in(connection)]
    return {state: found.count(state) for state in STATES if state in found}


def inbox(context: Context) -> list[Job]:
    """The offers that wait for this party's decision, those first that expire soonest."""
    with context.database.reading() as connection:
        waiting = [job for job in jobs_in(connection, only_open=True) if needs_decision(job, context.party)]
    return sorted(waiting, key=lambda job: (job.offer.expires, job.id))


def needs_decision(job: Job, party: str) -> bool:
    """Whether a job waits for this party to approve or decline it."""
    decision = job.decisions.get(party)
    return state_of(job) in ("offered", "waiting") and (decision is None or decision.choice != "approved")


def approvals_of(context: Context, job: str) -> list[Approval]:
    """Who of this party has approved a job so far."""
    rows = context.database.rows("SELECT person, at FROM approvals WHERE job = ? ORDER BY at, person", job)
    return [Approval(row["person"], row["at"]) for row in rows]


def acts_for(job: Job, party: str, looker: Looker) -> frozenset[str]:
    """What a person may do with a job now: some of change, offer, decide, pause, proceed, cancel.

    An analyst cancels only what they have drafted; an approver anything.
    """
    state, found = state_of(job), set[str]()
    if may(looker.role, "analyst"):
        found |= {"change", "offer"} if state == "draft" else set()
        found |= {"pause"} if state in ("waiting", "running") else set()
        found |= {"proceed"} if state in ("paused", "failed") and not job.ended else set()
        own = (job.offer.drafter, job.offer.drafted_by) == (party, looker.person)
        if state != "draft" and not job.ended and (own or may(looker.role, "approver")):
            found.add("cancel")
    if may(looker.role, "approver") and needs_decision(job, party):
        found.add("decide")
    return frozenset(found)


def first_steps(context: Context) -> list[FirstStep]:
    """What is to be done until the first job, in order."""
    counts = context.database.row(
        "SELECT (SELECT count(*) FROM peers) AS peers, (SELECT count(*) FROM tables) AS tables, "
        "(SELECT count(*) FROM jobs) AS jobs, (SELECT count(*) FROM people WHERE NOT disabled) AS people"
    )
    made: Mapping[str, int] = dict(counts) if counts else {}
    certificate = not own_certificate(context).problem
    return [
        FirstStep("Get a certificate", "Others know this party by it.", "/certificates", "administrator", certificate),
        FirstStep(
            "Add the other parties",
            "With their names, and where their services are reached.",
            "/peers",
            "administrator",
            made.get("peers", 0) > 0,
        ),
        FirstStep(
            "Set up a table",
            "Where it is, and what must never leave; a party that only coordinates needs none.",
            "/tables",
            "administrator",
            made.get("tables", 0) > 0,
        ),
        FirstStep(
            "Add people",
            "Who drafts jobs, and who approves those that others offer.",
            "/people",
            "administrator",
            made.get("people", 0) > 1,
        ),
        FirstStep(
            "Draft a job",
            "Say what it is for and who takes part; nobody sees it until you offer it.",
            "/jobs/new",
            "analyst",
            made.get("jobs", 0) > 0,
        ),
    ]


def _waits(job: Job, state: State, party: str, looker: Looker, *, approved: bool) -> str:
    """What a job waits for this person to do; empty if it does not."""
    may_do = acts_for(job, party, looker)
    if "decide" in may_do and not approved:
        return "approve or decline it"
    if "offer" in may_do and job.offer.drafted_by == looker.person:
        return "offer it, or remove the draft"
    return "look why, then let it go on or cancel it" if state == "failed" and "proceed" in may_do else ""


def _place(line: JobLine) -> int:
    return _OPEN.index(line.state) if line.state in _OPEN else len(_OPEN)


def in_words(job: Job, party: str) -> str:
    """How far a job is, in a sentence."""
    state, offer = state_of(job), job.offer
    match state:
        case "draft":
            return "This is a draft: nobody outside this organisation sees it until it is offered."
        case "offered":
            left = [name for name in job.plan.parties if not _has_approved(job, name)]
            said = [f"{name} (this party)" if name == party else name for name in left]
            return f"It waits for the approval of {listed(said)}, until {_day(offer.expires)}."
        case "waiting":
            return _said_waiting(job)
        case "running":
            attempt = latest_attempt(job, job.occurrence)
            again = f", resumed {times(attempt - 1)}" if attempt > 1 else ""
            return f"The parties are computing together{again}."
        case "paused":
            return "It is paused at all parties. What is done so far is kept; it goes on when somebody lets it."
        case "failed" if not job.ended:
            return "The run failed, and is not resumed by itself any more. What is done so far is kept."
        case "failed":
            return "The run failed and cannot be resumed: correct the cause, then offer the job again."
        case "finished":
            return "All parties have finished."
        case "expired":
            return f"It has expired: it had not started by {_day(offer.expires)}."
        case "declined" | "cancelled":
            return f"It was {state} by {job.reason}" if job.reason else f"It was {state}."


def _said_waiting(job: Job) -> str:
    if job.offer.every and job.occurrence:
        return f"It runs every {job.offer.every}, and waits for the next time; the last is by {_day(job.offer.until)}."
    return "Everybody has approved. It starts as soon as every party’s service is there and has room for it."


def _has_approved(job: Job, party: str) -> bool:
    decision = job.decisions.get(party)
    return decision is not None and decision.choice == "approved"


def _day(at: str) -> str:
    return f"{at[:10]} {at[11:16]} UTC"
