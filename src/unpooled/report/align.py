"""An alignment's own section of the report: how many rows were left at each step, and who learnt what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import NonNegativeInt, TypeAdapter, ValidationError

from unpooled.align.rows import Places
from unpooled.errors import PlanError
from unpooled.jobs.align import Parameters, places_of
from unpooled.report.funnel import Funnel, Tally, funnel_of
from unpooled.report.gather import PartyFiles, Story


@dataclass(frozen=True)
class AlignResult:
    """What an alignment leaves in `result.json` of a party with a table; which counts are there depends on its role."""

    rows_read: NonNegativeInt
    rows: NonNegativeInt
    common: NonNegativeInt | None = None
    positives: NonNegativeInt | None = None
    asked_about: NonNegativeInt | None = None
    digest: str = ""
    file: str = ""


@dataclass(frozen=True)
class AlignSection:
    """Every party's result, None where there is none that can be read, what they amount to, and the picture of it.

    `in_ring` says that the coordinator compared the lists; otherwise the active party asked each other one in turn.
    """

    places: Places
    method: str
    in_ring: bool
    results: Mapping[str, AlignResult | None]
    common: int | None
    positives: int | None
    digests: Mapping[str, str]
    funnel: Funnel | None

    @property
    def keepers(self) -> list[str]:
        """The parties here that hold aligned ids."""
        return [name for name, result in self.results.items() if result and result.file]


def align_section(story: Story) -> AlignSection | None:
    """What the results of an alignment say; None if the plan is not one that could be aligned."""
    parameters = Parameters.model_validate(story.plan.parameters)
    try:
        places = places_of(story.plan, parameters)
    except PlanError:
        return None
    results = {name: _result(party) for name, party in story.parties.items()}
    owned = {name: result for name in (*places.passive, places.active) if (result := results.get(name))}
    common = next((result.common for result in owned.values() if result.common is not None), None)
    positives = owned[places.active].positives if places.seeker and places.active in owned else None
    return AlignSection(
        places=places,
        method="ECDH on ristretto255" if parameters.psi == "ecdh" else f"blind RSA, {story.plan.key_bits} bits",
        in_ring=parameters.psi == "ecdh" and bool(places.passive and places.coordinator),
        results=results,
        common=common,
        positives=positives,
        digests={name: result.digest for name, result in owned.items() if result.digest},
        funnel=_funnel(places, results, common, positives),
    )


def _funnel(
    places: Places, results: Mapping[str, AlignResult | None], common: int | None, positives: int | None
) -> Funnel | None:
    tallies = {name: Tally(result.rows_read, result.rows) for name, result in results.items() if result}
    owners = {name: tallies[name] for name in (*places.passive, places.active) if name in tallies}
    seeker = places.seeker
    shown = seeker is not None and (seeker in tallies or positives is not None)
    return funnel_of(owners, {seeker: tallies.get(seeker)} if seeker and shown else {}, common, positives)


def _result(party: PartyFiles) -> AlignResult | None:
    try:
        return TypeAdapter(AlignResult).validate_python(party.result)
    except ValidationError:
        return None
