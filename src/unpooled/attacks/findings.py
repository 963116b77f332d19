"""What attacks have found, in figures and in plain sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.drawing.words import percent
from unpooled.evaluate.metrics import auc

Level = Literal["nothing", "something", "much"]

_CHANCE, _SURE_MARGIN, _MUCH = 0.5, 0.03, 0.7
_LITTLE_READ, _MUCH_READ = 0.05, 0.5


@dataclass(frozen=True)
class Attack:
    """An attack: what it does, and which settings make it harder."""

    name: str
    title: str
    does: str
    remedy: str


BAGS = Attack(
    "bags",
    "Counting bags",
    "counts in how many bags of rows each row is",
    "hide_bags = true in [parameters.model], which is the default",
)
LEAF_SIZES = Attack(
    "leaf_sizes",
    "Leaf sizes",
    "ranks rows by how small the leaves are that they end in",
    "hide_nodes = true in [parameters.model]",
)
FEW_KNOWN = Attack(
    "few_known",
    "Few known people",
    "happens to know ten of them, and ranks the others by how often they share a leaf with one of these",
    "hide_nodes = true in [parameters.model]; with it, fewer and smaller trees ask for fewer of its splits",
)
ID2GRAPH = Attack(
    "id2graph",
    "Clusters of rows (ID2Graph)",
    "joins rows that share leaves in a graph, and takes the one of two clusters in which ten people are whom it knows",
    "hide_nodes = true in [parameters.model]",
)
GRADIENTS = Attack(
    "gradients",
    "Gradients of linear models",
    "solves for the labels that explain the gradients it is shown, or goes by its own weights at the end",
    'reveal = "final" in [parameters.model]; fewer columns, or larger batches',
)
RECONSTRUCTION = Attack(
    "reconstruction",
    "Reconstruction of bins",
    "puts together on which side of thresholds rows are",
    "fewer and smaller trees in the plan; in the policy, maximum_thresholds for coarser bins, or maximum_splits",
)
TWO_RUNS = Attack(
    "two_runs",
    "Differences of two runs",
    "compares what it has of two runs, between which ten people were added",
    "run again only when many people have changed, not a few",
)
ATTACKS = (BAGS, LEAF_SIZES, FEW_KNOWN, ID2GRAPH, GRADIENTS, RECONSTRUCTION, TWO_RUNS)


@dataclass(frozen=True)
class Finding:
    """What a party in a seat finds out by an attack about another: a score between that of a guess and 1.

    `without` is the score of the party's own columns alone, without any message, where that is known.
    """

    attack: str
    seat: str
    party: str
    about: str
    measure: Literal["auc", "fraction"]
    score: float
    guess: float
    level: Level
    sentence: str
    without: float | None = None


def ranked(
    attack: Attack, seat: str, party: str, about: str, sought: str, truth: Bools, scores: Floats, own: Floats | None
) -> Finding:
    """How well scores tell some rows from others; `own` are those of the party's own columns alone."""
    score = auc(truth.astype(float), scores)
    without = None if own is None else round(auc(truth.astype(float), own), 4)
    level = _level_of_ranking(max(score, 1 - score), truth)
    so = "no better than by guessing" if level == "nothing" else "where 50 would be a guess"
    if level != "nothing" and score < _CHANCE:
        so = f"so whoever knows that the order must be turned round says it in {round(100 * (1 - score))}"
    alone = "" if without is None else f" By its own columns, without any message: {round(100 * without)}."
    sentence = (
        f"{party} {attack.does}. Shown one of {sought} and somebody else, it says in {round(100 * score)} of 100 cases "
        f"which is which, {so}.{alone}"
    )
    return Finding(attack.name, seat, party, about, "auc", round(score, 4), _CHANCE, level, sentence, without)


def unseen(attack: Attack, seat: str, party: str, about: str) -> Finding:
    """A party that is shown nothing of learning."""
    sentence = f"{party} is shown nothing that this attack could use."
    return Finding(attack.name, seat, party, about, "auc", _CHANCE, _CHANCE, "nothing", sentence)


def read_cells(attack: Attack, seat: str, party: str, about: str, cells: float) -> Finding:
    """Which fraction of a table's cells a party holds in bins."""
    sentence = (
        f"{party} {attack.does}. At the end it knows the bin of {percent(cells)} of the cells of {about}, in columns "
        "without names."
    )
    return _fraction(attack, seat, party, about, cells, sentence)


def named_people(attack: Attack, seat: str, party: str, about: str, named: int, added: int) -> Finding:
    """How many of the people that were added to a table a party can name."""
    sentence = f"{party} {attack.does} to the table of {about}. It names {named or 'none'} of them."
    return _fraction(attack, seat, party, about, named / added, sentence)


def _fraction(attack: Attack, seat: str, party: str, about: str, value: float, sentence: str) -> Finding:
    level: Level = "nothing" if value < _LITTLE_READ else "something" if value < _MUCH_READ else "much"
    return Finding(attack.name, seat, party, about, "fraction", round(value, 4), 0.0, level, sentence)


def _level_of_ranking(score: float, truth: Bools) -> Level:
    """A guess scores 0.5 give or take twice its spread, which is larger the fewer rows are sought."""
    sought = int(truth.sum())
    spread = float(np.sqrt((1 / sought + 1 / (len(truth) - sought)) / 12))
    if score <= _CHANCE + max(_SURE_MARGIN, 2 * spread):
        return "nothing"
    return "something" if score < _MUCH else "much"
