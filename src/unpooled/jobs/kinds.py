"""The kinds of job, and what each one consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from unpooled import control
from unpooled.errors import PlanError, RefusedError
from unpooled.jobs.align import job as align
from unpooled.jobs.check import job as check
from unpooled.jobs.lookalike import job as lookalike
from unpooled.jobs.outline import Exchange, frame_of_every_job
from unpooled.jobs.plan import Plan
from unpooled.jobs.predict import job as predict
from unpooled.jobs.private import Policy
from unpooled.jobs.train import job as train
from unpooled.jobs.work import Work
from unpooled.session import Session
from unpooled.wire import is_declared

Result = dict[str, Any]
"""What a party has at the end: JSON values, for `result.json` and its report."""


@dataclass(frozen=True)
class Kind:
    """A kind of job: what it can be told, what it does at a party, and what it will say, before it does."""

    summary: str
    parameters: type[BaseModel]
    role: Callable[[Session, Work[Any]], Result]
    outline: Callable[[Plan, Any], list[Exchange]]


KINDS: Mapping[str, Kind] = {
    "align": Kind((align.__doc__ or "").strip(), align.Parameters, align.role, align.outline),
    "check": Kind((check.__doc__ or "").strip(), check.Parameters, check.role, check.outline),
    "lookalike": Kind((lookalike.__doc__ or "").strip(), lookalike.Parameters, lookalike.role, lookalike.outline),
    "predict": Kind((predict.__doc__ or "").strip(), predict.Parameters, predict.role, predict.outline),
    "train": Kind((train.__doc__ or "").strip(), train.Parameters, train.role, train.outline),
}


_WORDS = {
    "extra_forbidden": "unknown key",
    "missing": "this key is missing",
    "tuple_type": "must be a list",
    "dict_type": "must be a table",
    "model_type": "must be a table",
    "path_type": "must be a path",
}
"""What is wrong with a key in the words of a TOML file, where pydantic's are those of Python."""


def kind_of_job(plan: Plan) -> Kind:
    """The plan's kind of job."""
    if plan.kind not in KINDS:
        raise PlanError(f"kind: there is no such kind; there are: {', '.join(KINDS)}")
    return KINDS[plan.kind]


def parameters_of(plan: Plan) -> BaseModel:
    """The plan's parameters, checked, defaults filled in."""
    try:
        return kind_of_job(plan).parameters.model_validate(plan.parameters)
    except ValidationError as error:
        raise PlanError("; ".join(faults(error, "parameters"))) from None


def faults(error: ValidationError, prefix: str = "") -> list[str]:
    """What a validation found, a line for each key: what is wrong with it, never its value."""
    found: dict[str, list[str]] = {}
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        # Where a value may be of several types, pydantic adds the type tried, such as tuple[str, ...], to the key.
        keys = [str(part) for part in (prefix, *fault["loc"]) if part != "" and "[" not in str(part)]
        text = _WORDS.get(fault["type"]) or fault["msg"].removeprefix("Value error, ").replace("Input should", "must")
        found.setdefault(".".join(keys), []).append(text)
    return [": ".join(filter(None, (key, ", or ".join(texts)))) for key, texts in found.items()]


def outline_of(plan: Plan) -> list[Exchange]:
    """Everything a job will say, in order."""
    return frame_of_every_job(plan, kind_of_job(plan).outline(plan, parameters_of(plan)))


def check_policy(plan: Plan, party: str, policy: Policy) -> None:
    """Refuse, before the start, a job that would send what this party's policy says must never leave."""
    for kind in policy.never_send:
        if not is_declared(kind) or kind in control.KINDS:
            raise PlanError(f"{party}: policy.never_send: {kind!r} is no kind of message that could be left out")
    for exchange in outline_of(plan):
        if exchange.sender == party and exchange.kind in policy.never_send and not exchange.only_if:
            raise RefusedError(f"{party} never sends {exchange.kind} (policy.never_send), and this job needs it")
