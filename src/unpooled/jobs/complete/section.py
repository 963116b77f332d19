"""The section of a completed table: at the active party the table and how it came about, at a passive one what it lent.

Of a whole run there is a headline, and the parties' own pages.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp
from pathlib import Path
from statistics import fmean

from unpooled.drawing.html import render
from unpooled.drawing.words import listed, many, people, percent
from unpooled.jobs.align.section import alignment_html, common_figures
from unpooled.jobs.complete.parameters import Parameters
from unpooled.jobs.complete.results import CompletedResult, LentResult, SentActivations
from unpooled.jobs.complete.table_section import columns_html, table_html
from unpooled.jobs.run_files import Figure, RunFiles, Section, Told, learnt, result_of
from unpooled.jobs.train.columns import OwnerResult, Weight, ranked
from unpooled.jobs.work import Result

_LENT, _LEFT, _NOTHING = (Path(__file__).with_name(name) for name in ("lent.html", "left.html", "nothing.html"))

_SPELLED_OUT = 20
_BY_THE_TRUTH = {"r2": "R² {:.2f} of predicted numbers", "accuracy": "accuracy {:.2f} of predicted classes"}


def headline(result: Result) -> list[Figure]:
    """How many people are in common and how many are not, and how many cells were filled."""
    said = common_figures(result)
    if "others" in result:
        said.append(Figure("others", result["others"], f"{result['others']:,} more under handles"))
    if "cells" in result:
        for origin in ("predicted", "generated"):
            count = result["cells"][origin]
            said.append(Figure(origin, count, f"{count:,} cells {origin}"))
    predicted = {one["name"] for one in result.get("completed", ()) if one["way"] == "predicted"}
    columns = result.get("evaluation", {}).get("columns", {})
    for measure, words in _BY_THE_TRUTH.items():
        errors = [each["errors"] for name, each in columns.items() if name in predicted]
        if found := [each[measure] for each in errors if measure in each]:
            said.append(Figure(measure, fmean(found), f"{words.format(fmean(found))}, by the truth"))
    return said


def section(run: RunFiles, parameters: Parameters) -> Section:
    """What one party's files say of a completed table."""
    active = run.plan.active
    if run.owner is None:
        done = result_of(run.parties[active], CompletedResult)
        return Section(_completed_words(run, done) if done else "", "")
    party, role = run.parties[run.owner], run.plan.parties[run.owner].role
    alignment = alignment_html(run, parameters)
    if role == "active" and (done := result_of(party, CompletedResult)):
        html = columns_html(run, done) + _left_html(run, _own_words(run, done)) + alignment
        title = f"A table of {people(done.common + done.others)} for {run.owner}"
        return Section(_completed_words(run, done), html, table_html(run, done), title)
    if role == "passive" and (lent := result_of(party, LentResult)):
        lent_words = f"{many(lent.columns, 'column')} of {people(lent.common + lent.others)}"
        words = f"{run.owner} lent {lent_words} to {active}’s table."
        return Section(words, _lent_html(run, lent) + _left_html(run, _lent_words(run, lent)) + alignment)
    return Section("", ("" if role == "coordinator" else render(_NOTHING, run=run)) + alignment)


def _completed_words(run: RunFiles, done: CompletedResult) -> str:
    lenders, total = listed(run.plan.with_role("passive")), sum(done.cells.values()) or 1
    known = f"{run.plan.active} has a table of {people(done.common + done.others)} of {lenders}"
    ways = [f"{percent(done.cells[origin] / total)} {origin}" for origin, count in done.cells.items() if count]
    return f"{known}, {done.common:,} of whom it knew. Cells: {listed(ways)}."


def _own_words(run: RunFiles, done: CompletedResult) -> str:
    lenders = listed(run.plan.with_role("passive"))
    predicted = sum(one.way == "predicted" for one in done.completed)
    known = "whose names the plan tells, without their values" if not done.measure else "without their names and values"
    words = (
        f"No cell of {run.owner} left the house. {lenders} learnt which {done.common:,} people {run.owner} has "
        f"too, and took part in predicting {many(predicted, 'column')}, {known}."
    )
    if done.activations is None:
        return words
    return (
        f"{words} {_sent_words(done.activations, run.plan.with_role('passive'), run.owner or '')} For that "
        f"{lenders} learnt how columns of {'its' if len(run.plan.with_role('passive')) == 1 else 'their'} own go with "
        f"{run.owner}’s, over the {done.common:,} people in common together."
    )


def _sent_words(sent: SentActivations, lenders: Sequence[str], receiver: str) -> str:
    """Which activations were sent, and what epsilon and delta mean."""
    each = "sent" if len(lenders) == 1 else "each sent"
    factor = f" = {exp(sent.epsilon):,.0f}" if sent.epsilon <= _SPELLED_OUT else ""
    return (
        f"{listed(lenders)} {each} {receiver} activations, once: {many(sent.units, 'number')} with noise for each of "
        f"{people(sent.rows)}, which change the odds of a guess about a person by a factor of "
        f"e^{sent.epsilon:g}{factor} at the most (ε = {sent.epsilon:g}), and with a chance of δ = {sent.delta:g} by "
        "more."
    )


def _lent_words(run: RunFiles, lent: LentResult) -> str:
    sent = ""
    if lent.activations:
        sent = f" {_sent_words(lent.activations, [run.owner or ''], run.plan.active)} Those of several runs add up."
    return (
        f"No cell of {run.owner} left the house. {run.plan.active} learnt sums over many people, and which people lie "
        "on which side of a threshold, without its value or the column’s name. Put together, that may show in which "
        f"range of most columns each person lies; limits on thresholds, bits and splits keep it from that.{sent}"
    )


def _left_html(run: RunFiles, words: str) -> str:
    """What was told to whom between the active party and the passive ones, as far as this party's ledger knows."""
    active, passive = run.plan.active, run.plan.with_role("passive")
    others = passive if run.owner == active else [run.owner or ""]
    told: dict[tuple[str, str], tuple[Told, ...]] = {}
    for other in others:
        for learner, teller in ((other, active), (active, other)):
            told |= {(learner, name): found for name, found in learnt(run, learner, [teller]).items()}
    own_first = sorted(told.items(), key=lambda item: item[0][1] != run.owner)
    return render(_LEFT, run=run, words=words, told=dict(own_first)) if told else ""


def _lent_html(run: RunFiles, lent: LentResult) -> str:
    rows = lent.common + lent.others
    by_weight = any(isinstance(one, Weight) for one in lent.importance)
    owner = OwnerResult(
        common=rows, columns=lent.columns, importance=lent.importance, thresholds=None if by_weight else lent.splits
    )
    limits = lent.limits
    answers = [
        (
            "Questions",
            f"columns of numbers of {run.plan.active} that were multiplied with {run.owner}’s; it was shown sums",
            f"{lent.questions:,}",
            f"{limits.questions:,}" if limits.questions is not None else "",
        ),
        (
            "Bits for each person",
            "the most that these sums can tell; much of it is told more than once"
            + (f". In bins the columns have {lent.table_bits / (rows or 1):,.0f}" if lent.table_bits else ""),
            f"{lent.bits / (rows or 1):,.0f}",
            _most_bits(lent, rows),
        ),
    ]
    if not by_weight:
        meaning = f"times that {run.plan.active} was told which people lie on which side of a threshold"
        most = f"{limits.splits:,}" if limits.splits is not None else ""
        answers.append(("Splits", meaning, f"{lent.splits:,}", most))
    if lent.all_thresholds:
        meaning = f"different ones among these, of all that {run.owner}’s columns have in bins"
        answers.append(("Thresholds", meaning, f"{lent.thresholds:,}", f"{lent.all_thresholds:,}"))
    return render(_LENT, run=run, result=lent, ranked=ranked(owner), by_weight=by_weight, answers=answers)


def _most_bits(lent: LentResult, rows: int) -> str:
    """The lower of the party's own limit and of what the plan's models need."""
    limits = [] if lent.limits.bits_per_row is None else [lent.limits.bits_per_row]
    if lent.most_bits is not None:
        limits.append(lent.most_bits / (rows or 1))
    return f"{min(limits):,.0f}" if limits else ""
