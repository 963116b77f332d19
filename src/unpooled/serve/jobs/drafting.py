"""From what somebody fills in to a plan, and back: the parties come from the peers, their addresses too."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tomli_w

from unpooled.errors import InputError
from unpooled.jobs.examples.templates import settings_template
from unpooled.jobs.kind import Kind
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.plan import Plan
from unpooled.serve.context import Context
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.offer import moment, read_plan
from unpooled.serve.jobs.records import Job
from unpooled.serve.peers import peers_in

ENGINES = {
    "shares": "secret shares: fast; the coordinator deals random numbers and must not collude with a party",
    "paillier": "Paillier encryption: slower, and fewer bytes; the coordinator holds the key",
}
_ELSEWHERE = ("kind", "engine", "insecure", "parties")
"""Keys of a plan that are not written as TOML here."""


@dataclass(frozen=True)
class Draft:
    """What is filled in for a job: the settings as TOML, a role for each party that takes part."""

    kind: str
    purpose: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)
    engine: str = "shares"
    settings: str = ""
    days: str = str(acts.USUAL_DAYS)
    every: str = ""
    until: str = ""


def empty_draft(context: Context, kind: str) -> Draft:
    """What a form begins with: everybody's role is still to be chosen, unless it can only be one."""
    of = kind_named(kind)
    own = {context.party: "active"} if "active" in of.takes else {}
    return Draft(kind, roles=own, settings=settings_template(kind))


def draft_of(job: Job) -> Draft:
    """What was filled in for a draft."""
    plan, offer = job.plan, job.offer
    return Draft(
        kind=plan.kind,
        purpose=offer.purpose,
        roles={name: party.role for name, party in plan.parties.items()},
        engine=plan.engine,
        settings=settings_template(plan.kind, plan),
        days=str((moment(offer.expires) - moment(offer.created)).days),
        every=offer.every,
        until=offer.until[:10],
    )


def save(context: Context, by: str, draft: Draft, job: str = "") -> str:
    """Keep a draft, or a changed one; InputError or PlanError says what is wrong with it."""
    if not draft.purpose.strip():
        raise InputError("say what the job is for: the other parties decide by that")
    text = plan_text(context, draft)
    until = f"{draft.until}T23:59:59+00:00" if draft.until and draft.every else ""
    if draft.every and not until:
        raise InputError("a job that is repeated needs a date until when")
    days = int(draft.days) if draft.days.isascii() and draft.days.isdigit() else 0
    if not 0 < days < 1_000:
        raise InputError("for how many days the offer is open must be a whole number")
    return acts.draft(context, by, purpose=draft.purpose, plan=text, days=days, every=draft.every, until=until, job=job)


def plan_text(context: Context, draft: Draft) -> str:
    """The plan, with addresses from peers and settings; refused if the parties cannot do it together."""
    kind = kind_named(draft.kind)
    try:
        content = tomllib.loads(draft.settings)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the settings are not TOML: {error}") from None
    if given := [key for key in _ELSEWHERE if key in content]:
        raise InputError(f"{given[0]}: this is not among the settings; it has its own field in this form, or none")
    content |= {"kind": kind.name, "engine": draft.engine, "parties": _parties(context, kind, draft.roles)}
    text = tomli_w.dumps(content)
    outline_of(read_plan(text))
    return text


def _parties(context: Context, kind: Kind[Any], roles: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The parties in the order of their roles."""
    addresses = {context.party: context.settings.address} | {p.name: p.address for p in peers_in(context.database)}
    if not roles.get(context.party):
        raise InputError(f"choose a role for {context.party} itself: a job without it is for others to draft")
    if unknown := [name for name, role in roles.items() if role and name not in addresses]:
        raise InputError(f"{unknown[0][:40]}: not among the peers")
    if wrong := [role for role in roles.values() if role and role not in kind.takes]:
        raise InputError(f"{wrong[0][:40]}: no role of this kind of job")
    parties: dict[str, dict[str, str]] = {}
    for role in kind.takes:
        for name in (each for each, chosen in roles.items() if chosen == role):
            address = addresses[name]
            parties[name] = {"role": role} | ({"address": address} if address else {})
    if len(unreached := [name for name in parties if not addresses[name]]) > 1:
        raise InputError(f"{' and '.join(unreached)} have no address: of two parties one must be reached by the other")
    return parties


def plan_settings(plan: Plan) -> str:
    """A plan's settings as TOML with every setting explained, to be read."""
    return settings_template(plan.kind, plan)
