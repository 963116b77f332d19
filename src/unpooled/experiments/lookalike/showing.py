"""What the pages of several experiments share: sentences, lines of figures, and the paper's figures beside ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import polars as pl

from unpooled.experiments.figures import Line
from unpooled.experiments.lookalike import paper
from unpooled.experiments.lookalike.judging import NUMS
from unpooled.experiments.lookalike.paper import Told
from unpooled.experiments.lookalike.presets import LEARNERS, LINEAR, TREES
from unpooled.experiments.tables import Summary, chosen, summarised, summary_of

METRICS = {"accuracy": "accuracy", "precision": "precision", "recall": "recall", "f1": "F", "auc": "AUC"}

DEFINITIONS = (
    "**Metrics.** On the unlabelled rows those on the list count as predicted positive; the list is as long as what "
    "VFPU promotes. *Accuracy* is the fraction of rows that are rightly on the list or off it, *precision* the "
    "fraction of listed rows that are positive, *recall* the fraction of positives that are listed, *F* the harmonic "
    "mean of the two, *AUC* the chance that a positive row stands before another one. On test rows, which took no "
    "part in the search, the models of the last iteration score together, and a score of 0.5 or more counts as "
    "predicted positive."
)
CLOSENESS = (
    f"*reproduced*: our mean is within {paper.REPRODUCED:g} of the paper's figure, or within twice our standard "
    "deviation if that is more; *better* and *worse*: it is not."
)


def sets_in(frame: pl.DataFrame) -> list[str]:
    """The data sets, in the order of the cells."""
    return list(dict.fromkeys(frame["set"].to_list()))


def learners_in(frame: pl.DataFrame) -> list[str]:
    """The learners, in the order of the paper."""
    there = set(frame["learner"].to_list())
    return [learner for learner in LEARNERS if learner in there]


def called(learner: str, settings: str) -> str:
    """A learner and its settings in a table."""
    return f"{LEARNERS[learner]}, the job's settings" if settings == "default" else LEARNERS[learner]


def settings_told(frame: pl.DataFrame) -> str:
    """Which settings of the paper a frame has, and how bags and nodes are hidden."""
    large = "paper 3" in frame["settings"].to_list()
    trees, linear = (TREES["paper 3" if large else "paper"], LINEAR["paper 3" if large else "paper"])
    return (
        f"LR has the paper's settings (L2 {linear['l2']:g}, learning rate {linear['learning_rate']:g}, batches of "
        f"{linear['batch_rows']} rows), trees too ({trees['trees']} of depth {trees['depth']}, learning rate "
        f"{trees['learning_rate']:g}), unless the job's settings are named. Rows are in the job's "
        "order. Bags and nodes are hidden as in the job, unless told otherwise."
    )


def text(found: Summary | None, digits: int = 3) -> str:
    """A summary as tables have it, or nothing."""
    return found.text(digits) if found else ""


def sizes(frame: pl.DataFrame) -> str:
    """How many rows each set has, on average over draws."""
    told = []
    for name in sets_in(frame):
        one = chosen(frame, set=name)
        rows, positives, known = (one[figure].mean() for figure in ("rows", "positives", "known_rows"))
        told.append(
            f"{name} {_whole(rows)} unlabelled rows, {_whole(positives)} of them positive, {_whole(known)} known"
        )
    return "; ".join(told)


def _whole(value: object) -> str:
    return f"{float(str(value)):,.0f}"


def at_length(frame: pl.DataFrame, num: int, metric: str) -> Summary | None:
    """Precision, recall or F of lists of this length, over the lines of a frame."""
    lines = frame.drop_nulls(f"hits_{num}")
    hits, positives = lines[f"hits_{num}"], lines["positives"]
    values = {"precision": hits / num, "recall": hits / positives, "f1": 2 * hits / (num + positives)}[metric]
    return summary_of(values.to_list())


def by_length(frame: pl.DataFrame, name: str, metric: str, nums: Sequence[int] = NUMS) -> Line:
    """A line of a figure: a metric of lists by their length."""
    found = [(num, at_length(frame, num, metric)) for num in nums]
    return line(name, [(num, one) for num, one in found if one])


def line(name: str, points: Sequence[tuple[float, Summary]]) -> Line:
    """A line of a figure from summaries."""
    return Line(name, [x for x, _ in points], [one.mean for _, one in points], [one.spread or 0.0 for _, one in points])


def lengths_in(frame: pl.DataFrame) -> list[int]:
    """The lengths that lists of all sets reach."""
    return [num for num in NUMS if not frame[f"hits_{num}"].is_null().any()]


def of_paper_size(frame: pl.DataFrame) -> pl.DataFrame:
    """The lines of searches as large as the paper's, which its figures can be compared with."""
    return chosen(frame, train=paper.TRAIN)


def in_short(verdicts: Sequence[str]) -> str:
    """How many figures of the paper come to what."""
    counts = Counter(verdict.partition(":")[0] for verdict in verdicts)
    return f"Of {len(verdicts)} figures: {', '.join(f'{what} {count}' for what, count in counts.most_common())}."


def paper_table(told: Sequence[Told], ours: Callable[[Told], Summary | None], *, digits: int = 3) -> str:
    """Each figure of the paper beside ours, and what it comes to."""
    lines = ["| set | method | mode | metric | the VFPU paper | ours | |", "|---|---|---|---|---|---|---|"]
    for one in told:
        found = ours(one)
        runtime = one.metric == "runtime_s"
        metric = "runtime, s" if runtime else f"{one.metric} of the first {one.num:,}" if one.num else one.metric
        lines.append(
            f"| {one.set} | {one.method} | {one.mode} | {metric} | {one.value:g} | "
            f"{text(found, 1 if runtime else digits)} | {paper.verdict(one, found)} |"
        )
    short = in_short([paper.verdict(one, ours(one)) for one in told])
    return f"{short}\n\n" + "\n".join(lines)


def figure_of(frame: pl.DataFrame, figure: str, **where: object) -> str:
    """Mean and spread of a figure as a table has it."""
    return text(summarised(frame, figure, **where))
