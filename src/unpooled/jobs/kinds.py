"""The kinds of job, and what each one consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from unpooled.data.table import Table
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs import check
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.work import Work
from unpooled.session import Session

Result = dict[str, Any]
"""What a party has at the end: JSON values, for `result.json` and its report."""


@dataclass(frozen=True)
class Kind:
    """A kind of job: what it can be told, what it does at a party, and what will be said, before it is."""

    summary: str
    parameters: type[BaseModel]
    role: Callable[[Session, Work[Any]], Result]
    outline: Callable[[Plan, Any], list[Exchange]]


KINDS: Mapping[str, Kind] = {
    "check": Kind(check.__doc__ or "", check.Parameters, check.role, check.outline),
}


def kind_of_job(plan: Plan) -> Kind:
    """The plan's kind of job."""
    if plan.kind not in KINDS:
        raise PlanError(f"kind: there is no {plan.kind!r}; there are {', '.join(KINDS)}")
    return KINDS[plan.kind]
