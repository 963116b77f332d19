"""A plan and one party's settings are checked once, before anything starts."""

from __future__ import annotations

from typing import Any

from unpooled import control
from unpooled.data.table import Table
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.kind import Kind, agreements_of
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.plan import Plan, Role
from unpooled.jobs.private import Policy, Private
from unpooled.jobs.row_weights import check_weight
from unpooled.jobs.work import CheckedJob
from unpooled.wire import is_declared


def checked(plan: Plan, party: str, private: Private, table: Table | None = None) -> CheckedJob[Any]:
    """One party's side of a job, if its settings and its policy go with the plan; a table may be given."""
    check_fits(plan, party, private, table_given=table is not None)
    check_policy(plan, party, private.policy)
    return CheckedJob(plan, parameters_of(plan), party, private, table)


def check_fits(plan: Plan, party: str, private: Private, *, table_given: bool = False) -> None:
    """Refuse private settings that cannot serve the plan."""
    if party not in plan.parties:
        raise PlanError(f"{party} is not in the plan; its parties are {', '.join(plan.parties)}")
    role = plan.parties[party].role
    has_table = table_given or private.table is not None
    if role == "coordinator" and (has_table or private.exclude):
        raise PlanError(f"{party} is the coordinator, which must see no data: remove its table and exclude")
    if role == "coordinator" and private.memory is not None:
        raise PlanError(f"{party}: memory: it is for parties with a table; here use policy.maximum_served_megabytes")
    if role != "coordinator" and not has_table:
        raise PlanError(f"{party} needs a table section in its private file: path and id at least")
    if role != "active" and private.target is not None:
        raise PlanError(f"{party}: target: only {plan.active}, the active party, has one: remove it")
    if private.target is not None and private.target == private.weight:
        raise PlanError(f"{party}: target and weight cannot be the same column")
    check_weight(plan, parameters_of(plan), party, private)
    kind = kind_named(plan.kind)
    for key in kind.private_needs.get(role, ()):
        if getattr(private, key) is None:
            meaning = Private.model_fields[key].description
            raise PlanError(f"{party}: {key}: {kind.name} needs this key in the private file: {meaning}")
    _check_consent(kind, plan, party, private)


def _check_consent(kind: Kind[Any], plan: Plan, party: str, private: Private) -> None:
    """Refuse a job to which a party has not agreed."""
    for agreement in agreements_of(kind, party, plan.parties[party].role, parameters_of(plan)):
        if not getattr(private.consent, agreement.key):
            roles: tuple[Role, ...] = ("seeker", "passive", "coordinator")
            others = {role: ", ".join(plan.with_role(role)) for role in roles}
            text = agreement.text.format(party=party, active=plan.active, **others)
            otherwise = f"agree on a plan without {agreement.only_with}" if agreement.only_with else "do not take part"
            otherwise += f" = '{agreement.value}'" if agreement.value else ""
            raise PlanError(
                f"{party}: consent.{agreement.key}: {text}; agree to that in the private file, or {otherwise}"
            )


def check_policy(plan: Plan, party: str, policy: Policy) -> None:
    """Refuse a job that would send what this party's policy says must never leave."""
    for kind in policy.never_send:
        if not is_declared(kind) or kind in control.KINDS:
            raise PlanError(f"{party}: policy.never_send: {kind!r} is unknown, or a message that every job needs")
    for exchange in outline_of(plan):
        if exchange.sender == party and exchange.kind in policy.never_send and not exchange.only_if:
            raise RefusedError(f"{party} never sends {exchange.kind} (policy.never_send), and this job needs it")
