"""What the seeker reads first: its list, how good that probably is, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import NonNegativeInt

from unpooled.drawing.chart import Chart, expected_chart, histogram_chart
from unpooled.drawing.html import render
from unpooled.drawing.words import many
from unpooled.evaluate.lookalike import Evaluation
from unpooled.jobs.lookalike.advice import Advice, KeptAdvice, at_length
from unpooled.jobs.lookalike.evaluation import EVALUATION
from unpooled.jobs.lookalike.in_common import KeptLine
from unpooled.jobs.lookalike.list_files import RELIABLE, read_list
from unpooled.jobs.run_files import Figure, Histogram, RunFiles, Section, result_of
from unpooled.jobs.work import Result

TOP_SHOWN = 10

_LIST, _SCORES = (Path(__file__).with_name(name) for name in ("list.html", "list_scores.html"))
_BEYOND = 2.5


@dataclass(frozen=True, kw_only=True)
class ListResult:
    """What a list leaves in `result.json` of the seeker; `iterations` counts rows, those never promoted first."""

    listed: NonNegativeInt
    iterations: tuple[NonNegativeInt, ...]
    scores: Histogram
    excluded: NonNegativeInt = 0
    advice: KeptAdvice | None = None
    in_common: tuple[KeptLine, ...] = ()


def list_figures(result: Result) -> list[Figure]:
    """How long a list is, and at the seeker what is expected of it."""
    said = []
    if "listed" in result:
        said.append(Figure("listed", result["listed"], f"{many(result['listed'], 'look-alike')} listed"))
    if "expected" in result:
        precision = result["expected"]["precision"]
        said.append(Figure("expected_precision", precision, f"about {precision:.0%} expected to be positive"))
    return said


def list_section(run: RunFiles, result: ListResult, whence: str, more: str = "", order: str = "") -> Section:
    """The seeker's page: the list, what is expected of it or came of it, and what to do with it; `more` follows."""
    seeker, advice = run.parties[run.owner or ""], result.advice
    first = render(
        _LIST,
        run=run,
        result=result,
        top=read_list(seeker.folder / RELIABLE, TOP_SHOWN),
        evaluation=result_of(seeker, Evaluation, EVALUATION),
        at_length=at_length,
        chart=advice_chart(advice, result.listed) if advice else None,
    )
    scores = histogram_chart(result.scores.edges, result.scores.counts, "score")
    html = render(_SCORES, run=run, result=result, scores=scores, order=order) + more
    count = many(result.listed, "look-alike")
    return Section(f"{run.owner} has {count}. {whence}", html, first, f"{count} for {run.owner}")


def advice_chart(advice: Advice, listed: int) -> Chart:
    """Expected precision by length, not much further than a list would go."""
    furthest = min(_BEYOND * max(listed, advice.suggested), advice.rows)
    shown = [
        at_length(advice, length) for length in (*(one for one in advice.lengths if one < furthest), int(furthest))
    ]
    return expected_chart(
        [at.length for at in shown],
        [at.precision for at in shown],
        ([at.low for at in shown], [at.high for at in shown]),
        suggested=advice.suggested,
        here=(listed, at_length(advice, listed).precision),
    )
