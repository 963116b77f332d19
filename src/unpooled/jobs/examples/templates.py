"""Commented example files for a kind of job, made from the settings' own descriptions and defaults."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import tomli_w
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from unpooled.jobs.files import as_toml
from unpooled.jobs.kind import Kind, agreements_of
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Private

_SECTIONS = ("table", "prepare", "policy", "consent", "workers", "tracking")
_SOME_HAVE = ("generate",)
"""Sections that stand only where the example of a kind has them."""


def job_template(kind: str) -> str:
    """A plan and all private settings in one file, for a trial on one machine; one party's settings are explained."""
    of = kind_named(kind)
    active, parties = of.example.tables.active, {name: {"role": each["role"]} for name, each in _parties(of).items()}
    lines = [
        *_heading("job.toml, for a trial on one machine: unpooled run job.toml", of),
        *_plan_lines(of, parties),
        f"# What is private to each party. First the {active}'s, with every setting; the coordinator needs none.",
        f"[private.{active}]",
        *_private_lines(_table(of) | example_settings(of, active), prefix=f"private.{active}."),
    ]
    for name in (name for name in parties if name not in (active, "coordinator")):
        if given := example_settings(of, name):
            lines += ["", *tomli_w.dumps({"private": {name: given}}).splitlines()]
        lines += ["", f"[private.{name}.table]", f'path = "{name}.csv"', f'id = "{of.example.tables.person}"']
    return "\n".join(lines) + "\n"


def plan_template(kind: str) -> str:
    """A plan with every setting explained; settings that keep their default are commented out."""
    of = kind_named(kind)
    return "\n".join([*_heading("plan.toml, the same at every party", of), *_plan_lines(of, _parties(of))])


def settings_template(kind: str, plan: Plan | None = None) -> str:
    """A plan's settings but for its kind, engine and parties, explained; those that a plan has stand there as given."""
    given = plan.model_dump(mode="json", exclude_defaults=True) if plan else {}
    skip = ("kind", "engine", "insecure", "parameters", "parties")
    return "\n".join(_settings_lines(kind_named(kind), given, skip)).strip() + "\n"


def private_template(kind: str) -> str:
    """A private file with every setting explained."""
    of = kind_named(kind)
    active = of.example.tables.active
    lines = [
        *_heading(f"{active}.toml, the private file of the {active}, which is never sent", of),
        *_private_lines(_table(of) | example_settings(of, active) | {"certificates": f"certs/{active}"}),
    ]
    return "\n".join(lines) + "\n"


def _table(kind: Kind[Any]) -> dict[str, Any]:
    """The active party's table in a commented example."""
    tables = kind.example.tables
    return {"path": f"{tables.active}.csv", "id": tables.person, "types": {"region": "category"}}


def explained(settings: BaseModel) -> str:
    """Settings with every key explained: what differs from the defaults stands there, all else is commented out."""
    given, model = as_toml(settings), type(settings)
    sections = [name for name in model.model_fields if isinstance(getattr(settings, name), BaseModel)]
    lines = list(_lines(model, given, skip=sections))
    for name in sections:
        inner = _lines(type(getattr(settings, name)), given.get(name, {}))
        lines += ("", f"# {model.model_fields[name].description}", f"[{name}]", *inner)
    return "\n".join(lines) + "\n"


def _heading(file: str, kind: Kind[Any]) -> tuple[str, ...]:
    return f"# {file}", f"# Kind of job: {kind.summary}", f"# Documentation: docs/{kind.page}"


def _parties(kind: Kind[Any]) -> dict[str, dict[str, str]]:
    """The parties of a plan; the seeker has no address, and dials the others."""
    return {
        name: {"role": role} | ({} if role == "seeker" else {"address": f"{name}.example.org:7433"})
        for name, role in kind.example.tables.roles.items()
        if role in kind.takes
    }


def example_settings(kind: Kind[Any], party: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a party's example file says, besides its table: what the kind of job needs, and agrees to.

    A party agrees to what the plan's parameters ask for; without any, to what the kind's defaults do.
    """
    role = kind.example.tables.roles[party]
    given: dict[str, Any] = {
        key: value.format(party=party) if isinstance(value, str) else value
        for key, value in kind.example.private.get(role, {}).items()
    }
    agreed = agreements_of(kind, party, role, kind.parameters.model_validate(parameters or {}))
    return given | ({"consent": {agreement.key: agreement.example for agreement in agreed}} if agreed else {})


def _plan_lines(kind: Kind[Any], parties: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    yield from _settings_lines(kind, {"kind": kind.name}, ("parameters", "parties"))
    yield from ("", f"# {Plan.model_fields['parties'].description}")
    yield from (f"# {name}: {field.description}" for name, field in Party.model_fields.items())
    for name, party in parties.items():
        yield from (f"[parties.{name}]", *tomli_w.dumps(party).splitlines(), "")


def _settings_lines(kind: Kind[Any], given: Mapping[str, Any], skip: Collection[str]) -> Iterator[str]:
    """The lines of a plan's settings; its parameters, as given, are checked already."""
    yield from _lines(Plan, given, skip=skip)
    sections = {
        name: field for name, field in kind.parameters.model_fields.items() if isinstance(field.default, BaseModel)
    }
    values = given.get("parameters", {})
    parameters = kind.parameters.model_validate(values)
    yield from ("", f"# {Plan.model_fields['parameters'].description}", "[parameters]")
    yield from _lines(kind.parameters, values, skip=sections)
    for name, field in sections.items():
        which = "name" if name == "method" else "learner"
        section = values.get(name, _unusual(field.default, which))
        lines = _lines(type(getattr(parameters, name)), section, first=which)
        yield from ("", f"# {field.description}", f"[parameters.{name}]", *lines)


def _unusual(default: BaseModel, which: str) -> dict[str, Any]:
    """What a section's default has that its own kind has not: it must stand there, or else it would not be so."""
    unusual = default.model_dump(mode="json", exclude_defaults=True)
    return {which: getattr(default, which), **unusual} if unusual else {}


def _private_lines(given: dict[str, Any], prefix: str = "") -> Iterator[str]:
    yield from _lines(Private, given, skip=(*_SECTIONS, *_SOME_HAVE))
    for name in (*_SECTIONS, *(name for name in _SOME_HAVE if name in given)):
        field = Private.model_fields[name]
        values = given | given.get(name, {})
        yield from ("", f"# {field.description}", f"[{prefix}{name}]", *_lines(_section(field), values))


def _section(field: FieldInfo) -> type[BaseModel]:
    candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
    return next(c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel))


def _lines(
    model: type[BaseModel], given: Mapping[str, Any], skip: Collection[str] = (), first: str = ""
) -> Iterator[str]:
    """A comment and a line for each setting: given values as they are, defaults commented out."""
    for name, field in sorted(model.model_fields.items(), key=lambda setting: setting[0] != first):
        if name in skip:
            continue
        yield f"# {field.description}"
        if name in given:
            yield _assignment(name, given[name])
        elif field.get_default() is None:
            yield f"# {name} ="
        else:
            default = model.model_construct().model_dump(mode="json", include={name})[name]
            yield f"# {_assignment(name, default)}"


def _assignment(name: str, value: Any) -> str:
    return f"{name} = {_on_one_line(value)}"


def _on_one_line(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(_assignment(key, item) for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_on_one_line, value)) + "]"
    return tomli_w.dumps({"value": value}).removeprefix("value = ").rstrip()
