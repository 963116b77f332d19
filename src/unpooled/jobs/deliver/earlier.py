"""What the active party has kept of an earlier search: its plan, the ranking, and what to expect of lists."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from unpooled.align.normalise import IdRules
from unpooled.errors import InputError, PlanError
from unpooled.jobs.exclusion import excluded_people
from unpooled.jobs.lookalike.advice import Advice, KeptAdvice
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.lookalike.list_files import RANKING, ListFile, read_ranking
from unpooled.jobs.plan import Plan, Role
from unpooled.jobs.private import Private
from unpooled.jobs.run_files import RESULT

_PLAN = "plan.toml"
_ROLES: tuple[Role, ...] = ("seeker", "active", "passive")


@dataclass(frozen=True)
class _Kept:
    advice: KeptAdvice | None = None


def check_earlier(plan: Plan, private: Private, party: str, rules: IdRules, *, advice: bool) -> None:
    """Refuse, before the start, a folder that is not of a finished search by the same parties in the same roles."""
    folder = _folder(private, party)
    try:
        before = Plan.model_validate(tomllib.loads((folder / _PLAN).read_text(encoding="utf-8")))
        given = {key: value for key, value in before.parameters.items() if key in IdRules.model_fields}
        compared = IdRules.model_validate(given)
    except (OSError, ValueError):  # of TOML, of text, or of a plan
        raise InputError(f"{party}: earlier: {folder} is not the folder of a run: it has no {_PLAN} of one") from None
    if before.kind != LOOKALIKE.name:
        raise InputError(f"{party}: earlier: {folder} is of a job of kind {before.kind}, not {LOOKALIKE.name}")
    for role in _ROLES:
        now, then = sorted(plan.with_role(role)), sorted(before.with_role(role))
        if now != then:
            raise PlanError(
                f"{party}: earlier: in {folder} the {role} was {', '.join(then)}, in this plan it is "
                f"{', '.join(now)}; the parties must be the same, since each must agree"
            )
    if compared != IdRules(**{key: getattr(rules, key) for key in IdRules.model_fields}):
        raise PlanError(f"{party}: earlier: normalise, hash and salt must be those of the search in {folder}")
    ids = ranking_in(private, party).ids.columns
    if private.exclude:
        hashed = bool(private.table and private.table.hashed)
        excluded_people(private.exclude, tuple(ids), party, rules, hashed=hashed)
    if advice:
        advice_in(private, party)


def ranking_in(private: Private, party: str) -> ListFile:
    """Everybody whom the seeker did not know, in order."""
    path = _folder(private, party) / RANKING
    if not path.exists():
        raise InputError(f"{party}: earlier: {path} is missing: the active party of a finished search has it")
    kept = read_ranking(path)
    ranks = kept.lines["rank"].to_list()
    if ranks != list(range(1, len(ranks) + 1)):
        raise InputError(f"{party}: {path}: column 'rank': must be 1, 2, 3 and so on")
    return kept


def advice_in(private: Private, party: str) -> Advice:
    """What to expect of lists of that ranking."""
    path = _folder(private, party) / RESULT
    try:
        advice = TypeAdapter(_Kept).validate_json(path.read_bytes()).advice
    except (OSError, ValidationError):
        raise InputError(f"{party}: earlier: {path} cannot be read, or is damaged") from None
    if advice is None:
        raise InputError(f"{party}: earlier: {path} has no advice: the search ran without estimate")
    return advice


def _folder(private: Private, party: str) -> Path:
    if private.earlier is None:
        raise PlanError(f"{party}: earlier: name the folder of the earlier search in the private file")
    return private.earlier
