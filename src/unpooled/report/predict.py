"""The section of a job that predicts: what was predicted for how many rows, and what the active party learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import FiniteFloat, NonNegativeInt

from unpooled.report.align import AlignSection, align_section
from unpooled.report.chart import Chart, histogram_chart
from unpooled.report.gather import Story
from unpooled.report.measures import Measure, best_known, measures_of
from unpooled.report.results import Histogram, Told, learnt, result_of
from unpooled.report.words import listed, many

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


@dataclass(frozen=True)
class PredictSection:
    """What the results that are here say; `predicted` is the active party's, None where it is not one of them.

    `unseen` counts for each party's columns the cells with a level that was not there when the model was made.
    """

    headline: str
    predicted: PredictResult | None
    histogram: Chart | None
    measures: tuple[Measure, ...]
    unseen: Mapping[str, Mapping[str, int]]
    told: Mapping[str, tuple[Told, ...]]
    alignment: AlignSection | None


def predict_section(story: Story) -> PredictSection:
    """What the results of a job that predicts say."""
    active, passive = story.plan.active, story.plan.with_role("passive")
    owners = [name for name in (*passive, active) if name in story.parties]
    results = {name: result for name in owners if (result := result_of(story.parties[name], PredictResult))}
    predicted = results.get(active)
    return PredictSection(
        headline=_headline(active, passive, results),
        predicted=predicted,
        histogram=_histogram(predicted) if predicted else None,
        measures=measures_of(predicted.metrics, SETS) if predicted else (),
        unseen={name: result.unseen for name, result in results.items() if result.unseen},
        told=learnt(story, active, passive),
        alignment=align_section(story),
    )


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
    return f"{made} Compared with what is true, they have {judged}." if judged else made
