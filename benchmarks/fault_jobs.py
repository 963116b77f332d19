"""Small jobs of every kind, to be cut off at every point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private

ROWS, OTHERS, COLUMNS = 44, 4, 4
MANY = 104
"""So many rows are in common that a passive party computes associations."""
ROLES = {"shop": "seeker", "telco": "passive", "bank": "active", "coordinator": "coordinator"}
OWNERS = ("telco", "bank", "coordinator")
PAILLIER: dict[str, Any] = {"engine": "paillier", "key_bits": 512, "insecure": True}
SMALL: dict[str, Any] = {"trees": 2, "depth": 2, "min_rows": 3, "bins": 4, "lockstep": 1}
LINEAR: dict[str, Any] = {"learner": "linear", "reveal": "gradients", "epochs": 2, "insecure_batch": True}
COMPLETE: dict[str, Any] = {
    "model": SMALL | {"trees": 1, "depth": 1},
    "predict": {"folds": 2, "confidence": "paper"},
    "most_columns": 3,
}
SEARCH: dict[str, Any] = {"estimate": False, "top": 6, "method": {"iterations": 2, "bags": 1}}


@dataclass(frozen=True)
class Job:
    """What a job is told: settings of the plan and of its kind; `model` names the train job whose model it takes."""

    kind: str
    parties: tuple[str, ...]
    plan: Mapping[str, Any]
    parameters: Mapping[str, Any]
    model: str = ""


JOBS: dict[str, Job] = {
    "check": Job("check", tuple(ROLES), {}, {"round_trips": 1, "megabytes": 1}),
    "align": Job("align", tuple(ROLES), {}, {}),
    "align, blind rsa": Job(
        "align", ("shop", "telco", "bank"), {"key_bits": 1024, "insecure": True}, {"psi": "blind-rsa"}
    ),
    "align, aided": Job("align", tuple(ROLES), {}, {"psi": "aided"}),
    "information": Job("information", OWNERS, {}, {"bins": 3, "min_rows": 3}),
    "train, trees": Job("train", OWNERS, {}, {"model": SMALL}),
    "train, hidden nodes": Job("train", OWNERS, {}, {"model": SMALL | {"hide_nodes": True}}),
    "train, linear": Job("train", OWNERS, {}, {"model": LINEAR}),
    "train, paillier": Job("train", OWNERS, PAILLIER, {"model": SMALL | {"trees": 1, "learner": "rf"}}),
    "predict, trees": Job("predict", OWNERS, {}, {}, "train, trees"),
    "predict, hidden nodes": Job("predict", OWNERS, {}, {"explain": 3}, "train, hidden nodes"),
    "predict, linear": Job("predict", OWNERS, {}, {"explain": 3}, "train, linear"),
    "lookalike, trees": Job("lookalike", tuple(ROLES), {}, SEARCH | {"model": SMALL | {"hide_nodes": False}}),
    "lookalike, hidden nodes": Job(
        "lookalike", tuple(ROLES), {}, SEARCH | {"model": SMALL, "describe": True, "explain": 3}
    ),
    "lookalike, open bags": Job("lookalike", tuple(ROLES), {}, SEARCH | {"model": SMALL | {"hide_bags": False}}),
    "lookalike, linear": Job("lookalike", tuple(ROLES), {}, SEARCH | {"model": LINEAR}),
    "lookalike, paillier": Job("lookalike", tuple(ROLES), PAILLIER, SEARCH | {"model": SMALL | {"trees": 1}}),
    "complete, gain": Job("complete", OWNERS, {}, COMPLETE | {"associations": True}),
    "complete, max": Job("complete", OWNERS, {}, COMPLETE | {"measure": "max", "threshold": 0.2}),
    "complete, paillier": Job("complete", OWNERS, PAILLIER, COMPLETE | {"columns": ["dose"], "associations": True}),
}


def write_tables(folder: Path) -> None:
    """What each party knows of its customers, most of whom are everybody's; more of them for a table to complete."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, COLUMNS)).round(3)
    buys = x.sum(axis=1) > 0
    ids = pl.Series("id", [f"person-{number:02}" for number in range(ROWS)])
    bank = pl.DataFrame({"id": ids, "age": x[:, 0], "income": x[:, 1], "buys": np.where(buys, "yes", "no")})
    telco = pl.DataFrame({"id": ids, "calls": x[:, 2], "data": x[:, 3]})
    shop = pl.DataFrame({"id": ids.filter(pl.Series(buys)).gather_every(2)})
    tables = {"bank": bank[:-OTHERS], "telco": telco[OTHERS:], "shop": shop, "candidates": bank[:-OTHERS].drop("buys")}
    x = rng.normal(size=(MANY + OTHERS, 2)).round(3)
    ids = pl.Series("id", [f"person-{number:03}" for number in range(len(x))])
    late = pl.Series(["no", "yes"]).gather((x[:, 1] > 0) * 1)
    known = pl.DataFrame({"id": ids, "dose": x.sum(axis=1).round(3), "late": late, "noise": rng.normal(size=len(x))})
    tables |= {
        "bank-complete": known[:MANY],
        "telco-complete": pl.DataFrame({"id": ids, "a": x[:, 0], "b": x[:, 1]}),
    }
    folder.mkdir(parents=True)
    for name, table in tables.items():
        table.write_csv(folder / f"{name}.csv")


def plan_of(job: Job) -> Plan:
    roles = {party: {"role": ROLES[party]} for party in job.parties}
    content = {"kind": job.kind, "parties": roles, "parameters": dict(job.parameters), "timeout": 600.0}
    return Plan.model_validate(content | dict(job.plan))


def privates_of(job: Job, tables: Path, models: Path | None) -> dict[str, Private]:
    """Every party's settings; `models` is the run of the train job that made a model to predict with."""
    few = {"minimum_rows": 3, "minimum_peer_rows": 3, "minimum_overlap": 3, "minimum_positives": 3}
    made: dict[str, Private] = {}
    for number, party in enumerate(job.parties):
        consent: dict[str, Any] = dict.fromkeys(("aided", "positives", "found", "values", "rows", "explain"), True)
        consent["describe"] = ["calls"] if party == "telco" else ["age"]
        own: dict[str, Any] = {"seed": number + 1, "policy": few, "consent": consent}
        if party != "coordinator":
            file = "candidates" if party == "bank" and job.kind == "lookalike" else party
            file += "-complete" if job.kind == "complete" else ""
            own["table"] = {"path": str(tables / f"{file}.csv"), "id": "id"}
            own["model"] = str(models / party) if models else None
        if party == "bank" and job.kind in ("information", "train", "predict"):
            own["target"] = "buys"
        if party == "bank" and job.kind == "complete":
            own["generate"] = {"completer": {"completer": "marginal"}, "draws": 1}
        made[party] = Private.model_validate(own)
    return made
