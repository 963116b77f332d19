"""What the cells of the experiment `imputers` say in sentences: who is best, who loses to whom, what to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from unpooled.complete.completers.completers import settings_from
from unpooled.drawing.words import listed
from unpooled.experiments.hidden_cells import KINDS, WAYS
from unpooled.experiments.tables import chosen, table

GUESS, DRAWS, MEAN, TRUTH = "best guess", "draw", "mean", "truth"
"""What a cell has figures of."""
MISSING, SAMPLED = "missing", "iterative-sampled"

DEFAULT = str(settings_from({}).completer)
"""What a job `complete` takes if it is told nothing."""

AGAINST = {
    "rmse": (MEAN, "hot-deck", "knn", "iterative"),
    "accuracy": (MEAN, "hot-deck", "knn", "iterative"),
    "auc": (MISSING, MEAN, "iterative"),
}
"""By figure the completers that others are held against."""
_NAMES = {"rmse": "RMSE", "accuracy": "accuracy", "auc": "AUC"}
_MORE_IS_BETTER = ("accuracy", "auc", *KINDS[1:])
_ERROR, _DISTANCE = (
    {"number": number, **{kind: f"{kind}{ending}" for kind in KINDS[1:]}}
    for number, ending in (("rmse", ""), ("ks", "_tv"))
)
"""By kind of column the figure for the error of a guess, and for the distance of a draw."""

Ranking = Sequence[tuple[str, float]]
"""Completers and their mean figure, the best first."""


def arranged(frame: pl.DataFrame) -> pl.DataFrame:
    """What completers are compared with, mean and truth, as completers with a best guess."""
    beside = pl.col("method").is_in([MEAN, TRUTH])
    return frame.with_columns(
        completer=pl.when(beside).then("method").otherwise("completer"),
        method=pl.when(beside).then(pl.lit(GUESS)).otherwise("method"),
    )


def drawn(frame: pl.DataFrame) -> pl.DataFrame:
    """The draws of completers that have some, the guesses of all others."""
    having = chosen(frame, method=DRAWS)["completer"].unique().to_list()
    return frame.filter((pl.col("method") == DRAWS) | ~pl.col("completer").is_in(having))


def sets_of(frame: pl.DataFrame) -> list[str]:
    """The sets, in the order in which they came."""
    return list(dict.fromkeys(frame["set"].to_list()))


def ranking(frame: pl.DataFrame, figure: str) -> Ranking:
    """Completers by a figure, the mean over sets and draws that all who have it share; the best first."""
    found = frame.filter(pl.col("completer") != TRUTH).drop_nulls(figure)
    names = found["completer"].n_unique()
    shared = found.with_columns(count=pl.col("completer").n_unique().over("set", "way", "seed"))
    means = (
        shared.filter(pl.col("count") == names).group_by("completer", maintain_order=True).agg(pl.col(figure).mean())
    )
    return means.sort(figure, descending=figure in _MORE_IS_BETTER, maintain_order=True).rows()


def first_of(found: Ranking, digits: int = 3) -> str:
    """Who is best, with the figure; several if they are the same as it is shown."""
    best = [f"`{name}`" for name, value in found if round(value, digits) == round(found[0][1], digits)]
    return f"{listed(best)} ({found[0][1]:.{digits}f})" if found else ""


def best_of_sets(frame: pl.DataFrame, way: str) -> str:
    """On which set who has the smallest error and the greatest accuracy."""
    frame = chosen(frame, way=way, method=GUESS)
    told = []
    for figure, what in (("rmse", "smallest RMSE"), ("accuracy", "greatest accuracy")):
        found = {name: first_of(ranking(chosen(frame, set=name), figure)) for name in sets_of(frame)}
        each = [f"{who} on {name}" for name, who in found.items() if who]
        told += [f"the {what} has {listed(each)}"] if each else []
    return f"Hidden by *{way}*, {'; '.join(told)}." if told else ""


def told_against(frame: pl.DataFrame, way: str) -> str:
    """For every completer that is not among those it is held against: on which sets it is better and worse."""
    frame = chosen(frame, way=way)
    lines = []
    others = [name for name in dict.fromkeys(frame["completer"]) if name not in (TRUTH, MISSING, *AGAINST["rmse"])]
    for completer in others:
        told = []
        for figure, rivals in AGAINST.items():
            answers: dict[str, list[str]] = {}
            part = drawn(frame) if figure == "auc" else chosen(frame, method=GUESS)
            for rival in rivals:
                if answer := _answer(part, figure, completer, rival):
                    answers.setdefault(answer, []).append(f"`{rival}`")
            each = [answer.format(listed(names)) for answer, names in answers.items()]
            told += [f"{_NAMES[figure]} {'; '.join(each)}"] if each else []
        lines += [f"- **{completer}**: {'. '.join(told)}."] if told else []
    return "\n".join([f"Hidden by *{way}*:", "", *lines]) if lines else ""


def _answer(frame: pl.DataFrame, figure: str, completer: str, rival: str) -> str:
    """On which sets a completer is better and worse than another, whose name is left open; nothing if none has both."""
    better: list[str] = []
    worse: list[str] = []
    compared = sets_of(frame.drop_nulls(figure))
    for name in compared:
        found = difference(chosen(frame, set=name), figure, completer, rival)
        if found:
            (better if (found > 0) == (figure in _MORE_IS_BETTER) else worse).append(name)
    if not better or not worse:
        return (
            f"{'better' if better else 'worse'} than {{}} on {_on(better or worse, frame)}" if better or worse else ""
        )
    return f"better than {{}} on {listed(better)}, worse on {listed(worse)}"


def _on(names: Sequence[str], frame: pl.DataFrame) -> str:
    return "every set" if list(names) == sets_of(frame) else listed(names)


def difference(frame: pl.DataFrame, figure: str, completer: str, rival: str) -> float | None:
    """By how much a figure of one completer is higher than another's, the mean over draws that both have."""
    keys = ["set", "way", "seed"]
    one, two = (chosen(frame, completer=name).select(*keys, figure).drop_nulls() for name in (completer, rival))
    both = one.join(two.rename({figure: "other"}), on=keys)
    return float((both[figure] - both["other"]).to_numpy().mean()) if both.height else None


def advice(frame: pl.DataFrame) -> str:
    """By kind of column and way of hiding who has the smallest error and the smallest distance, beside the default."""
    guesses, draws = chosen(frame, method=GUESS), drawn(frame)
    rows = {f"{kind}, {way}": {"kind": kind, "way": way} for kind in KINDS for way in WAYS}
    columns: dict[str, Mapping[str, object]] = {
        "smallest error of a guess": {"what": "error", "whose": None},
        f"`{DEFAULT}`'s": {"what": "error", "whose": DEFAULT},
        "smallest distance of a draw": {"what": "distance", "whose": None},
        f"`{DEFAULT}`'s ": {"what": "distance", "whose": DEFAULT},
    }

    def cell(kind: str, way: str, what: str, whose: str | None) -> str:
        part, figures = (guesses, _ERROR) if what == "error" else (draws, _DISTANCE)
        found = _as_errors(ranking(chosen(part, way=way), figures[kind]), figures[kind])
        return (
            first_of(found) if whose is None else next((f"{value:.3f}" for name, value in found if name == whose), "")
        )

    text = (
        "Means over sets and draws. The *error* of a best guess is RMSE in standard deviations for numbers, else the "
        "fraction of wrong cells; the *distance* of a draw is KS for numbers, else total variation. A date is a number "
        f"of days to every completer; no set has one. `{DEFAULT}` is what a job takes if it is told nothing. Values to "
        "read want the smallest error, a table to train on or to count in wants the smallest distance."
    )
    return "\n\n".join([text, table("", rows, columns, cell), *_default_told(frame)])


def _as_errors(found: Ranking, figure: str) -> Ranking:
    return [(name, 1.0 - value) for name, value in found] if figure in KINDS[1:] else found


def _default_told(frame: pl.DataFrame) -> list[str]:
    """For each way by how much the default's draws are behind the best, over all columns."""
    told = []
    for way in WAYS:
        each = []
        for figure, name in (("ks", "KS"), ("tv", "total variation"), ("association", "association")):
            found = ranking(chosen(drawn(frame), way=way), figure)
            own = next((value for one, value in found if one == DEFAULT), None)
            if own is not None:
                rest = "the least" if found[0][0] == DEFAULT else f"the least has {first_of(found)}"
                each.append(f"{name} {own:.3f}, {rest}")
        told += [f"- {way}: {'; '.join(each)}"] if each else []
    return [f"A draw of `{DEFAULT}`, over all columns:", "\n".join(told)] if told else []
