"""The FedPSG-PUM paper's five claims, answered from the cells of the experiment `completion`.

Each comparison is of pairs: the same data set and random seed with and without something. A difference counts if a
paired t-test at 5 % finds it; otherwise it is not shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import polars as pl

from unpooled.experiments.tables import chosen

USUAL = 0.1
_NAMES = {
    "rmse": "RMSE",
    "accuracy": "accuracy",
    "auc": "AUC",
    "filled": "cells that become values",
    "coverage": "coverage",
}
_LESS_IS_BETTER = ("rmse",)
_NEUTRAL = ("filled", "coverage")
_PAIRED = ("set", "seed")
_STUDENT = (12.71, 4.31, 3.19, 2.78, 2.58, 2.45, 2.37, 2.31, 2.27, 2.23, 2.21, 2.18, 2.17, 2.15)
"""How many standard errors are too many for chance, by the number of pairs from 2 on; the last one serves for more."""


@dataclass(frozen=True)
class Comparison:
    """One figure: the difference that something makes in each pair."""

    figure: str
    differences: Sequence[float]

    @property
    def mean(self) -> float:
        """The mean difference."""
        return statistics.mean(self.differences)

    @property
    def error(self) -> float | None:
        """Its standard error; None for a single pair."""
        count = len(self.differences)
        return statistics.stdev(self.differences) / sqrt(count) if count > 1 else None

    @property
    def sign(self) -> int:
        """1 or -1 if the figure is shown to be higher or lower, else 0."""
        if (
            self.error is None
            or abs(self.mean) <= _STUDENT[min(len(self.differences) - 1, len(_STUDENT)) - 1] * self.error
        ):
            return 0
        return 1 if self.mean > 0 else -1

    @property
    def better(self) -> int:
        """1 for better, -1 for worse, 0 for not shown."""
        return -self.sign if self.figure in _LESS_IS_BETTER else self.sign

    @property
    def word(self) -> str:
        """What is found."""
        words = {1: "higher", -1: "lower"} if self.figure in _NEUTRAL else {1: "better", -1: "worse"}
        return words.get(self.sign if self.figure in _NEUTRAL else self.better, "not shown to differ")

    def __str__(self) -> str:
        """In a few words.

        >>> print(Comparison("rmse", [0.1, 0.12, 0.11]))
        RMSE worse (+0.110 ± 0.006; above 0 in 3 of 3)
        >>> print(Comparison("filled", [0.1, -0.1]))
        cells that become values not shown to differ (+0.000 ± 0.100; above 0 in 1 of 2)
        >>> print(Comparison("auc", [0.1]))
        AUC +0.100 in one pair
        """
        name = _NAMES[self.figure]
        if self.error is None:
            return f"{name} {self.mean:+.3f} in one pair"
        above = sum(difference > 0 for difference in self.differences)
        told = f"{round(self.mean, 3) + 0.0:+.3f} ± {self.error:.3f}"
        return f"{name} {self.word} ({told}; above 0 in {above} of {len(self.differences)})"


def claims(frame: pl.DataFrame) -> str:
    """The answers."""
    head = (
        "### The FedPSG-PUM paper's five claims\n\nDifferences are between pairs with the same set and random seed, "
        "over all sets: mean ± standard error, and in how many pairs it is above 0. Whether there is a difference is "
        f"decided by a paired t-test at 5 %, each figure for itself: of twenty that do not differ, one is found to. "
        f"All at {USUAL * 100:g} % aligned, with the data and settings above."
    )
    third = (
        "3. **Nothing leaks beyond what is declared.** Not measured by this experiment. That parties send what is "
        "declared is tested (`tests/complete/test_outline.py` compares ledgers with the list). But what is declared is "
        "much: with trees, the active party learns on which side of the passive party's splits every row falls. "
        "`docs/privacy.md` has every message, and attacks measured by `make bench-attack`."
    )
    return "\n\n".join([head, _first(frame), _second(frame), third, _fourth(frame), _fifth(frame)])


def compare(
    one: pl.DataFrame, other: pl.DataFrame, figures: Sequence[str], pairs: Sequence[str] = _PAIRED
) -> list[Comparison]:
    """By figure how much `one` differs from `other`, in pairs that have the same values; without pairs nothing."""
    found = []
    for figure in figures:
        both = (
            one.select(*pairs, figure)
            .join(other.select(*pairs, before=figure), on=list(pairs))
            .drop_nulls()
            .sort(pairs)
        )
        if both.height:
            found.append(Comparison(figure, (both[figure] - both["before"]).to_list()))
    return found


def _answer(number: int, claim: str, answer: str, parts: Mapping[str, Sequence[object]]) -> str:
    lines = [f"   - {what}: {'; '.join(map(str, each))}" for what, each in parts.items() if each]
    told = answer if lines else "Not measured yet."
    return "\n".join([f"{number}. **{claim}** {told}", *lines])


def verdict(comparisons: Sequence[Comparison]) -> str:
    """What is found about each figure, without a word for all of them: one that differs says nothing of the others.

    >>> verdict([Comparison("rmse", [0.1, 0.12, 0.11]), Comparison("auc", [0.1, -0.1]), Comparison("filled", [1, 0])])
    'RMSE worse; AUC, cells that become values not shown to differ'
    """
    by_word: dict[str, list[str]] = {}
    for one in sorted(comparisons, key=lambda one: not one.sign):
        by_word.setdefault(one.word, []).append(_NAMES[one.figure])
    return "; ".join(f"{', '.join(names)} {word}" for word, names in by_word.items())


def _first(frame: pl.DataFrame) -> str:
    parts = {}
    for confidence in ("paper", "calibrated"):
        part = chosen(frame, part="self-training", sample="random", confidence=confidence, method="all cells")
        on, off = chosen(part, rounds=10, alpha=0.8, k=0.1), chosen(part, rounds=1)
        parts[confidence] = compare(on, off, ("accuracy", "rmse", "auc"))
    told = {
        "the paper's algorithm, ten rounds against one": parts["paper"],
        "calibrated confidence, ten rounds against one": parts["calibrated"],
    }
    answer = f"Ten rounds of the paper's algorithm against one: {verdict(parts['paper'])}."
    return _answer(1, "Self-training helps.", answer, told)


def _second(frame: pl.DataFrame) -> str:
    part = chosen(frame, sample="random", aligned=USUAL)
    likely, usual = chosen(part, part="prediction", method="most likely value"), chosen(part, method="median or mode")
    found = compare(likely, usual, ("accuracy", "rmse"))
    answer = f"Columns predicted once, against the median or mode: {verdict(found)}."
    told: dict[str, Sequence[object]] = {"predicted once, against the median or mode": found}
    trained = chosen(frame, part="self-training", sample="random", rounds=10, alpha=0.8, k=0.1, method="promoted cells")
    for confidence in ("paper", "calibrated"):
        cells = chosen(trained, confidence=confidence)
        counts = [cells[figure].drop_nulls().len() for figure in ("rmse", "accuracy")]
        words = f"numbers became values in {counts[0]} of {cells.height} runs, classes in {counts[1]}"
        told[f"{confidence} confidence, α = 0.8"] = [words] if cells.height else []
    return _answer(2, "It serves classes and numbers.", answer, told)


def _fourth(frame: pl.DataFrame) -> str:
    part = chosen(frame, aligned=USUAL).filter(pl.col("part") != "self-training")

    def shifted(method: str, *figures: str) -> list[Comparison]:
        return compare(
            chosen(part, sample="selected", method=method), chosen(part, sample="random", method=method), figures
        )

    def helps(sample: str) -> list[Comparison]:
        done, left = (chosen(part, sample=sample, method=method) for method in ("completed", "left missing"))
        return compare(done, left, ("auc",))

    cells = shifted("most likely value", "accuracy", "rmse")
    answer = (
        f"Cells predicted from selected rows, against random ones: {verdict(cells)}. A completed table against one "
        f"left missing, on selected rows: {verdict(helps('selected'))}."
    )
    told = {
        "predicted cells, selected rows against random ones": cells,
        "their intervals of 90 %": shifted("confidence, calibrated", "coverage"),
        "the completed table": shifted("completed", "auc"),
        "on selected rows, completed against left missing": helps("selected"),
        "on random rows, completed against left missing": helps("random"),
    }
    return _answer(4, "It copes with heterogeneity (aligned rows that are no random sample).", answer, told)


def _fifth(frame: pl.DataFrame) -> str:
    part = chosen(frame, part="self-training", sample="random", rounds=10, method="promoted cells", confidence="paper")
    figures = ("filled", "accuracy", "rmse", "auc")
    alpha = compare(chosen(part, alpha=0.9), chosen(part, alpha=0.7), figures, (*_PAIRED, "k"))
    k = compare(chosen(part, k=0.2), chosen(part, k=0.05), figures, (*_PAIRED, "alpha"))
    answer = f"With α = 0.9 against 0.7: {verdict(alpha)}. With k = 0.2 against 0.05: {verdict(k)}."
    told = {"α = 0.9 against 0.7": alpha, "k = 0.2 against 0.05": k}
    return _answer(5, "α and k steer quality against quantity.", answer, told)
