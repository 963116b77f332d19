"""The job that goes with the example tables: a shop, a telephone company, a bank and a coordinator."""

from __future__ import annotations

from pathlib import Path

import tomli_w

from unpooled import atomic
from unpooled.data import example
from unpooled.data.sources import TableSettings
from unpooled.jobs.files import Job, write_toml
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Private

ROLES = {"shop": "seeker", "telco": "passive", "bank": "active", "coordinator": "coordinator"}
_FIRST_PORT = 7433


def example_job(kind: str) -> Job:
    """The job for tables that lie beside its file; addresses are left to whoever runs it on one machine."""
    plan = Plan(kind=kind, parties={name: Party.model_validate({"role": role}) for name, role in ROLES.items()})
    privates = {name: Private(table=_table(name)) for name in ROLES}
    return Job(plan, privates)


def write_job_files(folder: Path, kind: str) -> list[Path]:
    """Write `job.toml` for one machine, and a plan and private files for a machine each."""
    job = example_job(kind)
    together = job.plan.model_dump(mode="json", exclude_defaults=True, exclude_none=True) | {
        "private": {
            n: p.model_dump(mode="json", exclude_defaults=True, exclude_none=True) for n, p in job.privates.items()
        }
    }
    atomic.write_text(folder / "job.toml", _TOGETHER + tomli_w.dumps(together))
    apart = {
        name: party.model_copy(update={"address": f"127.0.0.1:{_FIRST_PORT + number}"})
        for number, (name, party) in enumerate(job.plan.parties.items())
    }
    write_toml(folder / "plan.toml", job.plan.model_copy(update={"parties": apart}))
    for name, private in job.privates.items():
        certified = private.model_copy(update={"certificates": Path("certs") / name})
        write_toml(folder / f"{name}.toml", certified, atomic.OWNER_ONLY)
    return [folder / name for name in ("job.toml", "plan.toml", *(f"{party}.toml" for party in job.privates))]


_TOGETHER = """\
# The whole job for a trial on one machine: unpooled run job.toml
# With a machine for each party, plan.toml is shared and each keeps its own file to itself:
#   unpooled certs trial shop telco bank coordinator --dir certs     (or, for real, each party asks for its own)
#   unpooled join plan.toml --as bank --private bank.toml

"""


def _table(name: str) -> TableSettings | None:
    if name not in example.TYPES:
        return None
    return TableSettings.model_validate({"path": f"{name}.csv", "id": "id", "types": example.TYPES[name]})
