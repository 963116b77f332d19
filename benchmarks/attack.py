"""What honest but curious parties can infer under the defaults, what showing more gives away, and what hiding costs.

On Credit, Census and Bank, five draws of 4,000 rows each: one party has all columns, the telco six columns of noise, so
that everything it finds out comes from what it is shown. The attacks are those of `unpooled.attacks`, on all messages
of a search for look-alikes with 80 known people (three iterations of four bags, 50 trees each, no estimates; the rest
are the job's defaults). Scores are AUCs of the seeker's people against all others; 0.5 is a guess. Bars are about the
mean over sets and draws:

- `bags_auc`, `leaf_sizes_auc`, `few_known_auc`, `id2graph_auc`: under the defaults of the job
- `leaf_sizes_shown`, `few_known_shown`, `id2graph_shown`: with `hide_nodes = false`, to see that the attacks work;
  `bags_shown`: with `hide_bags = false`, first draw of each set
- `linear_label_recovery`: a job `train` of a linear model with its defaults; AUC of the real labels. `linear_shown`:
  with batches of 64 rows and 30 columns, whose gradients give labels away, first draw of each set
- `default_cost`: CPU seconds of all parties' processes in a search on all rows of Credit, one iteration of five bags,
  `shares`, over those with `hide_nodes = false`

`leaves_shown`, `leaves_hidden` and `completing` are about completing a table (`complete_attack`), `made_up` is what a
bank that sends powers of two instead of gradients (`deviating`) reads of the telco's table in 12 trees of depth 3: the
fraction of the telco's cells, 3,000 rows (encrypted: 768) of six columns in 32 bins; how many bits about a row it was
answered, and how many the plan allows. These two replace functions of the package, since a simulation of honest parties
does not show them.

`--only search linear cost complete made_up` computes some parts, `--sets` and `--draws` fewer sets and draws.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console

import complete_attack
from deviating import attack
from unpooled.attacks.audit import linear_scores, tree_scores
from unpooled.attacks.findings import BAGS, GRADIENTS
from unpooled.attacks.simulation import views_of
from unpooled.attacks.stage import Stage, made_up, noise, numbered, staged
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings
from unpooled.data.sources import TableSettings
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.jobs.plan import Party, Plan
from unpooled.jobs.private import Consent, Private
from unpooled.run.spawn import spawn
from unpooled.vertical.trees.parameters import GbdtParameters

SETS, DRAWS = ("credit", "census", "bank"), 5
ROWS, KNOWN, SEED = 4_000, 80, 7
METHOD = {"name": "vfpu", "iterations": 3, "bags": 4}
COST_METHOD = {"name": "vfpu", "iterations": 1, "bags": 5}
SMALL_BATCHES, WIDE = {"batch_rows": 64, "insecure_batch": True, "epochs": 10}, 30
PARTIES = {"shop": "seeker", "telco": "passive", "bank": "active", "coordinator": "coordinator"}
AT_MOST = {"bags_auc": 0.52, "leaf_sizes_auc": 0.53, "few_known_auc": 0.53, "id2graph_auc": 0.53}
AT_LEAST = {"bags_shown": 0.9, "leaf_sizes_shown": 0.7, "few_known_shown": 0.7, "id2graph_shown": 0.7}
LINEAR_AT_MOST, LINEAR_SHOWN_AT_LEAST, COST_AT_MOST = 0.55, 0.8, 1.5
LEAVES_SHOWN_AT_LEAST, LEAVES_HIDDEN_AT_MOST = 0.75, 0.6
MADE_UP: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "shares": ("shares", {}, {}),
    "count_rows = false": ("shares", {}, {"count_rows": False}),
    "min_rows = 50": ("shares", {"min_rows": 50}, {}),
    "hide_nodes = true": ("shares", {"hide_nodes": True}, {}),
    "paillier": ("paillier", {}, {"key_bits": 2048}),
    "maximum_bits_per_row = 50": ("shares", {}, {"most_bits_per_row": 50}),
}
"""Engine, settings of the plan's trees, rules and limits."""

Bar = tuple[str, float, float, bool]
console = Console(stderr=True)


def stage(name: str, draw: int, kind: str, *, columns: int = 6, **parameters: Any) -> Stage:
    """A draw of a public set: the bank has all columns, the telco noise; the shop knows some who are positive."""
    data, rng = datasets.load(name), np.random.default_rng([SEED, draw])
    rows, people = np.sort(rng.permutation(len(data.label))[:ROWS]), np.arange(ROWS)
    table = table_from_frame(data.frame[rows], "id", "bank", datasets.TYPES[name], datasets.MISSING[name])
    label = data.label[rows]
    known = np.zeros(ROWS, bool)
    known[rng.choice(np.flatnonzero(label), KNOWN, replace=False)] = True
    if kind == "train":
        target = pl.Series("target", label.astype(int).astype(str))
        table = _with_target(table, target)
    wide = noise("telco", people, rng)
    if columns > len(wide.kinds):
        wide = made_up("telco", {f"column {number}": rng.normal(size=ROWS) for number in range(columns)}, people)
    tables = {"bank": numbered(table, people), "telco": wide}
    taking_part = ("telco", "bank")
    if kind == "lookalike":
        tables["shop"], taking_part = made_up("shop", {}, people[known]), ("shop", "telco", "bank")
    plan = Plan(
        kind=kind,
        engine="plain",
        audit=False,
        parties={party: Party(role=PARTIES[party]) for party in taking_part},
        parameters=parameters,
    )
    prepare = PrepareSettings(missing="impute")
    own = {"bank": Private(target="target" if kind == "train" else None, prepare=prepare)}
    secret = label if kind == "train" else known
    return staged(plan, tables, own, people=ROWS, secret=secret, holder="bank", sought="")


def _with_target(table: Any, target: pl.Series) -> Any:
    return replace(table, frame=table.frame.with_columns(target), kinds=table.kinds | {"target": "category"})


def searched(name: str, draw: int, **model: Any) -> dict[str, float]:
    """What the telco finds out about the shop's people in a search; without settings, by the job's defaults."""
    given = {"method": METHOD, "estimate": False, "top": 100} | ({"model": model} if model else {})
    found = stage(name, draw, "lookalike", **given)
    scored = tree_scores(found, views_of(found)["telco"], SEED)
    return {one.name: auc(truth.astype(float), scores) for one, (truth, scores, _) in scored}


def trained(name: str, draw: int, columns: int = 6, **model: Any) -> float:
    """What the telco finds out about the labels when a linear model is trained."""
    found = stage(name, draw, "train", columns=columns, model={"learner": "linear", **model})
    scored = {one.name: what for one, what in linear_scores(found, views_of(found)["telco"])}
    truth, scores, _ = scored[GRADIENTS.name]
    return auc(truth.astype(float), scores)


def search_figures(sets: list[str], draws: int) -> tuple[dict[str, Any], list[Bar]]:
    figures: dict[str, Any] = {"default": {}, "nodes shown": {}, "bags shown": {}}
    for name in sets:
        for way, model in (("default", {}), ("nodes shown", {"hide_nodes": False})):
            console.print(f"{name}, {way} ...")
            figures[way][name] = _gathered([searched(name, draw, **model) for draw in range(draws)])
        console.print(f"{name}, bags shown ...")
        figures["bags shown"][name] = _gathered([searched(name, 0, hide_bags=False, hide_nodes=False)])
    bars: list[Bar] = []
    for bar, most in AT_MOST.items():
        value = _mean(figures["default"], bar.removesuffix("_auc"))
        bars.append((bar, value, most, value <= most))
    for bar, least in AT_LEAST.items():
        attacked = bar.removesuffix("_shown")
        value = _mean(figures["bags shown" if attacked == BAGS.name else "nodes shown"], attacked)
        bars.append((bar, value, least, value >= least))
    return figures, bars


def linear_figures(sets: list[str], draws: int) -> tuple[dict[str, Any], list[Bar]]:
    figures: dict[str, Any] = {"default": {}, "gradients shown": {}, "small batches": {}}
    for name in sets:
        console.print(f"{name}, linear models ...")
        figures["default"][name] = _spread([trained(name, draw) for draw in range(draws)])
        figures["gradients shown"][name] = _spread([trained(name, draw, reveal="gradients") for draw in range(draws)])
        shown = trained(name, 0, WIDE, reveal="gradients", **SMALL_BATCHES)
        figures["small batches"][name] = _spread([shown])
    value, shown = (_mean_of(figures[way].values()) for way in ("default", "small batches"))
    return figures, [
        ("linear_label_recovery", value, LINEAR_AT_MOST, value <= LINEAR_AT_MOST),
        ("linear_shown", shown, LINEAR_SHOWN_AT_LEAST, shown >= LINEAR_SHOWN_AT_LEAST),
    ]


def cost_figures() -> tuple[dict[str, Any], list[Bar]]:
    seconds = {"default": cpu_seconds(), "nodes shown": cpu_seconds(hide_nodes=False)}
    value = round(seconds["default"] / seconds["nodes shown"], 3)
    figures = {"cpu_seconds": {way: round(each, 1) for way, each in seconds.items()}}
    return figures, [("default_cost", value, COST_AT_MOST, value <= COST_AT_MOST)]


def cpu_seconds(**model: Any) -> float:
    """CPU time of all processes of a search on Credit, all rows, columns divided among telco and bank."""
    console.print(f"cost of a search with {model or 'the defaults'} ...")
    data, rng = datasets.load("credit"), np.random.default_rng(SEED)
    known = data.label & (rng.random(len(data.label)) < 0.1)
    given = {"method": COST_METHOD, "estimate": False, "top": 100} | ({"model": model} if model else {})
    plan = Plan(kind="lookalike", parties={name: Party(role=role) for name, role in PARTIES.items()}, parameters=given)
    consent, privates = Consent(positives=True, found=True), dict[str, Private]()
    with tempfile.TemporaryDirectory() as made:
        for party, share in (("telco", "b"), ("bank", "c"), ("shop", None)):
            columns = list(datasets.SPLIT["credit"][share]) if share else []
            frame = data.frame.select("id", *columns) if share else data.frame.filter(pl.Series(known)).select("id")
            frame.write_csv(Path(made) / f"{party}.csv")
            table = TableSettings(path=Path(made) / f"{party}.csv", id=("id",))
            privates[party] = Private(table=table, consent=consent, seed=SEED)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        spawn(plan, privates | {"coordinator": Private()}, Path(made) / "run")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def complete_figures() -> tuple[dict[str, Any], list[Bar]]:
    console.print("completing a table ...")
    figures = complete_attack.figures()
    told = figures["told_to_registry"]
    shown, hidden = told["noise, hide_nodes = false"], told["noise, hide_nodes = true"]
    return figures, [
        ("leaves_shown", shown, LEAVES_SHOWN_AT_LEAST, shown >= LEAVES_SHOWN_AT_LEAST),
        ("leaves_hidden", hidden, LEAVES_HIDDEN_AT_MOST, hidden <= LEAVES_HIDDEN_AT_MOST),
    ]


def made_up_figures() -> tuple[dict[str, Any], list[Bar]]:
    """What a bank reads with made-up gradients, and how many bits that took for each row."""
    figures = {}
    for name, (engine, settings, rules) in MADE_UP.items():
        console.print(f"made-up gradients, {name} ...")
        rows = 768 if engine == "paillier" else 3_000
        parameters = GbdtParameters(trees=12, depth=3, lockstep=1, bundle=False, **settings)
        found = attack(engine, parameters, rows, **rules)
        figures[name] = {
            "cells": round(found.cells, 4),
            "wrong": found.wrong,
            "bits_per_row": round(found.answered / rows, 1),
            "planned_bits_per_row": round(found.needed / rows, 1),
        }
    return figures, []


def _gathered(draws: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """By attack the mean over draws, and their spread."""
    return {name: _spread([draw[name] for draw in draws]) for name in draws[0]}


def _spread(values: list[float]) -> dict[str, float]:
    low, high = round(min(values), 4), round(max(values), 4)
    return {"mean": round(float(np.mean(values)), 4), "low": low, "high": high}


def _mean(by_set: dict[str, Any], attacked: str) -> float:
    return _mean_of([found[attacked] for found in by_set.values()])


def _mean_of(spreads: Any) -> float:
    return round(float(np.mean([found["mean"] for found in spreads])), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description="What honest but curious parties can infer.")
    parser.add_argument("--only", nargs="+", choices=["search", "linear", "cost", "complete", "made_up"])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args()
    parts: dict[str, Callable[[], tuple[dict[str, Any], list[Bar]]]] = {
        "search": lambda: search_figures(given.sets, given.draws),
        "linear": lambda: linear_figures(given.sets, given.draws),
        "cost": cost_figures,
        "complete": complete_figures,
        "made_up": made_up_figures,
    }
    figures: dict[str, Any] = {"benchmark": "attack", "rows": ROWS, "known": KNOWN, "draws": given.draws}
    bars: list[Bar] = []
    for name, compute in parts.items():
        if not given.only or name in given.only:
            figures["completing" if name == "complete" else name], held = compute()
            bars += held
    keys = ("name", "value", "bar", "holds")
    print(json.dumps(figures | {"bars": [dict(zip(keys, bar, strict=True)) for bar in bars]}))


if __name__ == "__main__":
    main()
