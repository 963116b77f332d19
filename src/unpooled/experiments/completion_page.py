"""Tables, figures and answers of the experiment `completion`, from its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp

import polars as pl

from unpooled.experiments.completion_claims import USUAL, claims
from unpooled.experiments.dealing import SELECTION
from unpooled.experiments.figures import Line, Panel, Picture
from unpooled.experiments.tables import Summary, chosen, summarised, summary_of, table

METHODS = {
    "aligned only": "aligned rows only",
    "A only": "A's columns only",
    "left missing": "B's cells left missing",
    "median or mode": "median or mode",
    "hot deck at B alone": "hot deck at B alone",
    "hot deck, A's columns shown": "hot deck, A's columns shown",
    "copula, A's columns shown": "copula, A's columns shown",
    "iterative, A's columns shown": "iterative, A's columns shown",
    "knn, A's columns shown": "knn, A's columns shown",
    "most likely value": "predicted, most likely value",
    "one draw": "predicted, one draw",
    "draws": "predicted, three draws",
    "completed": "**predicted: three draws and left missing**",
    "truth": "truth (the ceiling)",
}
DRAWN = (
    "aligned only",
    "A only",
    "left missing",
    "hot deck, A's columns shown",
    "most likely value",
    "completed",
    "truth",
)
QUALITY = {"rmse": "RMSE", "mae": "MAE", "r2": "R²", "accuracy": "accuracy", "f1": "macro F1"}


def section(frame: pl.DataFrame) -> str:
    """The section, from all cells."""
    main = chosen(frame, sample="random").filter(pl.col("part") != "self-training")
    trained = chosen(frame, part="self-training")
    at_one = f"at {USUAL * 100:g} % aligned"
    parts = [
        f"{', '.join(_sets(frame))}; {_size(main)}; a quarter of them for testing. Columns are dealt to A and B at "
        "random in halves; A has the label. B's cells are known for the aligned fraction of the training rows, the "
        "others are hidden. Columns are pooled, which gives the same cells to the bit as parties that keep them apart. "
        "Columns are predicted by 30 trees of depth 3; the downstream model is LightGBM (150 trees). Completers with "
        "*A's columns shown* are for comparison: they protect nothing. Types are inferred, so credit's coded "
        "categories count as numbers. Seeds 1 to 5 chose the library's defaults and are not used here.",
        "### What a completed table is worth",
        "AUC of the downstream model on test rows, by the fraction of rows that are aligned.",
        "![AUC by aligned fraction](auc.svg)",
        _against_baselines(main),
        *(_aucs(_even(main), name) for name in _sets(frame)),
        "### How good filled cells are",
        f"Hidden cells {at_one}, means over B's columns; RMSE and MAE in standard deviations of the column. Most "
        "likely values have the smaller error, draws the right distribution.",
        *(_qualities(main, name) for name in _sets(frame)),
        "![Quality of predicted cells by aligned fraction](quality.svg)",
        "### Confidence",
        "Spearman's correlation of 1 - confidence with the error of hidden cells (1 would be perfect, 0 is useless), "
        f"and the fraction of hidden numbers within their interval of 90 %, {at_one}.",
        _confidence(main),
        "### Screening",
        f"Columns that pass are predicted (most likely value), the others left missing, {at_one}: the fraction of "
        "columns that pass, and how much AUC that gains over leaving all missing. *rank* is Spearman's correlation of "
        "a measure with how well hidden cells are in fact predicted.",
        _screening(frame),
        "### Self-training on and off",
        f"{_size(trained)}, {at_one}, all hidden cells: predicted once, and after ten rounds with α = 0.8 and k = 0.1. "
        "*paper*: the paper's algorithm and confidence; *calibrated*: ours, with three folds.",
        _training(frame),
        "### α and k",
        "Ten rounds with other settings, on the same rows: how many hidden cells became values, how good these are, "
        "and the AUC with only these filled. Means over the sets.",
        _grid(frame),
        "### Aligned rows that are no random sample",
        f"{at_one[0].upper()}{at_one[1:]}. *selected*: a row is aligned with a chance that grows with a score from A's "
        f"columns, {exp(SELECTION):.1f}-fold per standard deviation of it.",
        _selected(frame),
        claims(frame),
    ]
    return "\n\n".join(part for part in parts if part)


def pictures(frame: pl.DataFrame) -> Mapping[str, Picture]:
    """AUC, and the quality of cells, by aligned fraction."""
    main = _even(chosen(frame, sample="random").filter(pl.col("part") != "self-training"))
    ticks = _fractions(main)
    by_set = [
        Panel(name, [_line(main, METHODS[m].strip("*"), ticks, "auc", set=name, method=m) for m in DRAWN])
        for name in _sets(main)
    ]
    likely = {"part": "prediction", "method": "most likely value"}
    marginal = {"part": "completers", "method": "median or mode"}
    panels = []
    for figure, title in (("rmse", "numbers: RMSE / standard deviation"), ("accuracy", "classes: accuracy")):
        lines = [
            _line(main, f"{name}, {what}", ticks, figure, set=name, **where)
            for name in _sets(main)
            for what, where in (("predicted", likely), ("median or mode", marginal))
        ]
        panels.append(Panel(title, lines))
    return {
        "auc": Picture("Downstream AUC", "aligned rows", "AUC", ticks, by_set, percent=True),
        "quality": Picture("Quality of hidden cells", "aligned rows", "", ticks, panels, percent=True),
    }


def _line(frame: pl.DataFrame, name: str, ticks: Sequence[float], figure: str, **where: object) -> Line:
    found = [(x, summarised(frame, figure, aligned=x, **where)) for x in ticks]
    there = [(x, one) for x, one in found if one]
    return Line(name, [x for x, _ in there], [one.mean for _, one in there], [one.spread or 0.0 for _, one in there])


def _sets(frame: pl.DataFrame) -> list[str]:
    return list(dict.fromkeys(frame["set"].to_list()))


def _fractions(frame: pl.DataFrame) -> list[float]:
    return sorted(frame["aligned"].unique().to_list())


def _even(frame: pl.DataFrame) -> pl.DataFrame:
    """Of each set only the seeds with the most aligned fractions, so that a curve is of the same draws throughout."""
    found = chosen(frame, part="prediction").group_by("set", "seed").agg(count=pl.col("aligned").n_unique())
    most = found.filter(pl.col("count") == pl.col("count").max().over("set"))
    return frame.join(most.select("set", "seed"), on=["set", "seed"], how="semi")


def _text(found: Summary | None, digits: int = 3) -> str:
    return found.text(digits) if found else ""


def _methods() -> dict[str, dict[str, object]]:
    return {shown: {"method": method} for method, shown in METHODS.items()}


def _aucs(frame: pl.DataFrame, name: str) -> str:
    columns = {f"{fraction * 100:g} %": {"aligned": fraction} for fraction in _fractions(frame)}
    return table(name, _methods(), columns, lambda **where: _text(summarised(frame, "auc", set=name, **where)))


def _against_baselines(frame: pl.DataFrame) -> str:
    """In how many draws the advised way is better than each simple one, and where it is worse on average."""
    keys = ["set", "aligned", "seed"]
    done = chosen(frame, method="completed").select(*keys, "auc")
    told = []
    for method in ("left missing", "A only", "aligned only"):
        both = done.join(chosen(frame, method=method).select(*keys, other="auc"), on=keys)
        both = both.with_columns(gained=pl.col("auc") - pl.col("other"))
        means = both.group_by("set", "aligned").agg(pl.col("gained").mean()).sort("set", "aligned")
        worse = [f"{name} {x * 100:g} % ({by:+.3f})" for name, x, by in means.rows() if round(by, 3) < 0]
        where = f"worse on average at {', '.join(worse)}" if worse else "nowhere worse on average"
        told.append(f"than {METHODS[method]} in {(both['gained'] > 0).sum()} of {both.height} draws, {where}")
    return f"Three draws and left missing, which the library advises, is better {'; '.join(told)}."


def _qualities(frame: pl.DataFrame, name: str) -> str:
    def cell(figure: str, **where: object) -> str:
        return _text(summarised(frame, figure, set=name, aligned=USUAL, **where), 2)

    return table(name, _methods(), {shown: {"figure": figure} for figure, shown in QUALITY.items()}, cell)


def _confidence(frame: pl.DataFrame) -> str:
    rows = {
        "calibrated": {"method": "confidence, calibrated", "figure": "rank"},
        "the paper's formulas": {"method": "confidence, paper", "figure": "rank"},
        "within the interval of 90 %": {"method": "confidence, calibrated", "figure": "coverage"},
    }
    columns = {name: {"set": name} for name in _sets(frame)}

    def cell(figure: str, **where: object) -> str:
        return _text(summarised(frame, figure, aligned=USUAL, **where), 2)

    return table("", rows, columns, cell)


def _screening(frame: pl.DataFrame) -> str:
    part = chosen(frame, part="measures")
    missing = chosen(frame, part="baselines", sample="random", method="left missing", aligned=USUAL)
    gained = part.join(missing.select("set", "seed", "rows", left="auc"), on=["set", "seed", "rows"]).with_columns(
        gained=pl.col("auc") - pl.col("left")
    )
    rows = {method: {"method": method} for method in dict.fromkeys(part["method"].to_list())}
    shown = {"chosen": "chosen", "gained": "AUC gained", "rank": "rank"}
    columns = {
        f"{name}: {what}": {"set": name, "figure": figure} for name in _sets(part) for figure, what in shown.items()
    }
    digits = {"chosen": 2, "gained": 3, "rank": 2}

    def cell(figure: str, **where: object) -> str:
        return _text(summarised(gained, figure, **where), digits[figure])

    return table("measure", rows, columns, cell)


def _size(frame: pl.DataFrame) -> str:
    rows = max(frame["rows"].to_list(), default=0)
    return f"{rows:,} rows drawn from each set" if rows else "all rows of each set"


def _training(frame: pl.DataFrame) -> str:
    part = chosen(frame, part="self-training", sample="random", method="all cells")
    rows = {
        f"{name}, {confidence}": {"set": name, "confidence": confidence}
        for name in _sets(part)
        for confidence in ("paper", "calibrated")
    }
    columns = {
        f"{shown}, {when}": {"figure": figure} | settings
        for figure, shown in (("rmse", "RMSE"), ("accuracy", "accuracy"), ("auc", "AUC"))
        for when, settings in (("once", {"rounds": 1}), ("ten rounds", {"rounds": 10, "alpha": 0.8, "k": 0.1}))
    }

    def cell(figure: str, **where: object) -> str:
        return _text(summarised(part, figure, **where))

    return table("", rows, columns, cell)


def _grid(frame: pl.DataFrame) -> str:
    part = chosen(frame, part="self-training", sample="random", rounds=10, method="promoted cells")
    settings = (
        part.select("confidence", "alpha", "k")
        .unique()
        .sort("confidence", "alpha", "k", descending=[True, False, False])
    )
    rows = {
        f"{confidence}, α = {alpha:g}, k = {k:g}": {"confidence": confidence, "alpha": alpha, "k": k}
        for confidence, alpha, k in settings.rows()
    }
    shown = {"filled": "became values", "rmse": "RMSE of these", "accuracy": "accuracy of these", "auc": "AUC"}

    def cell(figure: str, **where: object) -> str:
        by_seed = chosen(part, **where).drop_nulls(figure).group_by("seed").agg(pl.col(figure).mean())
        return _text(summary_of(by_seed.sort("seed")[figure].to_list()))

    return table("", rows, {what: {"figure": figure} for figure, what in shown.items()}, cell)


def _selected(frame: pl.DataFrame) -> str:
    part = frame.filter((pl.col("part") != "self-training") & (pl.col("aligned") == USUAL))
    shown = {
        "AUC, aligned rows only": ("aligned only", "auc"),
        "AUC, left missing": ("left missing", "auc"),
        "AUC, completed": ("completed", "auc"),
        "RMSE, most likely value": ("most likely value", "rmse"),
        "accuracy, most likely value": ("most likely value", "accuracy"),
        "confidence, calibrated": ("confidence, calibrated", "rank"),
        "within the interval of 90 %": ("confidence, calibrated", "coverage"),
    }
    rows = {what: {"method": method, "figure": figure} for what, (method, figure) in shown.items()}
    columns = {
        f"{name}, {sample}": {"set": name, "sample": sample}
        for name in _sets(part)
        for sample in ("random", "selected")
    }

    def cell(figure: str, **where: object) -> str:
        return _text(summarised(part, figure, **where))

    return table("", rows, columns, cell)
