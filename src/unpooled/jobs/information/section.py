"""The section of a job that computes information values: a bar for each column, and what the active party learnt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import NonNegativeInt

from unpooled.drawing.html import render
from unpooled.drawing.words import listed, many
from unpooled.information.values import verdict
from unpooled.jobs.align.section import alignment_html, common_figures
from unpooled.jobs.information.job import EVIDENCE, Parameters
from unpooled.jobs.run_files import Figure, Number, RunFiles, Section, learnt
from unpooled.jobs.work import Result

COLUMNS_SHOWN = 30

_TEMPLATE = Path(__file__).with_name("section.html")


@dataclass(frozen=True)
class ColumnValue:
    """A column with its information value; a passive party's has the number by which the active party sees it."""

    name: str
    iv: Number
    bins: NonNegativeInt
    number: NonNegativeInt | None = None


@dataclass(frozen=True)
class InformationResult:
    """What the job leaves in `result.json` of an owner; only the active party has labels, and others' values."""

    common: NonNegativeInt
    columns: tuple[ColumnValue, ...]
    lent: Mapping[str, tuple[Number, ...]] = field(default_factory=dict)
    positive: str = ""
    negative: str = ""
    positives: NonNegativeInt = 0
    by_chance: Number = 0.0
    rows_without_label: NonNegativeInt = 0


@dataclass(frozen=True)
class Bar:
    """A column as it is drawn; `number` is empty where that is its name."""

    name: str
    number: str
    iv: float

    @property
    def verdict(self) -> str:
        return verdict(self.iv)


@dataclass(frozen=True)
class Bars:
    """A party's columns, the best first; `more` are left out."""

    shown: Sequence[Bar]
    more: int


def headline(result: Result) -> list[Figure]:
    """How many people are in common, and how many columns say something about the labels."""
    values = [each["iv"] for each in result.get("columns", ())]
    values += [value for lent in result.get("lent", {}).values() for value in lent]
    useful = sum(verdict(value) != "none" for value in values)
    if not values:
        return common_figures(result)
    said = f"{useful:,} of {many(len(values), 'column')} with an information value of 0.02 or more"
    return [*common_figures(result), Figure("useful", useful, said)]


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What the results of the job say."""
    active, passive = run.plan.active, run.plan.with_role("passive")
    results = run.results([active, *passive], InformationResult)
    found, columns = results.get(active), _columns(run, results)
    values = [each.iv for bars in columns.values() for each in bars.shown]
    headline = _headline(run, results, columns)
    html = render(
        _TEMPLATE,
        run=run,
        headline=headline,
        found=found,
        columns=columns,
        most=max([0.0, *values]) or 1.0,
        evidence=[name for name in results if (run.parties[name].folder / EVIDENCE).exists()],
        evidence_file=EVIDENCE,
        told=learnt(run, active, passive),
        alignment=alignment_html(run, parameters),
    )
    return Section(headline, html)


def _columns(run: RunFiles, results: Mapping[str, InformationResult]) -> dict[str, Bars]:
    """Every party's columns: by name where its own result is here, else by the numbers that the active party sees."""
    active = results.get(run.plan.active)
    found = {}
    for party in (run.plan.active, *run.plan.with_role("passive")):
        if party in results:
            bars = [
                Bar(one.name, f"column {one.number}" if one.number else "", one.iv) for one in results[party].columns
            ]
        elif active and party in active.lent:
            bars = [Bar(f"column {number}", "", iv) for number, iv in enumerate(active.lent[party], 1)]
        else:
            continue
        bars.sort(key=lambda bar: -bar.iv)
        found[party] = Bars(bars[:COLUMNS_SHOWN], max(len(bars) - COLUMNS_SHOWN, 0))
    return found


def _headline(run: RunFiles, results: Mapping[str, InformationResult], columns: Mapping[str, Bars]) -> str:
    """What came out, in a sentence or two."""
    if not columns:
        return ""
    counted = next(iter(results.values())).common
    best = max(((bar, party) for party, bars in columns.items() for bar in bars.shown), key=lambda pair: pair[0].iv)
    said = f"{listed(list(columns))}: information values over {many(counted, 'row')} of {listed(run.plan.owners)}."
    return f"{said} The highest is that of {best[0].name} of {best[1]}, {best[0].iv:.2f}: {best[0].verdict}."
