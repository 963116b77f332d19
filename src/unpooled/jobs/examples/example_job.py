"""The jobs that go with the example tables: a plan, and private files for all its parties."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import tomli_w

from unpooled import atomic
from unpooled.data.example import SEED
from unpooled.data.sources import TableSettings
from unpooled.errors import PlanError
from unpooled.jobs.examples.templates import example_settings
from unpooled.jobs.files import Job, as_toml, write_toml
from unpooled.jobs.kind import Kind
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Private

Engine = Literal["shares", "paillier"]
_FIRST_PORT = 7433
_FROM_A_RUN = ("model", "earlier")
"""Keys of private files that name a party's folder of an earlier run."""


def example_job(kind: str, trained: Path | None = None, engine: Engine = "shares") -> Job:
    """The job for tables that lie beside its file; addresses are left to whoever runs it on one machine.

    `trained` is for a kind that takes what an earlier run has made: the folder of that run.
    """
    of = kind_named(kind)
    if any(key in keys for keys in of.private_needs.values() for key in _FROM_A_RUN) != (trained is not None):
        raise PlanError(f"model: {kind} {'takes no earlier run' if trained else 'takes the folder of an earlier run'}")
    roles = {name: role for name, role in of.example.tables.roles.items() if role in of.takes}
    parties = {name: Party(role=role) for name, role in roles.items()}
    parameters = dict(of.example.paillier_parameters if engine == "paillier" else of.example.parameters)
    plan = Plan(kind=kind, engine=engine, parties=parties, parameters=parameters)
    return Job(plan, {name: _private(of, name, parameters, trained) for name in roles})


def _private(kind: Kind[Any], name: str, parameters: Mapping[str, Any], trained: Path | None) -> Private:
    table, given = _table(kind, name), example_settings(kind, name, parameters)
    given |= {key: trained.resolve() / name for key in _FROM_A_RUN if key in given and trained}
    seed = SEED if kind.example.seeded and table else None
    return Private.model_validate(given | {"seed": seed, "table": table})


def write_job_files(folder: Path, kind: str, trained: Path | None = None, engine: Engine = "shares") -> list[Path]:
    """Write `job.toml` for one machine, and a plan and private files for a machine each."""
    job = example_job(kind, trained, engine)
    together = as_toml(job.plan) | {"private": {name: as_toml(private) for name, private in job.privates.items()}}
    heading = _TOGETHER.format(parties=" ".join(job.plan.parties), active=job.plan.active)
    atomic.write_text(folder / "job.toml", heading + tomli_w.dumps(together))
    apart = {
        name: party.model_copy(update={"address": f"127.0.0.1:{_FIRST_PORT + number}"})
        for number, (name, party) in enumerate(job.plan.parties.items())
    }
    write_toml(folder / "plan.toml", job.plan.model_copy(update={"parties": apart}))
    for name, private in job.privates.items():
        certified = private.model_copy(update={"certificates": Path("certs") / name})
        write_toml(folder / f"{name}.toml", certified)
    return [folder / name for name in ("job.toml", "plan.toml", *(f"{party}.toml" for party in job.privates))]


_TOGETHER = """\
# The whole job for a trial on one machine: unpooled run job.toml
# With a machine for each party, plan.toml is shared and each keeps its own file to itself:
#   unpooled certs trial {parties} --dir certs     (or, for real, each party asks for its own)
#   unpooled join plan.toml --as {active} --private {active}.toml

"""


def _table(kind: Kind[Any], name: str) -> TableSettings | None:
    types = kind.example.tables.types
    if name not in types:
        return None
    return TableSettings.model_validate({"path": f"{name}.csv", "id": "id", "types": types[name]})
