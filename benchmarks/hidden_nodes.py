"""What hiding nodes costs: the same jobs with and without `hide_nodes`, with a process for each party.

For each job CPU seconds and bytes of all parties, each party's peak memory, and the ratio of CPU seconds, hidden to
shown. CPU seconds and memory are from `status.json`, bytes from the ledgers. The parties compute without worker
processes, whose seconds would not all be counted. All of it includes the alignment.

- `credit`: the default search on all rows of Credit, in two iterations, and how many of its first 1,000 are positive
- `wide`: a search with two bags of five trees in a made-up table of 120,000 rows, where each owner has 12 numbers and 8
  categories of 20 to 34 levels; at depths 3 and 6
- `train`: five trees of the default depth, Credit's label from its columns, divided between two parties
- `products`: nothing but the products of five trees in lockstep, 120,000 rows, 12 columns of 32 bins and 8 of 21 to 35,
  at depths 3 and 6, with all three parties in one process, and their peak memory together
- `encrypted products`: the same with `paillier`, one tree of depth 3 on 400 rows, with nodes hidden and shown
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from unpooled.data import datasets
from unpooled.data.example import SEED
from unpooled.data.sources import TableSettings
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.ledger import read_ledger
from unpooled.run.folder import LEDGER, STATUS, read_json
from unpooled.run.simulate import simulate_roles
from unpooled.run.spawn import spawn
from unpooled.secure.calls import Call, Inputs, OneHot
from unpooled.secure.engine import Engine, Name, Rules, open_engine
from unpooled.secure.product import finish, product, serve
from unpooled.session import Session

ROLES = {"a": "seeker", "b": "passive", "c": "active", "coordinator": "coordinator"}
WIDE_ROWS, WIDE_KNOWN, TOP, LOCKSTEP = 120_000, 2_000, 1_000, 5
ENCRYPTED_ROWS = 400
PRODUCTS: dict[str, tuple[int, Name, bool]] = {
    "products, depth 3": (3, "shares", True),
    "products, depth 3, shown": (3, "shares", False),
    "products, depth 6": (6, "shares", True),
    "products, depth 6, shown": (6, "shares", False),
    "encrypted products, hidden": (3, "paillier", True),
    "encrypted products, shown": (3, "paillier", False),
}
COST_AT_MOST, MEMORY_AT_MOST = 1.5, 1_000.0
FEW = {"method": {"name": "bagging", "bags": 2}, "estimate": False, "top": TOP}

Prepared = tuple[Plan, dict[str, Private]]
console = Console(stderr=True)


def credit(folder: Path) -> Prepared:
    """Credit as a search has it: A knows a tenth of the positives, B and C have its columns."""
    dealt = datasets.scenario("credit")
    for party, table in dealt.tables.items():
        table.write_csv(folder / f"{party}.csv")
    dealt.truth.write_csv(folder / "truth.csv")
    return _plan("lookalike", method={"iterations": 2}, top=TOP), _privates(folder, datasets.TYPES["credit"])


def wide(folder: Path, depth: int) -> Prepared:
    """A made-up table with many levels, of which C's first number says who is alike."""
    rng, ids = np.random.default_rng(SEED), [f"{number:08}" for number in range(WIDE_ROWS)]
    for party in ("b", "c"):
        columns: dict[str, Any] = {f"number {place}": rng.normal(size=WIDE_ROWS) for place in range(12)}
        for place in range(8):
            levels = 20 + 2 * place
            columns[f"category {place}"] = np.char.add("level ", rng.integers(levels, size=WIDE_ROWS).astype(str))
        pl.DataFrame({"id": ids} | columns).write_csv(folder / f"{party}.csv")
    score = columns["number 0"] + rng.normal(size=WIDE_ROWS)
    pl.DataFrame({"id": [ids[row] for row in np.argsort(-score)[:WIDE_KNOWN]]}).write_csv(folder / "a.csv")
    return _plan("lookalike", model={"trees": 5, "depth": depth}, **FEW), _privates(folder, {})


def train(folder: Path) -> Prepared:
    """Credit's label, at C, from the columns of B and C."""
    plan, privates = credit(folder)
    texts = {"id": pl.String, "positive": pl.String}
    truth, columns = (pl.read_csv(folder / name, schema_overrides=texts) for name in ("truth.csv", "c.csv"))
    columns.join(truth, on="id").write_csv(folder / "c.csv")
    parties = {party: role for party, role in plan.parties.items() if role.role != "seeker"}
    plan = plan.model_copy(update={"kind": "train", "parties": parties, "parameters": {"model": {"trees": 5}}})
    privates["c"] = privates["c"].model_copy(update={"target": "positive"})
    return plan, {party: privates[party] for party in parties}


JOBS: dict[str, Callable[[Path], Prepared]] = {
    "credit": credit,
    "wide, depth 3": lambda folder: wide(folder, 3),
    "wide, depth 6": lambda folder: wide(folder, 6),
    "train": train,
}


def products(depth: int, engine: Name, *, hidden: bool) -> dict[str, float]:
    """What the products of trees in lockstep take; a process of its own, since it tells its peak memory."""
    rows, trees = (WIDE_ROWS, LOCKSTEP) if engine == "shares" else (ENCRYPTED_ROWS, 1)
    sizes, rng = tuple([32] * 12 + [21 + 2 * place for place in range(8)]), np.random.default_rng(SEED)
    x = np.stack([rng.integers(size, size=rows).astype(np.uint16) for size in sizes], axis=1)
    ys, used = [rng.integers(-60_000, 60_000, size=(rows, 2)) for _ in range(trees)], dict[str, float]()

    def opened(session: Session) -> Engine:
        return open_engine(session, Rules(engine, questions=10**6), ("b", "c"), "c", "coordinator")

    def owner(session: Session) -> None:
        own_engine = opened(session)
        for level, nodes in enumerate((1, *(2**level for level in range(depth - 1)))):
            part = rows // 2 if level and engine == "shares" and not hidden else rows  # the smaller of two siblings
            of_rows = (np.arange(part) % nodes).astype(np.int32)
            form, batch = OneHot(sizes, nodes, hidden=hidden), []
            for tree, y in enumerate(ys):
                names = {"x": "bins"} if hidden else {"y": f"{tree}"} if engine == "paillier" else {}
                call = Call((("b", "c"),), "c", part, form, 2, 2**16 - 1, **names)
                knows = of_rows if session.party == "c" or not hidden else None
                held = Inputs(x=x[:part], nodes=knows) if session.party == "b" else Inputs(y=y[:part], nodes=knows)
                batch.append((call, held))
            product(own_engine, batch)
        finish(own_engine)
        used[session.party] = time.thread_time()

    def coordinator(session: Session) -> None:
        serve(opened(session))
        used[session.party] = time.thread_time()

    outcome = simulate_roles({"b": owner, "c": owner, "coordinator": coordinator}, timeout=3600)
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])
    entries = [entry for record in outcome.ledgers.values() for entry in record.entries]
    return {
        "cpu_seconds": round(sum(used.values()), 2),
        "sent_mb": round(sum(entry.bytes for entry in entries if entry.way == "sent") / 1e6, 2),
        "peak_memory_mb": round(peak * 1.024e-3, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", nargs="+", default=[*JOBS, *PRODUCTS], choices=[*JOBS, *PRODUCTS])
    parser.add_argument("--ways", nargs="+", default=["hidden", "shown"], choices=["hidden", "shown"])
    parser.add_argument("--trees", type=int, help="fewer trees than the job has, for a shorter run")
    parser.add_argument("--only", choices=PRODUCTS, help="these products, in this process, and no more")
    options = parser.parse_args()
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"
    if options.only:
        depth, engine, hidden = PRODUCTS[options.only]
        print(json.dumps(products(depth, engine, hidden=hidden)))
        return
    figures: dict[str, Any] = {}
    for name in options.jobs:
        if name in PRODUCTS:
            command = [sys.executable, __file__, "--only", name]
            figures[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            console.print(f"{name}: {figures[name]}")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            plan, privates = JOBS[name](folder)
            figures[name] = {}
            for way in options.ways:
                model = plan.parameters.get("model", {}) | {"hide_nodes": way == "hidden"}
                model |= {"trees": options.trees} if options.trees else {}
                changed = plan.model_copy(update={"parameters": dict(plan.parameters) | {"model": model}})
                figures[name][way] = _taken(changed, privates, folder / way) | _precision(folder, folder / way)
                console.print(f"{name}, {way}: {figures[name][way]}")
            if len(options.ways) > 1:
                cost = figures[name]["hidden"]["cpu_seconds"] / figures[name]["shown"]["cpu_seconds"]
                figures[name]["cost"] = round(cost, 2)
    print(json.dumps(figures | {"bars": _bars(figures)}))


def _bars(figures: dict[str, Any]) -> list[dict[str, Any]]:
    bars = []
    if "cost" in figures.get("credit", {}):
        bars.append(("default_cost", figures["credit"]["cost"], COST_AT_MOST))
    for name in ("wide, depth 3", "wide, depth 6"):
        if "hidden" in figures.get(name, {}):
            bars.append((f"{name}: memory_mb", max(figures[name]["hidden"]["peak_memory_mb"].values()), MEMORY_AT_MOST))
    bars += [
        (f"{name}: memory_mb", figures[name]["peak_memory_mb"], MEMORY_AT_MOST)
        for name, (_, engine, hidden) in PRODUCTS.items()
        if name in figures and engine == "shares" and hidden
    ]
    return [{"name": name, "value": value, "bar": bar, "holds": value <= bar} for name, value, bar in bars]


def _plan(kind: str, **parameters: Any) -> Plan:
    parties = {party: {"role": role} for party, role in ROLES.items()}
    return Plan.model_validate({"kind": kind, "parties": parties, "parameters": parameters})


def _privates(folder: Path, types: dict[str, Any]) -> dict[str, Private]:
    found = {"coordinator": Private()}
    for party in ("a", "b", "c"):
        held = (folder / f"{party}.csv").open().readline().strip().split(",")
        of_table = {name: kind for name, kind in types.items() if name in held}
        table = TableSettings.model_validate({"path": str(folder / f"{party}.csv"), "id": "id", "types": of_table})
        consent = {"positives": True} if party == "a" else {"found": True}
        found[party] = Private.model_validate({"seed": SEED, "table": table, "consent": consent})
    return found


def _taken(plan: Plan, privates: dict[str, Private], run: Path) -> dict[str, Any]:
    """What a job took, of all parties; and each one's peak memory."""
    spawn(plan, {party: privates[party] for party in plan.parties}, run)
    status = {party: read_json(run / party / STATUS) for party in plan.parties}
    entries = [entry for party in plan.parties for entry in read_ledger(run / party / LEDGER).entries]
    return {
        "cpu_seconds": round(sum(of["cpu_seconds"] for of in status.values()), 1),
        "sent_mb": round(sum(entry.bytes for entry in entries if entry.way == "sent") / 1e6, 1),
        "peak_memory_mb": {party: of["peak_memory_mb"] for party, of in status.items()},
    }


def _precision(folder: Path, run: Path) -> dict[str, float]:
    """How many of the list are positive, where the truth is known."""
    truth, found = folder / "truth.csv", run / "a" / "reliable.csv"
    if not (truth.exists() and found.exists()):
        return {}
    listed = pl.read_csv(found, schema_overrides={"id": pl.String})
    known = pl.read_csv(truth, schema_overrides={"id": pl.String})
    return {"precision": round(float(listed.join(known, on="id")["positive"].cast(pl.Float64).mean() or 0.0), 4)}


if __name__ == "__main__":
    main()
