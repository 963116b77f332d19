"""The section of a job that learns: how good the model is, what it goes by, and what the active party learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt

from unpooled.drawing.chart import Chart, calibration_chart, loss_chart, precision_recall_chart, roc_chart
from unpooled.drawing.html import render
from unpooled.drawing.measures import best_known, figure, first_measure, measures_of, short_name
from unpooled.drawing.words import listed, many
from unpooled.jobs.align.section import alignment_html, common_figures
from unpooled.jobs.learning.tuned import tuning_html
from unpooled.jobs.run_files import Figure, Number, RunFiles, Section
from unpooled.jobs.train.columns import Gain, OwnerResult, Positive, Splits, columns_html
from unpooled.jobs.train.job import Parameters
from unpooled.jobs.work import Result

SETS = ("test", "train")
_TUNED = "Rows that were set aside as a test had no part in the choice."

_TEMPLATE = Path(__file__).with_name("section.html")
Fraction = Annotated[float, Field(ge=0, le=1)]
Points = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]


def _of_one_length(points: Points) -> Points:
    if len(points[0]) != len(points[1]) or not points[0]:
        raise ValueError("a curve must have as many y as x, and some")
    return points


Curve = Annotated[Points, AfterValidator(_of_one_length)]


@dataclass(frozen=True)
class ColumnGain:
    """How much loss the splits of a column saved."""

    name: str
    gain: Positive


@dataclass(frozen=True)
class Group:
    """Rows for which about the same was predicted: the mean of that, and of what was true."""

    prediction: Number
    truth: Number


@dataclass(frozen=True)
class Curves:
    """What there is for two classes."""

    roc: Curve | None = None
    precision_recall: Curve | None = None


@dataclass(frozen=True, kw_only=True)
class ModelResult(OwnerResult):
    """What it leaves at the active party; curves and calibration are those of test rows.

    A model of trees has `trees` and gains, a linear one `epochs`, and losses where these were shown; one of another
    learner has neither, and says nothing of importance.
    """

    learner: str
    title: str = ""
    classes: NonNegativeInt
    class_names: tuple[str, ...] = ()
    train_rows: NonNegativeInt
    test_rows: NonNegativeInt
    unlabelled_rows: NonNegativeInt = 0
    weight_zero_rows: NonNegativeInt = 0
    metrics: Mapping[str, Mapping[str, FiniteFloat]]
    curves: Curves = Curves()
    calibration: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
    trees: NonNegativeInt | None = None
    gain_by_party: Mapping[str, Positive] | None = None
    own_gains: tuple[ColumnGain, ...] = ()
    epochs: NonNegativeInt | None = None
    losses: tuple[Number, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        of_trees = self.trees is not None and self.gain_by_party is not None and self.thresholds is not None
        if self.importance and self.epochs is None and not of_trees:
            raise ValueError("a model has either epochs, or trees, gain_by_party and thresholds")


def headline(result: Result) -> list[Figure]:
    """How many people are in common, and how good the model is on rows that were set aside."""
    figures = [*common_figures(result), *measured(result, "test", "on test rows")]
    if result.get("flattered"):
        figures.append(Figure("flattered", True, "which looks better than it is: see the report"))
    return figures


def measured(result: Result, rows: str, where: str) -> list[Figure]:
    """The measure that people ask for first, on a set of rows; none where the result has none."""
    found = result.get("metrics", {}).get(rows, {})
    name = first_measure(found)
    return [Figure(name, found[name], f"{short_name(name)} {figure(found[name])} {where}")] if name else []


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What the results of a job that learns say."""
    active, passive = run.plan.active, run.plan.with_role("passive")
    model = run.results([active], ModelResult).get(active)
    lent = run.results(passive, OwnerResult)
    headline = _headline(run, model, lent)
    html = render(
        _TEMPLATE,
        run=run,
        headline=headline,
        model=model,
        measures=measures_of(model.metrics, SETS) if model else (),
        charts=_charts(model) if model else {},
        tuning=tuning_html(next((each.tuning for each in (model, *lent.values()) if each), None), _TUNED),
        columns=columns_html(run, lent | ({active: model} if model else {}), _gain(model)),
        alignment=alignment_html(run, parameters),
    )
    return Section(headline, html)


def _gain(model: ModelResult | None) -> Gain | None:
    if model is None or model.gain_by_party is None:
        return None
    total = sum(model.gain_by_party.values())
    by_party = {name: gain / total for name, gain in model.gain_by_party.items()} if total else {}
    return Gain(by_party, {one.name: one.gain / (total or 1.0) for one in model.own_gains})


def _headline(run: RunFiles, model: ModelResult | None, lent: Mapping[str, OwnerResult]) -> str:
    """What came out, in a sentence or two."""
    if model is None:
        return " ".join(f"{name} lent {_lent(result)}" for name, result in lent.items())
    made = f"{_made(model)} {many(model.train_rows, 'row')} of {listed(run.plan.owners)}."
    sets = {name: best_known(model.metrics.get(name, {})) for name in SETS}
    if sets["test"]:
        return f"{made} On {many(model.test_rows, 'row')} set aside as a test it has {sets['test']}."
    if model.test_rows:
        return f"{made} The {many(model.test_rows, 'row')} set aside as a test are too few, or too alike, to judge it."
    if sets["train"]:
        return (
            f"{made} None were set aside as a test; on those it learnt from, which flatters it, it has {sets['train']}."
        )
    return made


def _made(model: ModelResult) -> str:
    title = model.title or model.learner
    if model.epochs is not None:
        return f"{title}: {many(model.epochs, 'epoch')} over"
    if model.trees is not None:
        return f"{title}: {many(model.trees, 'tree')} from"
    return f"{title}: learnt from"


def _lent(result: OwnerResult) -> str:
    lent = f"{many(result.columns, 'column')} of {many(result.common, 'row')}"
    if result.thresholds is None:
        return f"{lent} to a linear model." if result.importance else f"{lent}."
    used = sum(isinstance(one, Splits) and one.splits > 0 for one in result.importance)
    return f"{lent}; the trees go by {used:,} of them."


def _charts(model: ModelResult) -> dict[str, Chart]:
    charts = {}
    if model.curves.roc:
        charts["roc"] = roc_chart(*model.curves.roc)
    if model.curves.precision_recall:
        charts["precision_recall"] = precision_recall_chart(*model.curves.precision_recall)
    if model.calibration:
        predicted, true = (
            [group.prediction for group in model.calibration],
            [group.truth for group in model.calibration],
        )
        charts["calibration"] = calibration_chart(predicted, true, shares=model.classes > 0)
    if model.losses:
        charts["loss"] = loss_chart(model.losses)
    return charts
