"""A job as one party offers it to the others, and the digest that approvals are bound to."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Literal

import tomli_w
from pydantic import ValidationError

from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.files import as_toml
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan
from unpooled.settings import faults

Every = Literal["", "day", "week", "month"]
PERIODS: dict[Every, timedelta] = {
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
}
MOST_DAYS = 366
_MOST_PLAN, _MOST_PURPOSE, _MOST_NAME = 2**16, 1_000, 100
_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Offer:
    """What one party proposes: a plan, why, and when. Times are UTC, in ISO 8601.

    Nothing starts after `expires` unless the job is repeated; then the first run begins before, and others as long as
    `until` has not passed.
    """

    id: str
    drafter: str
    drafted_by: str
    purpose: str
    plan: str
    created: str
    expires: str
    every: str = ""
    until: str = ""

    @property
    def digest(self) -> str:
        """What an approval is bound to: everything in the offer, with the plan's defaults filled in."""
        plan = read_plan(self.plan)
        content = asdict(self) | {
            "plan": plan.model_dump(mode="json"),
            "parameters": parameters_of(plan).model_dump(mode="json"),
            "party_order": list(plan.parties),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@lru_cache(maxsize=512)
def read_plan(text: str) -> Plan:
    """A plan from the text of a TOML file; PlanError says what is wrong with it."""
    if len(text.encode()) > _MOST_PLAN:
        raise PlanError(f"the plan has more than {_MOST_PLAN} bytes")
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"the plan is not TOML: {error}") from None
    if "private" in content:
        raise PlanError("private: a plan is shared with all parties, private settings are not part of it")
    try:
        plan = Plan.model_validate(content)
    except ValidationError as error:
        raise PlanError("\n".join(faults(error))) from None
    parameters_of(plan)
    return plan


def written(plan: Plan) -> str:
    """A plan as the text that is offered."""
    return tomli_w.dumps(as_toml(plan))


def check_offer(offer: Offer, party: str, peers: set[str]) -> Plan:
    """Refuse an offer that this party cannot take part in, or that is not well formed."""
    if not _ID.fullmatch(offer.id):
        raise RefusedError("invalid JobOffer: the id must have 32 hexadecimal digits")
    for name, text, most in (("purpose", offer.purpose, _MOST_PURPOSE), ("drafted_by", offer.drafted_by, _MOST_NAME)):
        _check_text(name, text, most)
    plan = read_plan(offer.plan)
    for name in (offer.drafter, party):
        if name not in plan.parties:
            raise RefusedError(f"{name} is not a party of the plan")
    if unknown := sorted(set(plan.parties) - peers - {party}):
        raise RefusedError(f"{', '.join(unknown)}: not among the peers of {party}; an administrator must add them")
    if plan.engine == "plain" or plan.insecure:
        raise RefusedError("a plan without protection (engine = 'plain', insecure = true) is not offered")
    _check_dates(offer)
    return plan


def _check_text(name: str, text: str, most: int) -> None:
    if not text.strip():
        raise RefusedError(f"{name}: must not be empty")
    if len(text) > most:
        raise RefusedError(f"{name}: at most {most} characters")
    if not text.replace("\n", " ").isprintable():
        raise RefusedError(f"{name}: must be printable")


def _check_dates(offer: Offer) -> None:
    created, expires = moment(offer.created), moment(offer.expires)
    if not created < expires <= created + timedelta(days=MOST_DAYS):
        raise RefusedError(f"expires: must be after the offer, by at most {MOST_DAYS} days")
    if offer.every and offer.every not in PERIODS:
        raise RefusedError(f"every: must be one of {', '.join(PERIODS)}")
    if bool(offer.every) != bool(offer.until):
        raise RefusedError("until: a job that is repeated needs a date until when, others have none")
    if offer.until and not created < moment(offer.until) <= created + timedelta(days=2 * MOST_DAYS):
        raise RefusedError(f"until: must be after the offer, by at most {2 * MOST_DAYS} days")


def moment(text: str) -> datetime:
    """A time as it is kept."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise RefusedError(f"{text[:40]!r} is not a time") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
