"""What the seeker reads first: its list, how good that probably is, and what to do next."""

from __future__ import annotations

from pathlib import Path

from unpooled.drawing.chart import Chart, expected_chart
from unpooled.drawing.html import render
from unpooled.evaluate.lookalike import Evaluation
from unpooled.jobs.lookalike.advice import Advice, at_length
from unpooled.jobs.lookalike.evaluation import EVALUATION
from unpooled.jobs.lookalike.list_files import RELIABLE, read_list
from unpooled.jobs.run_files import PartyFiles, RunFiles, result_of

TOP_SHOWN = 10

_TEMPLATE = Path(__file__).with_name("list.html")
_BEYOND = 2.5


def list_html(run: RunFiles, seeker: PartyFiles, listed: int, excluded: int, advice: Advice | None) -> str:
    """The top of the list, what is expected of it or came of it, and what to do with it."""
    return render(
        _TEMPLATE,
        run=run,
        listed=listed,
        excluded=excluded,
        top=read_list(seeker.folder / RELIABLE, TOP_SHOWN),
        evaluation=result_of(seeker, Evaluation, EVALUATION),
        advice=advice,
        at_length=at_length,
        chart=advice_chart(advice, listed) if advice else None,
    )


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
