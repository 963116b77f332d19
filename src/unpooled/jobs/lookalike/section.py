"""The section of a search for look-alikes: at the seeker the list, at the active party how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field, FiniteFloat, NonNegativeInt, PositiveInt

from unpooled.drawing.chart import Chart, histogram_chart, precision_recall_chart
from unpooled.drawing.html import render
from unpooled.drawing.words import listed, many, percent
from unpooled.jobs.align.section import alignment_html, common_figures
from unpooled.jobs.learning.explained_section import explained_html
from unpooled.jobs.learning.tuned import tuning_html
from unpooled.jobs.lookalike.advice import KeptAdvice, at_length
from unpooled.jobs.lookalike.list_section import ListResult, advice_chart, list_figures, list_section
from unpooled.jobs.lookalike.parameters import Parameters
from unpooled.jobs.run_files import Figure, Histogram, RunFiles, Section, result_of
from unpooled.jobs.train.columns import OwnerResult, columns_html
from unpooled.jobs.train.section import Curve, Fraction
from unpooled.jobs.work import Result
from unpooled.pu.settings import VfpuSettings

_TUNED = (
    "Left out were people whom the seeker knows. They are compared with people whom it does not know, of whom some are "
    "positive too: so figures are lower than the truth, for all candidates alike if the people it knows are typical."
)
_TEMPLATE = Path(__file__).with_name("section.html")

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
    """What can be said without the truth, besides advice."""

    warning: str = ""
    spies: NonNegativeInt = 0
    spies_promoted: Fraction | None = None


@dataclass(frozen=True)
class Figures:
    """How good some rows are as a list."""

    precision: Fraction
    recall: Fraction
    f: Fraction


@dataclass(frozen=True)
class FiguresAt(Figures):
    """The same of the first so many rows, and the precision of as many that bagging alone ranks first."""

    rows: PositiveInt
    by_bagging: Fraction | None = None


@dataclass(frozen=True)
class Judged:
    """How good the list is by a column that knows; `fraction` is that of positives among all unlabelled rows."""

    fraction: Annotated[Fraction, Field(gt=0)]
    listed: Figures
    at: tuple[FiguresAt, ...]
    curve: Drawn = None
    bagging_curve: Drawn = None


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
    advice: KeptAdvice | None = None
    judged: Judged | None = None


def headline(result: Result) -> list[Figure]:
    """How many people are in common and known, how long the list is, and how good, where that is known."""
    said = common_figures(result)
    if "positives" in result:
        said.append(Figure("positives", result["positives"], f"{result['positives']:,} of them known to the seeker"))
    said += list_figures(result)
    for judge in ("judged", "evaluation"):
        if (precision := result.get(judge, {}).get("listed", {}).get("precision")) is not None:
            said.append(Figure("precision", precision, f"{percent(precision)} of the list positive, by the truth"))
    return said


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What one party's files say of a search; of a whole run there is a headline, and the parties' own pages."""
    active = run.plan.active
    if run.owner is None:
        found = result_of(run.parties[active], FoundResult)
        return Section(_found_words(run, found) if found else "", "")
    party, role = run.parties[run.owner], run.plan.parties[run.owner].role
    alignment = alignment_html(run, parameters)
    if role == "seeker" and (sought := result_of(party, ListResult)):
        owners = listed([*run.plan.with_role("passive"), active])
        whence = f"They were found among the people that {owners} have in common."
        return list_section(run, sought, whence, alignment, _order(parameters))
    found = result_of(party, FoundResult) if role == "active" else None
    owned = result_of(party, OwnerResult) if role in ("active", "passive") else None
    headline = _headline(run, found, owned)
    html = render(
        _TEMPLATE,
        run=run,
        headline=headline,
        found=found,
        told=parameters.advice,
        at_length=at_length,
        charts=_charts(found) if found else {},
        explained=explained_html(run, "Why the first people are on the list"),
        tuning=tuning_html(owned.tuning if owned else None, _TUNED),
        columns=columns_html(run, {run.owner: owned} if owned else {}),
        alignment=alignment,
    )
    return Section(headline, html)


def _order(parameters: Parameters) -> str:
    """What decides the rank of a person."""
    if isinstance(parameters.method, VfpuSettings) and parameters.method.order == "promotion":
        return "Those promoted earlier come first; within an iteration the score decides."
    return "The higher the score, the higher the rank."


def _headline(run: RunFiles, found: FoundResult | None, owned: OwnerResult | None) -> str:
    """What came out, in a sentence or two."""
    if found:
        return _found_words(run, found)
    if owned:
        return f"{run.owner} lent {many(owned.columns, 'column')} of {many(owned.common, 'row')} to the search."
    return ""


def _found_words(run: RunFiles, found: FoundResult) -> str:
    (seeker,) = run.plan.with_role("seeker")
    among = f"{many(found.unlabelled, 'person')} whom {seeker} does not know".replace("persons", "people")
    made = f"{run.plan.active} found {many(found.listed, 'look-alike')} among {among}."
    if found.judged is None or run.owner is None:
        return made
    precision, fraction = found.judged.listed.precision, found.judged.fraction
    return f"{made} {precision:.1%} of them are positive, against {fraction:.1%} of all.".replace("%", " %")


def _charts(found: FoundResult) -> dict[str, Chart]:
    charts = {"scores": histogram_chart(found.scores.edges, found.scores.counts, "score")}
    if found.advice:
        charts["expected"] = advice_chart(found.advice, found.listed)
    if found.judged and found.judged.curve:
        beside = found.judged.bagging_curve if found.method != "bagging" else None
        charts["precision_recall"] = precision_recall_chart(*found.judged.curve, beside)
    return charts
