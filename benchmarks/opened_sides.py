"""How much of a passive party's table in bins the active party holds after a look-alike search, and after a training.

Credit, census and bank, 3,000 rows each, columns divided between b, which is passive, and c, which is active, as in the
VFPU paper. The search and the training are the defaults: five iterations of ten bags, 50 trees of depth 3; 50 trees of
depth 6, learned from three quarters of the rows. The engine is `plain`, since engines do not change which splits are
opened. Measured by the splits that b opens (`unpooled.attacks.opened_sides`), for shown and for hidden nodes, and for
several numbers of bins of b's columns (`lent_bins`), while c's have 32:

- `thresholds`: how many b revealed, the mean of a column, out of `all`
- `known`: the fraction of b's cells whose bin is known
- `bits`: the bits learned of b's table, as a fraction of those that it has in 32 bins
- `rank`: the correlation of the active party's best guess with the real values, in ranks, the mean over columns
- `quality`: of the search, precision of the first so many as there are unknown positives; of the training, the AUC on
  the other quarter of the rows, the mean of three draws of these

The bars are about searches: how much worse they are with the default number of bins at b than with 32, and how many of
the bits c then holds, the means over data sets. `--quick` takes one data set and one draw, and does not judge them.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console

from unpooled.arrays import Bools, Floats
from unpooled.attacks.opened_sides import OpenedSides
from unpooled.data import datasets
from unpooled.data.prepare import PrepareSettings, transform
from unpooled.data.prepare import fit as fit_preparation
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.pu.federated.search import Columns, find, help_find
from unpooled.pu.settings import VfpuSettings
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Rules, open_engine
from unpooled.session import Session
from unpooled.vertical.learners import default_parameters
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import apply_bins, fit_bins
from unpooled.vertical.trees.ensemble import fit, help_fit
from unpooled.vertical.trees.grower import passive
from unpooled.vertical.trees.grower.node_rows import cut
from unpooled.vertical.trees.model import Part
from unpooled.vertical.trees.parameters import AnyTrees

SETS = ("credit", "census", "bank")
ROWS, SEED, FINEST = 3_000, 7, 32
DRAWS = {"search": 1, "train": 3}
BINS = {"search": (9, 32), "train": (5, 9, 16, 32)}
OWNERS = ("b", "c")
KNOWN = 0.1
TEST = 0.25
MOST_LOST = 0.02  # about the standard error of the precision in one data set
MOST_HELD = 0.9

console = Console(stderr=True)


@dataclass(frozen=True, eq=False)
class People:
    """Both parties' columns of some rows, and who is positive."""

    columns: dict[str, Columns]
    positive: Bools


def people(name: str) -> People:
    """Rows of a data set, in random order."""
    data = datasets.load(name)
    chosen = np.random.default_rng(SEED).permutation(len(data.label))[:ROWS]
    columns = {}
    for party, held in datasets.SPLIT[name].items():
        frame = data.frame[chosen].select("id", *held)
        types = {column: kind for column, kind in datasets.TYPES[name].items() if column in held}
        table = table_from_frame(frame, "id", party, types, datasets.MISSING[name])
        prepared = transform(fit_preparation(table, PrepareSettings()), table)
        columns[party] = Columns(prepared.matrix, prepared.names)
    return People(columns, np.asarray(data.label)[chosen].astype(bool))


def search(team: Team, base: AnyTrees, everybody: People, draw: int, kept: dict[str, Any]) -> None:
    """A party's part in a search; how good the ranking is."""
    method, columns = VfpuSettings(), everybody.columns[team.session.party]
    if team.session.party != team.active:
        kept["part"] = help_find(team, base, columns, method)
        return
    positive = everybody.positive
    known = positive & (np.random.default_rng([SEED, draw]).random(ROWS) < KNOWN)
    ranking = find(team, base, columns, known, method, seed=draw).ranking
    kept["quality"] = float(positive[ranking.order[: int((positive & ~known).sum())]].mean())


def train(team: Team, base: AnyTrees, everybody: People, draw: int, kept: dict[str, Any]) -> None:
    """A party's part in a training; how good the model is on rows that it had not seen."""
    columns = everybody.columns[team.session.party]
    if team.session.party != team.active:
        kept["part"] = help_fit(team, base, columns)
        return
    test = np.random.default_rng([SEED, draw]).random(ROWS) < TEST
    truth = everybody.positive.astype(float)
    (scores,) = fit(team, base, columns, [Target(truth, np.where(test, 0.0, 1.0), draw)]).scores
    kept["quality"] = auc(truth[test], scores[test, 0])


JOBS = {"search": search, "train": train}


def run(job: str, everybody: People, base: AnyTrees, draw: int) -> dict[str, float]:
    """Do it; what c holds of b's table, and how good the result is."""
    opened, kept = list[tuple[Any, ...]](), dict[str, Any]()
    side, fill = passive.right_of, passive.fill_sides

    def answered(table: Any, layout: Any, bins: Any, rows: Any, number: int) -> Bools:
        right = side(table, layout, bins, rows, number)
        opened.append((*table.splits[number], rows, right))
        return right

    def filled(table: Any, trees: Any, rows: Any, numbers: Any, sides: Bools) -> None:
        fill(table, trees, rows, numbers, sides)
        of_table = rows.places if trees.source is None else trees.source[rows.places]
        each = zip(numbers, cut(of_table, rows.counts), cut(sides, rows.counts), strict=True)
        for number, of_node, right in each:
            opened.append((*table.splits[number], of_node, right))

    def owner(session: Session) -> None:
        engine = open_engine(session, Rules("plain", questions=10**9), OWNERS, "c", None)
        JOBS[job](Team("c", OWNERS, engine, "rows"), base, everybody, draw, kept)

    with mock.patch.multiple(passive, right_of=answered, fill_sides=filled):
        simulate_roles(dict.fromkeys(OWNERS, owner), seeds=dict.fromkeys(OWNERS, SEED), timeout=3_600)
    part: Part = kept["part"]
    matrix = everybody.columns["b"].matrix
    bins, sides = apply_bins(part.binning, matrix, "b"), OpenedSides(part.binning.layout, ROWS)
    for split in opened:
        sides.open(*split)
    held = sides.held(bins)
    return {
        "columns": len(part.binning.features),
        "all": held.all_thresholds,
        "thresholds": held.thresholds,
        "known": held.known,
        "bits": held.bits / bits_in(matrix, FINEST),
        "rank": sides.rank(matrix[:, [feature.column for feature in part.binning.features]]),
        "quality": kept["quality"],
    }


def bits_in(matrix: Floats, bins: int) -> float:
    """How many bits a table has in so many bins."""
    binning = fit_bins(matrix, [str(column) for column in range(matrix.shape[1])], bins=bins, party="b")
    return OpenedSides(binning.layout, len(matrix)).held(apply_bins(binning, matrix, "b")).table_bits


def measured(job: str, everybody: People, draws: int, **settings: Any) -> dict[str, float]:
    """The mean over draws."""
    base = default_parameters(bags=job == "search", secret_labels=job == "search").model_copy(update=settings)
    each = [run(job, everybody, base, draw) for draw in range(draws)]
    return {key: round(float(np.mean([one[key] for one in each])), 4) for key in each[0]}


def bars(figures: dict[str, dict[str, float]]) -> list[dict[str, Any]]:
    """What the default number of bins loses and gains, in searches."""
    default = default_parameters(bags=True, secret_labels=True).model_dump()["lent_bins"]

    def mean_of(what: str, bins: int) -> float:
        return float(np.mean([figures[f"{name}, search, {bins} bins"][what] for name in SETS]))

    lost, held = mean_of("quality", FINEST) - mean_of("quality", default), mean_of("bits", default)
    found = [("precision_lost", lost, MOST_LOST), ("bits_held", held, MOST_HELD)]
    return [{"name": name, "value": round(value, 4), "bar": bar, "holds": value <= bar} for name, value, bar in found]


def main() -> None:
    quick, figures = "--quick" in sys.argv, dict[str, dict[str, float]]()
    for name in SETS[: 1 if quick else None]:
        everybody = people(name)
        for job in JOBS:
            plans: dict[str, dict[str, Any]] = {"nodes shown, 32 bins": {"hide_nodes": False, "lent_bins": None}}
            plans |= {f"{bins} bins": {"hide_nodes": True, "lent_bins": bins} for bins in BINS[job]}
            for plan, settings in plans.items():
                found = measured(job, everybody, 1 if quick else DRAWS[job], **settings)
                figures[f"{name}, {job}, {plan}"] = found
                console.print(f"{name}, {job}, {plan}: {found}")
    print(json.dumps({"benchmark": "opened_sides", "figures": figures, "bars": [] if quick else bars(figures)}))


if __name__ == "__main__":
    main()
