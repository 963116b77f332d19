"""The section of an alignment, or of one that a job begins with: how many rows each step left, and who learnt what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import NonNegativeInt

from unpooled.align.handles import compares_handles
from unpooled.align.rows import Places, Psi
from unpooled.drawing.html import render
from unpooled.drawing.words import listed, people
from unpooled.errors import PlanError
from unpooled.jobs.align.funnel import Funnel, Tally, funnel_of
from unpooled.jobs.align.job import ALIGNED, Parameters, places_of
from unpooled.jobs.run_files import Figure, RunFiles, Section, result_of
from unpooled.jobs.work import Result

_TEMPLATE = Path(__file__).with_name("section.html")
_METHODS: Mapping[Psi, str] = {
    "ecdh": "ECDH on ristretto255",
    "blind-rsa": "blind RSA, {bits} bits",
    "aided": "tags under a key that {coordinator} does not have; if it colluded with a party that has it, the two "
    "could test guesses of the others' ids",
}


@dataclass(frozen=True)
class AlignResult:
    """What an alignment leaves in `result.json` of a party with a table; which counts are there depends on its role."""

    rows_read: NonNegativeInt
    rows: NonNegativeInt
    excluded_rows: NonNegativeInt = 0
    rows_without_handle: NonNegativeInt = 0
    common: NonNegativeInt | None = None
    positives: NonNegativeInt | None = None
    asked_about: NonNegativeInt | None = None
    listed: NonNegativeInt | None = None
    digest: str = ""


@dataclass(frozen=True)
class AlignSection:
    """Every party's result, None where there is none, what they amount to, and the picture of it.

    `learnt` says in words what a party was told, and nothing of one that did not get that far. `asked_about` is what
    the seeker alone knows of the number in common. `listed` is how many look-alikes came of it, where they were sought.
    `digests` are those of the owners of aligned rows, `files` where they have left the ids of these.
    """

    places: Places
    compared: str
    method: str
    results: Mapping[str, AlignResult | None]
    learnt: Mapping[str, str]
    common: int | None
    positives: int | None
    asked_about: int | None
    listed: int | None
    digests: Mapping[str, str]
    files: Sequence[str]
    funnel: Funnel | None


def headline(result: Result) -> list[Figure]:
    """How many people are in common, and how many of them are the seeker's; the seeker knows neither."""
    said = common_figures(result)
    if "positives" in result:
        said.append(Figure("positives", result["positives"], f"{result['positives']:,} of them known to the seeker"))
    if "asked_about" in result:
        said.append(Figure("asked_about", result["asked_about"], f"asked about {people(result['asked_about'])}"))
    return said


def common_figures(result: Result) -> list[Figure]:
    """How many people are in common, in the result of any job that aligns."""
    return [Figure("common", result["common"], f"{people(result['common'])} in common")] if "common" in result else []


def section(run: RunFiles, parameters: Parameters) -> Section:
    """The section of a job that only aligns."""
    return Section("", alignment_html(run, parameters))


def alignment_html(run: RunFiles, parameters: Parameters) -> str:
    """How rows were aligned, for the section of any job that begins with it; empty if the plan cannot be aligned."""
    found = alignment(run, parameters)
    return render(_TEMPLATE, run=run, section=found) if found else ""


def alignment(run: RunFiles, parameters: Parameters) -> AlignSection | None:
    """What the results of a job that aligns rows say of that; None if the plan is not one that could be aligned."""
    try:
        places = places_of(run.plan, parameters)
    except PlanError:
        return None
    results = {
        name: None if name == places.coordinator else result_of(party, AlignResult)
        for name, party in run.parties.items()
    }
    owned = {name: result for name in (*places.passive, places.active) if (result := results.get(name))}
    common = next((result.common for result in owned.values() if result.common is not None), None)
    active, asked = owned.get(places.active), results.get(places.seeker or "")
    positives = active.positives if active and places.seeker and common is not None else None
    listed = active.listed if active and positives is not None else None
    return AlignSection(
        places=places,
        compared="Handles" if compares_handles(parameters) else "Ids",
        method=_METHODS[parameters.psi].format(bits=run.plan.key_bits, coordinator=places.coordinator),
        results=results,
        learnt={
            name: _learnt(places, parameters.psi, name, results[name])
            for name, party in run.parties.items()
            if results[name] or (name == places.coordinator and party.state == "finished")
        },
        common=common,
        positives=positives,
        asked_about=asked.asked_about if asked and common is None else None,
        listed=listed,
        digests={name: result.digest for name, result in owned.items() if result.digest},
        files=[
            ALIGNED if run.owner else f"{name}/{ALIGNED}"
            for name in owned
            if (run.parties[name].folder / ALIGNED).exists()
        ],
        funnel=_funnel(places, results, common, positives, listed),
    )


def _funnel(
    places: Places,
    results: Mapping[str, AlignResult | None],
    common: int | None,
    positives: int | None,
    listed: int | None,
) -> Funnel | None:
    tallies = {name: Tally(result.rows_read, result.rows) for name, result in results.items() if result}
    owners = {name: tallies[name] for name in (*places.passive, places.active) if name in tallies}
    seeker = {
        name: tallies.get(name) for name in (places.seeker,) if name and (name in tallies or positives is not None)
    }
    return funnel_of(owners, seeker, common, positives, listed)


def _learnt(places: Places, psi: Psi, name: str, result: AlignResult | None) -> str:
    """What a party was told, beyond what everybody knows from the plan."""
    owners, at_once = (*places.passive, places.active), places.meets(psi)
    together = listed(owners) if len(owners) == 2 else f"the {len(owners)} owners of columns"
    if result is None:
        compared = []
        if at_once:
            compared.append(f"how many rows each of {together} brought, and how many any of them have in common")
        if psi == "aided" and places.seeker:
            compared.append(f"how many ids {places.seeker} brought, and how many of the common rows are its own")
        return f"{'; '.join(compared)}; no ids" if compared else "nothing: this way of comparing ids does without it"
    if name == places.seeker:
        return (
            f"that {places.active} asked about {_count(result.asked_about)} rows, and that enough of its own ids are "
            "among them; neither which rows, nor which of its ids"
        )
    told = []
    asks = name == places.active and not at_once
    if asks and len(places.passive) > 1:
        told.append(f"which of its rows each of {listed(places.passive)} has")
    if places.passive:
        told.append(f"which {_count(result.common)} of its rows are common to {together}")
        others = [owner for owner in owners if owner != name] if at_once or asks else [places.active]
        told.append(f"how many rows {'each of the others' if len(others) > 2 else listed(others)} brought")
    if name == places.active and places.seeker:
        told.append(f"which {_count(result.positives)} of these {_count(result.common)} are {places.seeker}'s too")
        told.append(f"how many ids {places.seeker} brought")
    return "; ".join(told)


def _count(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
