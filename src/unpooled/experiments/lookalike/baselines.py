"""The experiment `baselines`, the VFPU paper's third: true positives among the first rows, by every method."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import polars as pl

from unpooled.drawing.words import listed, many
from unpooled.experiments.experiment import Cell, Tier, Value
from unpooled.experiments.figures import Panel, Picture
from unpooled.experiments.lookalike.dealing import SETS
from unpooled.experiments.lookalike.networks import PREFIX
from unpooled.experiments.lookalike.paper import Told, told
from unpooled.experiments.lookalike.presets import LEARNERS
from unpooled.experiments.lookalike.searches import search_cell
from unpooled.experiments.lookalike.sharing import experiment_on_searches
from unpooled.experiments.lookalike.showing import (
    CLOSENESS,
    at_length,
    by_length,
    lengths_in,
    of_paper_size,
    paper_table,
    sets_in,
    sizes,
    text,
)
from unpooled.experiments.lookalike.tiers import DRAWS, FEDERATED, PAPER, TRAIN
from unpooled.experiments.tables import Summary, chosen, summarised, summary_of, table

METHODS: dict[str, dict[str, Value]] = {
    "VFPU_GBDT": {},
    "VFPU_GBDT, calibrated": {"calibrated": "yes", "hide_bags": "no"},
    "VFPU_GBDT, bags shown": {"hide_bags": "no"},
    **{f"VFPU_{shown}": {"learner": learner} for learner, shown in LEARNERS.items() if learner != "gbdt"},
    "Bagging_GBDT": {"search": "bagging"},
    "2Step_GBDT, negatives first": {"search": "two-step, negatives"},
    "2Step_GBDT, positives first": {"search": "two-step, positives"},
    "naive_GBDT": {"search": "naive"},
    "Elkan-Noto_GBDT": {"search": "elkan-noto"},
    "random": {"search": "random"},
    "full supervision (the ceiling)": {"search": "supervised"},
}
"""What is compared on pooled columns: changes to VFPU with the job's settings."""

NETWORKS: dict[str, dict[str, Value]] = {
    "network on known positives": {"search": "semisup, supervised"},
    "pseudo-labelling": {"search": "semisup, pseudo-label"},
    "MixMatch": {"search": "semisup, mixmatch"},
    "FixMatch": {"search": "semisup, fixmatch"},
    "CoMatch": {"search": "semisup, comatch"},
    "AdaMatch": {"search": "semisup, adamatch"},
    "SoftMatch": {"search": "semisup, softmatch"},
}
"""Semi-supervised networks on pooled columns, and the same network by a class prior alone."""

RIVALS = ("Bagging_GBDT", "2Step_GBDT, negatives first", "2Step_GBDT, positives first", "naive_GBDT")
"""What the paper says that VFPU is better than."""

DRAWN = ("VFPU_GBDT", "VFPU_LR", "VFPU_RF", "Bagging_GBDT", "2Step_GBDT, negatives first", "naive_GBDT", "random")
IN_TABLE = (100, 500, 1_000, 1_500, 2_000, 2_400)
JUDGED_AT = 1_000
LARGEST = "credit"
"""The set on which the paper reports its runtimes."""

_PAPER: dict[str, dict[str, Value]] = {
    "VFPU_GBDT": {"search": "vfpu"},
    "naive_GBDT": {"search": "naive"},
    "VF_GBDT": {"search": "naive"},
    "2Step_GBDT": {"search": "two-step, negatives"},
    "VF_2Step_GBDT": {"search": "two-step, negatives"},
    "Bagging_GBDT": {"search": "bagging"},
    "VF_Bagging_GBDT": {"search": "bagging"},
}
_FEDERATED = {"VFPU_GBDT": "vfpu", "VF_Bagging_GBDT": "bagging", "VF_2Step_GBDT": "two-step, negatives"}
_FEDERATED |= {"VF_GBDT": "naive"}
_CHEAPER: dict[str, Value] = {"hide_bags": "no", "hide_nodes": "no"}


def cells(tier: Tier, seed: int) -> list[Cell]:
    """Every method of all draws on pooled columns; then the job's methods by parties, on the set of the runtimes."""
    settings: dict[str, Value] = {} if tier is not Tier.seed else {"settings": PAPER[tier]}
    found = [
        search_cell(name, one, TRAIN[tier], **settings | changes)
        for one in range(seed, seed + DRAWS[tier])
        for name in SETS
        for changes in METHODS.values()
    ]
    found += [
        search_cell(name, one, TRAIN[tier], **changes)
        for one in range(seed, seed + DRAWS[tier])
        for name in SETS
        for changes in NETWORKS.values()
    ]
    where = "threads" if tier is Tier.quick else "processes"
    small: dict[str, Any] = FEDERATED[tier] if tier is Tier.quick else {"train": TRAIN[tier]}
    return found + [
        search_cell(LARGEST, seed, run=f"{where}, shares", search=search, **small | settings | hiding)
        for hiding in (_CHEAPER, {})
        for search in _FEDERATED.values()
    ]


def section(frame: pl.DataFrame) -> str:
    """The section, from all cells."""
    pooled, together = chosen(frame, run="pooled"), frame.filter(pl.col("run") != "pooled")
    parts = [
        f"The fraction of true positives among the first rows, by every method: {sizes(pooled)}. The base of all but "
        "LR, RF, XGB and LGB is the job's GBDT, and bags and nodes are hidden as in the job, unless told otherwise. "
        "*Calibrated*: each model's scores are made frequencies by three folds of its bag, before they are averaged; "
        "the job has no such setting. *Full supervision* knows all labels; rows are scored by models that had not seen "
        f"them. 2Step has both of the paper's readings. {_networks(pooled)}",
        "![Precision of the first rows](precision.svg)",
        *(f"### {name}\n\n{_lengths(pooled, name)}" for name in sets_in(pooled)),
        "### Is VFPU better?",
        f"Precision of the first {JUDGED_AT:,}: VFPU_GBDT minus another method on the same draw.",
        _gains(pooled),
        _in_words(pooled),
        "### Time of pooled searches",
        "CPU and wall seconds of a search and of scoring the test rows, each on one core.",
        _times(pooled),
        "### Federated",
        "The job, parties apart with the engine `shares`. Rankings are the pooled ones to the last bit, or the cell "
        f"fails. {sizes(together)}.",
        _federated(together),
        "### The VFPU paper's figures",
        f"{CLOSENESS} Precision is the fraction of true positives among the first rows. Its runtimes are of 500 trees "
        "of depth 12 with keys of 512 bits, on its machines; ours are wall times of the section above.",
        paper_table(told("baselines"), lambda one: _ours(pooled, together, one)),
    ]
    return "\n\n".join(part for part in parts if part)


def pictures(frame: pl.DataFrame) -> Mapping[str, Picture]:
    """Precision by length, a panel for each set."""
    pooled = chosen(frame, run="pooled")
    ticks = [num for num in lengths_in(pooled) if num % 400 == 0 or num == 100]
    panels = [
        Panel(name, [by_length(_of(pooled, name, who), who, "precision", ticks) for who in DRAWN])
        for name in sets_in(pooled)
    ]
    return {"precision": Picture("True positives among the first rows", "length", "precision", ticks, panels)}


def _networks(frame: pl.DataFrame) -> str:
    draws = frame.filter(pl.col("search").str.starts_with(PREFIX))["seed"].n_unique()
    if not draws:
        return "Networks (MixMatch and its kin) are not measured yet."
    return (
        "Networks (MixMatch and its kin) have dense layers, and learn from unlabelled rows by a class prior; "
        f"{many(draws, 'draw')} of each."
    )


def _of(frame: pl.DataFrame, name: str, who: str) -> pl.DataFrame:
    return chosen(frame, method="pooled", **_alike(name, (METHODS | NETWORKS)[who]))


def _alike(name: str, changes: Mapping[str, Value]) -> dict[str, object]:
    """What searches have in common that change the same things on a set, whatever their draws, size and settings."""
    cell = search_cell(name, 0, 0.0, **changes)
    return {key: cell[key] for key in ("set", "search", "learner", "hide_bags", "hide_nodes", "calibrated")}


def _lengths(frame: pl.DataFrame, name: str) -> str:
    columns = {f"{num:,}": {"num": num} for num in IN_TABLE if num in lengths_in(chosen(frame, set=name))}
    rows = {who: {"who": who} for who in METHODS | NETWORKS}

    def cell(who: str, num: int) -> str:
        return text(at_length(_of(frame, name, who), num, "precision"))

    return table("precision of the first", rows, columns, cell)


def _gains(frame: pl.DataFrame) -> str:
    """By how much VFPU is ahead of other methods with the same base, and in how many draws."""

    def cell(who: str, name: str) -> str:
        gains = _gains_over(frame, who, name)
        found = summary_of(gains)
        return f"{found.text()}, ahead in {sum(gain > 0 for gain in gains)} of {len(gains)}" if found else ""

    others = [who for who in METHODS | NETWORKS if who != "VFPU_GBDT"]
    return table("over", {who: {"who": who} for who in others}, {name: {"name": name} for name in sets_in(frame)}, cell)


def _gains_over(frame: pl.DataFrame, who: str, name: str) -> list[float]:
    """By how much VFPU's precision is above that of another method on each draw of a set."""
    ours, other = (_of(frame, name, each).select("seed", f"hits_{JUDGED_AT}") for each in ("VFPU_GBDT", who))
    both = ours.join(other, on="seed", suffix="_other").drop_nulls()
    gains: list[float] = ((both[f"hits_{JUDGED_AT}"] - both[f"hits_{JUDGED_AT}_other"]) / JUDGED_AT).to_list()
    return gains


def _in_words(frame: pl.DataFrame) -> str:
    """Which methods VFPU finds more than, and which less; nothing where there is one draw only."""
    told = []
    for who in RIVALS:
        by_verdict: dict[str, list[str]] = {"ahead of": [], "behind": [], "as good as": []}
        for name in sets_in(frame):
            found = summary_of(_gains_over(frame, who, name))
            if found and found.spread is not None:
                clear = abs(found.mean) > 2 * found.spread / sqrt(found.count)
                verdict = ("ahead of" if found.mean > 0 else "behind") if clear else "as good as"
                by_verdict[verdict].append(f"{name} ({found.mean:+.3f})")
        parts = [f"{verdict} {who} on {listed(names)}" for verdict, names in by_verdict.items() if names]
        told += [", ".join(parts)] if parts else []
    if not told:
        return ""
    sentences = "; ".join(told)
    return f"VFPU_GBDT is {sentences}. A mean within two standard errors of zero counts as equally good."


def _times(frame: pl.DataFrame) -> str:
    columns = {
        f"{name}: {shown}": {"name": name, "figure": figure}
        for name in sets_in(frame)
        for figure, shown in (("cpu_seconds", "CPU"), ("wall_seconds", "wall"))
    }
    rows = {who: {"who": who} for who in METHODS | NETWORKS}
    return table("seconds", rows, columns, lambda who, name, figure: text(summarised(_of(frame, name, who), figure), 1))


def _federated(frame: pl.DataFrame) -> str:
    rows = {
        f"{who}{told_of}": _alike(LARGEST, {"search": search, **hiding})
        for told_of, hiding in {"": {}, ", bags and nodes shown": _CHEAPER}.items()
        for who, search in _FEDERATED.items()
    }
    columns: dict[str, dict[str, object]] = {
        f"precision of the first {num:,}": {"num": num} for num in IN_TABLE if num in lengths_in(frame)
    }
    columns |= {
        "CPU s": {"figure": "cpu_seconds"},
        "wall s": {"figure": "wall_seconds"},
        "megabytes sent": {"figure": "megabytes"},
    }

    def cell(num: int = 0, figure: str = "", **where: object) -> str:
        lines = chosen(frame, method="federated", **where)
        return text(at_length(lines, num, "precision")) if num else text(summarised(lines, figure), 1)

    return table(f"{LARGEST}, federated", rows, columns, cell)


def _ours(pooled: pl.DataFrame, together: pl.DataFrame, one: Told) -> Summary | None:
    """Our figure for one of the paper's; federated precision is that of the pooled searches, which is the same."""
    if one.method not in _PAPER:
        return None
    where = _alike(one.set, _PAPER[one.method])
    if one.metric == "runtime_s":
        return summarised(chosen(of_paper_size(together), method="federated"), "wall_seconds", **where)
    return at_length(chosen(of_paper_size(pooled), method="pooled", **where), one.num, "precision")


BASELINES = experiment_on_searches(
    name="baselines",
    about="true positives among the first look-alikes: VFPU, bagging, two-step, naive, Elkan-Noto, networks, ceiling",
    cells=cells,
    section=section,
    pictures=pictures,
)
