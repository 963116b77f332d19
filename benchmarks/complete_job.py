"""Completing a table as a job: census, a tenth of the rows aligned, a process for each party, over mutual TLS.

The columns are dealt at random: half of them to the clinic, the others, and the label, to a registry and an insurer,
who have all rows. With the coordinator that makes four processes. Everything has its default. `minutes` is from the
start of the processes to the end of the last one, `memory_gb` the most that all of them together could have had: the
sum of their peaks. `equal_to_pooled` counts cells that differ from those that one party would fill with all columns in
its hands.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

from unpooled.complete.federated import predict_columns
from unpooled.complete.screening import screen
from unpooled.complete.settings import GenerateSettings
from unpooled.complete.table import complete_table
from unpooled.complete.variables import variables_of
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, fit, transform
from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.complete.choosing import screened_variables
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run import folder as run_folder
from unpooled.run.spawn import books_in, spawn
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import SEEDS
from unpooled.vertical.team import alone

PASSIVE, ACTIVE = ("registry", "insurer"), "clinic"
MINUTES, MEMORY = 5.0, 2.0
LABEL = "income"
SEED = 3


def tables(rows: int | None, aligned: float) -> dict[str, pl.DataFrame]:
    """The parties' tables; the clinic has the rows of some people only."""
    data, rng = datasets.load("census"), np.random.default_rng(SEED)
    frame = data.frame.with_columns(pl.Series(LABEL, data.label)).head(rows or data.frame.height)
    names = [name for name in frame.columns if name not in ("id", LABEL)]
    dealt = rng.permutation(names).tolist()
    own, others = dealt[: len(names) // 2], [*dealt[len(names) // 2 :], LABEL]
    known = np.sort(rng.permutation(frame.height)[: round(aligned * frame.height)])
    return {
        "registry": frame.select("id", *others[::2]),
        "insurer": frame.select("id", *others[1::2]),
        ACTIVE: frame[known].select("id", *own),
    }


def job(frames: dict[str, pl.DataFrame], folder: Path, parameters: dict[str, Any]) -> tuple[Plan, dict[str, Private]]:
    roles = {name: {"role": "passive"} for name in PASSIVE} | {
        ACTIVE: {"role": "active"},
        "coordinator": {"role": "coordinator"},
    }
    plan = Plan.model_validate({"kind": "complete", "parameters": parameters, "parties": roles})
    privates = {"coordinator": Private()}
    for number, (party, frame) in enumerate(frames.items()):
        frame.write_parquet(folder / f"{party}.parquet")
        consent = {"rows": True} if party == ACTIVE else {"values": True}
        table = {"path": folder / f"{party}.parquet", "id": "id"}
        privates[party] = Private.model_validate({"seed": number, "consent": consent, "table": table})
    return plan, privates


def pooled(frames: dict[str, pl.DataFrame], run: Path, privates: dict[str, Private], parameters: Parameters) -> Any:
    """What one party with all columns makes of it: rows in the job's order, random draws those of the parties."""
    handles = {party: pl.read_csv(run / party / "handles.csv", infer_schema=False) for party in frames}
    count, common = handles[PASSIVE[0]].height, handles[ACTIVE].height

    def ordered(party: str) -> Table:
        """A party's table in the order of its handles."""
        ids = handles[party].select("id")
        frame = ids.join(
            frames[party].with_columns(pl.col("id").cast(pl.String)), on="id", how="left", maintain_order="left"
        )
        return table_from_frame(frame, "id", party)

    clinic, presented = ordered(ACTIVE), {"screen": list[tuple[str, int]](), "predict": list[tuple[str, int]]()}
    prepared = {}
    for party in PASSIVE:
        table = ordered(party)
        prepared[party] = transform(fit(table, PrepareSettings()), table)
        rng = _rng(privates, party)
        if party == PASSIVE[0]:
            rng.bytes(32), rng.bytes(32)  # of the order of rows, and of the handles
        rng.integers(SEEDS)
        for step in presented.values():
            step += [(party, int(place)) for place in rng.permutation(len(prepared[party].names))]

    def columns(step: str, rows: int) -> Columns:
        matrix = [prepared[party].matrix[:rows, place] for party, place in presented[step]]
        names = tuple(f"{party} {place}" for party, place in presented[step])
        return Columns(np.column_stack(matrix), names, tuple(len(prepared[party].names) for party in PASSIVE))

    seeds = [int(seed) for seed in _rng(privates, ACTIVE).integers(SEEDS, size=3)]
    screened = screened_variables(clinic, parameters)
    found = screen(alone(), screened, "gain", parameters.model, seeds[0], columns=columns("screen", common))
    by_name = {one.name: one for one in variables_of(clinic, count, parameters.most_classes)}
    chosen = [by_name[name] for name in found.chosen()]
    predicted = predict_columns(
        alone(), parameters.model, columns("predict", count), chosen, parameters.predict, seeds[1]
    )
    settings, rng = GenerateSettings(), np.random.default_rng(seeds[2])
    keys = handles[PASSIVE[0]]["handle"].to_list()
    return complete_table(clinic, keys, predicted.predictions, settings.completer, rng, least_confidence=0.0)


def _rng(privates: dict[str, Private], party: str) -> np.random.Generator:
    """A party's draws, as its session has them."""
    return np.random.default_rng([privates[party].seed or 0, zlib.crc32(party.encode())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, help="the first rows of census only")
    parser.add_argument("--aligned", type=float, default=0.1)
    parser.add_argument("--parameters", type=json.loads, default={}, help="of the plan, as JSON")
    options = parser.parse_args()
    console, frames = Console(stderr=True), tables(options.rows, options.aligned)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        plan, privates = job(frames, folder, options.parameters)
        began = time.perf_counter()
        results = spawn(plan, privates, folder / "run", books=books_in(folder / "run"))
        minutes = (time.perf_counter() - began) / 60
        status = {party: run_folder.read_json(folder / "run" / party / run_folder.STATUS) for party in plan.parties}
        done = pl.read_parquet(folder / "run" / ACTIVE / "completed.parquet")
        sure = pl.read_parquet(folder / "run" / ACTIVE / "confidence.parquet")
        console.print({one["name"]: one["way"] for one in results[ACTIVE]["completed"]})
        console.print({party: (each["cpu_seconds"], each["peak_memory_mb"]) for party, each in status.items()})
        reference = pooled(frames, folder / "run", privates, Parameters.model_validate(options.parameters))
    different = sum(
        int((done[name].cast(reference.table[name].dtype).ne_missing(reference.table[name])).sum())
        + int((sure[name].ne_missing(reference.confidence[name])).sum())
        for name in reference.table.columns
    )
    memory = sum(each["peak_memory_mb"] for each in status.values()) / 1000
    bars = [
        {"name": "minutes", "value": round(minutes, 2), "bar": MINUTES, "holds": minutes <= MINUTES},
        {"name": "memory_gb", "value": round(memory, 2), "bar": MEMORY, "holds": memory <= MEMORY},
        {"name": "equal_to_pooled", "value": different, "bar": 0, "holds": different == 0},
    ]
    cpu = {party: each["cpu_seconds"] for party, each in status.items()}
    cells = results[ACTIVE]["cells"]
    print(json.dumps({"rows": done.height, "cpu_seconds": cpu, "cells": cells, "bars": bars}))


if __name__ == "__main__":
    main()
