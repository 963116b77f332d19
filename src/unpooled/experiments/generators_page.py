"""Tables, figures and sentences of the experiment `generators`, from its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from unpooled.complete.generators import plain
from unpooled.complete.generators.generators import GENERATORS
from unpooled.drawing.words import listed
from unpooled.experiments.figures import Line, Panel, Picture
from unpooled.experiments.tables import Summary, chosen, summarised, summary_of, table

HELD_OUT, REAL = "hold-out", "real rows"
PLAIN, MODELS = (tuple(one.name for one in each) for each in (plain.PLAIN, GENERATORS))

NEAR = 0.55
"""With a greater fraction of rows nearer to a training row than to any held-out row, rows are taken for copied."""

JUDGED_BY = {
    "ks": "KS",
    "tv": "total variation",
    "association": "association",
    "auc": "AUC",
    "r2": "R² of filled numbers",
    "accuracy": "accuracy of filled classes",
}
"""What models and plain methods are compared by."""
_MORE_IS_BETTER = ("auc", "r2", "accuracy")

_DISTRIBUTION = {
    "ks": "KS",
    "ks_times": "KS / hold-out's",
    "tv": "total variation",
    "wasserstein": "Wasserstein",
    "association": "association",
    "association_times": "association / copula's",
    "missing": "missing",
}
_MOMENTS = {"mean": "mean", "variance": "variance", "skewness": "skewness", "kurtosis": "kurtosis"}
_COST = {
    "train_cpu": "training",
    "sample_cpu": "generating",
    "fill_cpu": "filling",
}
_DIGITS = {"ks_times": 1, "association_times": 2, "r2": 2, "accuracy": 2, "rank": 2, "closest": 2} | dict.fromkeys(
    _COST, 1
)


def section(frame: pl.DataFrame) -> str:
    """The section, from all cells."""
    frame = with_ratios(frame)
    parts = [
        f"{listed(_sets(frame))}; {_size(frame)}, with the label as one of the columns. A quarter is held out, models "
        "learn from the rest and generate as many rows as they learned from. *fast* and *paper* are the presets of the "
        f"models; without a word it is *fast*. Plain methods: {listed(PLAIN)}. *{HELD_OUT}*: the "
        "held-out rows instead of generated ones, so what rows of the same distribution come to. Coded categories are "
        "categories.",
        "### Whether rows are like real ones",
        "Distances to the training rows; less is better. *KS* and *Wasserstein* (in standard deviations) are means "
        "over numbers, *total variation* over categories. *association* is the mean difference over pairs of columns "
        "of Spearman's correlation, Cramér's V or the correlation ratio; *missing* the difference of the fractions of "
        "missing cells.",
        "![KS, and AUC lost, by model](quality.svg)",
        *(_by_set(frame, name) for name in _sets(frame)),
        "Differences of moments, means over numbers and sets; of mean and variance in standard deviations and "
        "variances of the training rows, of skewness and kurtosis relative to one plus the size of theirs.",
        _over_sets(frame, _MOMENTS),
        "### What rows are worth",
        f"AUC on held-out rows of LightGBM (150 trees) trained on generated rows, and how much less that is than when "
        f"trained on *{REAL}*.",
        _for_sets(frame, {"auc": "AUC", "lost": "lost"}),
        "### Whether rows are copies",
        "*nearer*: the fraction of generated rows nearer to a training row than to any held-out row, of equally many "
        "(0.5: nothing is memorised); *distance*: the median of Gower's distance to the nearest of these training "
        "rows; *copies*: rows equal to a training row in all columns.",
        _for_sets(frame, {"closest": "nearer", "distance": "distance", "copies": "copies"}),
        _copied(frame),
        "### Filling cells",
        "Half of the columns, the label never among them, are hidden in held-out rows and filled given the others: "
        "what five draws agree on. *R²* of numbers, *accuracy* of classes, means over columns; *rank* is Spearman's "
        "correlation of 1 - trust with the error of a cell.",
        _for_sets(frame, {"r2": "R²", "accuracy": "accuracy", "rank": "rank"}),
        "### What it costs",
        "CPU seconds, means over sets: training, with what is compiled for it; generating as many rows as were trained "
        "on; filling hidden cells five times.",
        _over_sets(frame, _COST),
        _diverged(frame),
        "### Models that lose to plain methods",
        "By the mean over draws, however small the difference. `hot-deck` draws rows of the table itself, `smote` rows "
        "between two of them: they show how good copies are.",
        losses(frame),
    ]
    return "\n\n".join(part for part in parts if part)


def pictures(frame: pl.DataFrame) -> Mapping[str, Picture]:
    """KS and the AUC that is lost, by model, a line for each set."""
    frame = with_ratios(frame)
    compared = {name: where for name, where in _methods(frame).items() if where["method"] != REAL}
    ticks = list(range(len(compared)))
    panels = []
    for figure, title in (("ks", "mean KS distance to training rows"), ("lost", "AUC lost to real rows")):
        lines = []
        for name in _sets(frame):
            found = [summarised(frame, figure, set=name, **where) for where in compared.values()]
            there = [(tick, one) for tick, one in zip(ticks, found, strict=True) if one]
            means, spreads = [one.mean for _, one in there], [one.spread or 0.0 for _, one in there]
            lines.append(Line(name, [tick for tick, _ in there], means, spreads))
        panels.append(Panel(title, lines))
    return {"quality": Picture("Generated rows", "", "", ticks, panels, x_names=list(compared))}


def with_ratios(frame: pl.DataFrame) -> pl.DataFrame:
    """What every cell was compared with only once, and each figure beside that of the same draw.

    `ks_times` is KS over the held-out rows', `association_times` association over the copula's, `lost` the AUC that is
    lost to real rows.
    """
    draw = ["set", "rows", "seed"]
    beside = pl.col("method").is_in([HELD_OUT, REAL])
    others = frame.filter(beside).unique([*draw, "method"], keep="first", maintain_order=True)
    others = others.with_columns(pl.col("method").alias("model"), preset=pl.lit(""))
    frame = pl.concat([others, frame.filter(~beside)])
    for method, figure, name in ((HELD_OUT, "ks", "_ks"), ("copula", "association", "_copula"), (REAL, "auc", "_auc")):
        one = chosen(frame, method=method).select(*draw, pl.col(figure).alias(name))
        frame = frame.join(one, on=draw, how="left", maintain_order="left")
    return frame.with_columns(
        ks_times=_divided("ks", "_ks"),
        association_times=_divided("association", "_copula"),
        lost=pl.col("_auc") - pl.col("auc"),
    ).drop("_ks", "_copula", "_auc")


def _divided(figure: str, by: str) -> pl.Expr:
    return pl.when(pl.col(by) > 0).then(pl.col(figure) / pl.col(by))


def losses(frame: pl.DataFrame) -> str:
    """For each figure and plain method the models that are worse, and on which sets."""
    lines = []
    for figure, name in JUDGED_BY.items():
        by_answer: dict[str, list[str]] = {}
        for plain_method in _there(frame, PLAIN):
            if answer := _worse(frame, figure, plain_method):
                by_answer.setdefault(answer, []).append(f"`{plain_method}`")
        told = [f"than {listed(methods)} {answer}" for answer, methods in by_answer.items()]
        lines += [f"- **{name}**: worse {'; '.join(told)}."] if told else []
    return "\n".join(lines)


def _worse(frame: pl.DataFrame, figure: str, plain_method: str) -> str:
    """Which models are worse than a plain method; nothing if they cannot be compared."""
    on: dict[str, list[str]] = {}
    compared = 0
    for model, where in _called(frame, MODELS).items():
        for name in _sets(frame):
            difference = _difference(chosen(frame, set=name), figure, where, {"method": plain_method})
            compared += difference is not None
            if difference is not None and (difference < 0 if figure in _MORE_IS_BETTER else difference > 0):
                on.setdefault(model, []).append(name)
    if not compared:
        return ""
    if sum(map(len, on.values())) in (0, compared):
        return "is every model on every set" if on else "is no model"
    told = [f"{model} on {'every set' if names == _sets(frame) else listed(names)}" for model, names in on.items()]
    return f"{'is' if len(told) == 1 else 'are'} {listed(told)}"


def _difference(
    frame: pl.DataFrame, figure: str, where: Mapping[str, object], other: Mapping[str, object]
) -> float | None:
    """By how much a figure of one method is higher than another's, the mean over draws that both have."""
    one, two = (chosen(frame, **each).select("seed", figure).drop_nulls() for each in (where, other))
    both = one.join(two.rename({figure: "other"}), on="seed")
    found = summary_of((both[figure] - both["other"]).to_list())
    return found.mean if found else None


def _copied(frame: pl.DataFrame) -> str:
    told = []
    for name, where in _methods(frame).items():
        found = {one: summarised(frame, "closest", set=one, **where) for one in _sets(frame)}
        near = [f"{one} ({each.mean:.2f})" for one, each in found.items() if each and each.mean > NEAR]
        if near and where["method"] != HELD_OUT:
            told.append(f"{name} on {listed(near)}")
    who = "; ".join(told) if told else "none"
    return f"More than {NEAR:g} of whose rows are nearer to a training row: {who}."


def _diverged(frame: pl.DataFrame) -> str:
    lines = frame.filter(pl.col("diverged") > 0).select("model", "preset", "set", "seed").rows()
    told = [f"{_name(model, preset)} on {name} (random seed {seed})" for model, preset, name, seed in lines]
    return f"Training diverged, so that there are no rows: {listed(told)}." if told else ""


def _sets(frame: pl.DataFrame) -> list[str]:
    return list(dict.fromkeys(frame["set"].to_list()))


def _there(frame: pl.DataFrame, methods: Sequence[str]) -> list[str]:
    return [method for method in methods if method in frame["method"]]


def _size(frame: pl.DataFrame) -> str:
    rows = max(frame["rows"].to_list(), default=0)
    return f"{rows:,} rows drawn from each set" if rows else "all rows of each set"


def _name(model: str, preset: str) -> str:
    return f"{model}, paper" if preset == "paper" else model


def _called(frame: pl.DataFrame, methods: Sequence[str]) -> dict[str, dict[str, object]]:
    """How methods are called, with their preset, and which lines they have."""
    there = frame.select("method", "preset").unique(maintain_order=True).rows()
    return {
        _name(method, preset): {"method": method, "preset": preset}
        for preset in ("", "fast", "paper")
        for method in methods
        if (method, preset) in there
    }


def _methods(frame: pl.DataFrame) -> dict[str, dict[str, object]]:
    return _called(frame, (REAL, HELD_OUT, *PLAIN, *MODELS))


def _text(found: Summary | None, figure: str) -> str:
    return found.text(_DIGITS.get(figure, 3)) if found else ""


def _by_set(frame: pl.DataFrame, name: str) -> str:
    def cell(figure: str, **where: object) -> str:
        return _text(summarised(frame, figure, set=name, **where), figure)

    return table(name, _methods(frame), {shown: {"figure": figure} for figure, shown in _DISTRIBUTION.items()}, cell)


def _for_sets(frame: pl.DataFrame, shown: Mapping[str, str]) -> str:
    columns = {
        f"{name}: {what}": {"set": name, "figure": figure} for name in _sets(frame) for figure, what in shown.items()
    }

    def cell(figure: str, **where: object) -> str:
        return _text(summarised(frame, figure, **where), figure)

    return table("", _methods(frame), columns, cell)


def _over_sets(frame: pl.DataFrame, shown: Mapping[str, str]) -> str:
    """The mean over sets, and the spread of that over draws; only draws that all sets have."""
    sets = len(_sets(frame))

    def cell(figure: str, **where: object) -> str:
        found = chosen(frame, **where).drop_nulls(figure)
        found = found.group_by("seed").agg(pl.col(figure).mean(), count=pl.len()).filter(pl.col("count") == sets)
        return _text(summary_of(found.sort("seed")[figure].to_list()), figure)

    return table("", _methods(frame), {what: {"figure": figure} for figure, what in shown.items()}, cell)
