"""The experiment `growth`, the VFPU paper's second: precision, recall and F as the list grows, and the whole curve."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from unpooled.experiments.experiment import Cell, Tier
from unpooled.experiments.figures import Line, Panel, Picture
from unpooled.experiments.lookalike.dealing import SETS
from unpooled.experiments.lookalike.judging import RECALLS
from unpooled.experiments.lookalike.paper import Told, told
from unpooled.experiments.lookalike.presets import LEARNERS
from unpooled.experiments.lookalike.searches import BY_PROMOTION, search_cell
from unpooled.experiments.lookalike.sharing import experiment_on_searches
from unpooled.experiments.lookalike.showing import (
    CLOSENESS,
    at_length,
    by_length,
    called,
    lengths_in,
    line,
    of_paper_size,
    paper_table,
    sets_in,
    settings_told,
    sizes,
    text,
)
from unpooled.experiments.lookalike.tiers import DRAWS, TRAIN, variants
from unpooled.experiments.tables import Summary, chosen, summarised, table

SHOWN = {"precision": "Precision", "recall": "Recall", "f1": "F"}
IN_TABLE = (100, 500, 1_000, 1_500, 2_000, 2_300)


def cells(tier: Tier, seed: int) -> list[Cell]:
    """VFPU with every learner, and random choice; pooled, which is what a federated search gives."""
    return [
        cell
        for one in range(seed, seed + DRAWS[tier])
        for name in SETS
        for cell in (
            *(
                search_cell(name, one, TRAIN[tier], learner=learner, settings=settings)
                for learner, settings in variants(tier)
            ),
            search_cell(name, one, TRAIN[tier], search="random"),
        )
    ]


def section(frame: pl.DataFrame) -> str:
    """The section, from all cells."""
    parts = [
        f"The first rows of VFPU's list (M = 5, T = 10, θ = 0.02) by its length: {sizes(frame)}. "
        f"{settings_told(frame)} *Precision* is the fraction of the first rows that are positive, *recall* the "
        "fraction of all unlabelled positives that are among them, *F* the harmonic mean of the two.",
        *(f"![{shown} by length]({metric}.svg)" for metric, shown in SHOWN.items()),
        "![Precision by recall](precision-recall.svg)",
        *(f"### {name}\n\n{_lengths(frame, name)}" for name in sets_in(frame)),
        "### The VFPU paper's figures",
        f"{CLOSENESS} Ours are in the order of promotion, as in the paper.",
        paper_table(told("growth"), lambda one: _ours(frame, one)),
    ]
    return "\n\n".join(parts)


def pictures(frame: pl.DataFrame) -> Mapping[str, Picture]:
    """Precision, recall and F by length, and precision by recall, a panel for each set."""
    nums = [num for num in lengths_in(frame) if num <= IN_TABLE[-1]]
    ticks = [num for num in nums if num % 500 == 0 or num == nums[0]]
    found = {}
    for metric, shown in SHOWN.items():
        panels = [
            Panel(name, [by_length(_of(frame, name, who), who, metric, ticks) for who in _methods(frame)])
            for name in sets_in(frame)
        ]
        found[metric] = Picture(f"{shown} of the first rows", "length of the list", shown, ticks, panels)
    recalls = [recall for recall in RECALLS if round(100 * recall) % 10 == 0]
    panels = [
        Panel(name, [_curve(_of(frame, name, who), who, recalls) for who in _methods(frame)]) for name in sets_in(frame)
    ]
    found["precision-recall"] = Picture("Precision by recall", "recall", "precision", recalls, panels, percent=True)
    return found


def _methods(frame: pl.DataFrame) -> dict[str, dict[str, object]]:
    """What is compared, by name: learners with their settings, and random choice."""
    there = frame.select("learner", "settings").unique(maintain_order=True).rows()
    found: dict[str, dict[str, object]] = {
        called(learner, settings): {"learner": learner, "settings": settings}
        for learner in LEARNERS
        for settings in ("paper", "paper 3", "default")
        if (learner, settings) in there
    }
    return found | {"random": {"search": "random"}}


def _of(frame: pl.DataFrame, name: str, who: str) -> pl.DataFrame:
    return chosen(frame, set=name, method="pooled", **_methods(frame)[who])


def _curve(frame: pl.DataFrame, name: str, recalls: list[float]) -> Line:
    found = [(recall, summarised(frame, f"precision_at_recall_{round(100 * recall)}")) for recall in recalls]
    return line(name, [(recall, one) for recall, one in found if one])


def _lengths(frame: pl.DataFrame, name: str) -> str:
    rows = {
        f"{shown}, {who}": {"metric": metric, "who": who} for metric, shown in SHOWN.items() for who in _methods(frame)
    }
    columns = {f"{num:,}": {"num": num} for num in IN_TABLE if num in lengths_in(chosen(frame, set=name))}
    return table("length", rows, columns, lambda metric, who, num: text(at_length(_of(frame, name, who), num, metric)))


def _ours(frame: pl.DataFrame, one: Told) -> Summary | None:
    """Our figure for one of the paper's: its learner with its settings, of the same length."""
    learner = {f"VFPU_{shown}": learner for learner, shown in LEARNERS.items()}.get(one.method)
    metric = {"precision": "precision", "recall": "recall", "F": "f1"}[one.metric]
    lines = of_paper_size(chosen(frame, set=one.set)).filter(pl.col("settings") != "default")
    by_paper = {"learner": learner, "method": f"pooled, {BY_PROMOTION}"}
    lines = chosen(lines, search="random") if learner is None else chosen(lines, **by_paper)
    return at_length(lines, one.num, metric)


GROWTH = experiment_on_searches(
    name="growth",
    about="precision, recall and F of look-alike lists by their length, for every learner; precision-recall curves",
    cells=cells,
    section=section,
    pictures=pictures,
)
