"""The section of a delivery: at the seeker the list, at the others who agreed to what."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import NonNegativeInt

from unpooled.drawing.words import many
from unpooled.jobs.deliver.job import Parameters
from unpooled.jobs.lookalike.list_section import ListResult, list_section
from unpooled.jobs.run_files import RunFiles, Section, result_of


@dataclass(frozen=True)
class SentResult:
    """What a delivery leaves in `result.json` of the active party."""

    ranked: NonNegativeInt
    listed: NonNegativeInt
    excluded: NonNegativeInt = 0


def section(run: RunFiles, _parameters: Parameters) -> Section:
    """What one party's files say of a delivery; of a whole run there is a headline, and the parties' own pages."""
    active, (seeker,) = run.plan.active, run.plan.with_role("seeker")
    if run.owner == seeker and (received := result_of(run.parties[seeker], ListResult)):
        return list_section(run, received, f"{active} sent them from the ranking of an earlier search.")
    if run.owner in run.plan.with_role("passive"):
        return Section(f"{run.owner} agreed that {active} sends {seeker} another list from an earlier search.", "")
    sent = result_of(run.parties[active], SentResult) if run.owner in (None, active) else None
    return Section(_sent_words(active, seeker, sent) if sent else "", "")


def _sent_words(active: str, seeker: str, sent: SentResult) -> str:
    made = f"{active} sent {seeker} the first {sent.listed:,} of {many(sent.ranked, 'person')} whom it had ranked."
    left = f" {sent.excluded:,} of them were left out by its own file." if sent.excluded else ""
    return made.replace("persons", "people") + left
