"""Where all tables are on this machine: what an alignment would find, known before the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled.align.ids import hint, keys_of, looks_of
from unpooled.arrays import Bools
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.jobs.align import job as align
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.work import CheckedJob, cleaned


@dataclass(frozen=True)
class Together:
    """How many rows the owners have in common, how many of them the seeker knows, and what looks wrong with the ids."""

    common: int
    known: int | None
    warnings: tuple[str, ...]


def check_together(jobs: Sequence[CheckedJob[Any]]) -> Together | None:
    """Refuse tables with too few ids in common, or with rows in common that the job cannot use.

    The jobs are those of all parties, with their tables. None for a kind of job that does not align.
    """
    plan, parameters = jobs[0].plan, jobs[0].parameters
    if not isinstance(parameters, align.Parameters):
        return None
    places = align.places_of(plan, parameters)
    overlaps = {job.party: job.private.policy.minimum_overlap for job in jobs}
    tables = {job.party: table for job in jobs if (table := cleaned(job)[0]) is not None}
    keys = {party: keys_of(table, ignore_case=parameters.ignore_case) for party, table in tables.items()}
    _check_id_columns(tables)
    found = set.intersection(*(set(keys[party]) for party in places.owners))
    if places.passive:
        _check_enough(len(found), places.owners, overlaps, tables, ignore_case=parameters.ignore_case)
    chosen = np.flatnonzero([key in found for key in keys[places.active]])
    common, known = tables[places.active].take(chosen), None
    if places.seeker:
        sought = set(keys[places.seeker])
        known = np.array([keys[places.active][row] in sought for row in chosen], bool)
        compared = {places.active: common, places.seeker: tables[places.seeker]}
        _check_enough(int(known.sum()), list(compared), overlaps, compared, ignore_case=parameters.ignore_case)
    active = next(job for job in jobs if job.party == places.active)
    kind_named(plan.kind).check_common(active, common, known)
    return Together(len(chosen), _count(known), _lost_zeros(tables, places.owners, len(found)))


def _count(known: Bools | None) -> int | None:
    return None if known is None else int(known.sum())


def _check_id_columns(tables: Mapping[str, Table]) -> None:
    (first, one), *others = tables.items()
    for party, table in others:
        if len(table.id) != len(one.id):
            both = f"{first} by {len(one.id)}, {party} by {len(table.id)}"
            raise InputError(f"the parties identify rows by different numbers of columns: {both}")


def _check_enough(
    found: int, parties: Sequence[str], overlaps: Mapping[str, int], tables: Mapping[str, Table], *, ignore_case: bool
) -> None:
    strictest = max(parties, key=lambda party: overlaps[party])
    if found < overlaps[strictest]:
        first, *others = parties
        hints = [
            hint(looks_of(tables[first]), looks_of(tables[other]), first, other, ignore_case=ignore_case)
            for other in others
        ]
        raise InputError(
            f"{', '.join(parties)} have {found:,} ids in common, and {strictest} requires {overlaps[strictest]:,} "
            f"(policy.minimum_overlap): {'; '.join(hints)}"
        )


def _lost_zeros(tables: Mapping[str, Table], owners: Sequence[str], found: int) -> tuple[str, ...]:
    """Ids that would match without leading zeros, which spreadsheets remove."""
    if any(len(tables[party].id) > 1 for party in owners):
        return ()
    stripped = [set(tables[party].frame[tables[party].id[0]].str.strip_chars_start("0")) for party in owners]
    more = len(set.intersection(*stripped)) - found
    if more <= 0:
        return ()
    return (f"{more:,} more ids would match without leading zeros: a table of {', '.join(owners)} may have lost them",)
