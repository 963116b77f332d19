"""What a curious passive party can infer about the seeker's people, and what a deviating active party reads.

Credit's rows: the bank has all columns, the telco columns of noise, so that everything the telco finds out comes from
the messages. Scores are AUCs of the seeker's people against all others; 0.5 is a guess.

- `bags`: the telco counts in how many trees a row took part, with `hide_bags = false` and by default
- `sizes`: it ranks rows by how small the leaves are that they ended in
- `few known`: it happens to know ten of the seeker's people, and ranks the others by how often they share a leaf with
  one of those; also reported for all who are truly positive

`made_up` is what a bank that sends powers of two instead of gradients (`deviating`) reads of the telco's table in 12
trees of depth 3: the fraction of the telco's cells, 3,000 rows (encrypted: 768) of six columns in 32 bins; how many
bits about a row it was answered, and how many the plan allows.

`completing` is what parties that complete a table can infer about each other (`complete_attack`).
"""

from __future__ import annotations

import json
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console

import complete_attack
from deviating import attack
from unpooled.arrays import Bools, Floats, Ints
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, transform
from unpooled.data.prepare import fit as learn_preparation
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.pu.federated.search import Columns, find, groups_of, help_find
from unpooled.pu.settings import VfpuSettings
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.learners import learner_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees.grower import passive
from unpooled.vertical.trees.grower.node_rows import TreeRows
from unpooled.vertical.trees.parameters import GbdtParameters

ROWS, NOISE, FRIENDS, SEED = 6_000, 6, 10, 7
OWNERS = ("telco", "bank")
METHOD = VfpuSettings(iterations=3, bags=5)
SHOWN_AT_LEAST, HIDDEN_AT_MOST = 0.9, 0.52
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


def people() -> tuple[Floats, Bools, Bools]:
    """The bank's columns, who is positive, and who of those the seeker knows."""
    data, rng = datasets.load("credit"), np.random.default_rng(SEED)
    rows = np.sort(rng.permutation(len(data.label))[:ROWS])
    table = table_from_frame(data.frame[rows], "id", "bank", datasets.TYPES["credit"], datasets.MISSING["credit"])
    matrix = transform(learn_preparation(table, PrepareSettings()), table).matrix
    positive = data.label[rows]
    return matrix, positive, positive & (rng.random(ROWS) < 0.1)


def leaves_seen(matrix: Floats, known: Bools, *, hide_bags: bool) -> Ints:
    """What the telco holds at the end: for each tree and row the leaf, or -1 for rows that took no part."""
    base = GbdtParameters(hide_bags=hide_bags)
    noise, seen = np.random.default_rng(SEED + 1).normal(size=(ROWS, NOISE)), list[tuple[Bools | None, TreeRows]]()
    in_bag = passive.rows_in_bag

    def remembered(own: Any, part: Bools | None, *others: Any, **more: Any) -> TreeRows:
        rows = in_bag(own, part, *others, **more)
        seen.append((part, rows))
        return rows

    def opened(session: Session) -> Engine:
        questions = learner_of(base).questions(base, sum(groups_of(METHOD)))
        return open_engine(session, Rules("plain", questions=questions), OWNERS, "bank", "coordinator")

    def bank(session: Session) -> None:
        team = Team("bank", OWNERS, opened(session), "rows")
        find(
            team, base, Columns(matrix, tuple(f"column {place}" for place in range(matrix.shape[1]))), known, METHOD, 1
        )
        finish(team.products)

    def telco(session: Session) -> None:
        team = Team("bank", OWNERS, opened(session), "rows")
        help_find(team, base, Columns(noise, tuple(f"noise {place}" for place in range(NOISE))), METHOD)
        finish(team.products)

    with mock.patch.object(passive, "rows_in_bag", remembered):
        simulate_roles({"telco": telco, "bank": bank, "coordinator": lambda s: serve(opened(s))}, timeout=600)
    leaves = np.full((len(seen), ROWS), -1, np.int64)
    for tree, (part, rows) in enumerate(seen):
        leaves[tree, slice(None) if part is None else part] = rows.node_of_row
    return leaves


def by_size(leaves: Ints) -> Floats:
    """The smaller the leaves, the likelier."""
    total = np.zeros(ROWS)
    for tree in leaves:
        inside = tree >= 0
        total[inside] -= np.log(np.bincount(tree[inside])[tree[inside]])
    return total


def by_friends(leaves: Ints, friends: Ints) -> Floats:
    """How often a row shares a leaf with one that is known; small leaves count for more."""
    total = np.zeros(ROWS)
    for tree in leaves:
        inside = tree >= 0
        sizes = np.bincount(tree[inside]).astype(float)
        shared = np.bincount(tree[friends][tree[friends] >= 0], minlength=len(sizes))
        total[inside] += (shared / np.maximum(sizes, 1))[tree[inside]]
    return total


def made_up(name: str) -> dict[str, float]:
    """What a bank reads with made-up gradients, and how many bits that took for each row."""
    engine, settings, rules = MADE_UP[name]
    rows = 768 if engine == "paillier" else 3_000
    parameters = GbdtParameters(trees=12, depth=3, lockstep=1, bundle=False, **settings)
    found = attack(engine, parameters, rows, **rules)
    return {
        "cells": round(found.cells, 4),
        "wrong": found.wrong,
        "bits_per_row": round(found.answered / rows, 1),
        "planned_bits_per_row": round(found.needed / rows, 1),
    }


def main() -> None:
    matrix, positive, known = people()
    figures: dict[str, Any] = {"benchmark": "attack", "rows": ROWS, "known": int(known.sum())}
    friends = np.random.default_rng(SEED + 2).choice(np.flatnonzero(known), FRIENDS, replace=False)
    others = np.ones(ROWS, bool)
    others[friends] = False
    for name, hide_bags in (("shown", False), ("hidden", True)):
        Console(stderr=True).print(f"{name} bags ...")
        leaves = leaves_seen(matrix, known, hide_bags=hide_bags)
        friendly = by_friends(leaves, friends)[others]
        scores = {
            "bags": auc(known.astype(float), (leaves >= 0).sum(axis=0).astype(float)),
            "sizes": auc(known.astype(float), by_size(leaves)),
            "few known": auc(known[others].astype(float), friendly),
            "few known, all positives": auc(positive[others].astype(float), friendly),
        }
        figures[name] = {what: round(score, 4) for what, score in scores.items()}
    figures["made_up"] = {}
    for name in MADE_UP:
        Console(stderr=True).print(f"made-up gradients, {name} ...")
        figures["made_up"][name] = made_up(name)
    Console(stderr=True).print("completing a table ...")
    figures["completing"] = complete_attack.figures()
    shown, hidden = figures["shown"]["bags"], figures["hidden"]["bags"]
    told = figures["completing"]["told_to_registry"]
    leaves, hidden_leaves = told["noise, hide_nodes = false"], told["noise, hide_nodes = true"]
    bars = [
        ("bags_shown", shown, SHOWN_AT_LEAST, shown >= SHOWN_AT_LEAST),
        ("bags_hidden", hidden, HIDDEN_AT_MOST, hidden <= HIDDEN_AT_MOST),
        ("leaves_shown", leaves, LEAVES_SHOWN_AT_LEAST, leaves >= LEAVES_SHOWN_AT_LEAST),
        ("leaves_hidden", hidden_leaves, LEAVES_HIDDEN_AT_MOST, hidden_leaves <= LEAVES_HIDDEN_AT_MOST),
    ]
    keys = ("name", "value", "bar", "holds")
    print(json.dumps(figures | {"bars": [dict(zip(keys, bar, strict=True)) for bar in bars]}))


if __name__ == "__main__":
    main()
