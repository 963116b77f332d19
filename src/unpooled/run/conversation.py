"""One party's conversation from beginning to end, wherever it runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

from unpooled import workers
from unpooled.budget import limits
from unpooled.budget.places import Places
from unpooled.budget.spending import About, Spending, spending_in
from unpooled.errors import RefusedError
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.over_runs import book_of
from unpooled.jobs.plan import agree, digest_of, fields_of
from unpooled.jobs.private import Policy, Private
from unpooled.jobs.work import CheckedJob, Result, begin
from unpooled.ledger import Ledger, read_ledger
from unpooled.run import folder as run_folder
from unpooled.run.progress import Watcher, nested
from unpooled.session import Observer, Session, Transport
from unpooled.wire import kind_of

T = TypeVar("T")

Linked = Callable[[Ledger], Transport]
"""Makes the transport of a party that is ready to start; it records frames in this ledger."""


def take_part(
    job: CheckedJob[Any],
    folder: Path,
    ready: Callable[[], tuple[CheckedJob[Any], Linked]],
    watcher: Watcher | None = None,
    *,
    resume: bool = False,
    books: Places | None = None,
    observer: Observer | None = None,
) -> Result:
    """Run one party's side of a job, over any transport; its files go into `folder`, which exists.

    `ready` checks that everything is in place, and raises what is wrong; the job that it returns may have its table in
    memory. With `resume` the party continues from what is in the folder. `books` is where what the run discloses is
    counted; without it, it is not. A simulation may have an `observer`.
    """
    plan, party, private = job.plan, job.party, job.private
    with run_folder.taken(folder), run_folder.status_kept(folder, party, plan):
        job, linked = ready()
        fields = fields_of(plan, job.parameters)
        path = folder / run_folder.LEDGER
        resumed = resume and path.exists()
        sent = sum(entry.bytes for entry in read_ledger(path).entries if entry.way == "sent") if resumed else 0
        counted = _counted(job, folder, digest_of(fields), books, resume=resume)
        with (
            workers.connected(private.workers.address, party),
            counted as spending,
            Ledger(path, party, digest_of(fields), resume=resumed) as ledger,
        ):
            guard = guard_of(party, private.policy, sent)
            seed = run_folder.kept_seed(folder, seed_of(private), resume=resume)
            told = nested(watcher, lambda: session) if watcher else None
            session = Session(
                linked(ledger), ledger, seed=seed, timeout=plan.timeout, guard=guard, watcher=told, observer=observer
            )
            result = converse(session, fields, role_of(job, folder, resume=resume, spending=spending))
            if spending:
                spending.end(folder, "finished", _results(result, active=party == plan.active))
        run_folder.write_result(folder, result)
    return result


def _counted(
    job: CheckedJob[Any], folder: Path, digest: str, places: Places | None, *, resume: bool
) -> AbstractContextManager[Spending | None]:
    """The run's part in the book of the party's table; None for a party without a table, or where none is kept."""
    if places is None or (book := book_of(job, places)) is None:
        return nullcontext()
    plan, party = job.plan, job.party
    about = About(party, plan.kind, digest, {name: peer.role for name, peer in plan.parties.items() if name != party})
    return spending_in(folder, book, job.private.policy, about, resume=resume)


def _results(result: Result, *, active: bool) -> dict[limits.Result, int]:
    """What a book keeps of a party's result."""
    return {"thresholds": int(result.get("thresholds", 0)), "listed": int(result.get("listed", 0)) if active else 0}


def converse(session: Session, fields: Mapping[str, str], role: Callable[[Session], T]) -> T:
    """Connect, agree on the plan, run the role, say goodbye; if any of that fails, tell all peers."""
    try:
        session.open()
        agree(session, fields)
        result = role(session)
        session.finish()
    except BaseException as error:
        session.abort(error)
        raise
    return result


def role_of(
    job: CheckedJob[Any], folder: Path, *, resume: bool = False, spending: Spending | None = None
) -> Callable[[Session], Result]:
    """A party's role. A table that is not in memory is loaded in the conversation, so that peers hear if that fails."""
    kind = kind_named(job.plan.kind)
    return lambda session: kind.role(session, begin(job, kind.table(job), folder, resume=resume, spending=spending))


def seed_of(private: Private) -> int:
    """The party's own seed, or a new one from the system."""
    return secrets.randbits(63) if private.seed is None else private.seed


def guard_of(party: str, policy: Policy, sent: int = 0) -> Callable[[type, int], None]:
    """A check of each message before it is sent: it raises if the policy does not allow it.

    `sent` is how many bytes left before, in a run that is resumed.
    """
    limit = None if policy.maximum_sent_megabytes is None else policy.maximum_sent_megabytes * 1e6

    def guard(kind: type, size: int) -> None:
        nonlocal sent
        if kind_of(kind) in policy.never_send:
            raise RefusedError(f"{party} never sends {kind_of(kind)} (policy.never_send)")
        sent += size
        if limit is not None and sent > limit:
            raise RefusedError(f"{party} sends at most {limit / 1e6:g} MB a run (policy.maximum_sent_megabytes)")

    return guard
