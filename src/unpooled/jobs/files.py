"""Reading and writing the TOML files of a job: the plan, a party's private file, or both in one for a trial."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tomli_w
from pydantic import BaseModel, ValidationError

from unpooled import atomic
from unpooled.errors import PlanError
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private, check_certificates
from unpooled.settings import faults

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Job:
    """A plan with the private settings of all its parties: what a trial on one machine needs."""

    plan: Plan
    privates: Mapping[str, Private]


def load_plan(path: Path) -> Plan:
    """Read a plan; one with private sections is refused, because plans are shared."""
    content = _read(path)
    if "private" in content:
        raise PlanError(f"{path}: private: a plan is shared with all parties; put private settings into a private file")
    return _plan(path, content)


def load_private(path: Path) -> Private:
    """Read a party's private file; relative paths in it are taken from its folder."""
    return _validated(path, Private, _read(path)).at(path.parent)


def load_section(path: Path, model: type[M]) -> M:
    """Read a file that holds settings of another type."""
    return _validated(path, model, _read(path))


def load_job(path: Path) -> Job:
    """Read a file that holds a plan and, as `[private.NAME]`, the private settings of every party."""
    content = _read(path)
    sections = content.pop("private", None)
    plan = _plan(path, content)
    if not isinstance(sections, dict):
        raise PlanError(
            f"{path}: private: each party needs a [private.NAME] section; to run one party of a plan, see `join`"
        )
    unknown = [name for name in sections if name not in plan.parties]
    if unknown:
        raise PlanError(f"{path}: private.{unknown[0]}: there is no such party in the plan")
    privates = {
        party: _validated(path, Private, sections.get(party, {}), f"private.{party}").at(path.parent)
        for party in plan.parties
    }
    try:
        check_certificates(privates)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    return Job(plan, privates)


def write_toml(path: Path, settings: BaseModel) -> None:
    """Write a plan or private settings as a file that loads to the same."""
    atomic.write_text(path, tomli_w.dumps(as_toml(settings)))


def as_toml(settings: BaseModel) -> dict[str, Any]:
    """Settings as TOML has them: what differs from the defaults."""
    return settings.model_dump(mode="json", exclude_none=True, exclude_defaults=True)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PlanError(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"{path}: cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path}: not TOML: {error}") from None


def _plan(path: Path, content: Mapping[str, Any]) -> Plan:
    plan = _validated(path, Plan, content)
    try:
        parameters_of(plan)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None
    return plan


def _validated(path: Path, model: type[M], content: Mapping[str, Any], prefix: str = "") -> M:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise PlanError("\n".join(f"{path}: {line}" for line in faults(error, prefix))) from None
