"""One party's conversation from beginning to end, wherever it runs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from unpooled.errors import RefusedError
from unpooled.jobs.kinds import Result, check_policy, kind_of_job
from unpooled.jobs.plan import agree
from unpooled.jobs.private import Policy
from unpooled.jobs.work import Work
from unpooled.session import Session
from unpooled.wire import kind_of

T = TypeVar("T")


def converse(session: Session, fields: Mapping[str, str], role: Callable[[Session], T]) -> T:
    """Link up, agree on the plan, do the role's part, say goodbye; if any of that fails, tell everybody."""
    try:
        session.open()
        agree(session, fields)
        result = role(session)
        session.finish()
    except BaseException as error:
        session.abort(error)
        raise
    return result


def role_of(work: Work[Any]) -> Callable[[Session], Result]:
    """What a party does in its plan's kind of job."""
    check_policy(work.plan, work.party, work.private.policy)
    kind = kind_of_job(work.plan)
    return lambda session: kind.role(session, work)


def seed_of(work: Work[Any]) -> int:
    """The party's own seed, or a new one from the system."""
    return secrets.randbits(63) if work.private.seed is None else work.private.seed


def guard_of(party: str, policy: Policy) -> Callable[[type, int], None]:
    """What stands between a party and the door: raises before anything leaves that the policy does not allow."""
    limit = None if policy.maximum_sent_megabytes is None else policy.maximum_sent_megabytes * 1e6
    sent = 0

    def guard(kind: type, size: int) -> None:
        nonlocal sent
        if kind_of(kind) in policy.never_send:
            raise RefusedError(f"{party} never sends {kind_of(kind)} (policy.never_send)")
        sent += size
        if limit is not None and sent > limit:
            raise RefusedError(f"{party} sends at most {limit / 1e6:g} MB a run (policy.maximum_sent_megabytes)")

    return guard
