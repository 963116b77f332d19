"""Tables and figures of the experiment `imputers`, from its cells; `imputers_claims` has the sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from unpooled.complete.completers.completers import settings_from
from unpooled.complete.ensembles.settings import members_of
from unpooled.drawing.words import listed
from unpooled.experiments.figures import Line, Panel, Picture
from unpooled.experiments.hidden_cells import AT_RANDOM, BLOCK, LACKING, RANDOM, ROWS, WAYS
from unpooled.experiments.imputers_claims import (
    DRAWS,
    GUESS,
    MEAN,
    MISSING,
    SAMPLED,
    TRUTH,
    advice,
    arranged,
    best_of_sets,
    drawn,
    sets_of,
    told_against,
)
from unpooled.experiments.tables import Summary, chosen, summarised, summary_of, table

PLAIN = (MISSING, "median", "marginal", "hot-deck", "smote", "knn", "iterative", SAMPLED, "copula")
ENSEMBLES = ("vote", "weighted", "stacking", "dynamic")
NETWORKS = ("gain", "vgain")
_ORDER = (TRUTH, MISSING, MEAN, *PLAIN[1:], *NETWORKS, *ENSEMBLES)

_TITLES = {
    RANDOM: f"{AT_RANDOM * 100:g} % of the cells hidden at random",
    BLOCK: f"half of the columns hidden in {LACKING * 100:g} % of the rows",
    ROWS: f"all columns hidden in {LACKING * 100:g} % of the rows",
}
_ERRORS = {"rmse_scaled": "RMSE, 0 to 1", "rmse": "RMSE", "accuracy": "accuracy"}
_DISTANCES = {"ks": "KS", "wasserstein": "Wasserstein", "tv": "total variation", "association": "association"}
_DIGITS = {"accuracy": 3, "rank": 2, "fit_cpu": 1, "fill_cpu": 1}


def section(frame: pl.DataFrame) -> str:
    """The section, from all cells."""
    frame = arranged(frame)
    parts = [
        f"{listed(sets_of(frame))}; {_size(frame)}. A quarter is for testing a downstream model; of the other rows "
        f"cells are hidden in one of three ways: *{RANDOM}*, {_TITLES[RANDOM]}; *{BLOCK}*, {_TITLES[BLOCK]}, as if "
        f"their party did not have these rows; *{ROWS}*, {_TITLES[ROWS]}, which is what a job `complete` asks of a "
        "completer. They see the other cells, neither the label nor the test rows. Education is ordered (bank, "
        "census), columns of two values are booleans, coded categories are categories. *best guess*: the median or the "
        f"most frequent value of five draws; *draw*: the first of them. `{SAMPLED}` is `iterative` with "
        f"`sample = true`. *{MEAN}* is the mean, or the most frequent value. Completers with one answer, and "
        "ensembles, which answer with the middle of their members' draws, have only a guess. All have their default "
        f"settings; members of {listed(ENSEMBLES)} are {listed(_members())}.",
        "### Errors of best guesses",
        "*RMSE, 0 to 1*: over all hidden numbers, each column scaled to lie between 0 and 1. *RMSE*: in standard "
        "deviations of the column, and *accuracy* of all other columns: means over columns.",
        *(_for_sets(chosen(frame, way=way, method=GUESS), _TITLES[way], _ERRORS) for way in (RANDOM, BLOCK)),
        "![RMSE of best guesses by completer](errors.svg)",
        *(best_of_sets(frame, way) for way in (RANDOM, BLOCK)),
        "### Distributions",
        "Distances of the hidden cells to the truth, means over columns and sets; less is better. *association* is the "
        "mean difference over pairs of columns of Spearman's correlation, Cramér's V or the correlation ratio.",
        *(_distances(frame, way) for way in WAYS),
        "![KS distance of a draw by completer](distances.svg)",
        "### What a completed table is worth",
        "AUC on test rows of LightGBM (150 trees) that was trained on the best guess, and of the mean of three that "
        f"were trained on a draw each. *{MISSING}*: cells left missing; *{TRUTH}*: nothing hidden.",
        *(_worth(frame, way) for way in WAYS),
        "### Trust and cost",
        "*rank*: Spearman's correlation of 1 - trust with the error of a cell, the mean over columns, for completers "
        "whose draws differ. CPU seconds of learning and of filling five times (imputers of scikit-learn learn while "
        "they fill; completers with one answer fill once). Means over sets.",
        _cost(frame),
        _diverged(frame),
        "### Who loses to whom",
        "By the mean over draws, however small the difference: RMSE and accuracy of best guesses, AUC of draws.",
        *(told_against(frame, way) for way in (RANDOM, BLOCK)),
        "### Which completer for which kind of column",
        advice(frame),
    ]
    return "\n\n".join(part for part in parts if part)


def pictures(frame: pl.DataFrame) -> Mapping[str, Picture]:
    """Errors of best guesses and distances of draws, by completer, a line for each set."""
    frame = arranged(frame)
    names = [name for name in _there(frame) if chosen(frame, completer=name)["rmse"].drop_nulls().len()]
    guesses, draws = chosen(frame, method=GUESS), drawn(frame)
    return {
        "errors": Picture(
            "RMSE of best guesses, in standard deviations",
            "",
            "",
            list(range(len(names))),
            [Panel(_TITLES[way], _lines(chosen(guesses, way=way), "rmse", names)) for way in (RANDOM, BLOCK)],
            x_names=names,
        ),
        "distances": Picture(
            "KS distance of a draw",
            "",
            "",
            list(range(len(names))),
            [Panel(_TITLES[way], _lines(chosen(draws, way=way), "ks", names)) for way in WAYS],
            x_names=names,
        ),
    }


def _lines(frame: pl.DataFrame, figure: str, names: Sequence[str]) -> list[Line]:
    lines = []
    for one in sets_of(frame):
        found = [summarised(frame, figure, set=one, completer=name) for name in names]
        there = [(place, each) for place, each in enumerate(found) if each]
        means, spreads = [each.mean for _, each in there], [each.spread or 0.0 for _, each in there]
        lines.append(Line(one, [place for place, _ in there], means, spreads))
    return lines


def _members() -> list[str]:
    return [f"`{member.completer}`" for member in members_of(settings_from({"completer": ENSEMBLES[0]}))]


def _there(frame: pl.DataFrame) -> list[str]:
    return [name for name in _ORDER if name in frame["completer"]]


def _rows(frame: pl.DataFrame) -> dict[str, dict[str, object]]:
    return {name: {"completer": name} for name in _there(frame)}


def _size(frame: pl.DataFrame) -> str:
    rows = max(frame["rows"].to_list(), default=0)
    return f"{rows:,} rows drawn from each set, or all that it has" if rows else "all rows of each set"


def _text(found: Summary | None, figure: str) -> str:
    return found.text(_DIGITS.get(figure, 3)) if found else ""


def _for_sets(frame: pl.DataFrame, head: str, shown: Mapping[str, str]) -> str:
    """A column for each set and figure, but for figures that a set does not have."""
    columns = {
        f"{name}: {what}": {"set": name, "figure": figure}
        for name in sets_of(frame)
        for figure, what in shown.items()
        if chosen(frame, set=name)[figure].drop_nulls().len()
    }

    def cell(figure: str, **where: object) -> str:
        return _text(summarised(frame, figure, **where), figure)

    return table(head, _rows(frame), columns, cell)


def over_sets(frame: pl.DataFrame, figure: str, **where: object) -> Summary | None:
    """The mean over sets that have this figure, and the spread of that over draws that all these sets have."""
    sets = frame.drop_nulls(figure)["set"].n_unique()
    found = chosen(frame, **where).drop_nulls(figure)
    found = found.group_by("seed").agg(pl.col(figure).mean(), count=pl.len()).filter(pl.col("count") == sets)
    return summary_of(found.sort("seed")[figure].to_list())


def _distances(frame: pl.DataFrame, way: str) -> str:
    frame = chosen(frame, way=way)
    columns = {
        f"{what}, {whose}": {"figure": figure, "method": method}
        for figure, what in _DISTANCES.items()
        for whose, method in (("guess", GUESS), ("draw", DRAWS))
    }

    def cell(figure: str, **where: object) -> str:
        return _text(over_sets(frame, figure, **where), figure)

    return table(_TITLES[way], _rows(frame), columns, cell)


def _worth(frame: pl.DataFrame, way: str) -> str:
    frame = chosen(frame, way=way)
    columns = {
        f"{name}, {whose}": {"set": name, "method": method}
        for name in sets_of(frame)
        for whose, method in (("guess", GUESS), ("draws", DRAWS))
    }
    return table(_TITLES[way], _rows(frame), columns, lambda **where: _text(summarised(frame, "auc", **where), "auc"))


def _cost(frame: pl.DataFrame) -> str:
    shown = {"rank": "rank", "fit_cpu": "learning", "fill_cpu": "filling"}
    columns = {f"{way}: {what}": {"way": way, "figure": figure} for way in WAYS for figure, what in shown.items()}
    guesses = chosen(frame, method=GUESS)

    def cell(figure: str, **where: object) -> str:
        return _text(over_sets(guesses, figure, **where), figure)

    return table("", _rows(frame), columns, cell)


def _diverged(frame: pl.DataFrame) -> str:
    lines = frame.filter(pl.col("diverged") > 0).select("completer", "set", "way", "seed").rows()
    told = [f"{completer} on {name}, {way} (random seed {seed})" for completer, name, way, seed in lines]
    return f"Training diverged, so that nothing was filled: {listed(told)}." if told else ""
