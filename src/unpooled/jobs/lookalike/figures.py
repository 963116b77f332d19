"""What the active party can say of a list of look-alikes: estimates, and where the truth is known how good it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.data.columns import as_text, fault
from unpooled.data.table import Table
from unpooled.evaluate.metrics import Undefined, precision_recall_curve
from unpooled.jobs.learning.scores import histogram_of
from unpooled.jobs.lookalike.advice import Advice, advice_of
from unpooled.jobs.private import Private
from unpooled.pu.bags import CLASSES
from unpooled.pu.estimates import scar
from unpooled.pu.estimates.elkan_noto import HeldOut
from unpooled.pu.estimates.expectation import expected_of
from unpooled.pu.estimates.spies import Spies
from unpooled.pu.ranking import Ranking, likeliest

_STEPS = 12


def estimates_of(
    held_out: HeldOut | None, ranking: Ranking, hidden: Spies | None
) -> tuple[dict[str, Any], Advice | None]:
    """Whether the known people look like any other positives, and what to expect of lists of several lengths."""
    said: dict[str, Any] = {}
    advice = None
    if held_out is not None:
        known, others = held_out.of_known, held_out.of_unlabelled
        promoted = len(ranking.promoted)
        expected = expected_of(known, others, [promoted] if promoted else [])
        unlike = scar.unlike_the_top(known, others, max(expected.suggested // 2, 1))
        warning = (unlike.warning if unlike else None) or ""
        advice = advice_of(expected, doubtful=bool(warning))
        said["warning"] = warning
    if hidden is not None:
        said |= {"spies": int(hidden.spies.sum()), "spies_promoted": hidden.recall(ranking.iterations > 0)}
    return said, advice


def promotions_of(ranking: Ranking) -> list[dict[str, Any]]:
    """For each iteration how many rows it promoted, and the lowest and highest score among them."""
    said = []
    for iteration in range(1, int(ranking.iterations.max(initial=0)) + 1):
        found = ranking.scores[(ranking.iterations == iteration) & ~ranking.known]
        scored = found[np.isfinite(found)]
        if scored.size:
            said.append({"rows": len(found), "lowest": float(scored.min()), "highest": float(scored.max())})
    return said


def histogram(found: Floats, *, whole: bool = True) -> dict[str, Any]:
    """How many rows have which score, between 0 and 1 as a whole or between the lowest and the highest."""
    return histogram_of(found[np.isfinite(found)][:, np.newaxis], CLASSES if whole else ())


def judged(table: Table, private: Private, ranking: Ranking, listed: Ints, first: Ranking | None) -> dict[str, Any]:
    """How good the list is, if a column of the active party's knows; `first` is the ranking by bagging alone."""
    if private.target is None:
        return {}
    positive, known = _truth(table, private.target, ranking.known)
    usable = ranking.order[known[ranking.order]]
    if not positive[usable].any():
        return {}
    said: dict[str, Any] = {
        "fraction": float(positive[usable].mean()),
        "listed": _figures(positive, usable, listed[known[listed]]),
        "at": [{"rows": count, **_figures(positive, usable, usable[:count])} for count in _counts(len(usable))],
        "curve": _curve(positive[usable]),
    }
    if first is not None:
        bagged = likeliest(first.scores, usable)
        said["bagging_curve"] = _curve(positive[bagged])
        for at in said["at"]:
            at["by_bagging"] = float(positive[bagged[: at["rows"]]].mean())
    return {"judged": said}


def check_truth(table: Table, name: str) -> None:
    """Refuse a truth that is not among a table's columns."""
    if name not in table.kinds:
        raise fault(table.party, table.origin, "target names it, but it is not among the columns that are read", name)


def _truth(table: Table, name: str, known: Bools) -> tuple[Bools, Bools]:
    """Who is positive, and of whom that is known; positive is what most of the seeker's people are."""
    check_truth(table, name)
    cells = as_text(table.column(name))
    labels = cells.filter(known).drop_nulls().value_counts(sort=True)
    if not labels.height:
        raise fault(table.party, table.origin, "no row of the seeker's has a value, so none counts as positive", name)
    positive = (cells == labels[name][0]).fill_null(value=False)
    return positive.to_numpy(), cells.is_not_null().to_numpy()


def _figures(positive: Bools, everybody: Ints, chosen: Ints) -> dict[str, float]:
    right, all_ = float(positive[chosen].sum()), float(positive[everybody].sum())
    return {
        "precision": right / max(len(chosen), 1),
        "recall": right / all_,
        "f": 2 * right / (len(chosen) + all_),
    }


def _counts(rows: int) -> list[int]:
    """Lengths of lists to judge: 100, 200, ... as far as there are rows, few where rows are few."""
    step = max(round(rows / 10 / _STEPS, -2 if rows > 12_000 else -1), 10)
    return [count for count in (int(step * place) for place in range(1, 2 * _STEPS + 1)) if count <= rows]


def _curve(positive: Bools) -> list[list[float]]:
    """Precision against recall down a ranking, as x and y."""
    try:
        curve = precision_recall_curve(positive.astype(float), -np.arange(len(positive), dtype=float))
    except Undefined:
        return []
    return [axis.tolist() for axis in curve]
