"""What parties that complete a table together can infer about each other's columns, beyond what they want to learn.

4,000 rows of Credit: the registry has all of them, the clinic 1,000. The clinic predicts one number, the credit limit,
with the default trees, five folds and one round. The engine is `plain`, since engines do not change what is used here:
sides of splits, and nodes. Scores are for honest but curious parties, except for the last one.

- What the clinic can tell of the registry's 22 columns in the rows that it lacks. Each opened split bounds the bins of
  the rows in its node. `known`: the fraction of cells with one possible bin left. `rank`: Spearman's correlation of the
  middle of the possible bins with the real values, the mean over columns.
- What the registry can tell of the clinic's number in the common rows. It happens to know ten people in the highest
  tenth, and ranks the others by how often they share a leaf with one of those; the score is the AUC of the highest
  tenth, 0.5 is a guess. With hidden nodes it sees no leaves, and takes the sides of the splits that were asked for.
  `noise`: the registry has columns of noise and the clinic columns that tell, so all that is found comes from messages.
  `real`: as above; `own columns`: the same by distance in the registry's own columns, without any message.
- What a clinic that deviates reads when it asks for counts (`contingency`): instead of its classes it sends powers of
  two, as in `deviating`. It asks for as many classes as the registry allows, one for each ten of the common rows. The
  score is the fraction of the registry's cells in ten bins, in the common rows.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
from scipy.stats import rankdata

from unpooled.arrays import Bools, Floats, Ints
from unpooled.attacks.few_known import by_known, by_own_columns
from unpooled.attacks.reconstruction import sides_of
from unpooled.attacks.record import Record
from unpooled.attacks.trees_seen import TreesSeen, trees_seen
from unpooled.complete.association import ROWS_PER_COLUMN, contingency, help_contingency
from unpooled.complete.federated import Columns, SelfTrainingSettings, help_predict_columns, predict_columns
from unpooled.complete.variables import Variable, binned, variables_of
from unpooled.data import datasets
from unpooled.data.table import table_from_frame
from unpooled.evaluate.metrics import auc
from unpooled.run.simulate import simulate_roles
from unpooled.secure.calls import Call
from unpooled.secure.engine import Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.secure.shares import engine as shares
from unpooled.secure.shares import opening
from unpooled.secure.shares.packing import Slots
from unpooled.session import Session
from unpooled.vertical.learners import learner_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import apply_bins
from unpooled.vertical.trees.model import Part
from unpooled.vertical.trees.parameters import GbdtParameters

ROWS, COMMON, NOISE, FRIENDS, SEED = 4_000, 1_000, 6, 10, 7
WORD = 64
TARGET = "LIMIT_BAL"
SETTINGS = SelfTrainingSettings(folds=5)
OWNERS = ("clinic", "registry")
HIGHEST = 0.9


@dataclass(frozen=True, eq=False)
class Seen:
    """What passed, as messages show it, and what the registry keeps: it knows how values become bins."""

    trees: TreesSeen
    part: Part


def people() -> tuple[Floats, Any]:
    """All other columns, and the clinic's number for the common rows; rows in random order."""
    data = datasets.load("credit")
    chosen = data.frame[np.random.default_rng(SEED).permutation(data.frame.height)[:ROWS]]
    others = chosen.drop("id", TARGET).to_numpy().astype(float)
    return others, chosen.select("id", TARGET)


def run(lent: Floats, own: Floats, values: Any, *, most_thresholds: int | None = None, **settings: Any) -> Seen:
    """Predict the clinic's number from the registry's columns, and the clinic's own where it has them."""
    base, parts, record = GbdtParameters(classes=0, **settings), dict[Any, Part](), Record()
    (variable,) = variables_of(table_from_frame(values.head(COMMON), "id", "clinic"), ROWS)

    def owner(session: Session) -> None:
        models = 2 * SETTINGS.folds
        rules = Rules("plain", questions=learner_of(base).questions(base, models))
        team = Team("clinic", OWNERS, open_engine(session, rules, OWNERS, "clinic", None), "rows")
        if session.party == "clinic":
            predict_columns(team, base, _named(own), [variable], SETTINGS, SEED)
        else:
            parts.update(help_predict_columns(team, base, _named(lent), SETTINGS, most_thresholds))

    simulate_roles(dict.fromkeys(OWNERS, owner), timeout=600, observers={"registry": record.note})
    return Seen(trees_seen(record), parts[0, "values"])


def read_by_clinic(seen: Seen, lent: Floats) -> dict[str, float]:
    """How much of the registry's cells in bins the clinic knows, in the rows that it lacks."""
    truth = apply_bins(seen.part.binning, lent, "registry").astype(np.int64)
    sides = sides_of(seen.trees, ROWS)
    low, high = sides.low, sides.high
    features, opened = seen.part.binning.features, seen.trees.opened
    if not ((low <= truth) & (truth <= high)).all():
        raise ValueError("the clinic has read something that is not so")
    low, high = low[COMMON:], high[COMMON:]
    pairs = zip((low + high).T, features, strict=True)
    ranks = [_rank(guess, lent[COMMON:, feature.column]) for guess, feature in pairs]
    return {
        "bins": round(float(np.mean([len(feature.edges) + 1 for feature in features])), 1),
        "splits": len(opened),
        "thresholds": len({(split.feature, split.place) for split in opened}),
        "known": round(float((low == high).mean()), 3),
        "rank": round(float(np.mean(ranks)), 3),
    }


def told_by_leaves(seen: Seen, values: Floats) -> float:
    """What the registry finds by what it sees: leaves, or where nodes are hidden the splits that were asked for."""
    friends, others, highest = _known(values)
    total = by_known(seen.trees.groupings, friends, COMMON)
    return round(auc(highest[others].astype(float), total[others]), 3)


def told_by_own_columns(lent: Floats, values: Floats) -> float:
    """The same without messages: how near a row is to its nearest of the known people, by ranks of all columns."""
    friends, others, highest = _known(values)
    near = by_own_columns(lent[:COMMON], friends)
    return round(auc(highest[others].astype(float), near[others]), 3)


def made_up_classes(lent: Floats) -> float:
    """The fraction of the registry's cells that a clinic reads which makes up its classes; what it reads is right."""
    codes, sizes = zip(*(binned(variable) for variable in _variables(lent[:COMMON])), strict=True)
    bins, totals, presented = np.column_stack(codes), list[Any](), list[Any]()

    def powers(_values: Any, slots: Slots) -> Any:
        words = np.zeros((COMMON, slots.words), np.uint64)
        rows = np.arange(min(COMMON, WORD * slots.words))
        words[rows, rows // WORD] = np.uint64(1) << (rows % WORD).astype(np.uint64)
        return words

    def kept(_engine: Any, call: Call, total: Any) -> Ints:
        totals.append(total)
        return np.zeros(call.shape, np.int64)

    def role(session: Session) -> None:
        engine = open_engine(session, Rules("shares"), OWNERS, "clinic", "coordinator")
        team = Team("clinic", OWNERS, engine, "rows")
        if session.party == "coordinator":
            serve(engine)
        elif session.party == "clinic":
            contingency(team, np.zeros((COMMON, 1), np.int64), (COMMON // ROWS_PER_COLUMN,))
        else:
            presented.extend(deepcopy(session.rng).permutation(len(sizes)))  # the order that it is about to draw
            help_contingency(team, bins, sizes)
        if session.party != "coordinator":
            finish(engine)

    with mock.patch.object(opening, "pack", powers), mock.patch.object(shares, "read", kept):
        simulate_roles(dict.fromkeys((*OWNERS, "coordinator"), role), timeout=600)
    ((total,),) = totals
    bits = total[:, :, np.newaxis] >> np.arange(WORD, dtype=np.uint64) & np.uint64(1)
    inside = bits.reshape(len(total), -1)[:, :COMMON]
    ends = np.cumsum([sizes[column] for column in presented])
    right = [
        inside[end - sizes[column] + bins[: inside.shape[1], column], np.arange(inside.shape[1])]
        for column, end in zip(presented, ends, strict=True)
    ]
    if inside.sum() != np.sum(right):
        raise ValueError("the clinic has read something that is not so")
    return round(float(np.sum(right) / bins.size), 3)


def figures() -> dict[str, Any]:
    """All of it."""
    real, frame = people()
    values = frame[TARGET].to_numpy()[:COMMON].astype(float)
    none, own = np.empty((ROWS, 0)), real.copy()
    own[COMMON:] = np.nan
    noise = np.random.default_rng(SEED + 1).normal(size=(ROWS, NOISE))
    clinic, registry = dict[str, Any](), dict[str, Any]()
    plans: dict[str, dict[str, Any]] = {
        "default": {},
        "maximum_thresholds = 40": {"most_thresholds": 40},
        "trees = 5, depth = 3": {"trees": 5, "depth": 3},
        "hide_nodes = true": {"hide_nodes": True},
    }
    for name, plan in plans.items():
        seen = run(real, none, frame, **plan)
        clinic[name] = read_by_clinic(seen, real)
        registry[f"real, {name}"] = told_by_leaves(seen, values)
    for hidden in (False, True):
        seen = run(noise, own, frame, hide_nodes=hidden)
        registry[f"noise, hide_nodes = {str(hidden).lower()}"] = told_by_leaves(seen, values)
    registry["real, own columns"] = told_by_own_columns(real, values)
    return {
        "rows": ROWS,
        "common": COMMON,
        "read_by_clinic": clinic,
        "made_up_classes": made_up_classes(real),
        "told_to_registry": registry,
    }


def _named(matrix: Floats) -> Columns:
    return Columns(matrix, tuple(f"column {place}" for place in range(matrix.shape[1])))


def _variables(matrix: Floats) -> list[Variable]:
    frame = pl.DataFrame(matrix, [f"column {place}" for place in range(matrix.shape[1])])
    return variables_of(table_from_frame(frame.insert_column(0, pl.Series("id", range(len(matrix)))), "id", "registry"))


def _known(values: Floats) -> tuple[Ints, Bools, Bools]:
    """Ten people in the highest tenth whom the registry knows, who the others are, and who is in the highest tenth."""
    highest: Bools = rankdata(values) > HIGHEST * len(values)
    friends = np.random.default_rng(SEED + 2).choice(np.flatnonzero(highest), FRIENDS, replace=False)
    others = np.ones(len(values), bool)
    others[friends] = False
    return friends, others, highest


def _rank(guess: Ints, truth: Floats) -> float:
    """Spearman's correlation; 0 for a column of which nothing is known."""
    left, right = rankdata(guess), rankdata(truth)
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])
