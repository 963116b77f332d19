"""What a linear model costs that shows no gradients (the default), beside one that does; part of `make bench-linear`.

Public data sets, cut between a telco and a bank, which has the labels; where there are three owners, a shop has half of
the telco's columns. A fifth of the rows are a test. With gradients the loss ends a descent, as by default; without, the
number of steps does. Each fit has a process of its own, all roles are threads of it, and its CPU seconds, seconds,
messages and bytes are those of the fit; peak memory is the process's, with all parties' tables.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

from unpooled.arrays import Floats
from unpooled.data import datasets, prepare
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit_many, help_fit_many
from unpooled.vertical.linear.predictor import help_predict_many, score_many
from unpooled.vertical.team import Team

SETS = ("credit", "census", "bank")
FEWER = 5_000
BAGS, BAG_FRACTION = 10, 0.2
COST_BAR, AUC_BAR = 3.0, 0.001
REVEAL = ("gradients", "final")


class Case(NamedTuple):
    """What is fitted: a data set, how many training rows at the most, how many owners, and how many bags."""

    data: str
    rows: int = 10**9
    owners: int = 2
    bags: int = 0

    def __str__(self) -> str:
        more = [f"{self.rows} rows"] * (self.rows < 10**9) + [f"{self.owners} owners"] * (self.owners > 2)
        return ", ".join([self.data, *more, *[f"{self.bags} bags"] * (self.bags > 0)])


ONE_MODEL = [Case(name) for name in SETS]
CASES = [
    *ONE_MODEL,
    *(Case(name, FEWER) for name in SETS),
    Case("credit", owners=3),
    Case("credit", bags=BAGS),
    Case("credit", owners=3, bags=BAGS),
]


def measured(tell: Callable[[str], None]) -> dict[str, Any]:
    """All cases, both ways, and the bars that follow."""
    found: dict[str, dict[str, Any]] = {}
    for case in CASES:
        for reveal in REVEAL:
            tell(f"measuring {case}, {reveal}")
            with ProcessPoolExecutor(1, get_context("spawn")) as alone:
                found.setdefault(str(case), {})[reveal] = alone.submit(fitted, case, reveal).result()
    cpu = {reveal: sum(found[str(case)][reveal]["cpu_seconds"] for case in ONE_MODEL) for reveal in REVEAL}
    lost = [found[str(case)]["gradients"]["auc"] - found[str(case)]["final"]["auc"] for case in CASES]
    at_most = {
        "final_cost_cpu": (cpu["final"] / cpu["gradients"], COST_BAR),
        "final_auc_difference": (max(lost), AUC_BAR),
    }
    bars = [
        {"name": name, "value": round(value, 5), "bar": bar, "holds": value <= bar}
        for name, (value, bar) in at_most.items()
    ]
    return {"reveal": found, "bars": bars}


def fitted(case: Case, reveal: str) -> dict[str, Any]:
    """One fit, and how well the test rows are told apart."""
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"
    held, labels = columns_of(case)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))
    cut = len(labels) // 5
    test, train = order[:cut], order[cut:][: case.rows]
    bags = [(rng.random(len(train)) < BAG_FRACTION).astype(float) for _ in range(case.bags)]
    targets = [Target(labels[train], weights) for weights in bags] or [Target(labels[train])]
    parameters, owners = LinearParameters(reveal=reveal), tuple(held)

    def team(session: Session) -> Team:
        return Team("bank", owners, open_engine(session, Rules("shares"), owners, "bank", "coordinator"), "rows")

    def own(party: str) -> Columns:
        return Columns(held[party].matrix[train], held[party].names)

    def passive(session: Session) -> None:
        members = team(session)
        parts = help_fit_many(members, parameters, own(session.party), len(targets))
        help_predict_many(members, parts, held[session.party].matrix[test])

    def active(session: Session) -> tuple[float, float, int, list[Floats]]:
        members, cpu, begin = team(session), time.process_time(), time.perf_counter()
        fits = fit_many(members, parameters, own("bank"), targets)
        finish(members.products)
        took = time.process_time() - cpu, time.perf_counter() - begin
        scores = score_many(members, [each.model for each in fits], held["bank"].matrix[test])
        return *took, max(each.epochs for each in fits), scores

    roles = {party: active if party == "bank" else passive for party in owners}
    outcome = simulate_roles({**roles, "coordinator": lambda session: serve(team(session).products)}, timeout=3600)
    cpu, seconds, epochs, scores = outcome.results["bank"]
    sent = [entry.bytes for record in outcome.ledgers.values() for entry in record.entries if entry.way == "sent"]
    return {
        "epochs": epochs,
        "cpu_seconds": round(cpu, 2),
        "seconds": round(seconds, 2),
        "messages": len(sent),
        "megabytes": round(sum(sent) / 1e6, 1),
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "auc": round(float(np.mean([auc(labels[test], each[:, 0]) for each in scores])), 5),
    }


def columns_of(case: Case) -> tuple[dict[str, Columns], Floats]:
    """Each owner's prepared columns, and the labels."""
    data, split = datasets.load(case.data), datasets.SPLIT[case.data]
    names = {"telco": list(split["b"]), "bank": list(split["c"])}
    if case.owners == 3:
        names["telco"], names["shop"] = names["telco"][::2], names["telco"][1::2]
    held = {}
    for owner, columns in names.items():
        types = {column: kind for column, kind in datasets.TYPES[case.data].items() if column in columns}
        table = table_from_frame(data.frame.select(["id", *columns]), "id", owner, types)
        table, _ = prepare.clean(table, prepare.PrepareSettings())
        prepared = prepare.transform(prepare.fit(table, prepare.PrepareSettings()), table)
        held[owner] = Columns(prepared.matrix, prepared.names)
    return held, data.label.astype(float)
