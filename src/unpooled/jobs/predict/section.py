"""The section of a job that predicts: what was predicted for how many rows, and what the active party learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import FiniteFloat, NonNegativeInt

from unpooled.drawing.chart import Chart, histogram_chart
from unpooled.drawing.html import render
from unpooled.drawing.measures import best_known, measures_of
from unpooled.drawing.words import listed, many
from unpooled.jobs.align.section import alignment_html, common_figures
from unpooled.jobs.learning.explained_section import explained_html
from unpooled.jobs.predict.job import Parameters
from unpooled.jobs.run_files import Figure, Histogram, RunFiles, Section, learnt
from unpooled.jobs.train.section import measured
from unpooled.jobs.work import Result

_TEMPLATE = Path(__file__).with_name("section.html")
SETS = ("new",)


@dataclass(frozen=True)
class Scores:
    """What there is to see of all scores together."""

    histogram: Histogram | None = None


@dataclass(frozen=True)
class PredictResult:
    """What a job that predicts leaves in `result.json` of an owner of columns; scores are the active party's."""

    common: NonNegativeInt
    unseen: Mapping[str, NonNegativeInt]
    classes: NonNegativeInt = 0
    class_names: tuple[str, ...] = ()
    scores: Scores = Scores()
    metrics: Mapping[str, Mapping[str, FiniteFloat]] = field(default_factory=dict)
    unknown_labels: NonNegativeInt = 0


def headline(result: Result) -> list[Figure]:
    """How many people are in common, and how good the predictions for them are, where the truth is known."""
    return [*common_figures(result), *measured(result, "new", "compared with the truth")]


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What the results of a job that predicts say."""
    active, passive = run.plan.active, run.plan.with_role("passive")
    results = run.results([*passive, active], PredictResult)
    predicted, headline = results.get(active), _headline(active, passive, results)
    html = render(
        _TEMPLATE,
        run=run,
        headline=headline,
        predicted=predicted,
        histogram=_histogram(predicted) if predicted else None,
        measures=measures_of(predicted.metrics, SETS) if predicted else (),
        explained=explained_html(run, "Why the highest scores are high"),
        unseen={name: result.unseen for name, result in results.items() if result.unseen},
        told=learnt(run, active, passive),
        alignment=alignment_html(run, parameters),
    )
    return Section(headline, html)


def _histogram(predicted: PredictResult) -> Chart | None:
    if predicted.scores.histogram is None:
        return None
    title = {0: "prediction", 2: "probability"}.get(predicted.classes, "highest probability")
    return histogram_chart(predicted.scores.histogram.edges, predicted.scores.histogram.counts, title)


def _headline(active: str, passive: Sequence[str], results: Mapping[str, PredictResult]) -> str:
    """What came out, in a sentence or two."""
    if active not in results:
        return " ".join(
            f"{name} helped {active} to predict for {many(result.common, 'row')}." for name, result in results.items()
        )
    predicted = results[active]
    owners = listed([*passive, active])
    made = f"{active} has predictions for {many(predicted.common, 'row')} that {owners} have in common."
    judged = best_known(predicted.metrics.get("new", {}))
    return f"{made} Compared with the truth, they have {judged}." if judged else made
