"""A run as one HTML page that loads nothing: no script, font or picture from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from unpooled import atomic
from unpooled.budget.limits import RESULTS, SAID
from unpooled.budget.spending import RUN_BUDGET, Summary
from unpooled.drawing.html import render
from unpooled.errors import InputError, UnpooledError
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.run_files import RunFiles, Section, result_of
from unpooled.report.gather import gather
from unpooled.report.picture import draw_picture
from unpooled.run.folder import REPORT
from unpooled.version import PROTOCOL_VERSION, __version__
from unpooled.wire import WIRE_VERSION

DIFFERENCES_SHOWN = 20

_TEMPLATE = Path(__file__).parent / "templates" / "page.html"


def write_report(run: Path, files: RunFiles | None = None) -> Path:
    """Write `report.html` into the folder of one party, or of a whole run, from the files there, if not yet read.

    In a whole run every party gets its own page first, from its own files, and the run's page has links to these.
    """
    page, files = run / REPORT, files or gather(run)
    parties = () if files.owner else files.parties.values()
    pages = [party.name for party in parties if party.status and _written(party.folder)]
    # A party's own page names its columns, and the seeker's some ids.
    atomic.write_text(page, draw(files, pages))
    return page


def _written(folder: Path) -> bool:
    """Whether a party's page could be written; if its files are damaged, others still get theirs."""
    try:
        write_report(folder)
    except UnpooledError:
        return False
    return True


def _budgets(run: RunFiles) -> dict[str, Summary]:
    """What each party's folder says of its table's book; a file that cannot be used is left out."""
    found = {}
    for party in run.parties.values():
        with suppress(InputError):
            summary = result_of(party, Summary, RUN_BUDGET)
            if summary and summary.all_runs:
                found[party.name] = summary
    return found


def draw(run: RunFiles, pages: Sequence[str] = ()) -> str:
    """The page, with links to the pages of these parties; everything from a file is escaped."""
    kind, fault = kind_named(run.plan.kind), ""
    try:
        section = kind.section(run, parameters_of(run.plan))
    except InputError as error:  # a file that cannot be used takes its section off the page, and is named instead
        section, fault = Section("", ""), str(error)
    return render(
        _TEMPLATE,
        run=run,
        summary=kind.summary,
        picture=draw_picture(run.plan, run.owner, run.flows),
        section=section,
        fault=fault,
        budgets=_budgets(run),
        words=SAID,
        results=RESULTS,
        pages=pages,
        differences_shown=DIFFERENCES_SHOWN,
        version=__version__,
        protocol_version=PROTOCOL_VERSION,
        wire_version=WIRE_VERSION,
    )
