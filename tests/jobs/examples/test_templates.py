"""The commented example files: they load as printed, explain every setting and state the defaults in force."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from unpooled.complete.settings import GenerateSettings
from unpooled.data.prepare import PrepareSettings
from unpooled.data.sources import TableSettings
from unpooled.jobs.checks import check_fits
from unpooled.jobs.examples.templates import job_template, plan_template, private_template
from unpooled.jobs.files import load_job, load_plan, load_private
from unpooled.jobs.kinds import KINDS, kind_named, outline_of, parameters_of
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Consent, Policy, Private

COMMENTED_OUT = re.compile(r"^# (\w+ = .+)$", re.MULTILINE)
SECTIONS = {"Private": ("table", "prepare", "policy", "consent", "generate"), "Plan": ("parameters", "parties")}

pytestmark = pytest.mark.parametrize("kind", [kind.name for kind in KINDS])


def with_defaults_spelled_out(template: str) -> str:
    text, count = COMMENTED_OUT.subn(r"\1", template)
    assert count >= 6
    return text


def explained(template: str, model: type[BaseModel]) -> None:
    """Assert that each of the model's settings stands in the file below its description, set or commented out."""
    for name, field in model.model_fields.items():
        if name not in SECTIONS.get(model.__name__, ()) and not isinstance(field.default, BaseModel):
            assert re.search(rf"^# {re.escape(field.description or '')}\n(# )?{name} =", template, re.MULTILINE), name
        elif name != "generate" or "generate]" in template:
            assert f"# {field.description}\n" in template


def test_the_printed_plan_loads(kind: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plan_template(kind), encoding="utf-8")
    plan = load_plan(tmp_path / "plan.toml")
    assert plan.kind == kind
    assert {party.role for party in plan.parties.values()} == set(kind_named(kind).takes)
    assert outline_of(plan)


def test_the_printed_private_file_loads_and_fits_the_plan(kind: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(plan_template(kind), encoding="utf-8")
    (tmp_path / "own.toml").write_text(private_template(kind), encoding="utf-8")
    private, plan = load_private(tmp_path / "own.toml"), load_plan(tmp_path / "plan.toml")
    check_fits(plan, plan.active, private)
    assert private.prepare == PrepareSettings()
    assert private.policy == Policy()


def test_the_printed_job_is_the_plan_without_addresses_and_loads(kind: str, tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(job_template(kind), encoding="utf-8")
    job = load_job(tmp_path / "job.toml")
    plan = Plan.model_validate(tomllib.loads(plan_template(kind)))
    assert all(party.address is None for party in job.plan.parties.values())
    assert job.plan.parties == {n: p.model_copy(update={"address": None}) for n, p in plan.parties.items()}
    assert all(private.certificates is None for private in job.privates.values())
    assert [name for name, private in job.privates.items() if private.table] == [
        name for name, party in plan.parties.items() if party.role != "coordinator"
    ]
    (tmp_path / "job.toml").write_text(with_defaults_spelled_out(job_template(kind)), encoding="utf-8")
    again = load_job(tmp_path / "job.toml")
    assert again.privates == job.privates
    assert parameters_of(again.plan) == parameters_of(job.plan)


def test_the_plans_commented_out_lines_are_the_defaults(kind: str) -> None:
    template = plan_template(kind)
    spelled_out = tomllib.loads(with_defaults_spelled_out(template))
    assert {"engine", "key_bits", "insecure", "timeout"} <= spelled_out.keys()
    plan = Plan.model_validate(tomllib.loads(template))
    again = Plan.model_validate(spelled_out)
    fields = kind_named(kind).parameters.model_fields
    assert again.parameters.keys() == {name for name, field in fields.items() if field.default is not None}
    assert parameters_of(again) == parameters_of(plan)
    assert again.model_copy(update={"parameters": plan.parameters}) == plan


def test_the_private_files_commented_out_lines_are_the_defaults(kind: str) -> None:
    template = private_template(kind)
    spelled_out = tomllib.loads(with_defaults_spelled_out(template))
    assert spelled_out["prepare"].keys() == PrepareSettings.model_fields.keys()
    assert Private.model_validate(spelled_out) == Private.model_validate(tomllib.loads(template))


def test_every_setting_of_a_plan_is_explained(kind: str) -> None:
    for template in (plan_template(kind), job_template(kind)):
        explained(template, Plan)
        explained(template, kind_named(kind).parameters)
        for field in kind_named(kind).parameters.model_fields.values():
            if isinstance(field.default, BaseModel):
                explained(template, type(field.default))
        for name, field in Party.model_fields.items():
            assert f"# {name}: {field.description}\n" in template
        assert kind_named(kind).summary in template


def test_a_section_that_some_kinds_have_stands_in_their_files_alone(kind: str) -> None:
    has_it = "generate" in kind_named(kind).example.private.get("active", {})
    assert ("\n[generate]\n" in private_template(kind)) == has_it == (kind == "complete")
    if has_it:
        explained(private_template(kind), GenerateSettings)


@pytest.mark.parametrize("model", [Private, TableSettings, PrepareSettings, Policy, Consent])
def test_every_private_setting_is_explained(model: type[BaseModel], kind: str) -> None:
    explained(private_template(kind), model)
    explained(job_template(kind), model)
