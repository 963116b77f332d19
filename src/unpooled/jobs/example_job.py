"""The job that goes with the example tables: a shop, a telephone company, a bank and a coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import tomli_w

from unpooled import atomic
from unpooled.data import example
from unpooled.data.sources import TableSettings
from unpooled.errors import PlanError
from unpooled.jobs.files import Job, write_toml
from unpooled.jobs.kinds import KINDS
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Consent, Private

Engine = Literal["shares", "paillier"]
ROLES = {"shop": "seeker", "telco": "passive", "bank": "active", "coordinator": "coordinator"}
TARGET = "card_payments"
_PARAMETERS: dict[str, dict[str, Any]] = {"train": {"model": {"classes": 0}}}
_LITTLE = {"method": {"iterations": 2, "bags": 3}, "model": {"trees": 5, "hide_bags": False}, "estimate": False}
"""The seed's protocol, so little of it that it ends soon under encryption."""
_FIRST_PORT = 7433
_OWNERS = ("active", "passive")


def example_job(kind: str, trained: Path | None = None, engine: Engine = "shares") -> Job:
    """The job for tables that lie beside its file; addresses are left to whoever runs it on one machine.

    For train the bank learns how often somebody pays by card, which shows in the telephone company's columns rather
    than in its own. `trained` is for predict: the folder of a train job's run.
    """
    if kind not in KINDS:
        raise PlanError(f"there is no kind of job {kind!r}; there are: {', '.join(KINDS)}")
    if (kind == "predict") != (trained is not None):
        raise PlanError("model: predict, and no other kind, takes the folder of a train job's run")
    learns = kind in ("train", "predict")
    roles = {name: role for name, role in ROLES.items() if not (learns and role == "seeker")}
    parties = {name: Party.model_validate({"role": role}) for name, role in roles.items()}
    little = kind == "lookalike" and engine == "paillier"
    parameters = _LITTLE if little else _PARAMETERS.get(kind, {})
    plan = Plan(kind=kind, engine=engine, parties=parties, parameters=parameters)
    return Job(plan, {name: _private(name, kind, trained) for name in roles})


def _private(name: str, kind: str, trained: Path | None) -> Private:
    table, learns, seeks = _table(name), kind in ("train", "predict"), kind == "lookalike"
    return Private(
        seed=example.SEED if (learns or seeks) and table else None,
        table=table,
        target=TARGET if learns and ROLES[name] == "active" else None,
        model=trained.resolve() / name if trained and table else None,
        consent=Consent(positives=seeks and ROLES[name] == "seeker", found=seeks and ROLES[name] in _OWNERS),
    )


def write_job_files(folder: Path, kind: str, trained: Path | None = None, engine: Engine = "shares") -> list[Path]:
    """Write `job.toml` for one machine, and a plan and private files for a machine each."""
    job = example_job(kind, trained, engine)
    together = job.plan.model_dump(mode="json", exclude_defaults=True, exclude_none=True) | {
        "private": {
            n: p.model_dump(mode="json", exclude_defaults=True, exclude_none=True) for n, p in job.privates.items()
        }
    }
    heading = _TOGETHER.format(parties=" ".join(job.plan.parties))
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
#   unpooled join plan.toml --as bank --private bank.toml

"""


def _table(name: str) -> TableSettings | None:
    if name not in example.TYPES:
        return None
    return TableSettings.model_validate({"path": f"{name}.csv", "id": "id", "types": example.TYPES[name]})
