"""The section of a search for look-alikes: at the seeker the list, at the active party how it came about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, Field, FiniteFloat, NonNegativeInt, PositiveInt, TypeAdapter, ValidationError

from unpooled.errors import InputError
from unpooled.evaluate.lookalike import Evaluation
from unpooled.jobs.kinds import faults, parameters_of
from unpooled.jobs.lookalike.job import Parameters
from unpooled.jobs.lookalike.list_files import RELIABLE
from unpooled.report.align import AlignSection, align_section
from unpooled.report.chart import Chart, histogram_chart, precision_recall_chart
from unpooled.report.gather import PartyFiles, Story
from unpooled.report.listed import read_list
from unpooled.report.results import Histogram, Told, learnt, result_of
from unpooled.report.train import (
    Curve,
    LinearOwner,
    OwnerResult,
    Share,
    TreesOwner,
    Usage,
    Weights,
    usage_of,
    weights_of,
)
from unpooled.report.words import listed, many
from unpooled.run.folder import read_json
from unpooled.vertical.linear.parameters import LinearParameters

EVALUATION = "evaluation.json"
TOP_SHOWN = 20

T = TypeVar("T")

Drawn = Annotated[Curve | None, BeforeValidator(lambda points: points or None)]
"""A curve; an empty one is none."""


@dataclass(frozen=True)
class Promotion:
    """What an iteration promoted: how many rows, and the lowest and highest score among them."""

    rows: NonNegativeInt
    lowest: FiniteFloat
    highest: FiniteFloat


@dataclass(frozen=True)
class Estimates:
    """What can be said without the truth; the shares are those of positives among the unlabelled rows."""

    share: Share | None = None
    share_by_elkan_noto: Share | None = None
    share_at_most: Share | None = None
    suggested: NonNegativeInt | None = None
    warning: str = ""
    spies: NonNegativeInt = 0
    spies_promoted: Share | None = None


@dataclass(frozen=True)
class Figures:
    """How good some rows are as a list."""

    precision: Share
    recall: Share
    f: Share


@dataclass(frozen=True)
class FiguresAt(Figures):
    """The same of the first so many rows, and the precision of as many that bagging alone ranks first."""

    rows: PositiveInt
    by_bagging: Share | None = None


@dataclass(frozen=True)
class Judged:
    """How good the list is by a column that knows; `share` is that of positives among all unlabelled rows."""

    share: Annotated[Share, Field(gt=0)]
    listed: Figures
    at: tuple[FiguresAt, ...]
    curve: Drawn = None
    bagging_curve: Drawn = None


@dataclass(frozen=True)
class SeekerResult:
    """What a search leaves in `result.json` of the seeker; `iterations` counts rows, those never promoted first."""

    listed: NonNegativeInt
    asked_about: NonNegativeInt
    iterations: tuple[NonNegativeInt, ...]
    scores: Histogram


@dataclass(frozen=True)
class FoundResult:
    """What it leaves at the active party, besides what every owner of columns has."""

    method: str
    learner: str
    positives: NonNegativeInt
    unlabelled: NonNegativeInt
    listed: NonNegativeInt
    scores: Histogram
    promotions: tuple[Promotion, ...] = ()
    estimates: Estimates = Estimates()
    judged: Judged | None = None


@dataclass(frozen=True)
class TopOfTheList:
    """The names of the id columns, and the first rows of the list: ids, score (None without one), tier, iteration."""

    names: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], float | None, str, int], ...]


@dataclass(frozen=True)
class LookalikeSection:
    """What one party's files say; of a whole run there is a headline, and the parties' own pages have the rest.

    `found` is the active party's result, `sought` the seeker's, `lent` that of a passive party. `broken` says what is
    wrong with files that cannot be used.
    """

    headline: str
    linear: bool
    broken: tuple[str, ...] = ()
    found: FoundResult | None = None
    sought: SeekerResult | None = None
    top: TopOfTheList | None = None
    evaluation: Evaluation | None = None
    charts: Mapping[str, Chart] = field(default_factory=dict)
    gained: Mapping[str, float] = field(default_factory=dict)
    lent: Mapping[str, OwnerResult] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    weights: Mapping[str, Weights] = field(default_factory=dict)
    told: Mapping[str, tuple[Told, ...]] = field(default_factory=dict)
    alignment: AlignSection | None = None


def lookalike_section(story: Story) -> LookalikeSection:
    """What the results of a search say, to whoever reads the page."""
    parameters, active = parameters_of(story.plan), story.plan.active
    linear = isinstance(parameters, Parameters) and isinstance(parameters.model, LinearParameters)
    broken: list[str] = []
    if story.teller is None:
        found = _usable(story.parties[active], FoundResult, broken)
        return LookalikeSection(_found_words(story, found) if found else "", linear)
    party, role = story.parties[story.teller], story.plan.parties[story.teller].role
    found = _usable(party, FoundResult, broken) if role == "active" else None
    sought = _usable(party, SeekerResult, broken) if role == "seeker" else None
    kind: type[OwnerResult] = LinearOwner if linear else TreesOwner
    owned = _usable(party, kind, broken) if role in ("active", "passive") else None
    return LookalikeSection(
        headline=_headline(story, found, sought, owned),
        linear=linear,
        found=found,
        sought=sought,
        top=_top(party, broken) if sought else None,
        evaluation=_evaluation(party, broken) if sought else None,
        charts=_charts(found, sought),
        lent={story.teller: owned} if owned and role == "passive" else {},
        usage={story.teller: usage_of(owned, {})} if isinstance(owned, TreesOwner) else {},
        weights={story.teller: weights_of(owned)} if isinstance(owned, LinearOwner) else {},
        told=learnt(story, active, story.plan.with_role("passive")),
        alignment=align_section(story),
        broken=tuple(dict.fromkeys(broken)),
    )


def _usable(party: PartyFiles, kind: type[T], broken: list[str]) -> T | None:
    """A party's result; what is wrong with one that cannot be used is noted."""
    try:
        return result_of(party, kind)
    except InputError as error:
        broken.append(str(error))
        return None


def _top(party: PartyFiles, broken: list[str]) -> TopOfTheList | None:
    try:
        first = read_list(party.folder / RELIABLE, TOP_SHOWN)
    except InputError as error:
        broken.append(str(error))
        return None
    lines = zip(first.ids.iter_rows(), first.lines.iter_rows(), strict=True)
    rows = tuple((tuple(ids), score, tier, iteration) for ids, (_, score, tier, iteration) in lines)
    return TopOfTheList(tuple(first.ids.columns), rows)


def _evaluation(party: PartyFiles, broken: list[str]) -> Evaluation | None:
    path = party.folder / EVALUATION
    if not path.exists():
        return None
    try:
        return TypeAdapter(Evaluation).validate_python(read_json(path))
    except ValidationError as error:
        broken.append(f"{path}: {'; '.join(faults(error))}")
        return None


def _headline(story: Story, found: FoundResult | None, sought: SeekerResult | None, owned: OwnerResult | None) -> str:
    """What came out, in a sentence or two."""
    if found:
        return _found_words(story, found)
    if sought:
        owners = listed([*story.plan.with_role("passive"), story.plan.active])
        count = many(sought.listed, "look-alike")
        return f"{story.teller} has {count}, found among the people that {owners} have in common."
    if owned:
        return f"{story.teller} lent {many(owned.columns, 'column')} of {many(owned.common, 'row')} to the search."
    return ""


def _found_words(story: Story, found: FoundResult) -> str:
    (seeker,) = story.plan.with_role("seeker")
    among = f"{many(found.unlabelled, 'person')} whom {seeker} does not know".replace("persons", "people")
    made = f"{story.plan.active} found {many(found.listed, 'look-alike')} among {among}, by {found.method}."
    if found.judged is None or story.teller is None:
        return made
    precision, share = found.judged.listed.precision, found.judged.share
    return f"{made} {precision:.1%} of them are positive, against {share:.1%} of all.".replace("%", " %")


def _charts(found: FoundResult | None, sought: SeekerResult | None) -> dict[str, Chart]:
    charts = {}
    if result := found or sought:
        charts["scores"] = histogram_chart(result.scores.edges, result.scores.counts, "score")
    if found and found.judged and found.judged.curve:
        beside = found.judged.bagging_curve if found.method != "bagging" else None
        charts["precision_recall"] = precision_recall_chart(*found.judged.curve, beside)
    return charts
