"""The section of a job that learns: how good the model is, what it goes by, and what the active party learnt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field, FiniteFloat, NonNegativeInt

from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.train.job import Parameters
from unpooled.report.align import AlignSection, align_section
from unpooled.report.chart import Chart, calibration_chart, loss_chart, precision_recall_chart, roc_chart
from unpooled.report.gather import Story
from unpooled.report.measures import Measure, best_known, measures_of
from unpooled.report.results import Number, Told, learnt, result_of
from unpooled.report.words import listed, many
from unpooled.vertical.linear.parameters import LinearParameters

COLUMNS_SHOWN = 15
SETS = ("test", "train")

_LEARNERS = {
    "gbdt": "Gradient boosting (gbdt)",
    "xgb": "Gradient boosting of second order (xgb)",
    "lgb": "Gradient boosting of second order, leaf by leaf (lgb)",
    "rf": "A random forest (rf)",
}

Gain = Annotated[Number, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Points = tuple[tuple[Share, ...], tuple[Share, ...]]


def _of_one_length(points: Points) -> Points:
    if len(points[0]) != len(points[1]) or not points[0]:
        raise ValueError("a curve must have as many y as x, and some")
    return points


Curve = Annotated[Points, AfterValidator(_of_one_length)]


@dataclass(frozen=True)
class Importance:
    """How many nodes a column split, and how many rows these had in all."""

    name: str
    splits: NonNegativeInt
    rows: NonNegativeInt


@dataclass(frozen=True)
class ColumnGain:
    """How much loss the splits of a column saved."""

    name: str
    gain: Gain


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


@dataclass(frozen=True)
class Weight:
    """How far one step of a column moves the scores of a linear model."""

    name: str
    weight: Gain


@dataclass(frozen=True, kw_only=True)
class OwnerResult:
    """What a job that learns leaves in `result.json` of every owner of columns."""

    common: NonNegativeInt
    columns: NonNegativeInt
    questions: NonNegativeInt = 0


@dataclass(frozen=True, kw_only=True)
class TreesOwner(OwnerResult):
    """The same of trees."""

    importance: tuple[Importance, ...]
    thresholds: NonNegativeInt


@dataclass(frozen=True, kw_only=True)
class LinearOwner(OwnerResult):
    """The same of a linear model."""

    importance: tuple[Weight, ...]


@dataclass(frozen=True, kw_only=True)
class ModelResult(OwnerResult):
    """What it leaves at the active party; curves and calibration are those of test rows."""

    learner: str
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


@dataclass(frozen=True, kw_only=True)
class TreesModel(ModelResult, TreesOwner):
    """The same of trees."""

    trees: NonNegativeInt
    gain_by_party: Mapping[str, Gain]
    own_gains: tuple[ColumnGain, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LinearModelResult(ModelResult, LinearOwner):
    """The same of a linear model; where no loss was shown, losses are empty."""

    epochs: NonNegativeInt
    losses: tuple[Number, ...] = ()


@dataclass(frozen=True)
class Used:
    """A column, how much it was used, and its share in what all gain, None at a party that cannot know it.

    The bars compare it with the one of the same party that has most.
    """

    name: str
    splits: int
    rows: int
    bar: float
    gained: float | None
    gained_bar: float


@dataclass(frozen=True)
class Usage:
    """A party's columns, those used most first; `more` were used too, `unused` were not.

    `by_rows` is false where nodes were hidden from the party, so that it can count its splits alone.
    """

    shown: tuple[Used, ...]
    by_rows: bool
    more: int
    unused: int


@dataclass(frozen=True)
class Weighed:
    """A column of a linear model; the bars compare it with the heaviest one of the same party."""

    name: str
    weight: float
    bar: float


@dataclass(frozen=True)
class Weights:
    """A party's columns, the heaviest first; `more` weigh less."""

    shown: tuple[Weighed, ...]
    more: int


@dataclass(frozen=True)
class TrainSection:
    """What the results that are here say; `model` is None where the active party's is not one of them.

    `lent` has the passive parties' results, `gained` the share of each party in what was gained, `told` what the active
    party learnt from each passive one. Of trees there is `usage`, of a linear model `weights`.
    """

    headline: str
    linear: bool
    model: ModelResult | None
    measures: tuple[Measure, ...]
    charts: Mapping[str, Chart]
    gained: Mapping[str, float]
    lent: Mapping[str, OwnerResult]
    usage: Mapping[str, Usage]
    weights: Mapping[str, Weights]
    told: Mapping[str, tuple[Told, ...]]
    alignment: AlignSection | None


def train_section(story: Story) -> TrainSection:
    """What the results of a job that learns say; the plan says what kind of model they are about."""
    active, passive = story.plan.active, story.plan.with_role("passive")
    parameters = parameters_of(story.plan)
    linear = isinstance(parameters, Parameters) and isinstance(parameters.model, LinearParameters)
    whole: type[ModelResult] = LinearModelResult if linear else TreesModel
    part: type[OwnerResult] = LinearOwner if linear else TreesOwner
    model = result_of(story.parties[active], whole) if active in story.parties else None
    results = {name: result_of(story.parties[name], part) for name in passive if name in story.parties}
    lent = {name: result for name, result in results.items() if result}
    usage = {name: usage_of(result, {}) for name, result in lent.items() if isinstance(result, TreesOwner)}
    weights = {name: weights_of(result) for name, result in lent.items() if isinstance(result, LinearOwner)}
    gained: dict[str, float] = {}
    if isinstance(model, TreesModel):
        total = sum(model.gain_by_party.values()) or 1.0
        gained = {name: gain / total for name, gain in model.gain_by_party.items() if any(model.gain_by_party.values())}
        usage[active] = usage_of(model, {one.name: one.gain / total for one in model.own_gains})
    if isinstance(model, LinearModelResult):
        weights[active] = weights_of(model)
    return TrainSection(
        headline=_headline(story, model, lent),
        linear=linear,
        model=model,
        measures=measures_of(model.metrics, SETS) if model else (),
        charts=_charts(model) if model else {},
        gained=gained,
        lent=lent,
        usage=usage,
        weights=weights,
        told=learnt(story, active, passive),
        alignment=align_section(story),
    )


def _headline(story: Story, model: ModelResult | None, lent: Mapping[str, OwnerResult]) -> str:
    """What came out, in a sentence or two."""
    if model is None:
        return " ".join(f"{name} lent {_lent(result)}" for name, result in lent.items())
    owners = [name for name, party in story.plan.parties.items() if party.role in ("active", "passive")]
    made = f"{_made(model)} {many(model.train_rows, 'row')} of {listed(owners)}."
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
    if isinstance(model, LinearModelResult):
        kind = "Logistic regression" if model.classes else "Linear regression"
        return f"{kind}: {many(model.epochs, 'epoch')} over"
    trees = model.trees if isinstance(model, TreesModel) else 0
    return f"{_LEARNERS.get(model.learner, model.learner)}: {many(trees, 'tree')} from"


def _lent(result: OwnerResult) -> str:
    lent = f"{many(result.columns, 'column')} of {many(result.common, 'row')}"
    if isinstance(result, TreesOwner):
        return f"{lent}; the trees go by {sum(bool(one.splits) for one in result.importance):,} of them."
    return f"{lent} to a linear model."


def usage_of(result: TreesOwner, gained: Mapping[str, float]) -> Usage:
    """Columns that were used; `gained` has the shares of a party that knows them."""
    used = [one for one in result.importance if one.splits]
    by_rows = any(one.rows for one in used)
    ranked = sorted(used, key=lambda one: (-one.rows, -one.splits))
    most = max(((one.rows if by_rows else one.splits) for one in used), default=1)
    most_gained = max(gained.values(), default=0.0) or 1.0
    shown = []
    for one in ranked[:COLUMNS_SHOWN]:
        gain = gained.get(one.name, 0.0) if gained else None
        bar = (one.rows if by_rows else one.splits) / most
        shown.append(Used(one.name, one.splits, one.rows, bar, gain, (gain or 0.0) / most_gained))
    return Usage(tuple(shown), by_rows, len(used) - len(shown), len(result.importance) - len(used))


def weights_of(result: LinearOwner) -> Weights:
    """Columns by what they weigh."""
    ranked = sorted(result.importance, key=lambda one: -one.weight)
    most = max((one.weight for one in ranked), default=0.0) or 1.0
    shown = tuple(Weighed(one.name, one.weight, one.weight / most) for one in ranked[:COLUMNS_SHOWN])
    return Weights(shown, len(ranked) - len(shown))


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
    if isinstance(model, LinearModelResult) and model.losses:
        charts["loss"] = loss_chart(model.losses)
    return charts
