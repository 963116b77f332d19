"""Completing a table: how much of what the missing rows are worth comes back, on bank, credit and census.

Columns are dealt to two parties at random in halves. A (the registry) has its half and the label for all rows, B (the
clinic) its half for a tenth of them. A quarter of the rows, with all columns, is for testing. The downstream model is
LightGBM (150 trees, rate 0.05, 31 leaves); figures are AUCs, and `gap_closed` is the fraction of the gap between
aligned rows only and the truth. Means of five seeds. Columns are pooled here, which gives the same predictions to the
bit as parties that keep them apart (`tests/complete/test_predicting.py`).

- `aligned only`: the downstream model sees the aligned rows alone; `A only`: all rows, but A's columns alone;
- `left missing`: all rows, B's missing cells stay missing; `truth`: all cells;
- `predicted`: the most likely value, from A's columns without the label;
- `one draw`: one draw of each missing cell, given A's columns and the label; `draws`: the mean of models on three;
- `completed`: what the library advises: the mean of a model on the table left missing and of those on three draws.

`confidence_rank` is Spearman's correlation of 1 - confidence with the error of predicted cells, the mean over columns;
`confidence_rank, paper` the same with the paper's formulas. `coverage` is the fraction of hidden numbers within their
intervals of 90 %. `strength_rank` says for each measure of screening how well it orders columns by how well their
hidden cells are in fact predicted: their `skill` (R², or McFadden's R² for classes), of which the mean is given too.

Cost, with three parties as threads and the engine `shares`: `screen_vs_plain` is the CPU of the secure rank
correlations of 15 + 15 columns and 30,000 rows over that of the same by numpy on pooled columns; `million_rows_gb` the
most memory of a process that runs all parties of a screening and of one predicted column at a million rows.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from unpooled.complete.association import centred_ranks, correlations, help_spearman, spearman, squared_sums
from unpooled.complete.federated import help_predict_columns, predict_columns
from unpooled.complete.screening import gains_of
from unpooled.complete.self_training import SelfTrainingSettings
from unpooled.complete.variables import variables_of
from unpooled.data.table import table_from_frame
from unpooled.evaluate.distribution import spearman as spearman_correlation
from unpooled.evaluate.metrics import auc
from unpooled.experiments.dealing import classify, confidence_ranks, deal, predict, screenings, skills
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.team import Team
from unpooled.vertical.trees.parameters import ForestParameters, GbdtParameters

SETS = ("census", "credit", "bank")
BARS = {"census": 0.60, "credit": 0.75, "bank": 0.78}
SEEDS = (1, 2, 3, 4, 5)
ALIGNED, DRAWS = 0.1, 3
BESIDE = "beside: "
BASES: dict[str, LearnerParameters] = {
    "rf": ForestParameters(trees=30, depth=8, hide_bags=False),
    "gbdt": GbdtParameters(trees=30, depth=3, learning_rate=0.2, hide_bags=False),
}


def one_seed(name: str, seed: int, base: LearnerParameters, rounds: int) -> dict[str, float]:
    """All figures of one set and seed."""
    dealt = deal(name, seed, ALIGNED)
    settings = SelfTrainingSettings(rounds=rounds, folds=3)
    began = time.process_time()
    with_label = predict(dealt, base, settings, seed, label=True)
    without = predict(dealt, base, settings, seed)
    seconds = time.process_time() - began
    screened = screenings(dealt, without)
    chosen = set(screened["gain"].chosen())
    tables = {"left missing": dealt.left_missing, "truth": dealt.matrix}
    for what, columns in (("predicted", chosen), ("all predicted", {one.variable.name for one in without})):
        each = zip(dealt.other, without, strict=True)
        tables[what] = dealt.filled({place: one.values for place, one in each if one.variable.name in columns})
    for number in range(DRAWS):
        each = zip(dealt.other, with_label, strict=True)
        drawn = {place: one.drawn(np.random.default_rng([seed, number, int(place)])) for place, one in each}
        tables[f"draw {number}"] = dealt.filled(drawn)
    scores = {what: classify(table, dealt.label, dealt.test) for what, table in tables.items()}
    scores["aligned only"] = classify(dealt.matrix[: dealt.aligned], dealt.label[: dealt.aligned], dealt.test)
    scores["A only"] = classify(dealt.matrix[:, dealt.own], dealt.label, dealt.test[:, dealt.own])
    several = [scores.pop(f"draw {number}") for number in range(DRAWS)]
    scores |= {"one draw": several[0], "draws": np.mean(several, axis=0)}
    scores["completed"] = (scores["left missing"] + scores["draws"]) / 2
    skill, sure = np.array(skills(without, dealt.truth)), confidence_ranks(without, dealt.truth)
    beside = {
        "confidence_rank": sure["calibrated"]["rank"],
        "confidence_rank, paper": sure["paper"]["rank"],
        "coverage": sure["calibrated"]["coverage"],
        "skill": float(skill.mean()),
        "chosen": len(chosen) / len(without),
        "cpu_s": seconds,
    }
    for measure, screening in screened.items():
        strength = {one.column: one.strength for one in screening.columns}
        ranked = np.array([strength[one.variable.name] for one in without])
        ranked = gains_of(without)[0] if measure == "gain" else ranked  # also how far it is below 0
        beside[f"strength_rank {measure}"] = spearman_correlation(ranked, skill)
    return {what: auc(dealt.test_label, found) for what, found in scores.items()} | {
        f"{BESIDE}{w}": v for w, v in beside.items()
    }


def together(active: Callable[[Team], Any], passive: Callable[[Team], Any]) -> None:
    """A clinic, a registry and a coordinator as threads of this process."""
    owners = ("clinic", "registry")

    def opened(session: Session) -> Engine:
        return open_engine(session, Rules("shares", questions=10**6), owners, "clinic", "coordinator")

    def owner(session: Session) -> None:
        team = Team("clinic", owners, opened(session), "rows")
        (active if session.party == "clinic" else passive)(team)
        finish(team.products)

    roles: dict[str, Any] = dict.fromkeys(owners, owner)
    simulate_roles(roles | {"coordinator": lambda session: serve(opened(session))}, timeout=3600)


def screening_cost(rows: int = 30_000, columns: int = 15) -> float:
    """CPU of the secure rank correlations over that of the pooled ones."""
    rng = np.random.default_rng(1)
    own, other = rng.normal(size=(rows, columns)), rng.normal(size=(rows, columns))

    def pooled() -> None:
        left, right = centred_ranks(own), centred_ranks(other)
        correlations(left.T.astype(float) @ right, squared_sums(left), squared_sums(right))

    seconds = []
    for work in (pooled, lambda: together(lambda team: spearman(team, own), lambda team: help_spearman(team, other))):
        best = []
        for _ in range(3):
            began = time.process_time()
            work()
            best.append(time.process_time() - began)
        seconds.append(min(best))
    return seconds[1] / seconds[0]


def million_rows() -> None:
    """Screening and one predicted column at a million rows; a tenth of them aligned."""
    rng = np.random.default_rng(1)
    rows, aligned = 1_000_000, 100_000
    registry = rng.normal(size=(rows, 15)).astype(np.float64)
    frame = pl.DataFrame({"id": range(aligned), "lab": registry[:aligned, 0] + rng.normal(size=aligned)})
    clinic = table_from_frame(frame, "id", "clinic")
    own = np.column_stack([clinic.frame["lab"].to_numpy(), rng.normal(size=(aligned, 14))])
    base, settings = GbdtParameters(trees=5, depth=3), SelfTrainingSettings(rounds=1, folds=2)
    names = tuple(f"c{place}" for place in range(15))

    def active(team: Team) -> None:
        spearman(team, own)
        none = Columns(np.empty((rows, 0)), ())
        predict_columns(team, base, none, variables_of(clinic, rows), settings, 1)

    def passive(team: Team) -> None:
        help_spearman(team, registry[:aligned])
        help_predict_columns(team, base, Columns(registry, names), settings)

    together(active, passive)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def cost_bars() -> list[dict[str, Any]]:
    ratio = round(screening_cost(), 1)
    print(f"screen_vs_plain {ratio}", file=sys.stderr, flush=True)
    command = [sys.executable, __file__, "--million"]
    memory = round(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout), 2)
    return [
        {"name": "screen_vs_plain", "value": ratio, "bar": 20, "holds": ratio <= 20},
        {"name": "million_rows_gb", "value": memory, "bar": 4, "holds": memory <= 4},
    ]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    arguments.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    arguments.add_argument("--base", default="gbdt", choices=BASES)
    arguments.add_argument(
        "--rounds", type=int, default=1, help="rounds of self-training; 1: columns are predicted once"
    )
    arguments.add_argument("--without-cost", action="store_true", help="leave out screen_vs_plain and million_rows_gb")
    arguments.add_argument("--million", action="store_true", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.million:
        million_rows()
        return
    bars, results = [], {}
    for name in given.sets:
        runs = [one_seed(name, seed, BASES[given.base], given.rounds) for seed in given.seeds]
        mean = {what: statistics.mean(run[what] for run in runs) for what in runs[0]}
        low, high = mean["aligned only"], mean["truth"]
        beside = {what.removeprefix(BESIDE): round(mean.pop(what), 3) for what in list(mean) if what.startswith(BESIDE)}
        closed = {what: round((mean[what] - low) / (high - low), 3) for what in mean}
        results[name] = {"auc": {what: round(value, 4) for what, value in mean.items()}, "gap_closed": closed}
        results[name]["beside"] = beside
        print(name, json.dumps(results[name]), file=sys.stderr, flush=True)
        bars.append({"name": f"gap_closed {name}", "value": closed["completed"], "bar": BARS[name]})
        bars[-1]["holds"] = closed["completed"] >= BARS[name]
        for other in ("left missing", "aligned only", "A only"):
            difference = round(mean["completed"] - mean[other], 4)
            what = f"beats_{other.replace(' ', '_').lower()} {name}"
            bars.append({"name": what, "value": difference, "bar": 0, "holds": difference > 0})
        rank = beside["confidence_rank"]
        bars.append({"name": f"confidence_rank {name}", "value": rank, "bar": 0.3, "holds": rank >= 0.3})
    bars += [] if given.without_cost else cost_bars()
    print(json.dumps({"results": results, "bars": bars}))


if __name__ == "__main__":
    main()
