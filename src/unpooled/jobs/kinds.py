"""The kinds of job that there are; no other module knows them by name."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from unpooled.errors import PlanError
from unpooled.jobs.align.kind import ALIGN
from unpooled.jobs.check.kind import CHECK
from unpooled.jobs.complete.kind import COMPLETE
from unpooled.jobs.deliver.kind import DELIVER
from unpooled.jobs.information.kind import INFORMATION
from unpooled.jobs.kind import Kind
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.outline import Exchange, frame_of_every_job
from unpooled.jobs.plan import Plan
from unpooled.jobs.predict.kind import PREDICT
from unpooled.jobs.train.kind import TRAIN
from unpooled.secure.engine import Rules, check_engine
from unpooled.settings import faults

KINDS: tuple[Kind[Any], ...] = (ALIGN, CHECK, COMPLETE, DELIVER, INFORMATION, LOOKALIKE, PREDICT, TRAIN)


def kind_named(name: str) -> Kind[Any]:
    """The kind of job with this name."""
    for kind in KINDS:
        if kind.name == name:
            return kind
    raise PlanError(f"kind: there is no such kind; there are: {', '.join(kind.name for kind in KINDS)}")


def parameters_of(plan: Plan) -> BaseModel:
    """The plan's parameters, checked, defaults filled in."""
    kind: type[BaseModel] = kind_named(plan.kind).parameters
    try:
        return kind.model_validate(plan.parameters)
    except ValidationError as error:
        raise PlanError("; ".join(faults(error, "parameters"))) from None


def outline_of(plan: Plan) -> list[Exchange]:
    """All messages of a job, in order; PlanError if its parties cannot do it together."""
    kind = kind_named(plan.kind)
    for name, party in plan.parties.items():
        if party.role not in kind.takes:
            raise PlanError(f"parties.{name}: {kind.name} has no {party.role}, only {', '.join(kind.takes)}")
    if absent := [role for role in kind.needs if not plan.with_role(role)]:
        raise PlanError(f"parties: {kind.name} needs a party with the role {absent[0]}")
    if kind.products:
        check_engine(Rules(plan.engine, plan.key_bits, plan.insecure), coordinator=bool(plan.with_role("coordinator")))
    return frame_of_every_job(plan, kind.outline(plan, parameters_of(plan)))
