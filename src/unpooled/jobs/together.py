"""Where all tables are on this machine: what an alignment would find, known before the start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np

from unpooled.align.handles import as_compared
from unpooled.align.ids import advice, hint, keys_of, looks_of
from unpooled.align.normalise import IdRules, comparable
from unpooled.align.opening import Limits, check_sizes
from unpooled.align.other_rows import check_others
from unpooled.align.rows import Places, Psi
from unpooled.arrays import Bools, Ints
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
    by_party = {job.party: job for job in jobs}
    tables = {job.party: table for job in jobs if (table := cleaned(job)[0]) is not None}
    owners = {party: as_compared(tables[party], parameters)[0] for party in places.owners}
    rules = as_compared(tables[places.active], parameters)[1]
    _check_id_columns(owners)
    keys = keys_compared(tables, places.owners, parameters)
    chosen = rows_in_all(keys)
    limits = {party: align.limits_of(by_party[party]) for party in places.owners}
    _check_sizes(places, {party: table.frame.height for party, table in owners.items()}, limits, parameters.psi)
    if places.passive:
        _check_enough(len(chosen), owners, limits, rules)
    common, known = tables[places.active].take(chosen), None
    if places.seeker:
        compared = {places.active: common, places.seeker: tables[places.seeker]}
        _check_id_columns(compared)
        known = known_rows(common, tables[places.seeker], parameters)
        limits = {party: align.label_limits_of(by_party[party]) for party in compared}
        for party in compared:
            check_sizes(party, {other: table.frame.height for other, table in compared.items()}, limits[party])
        _check_enough(int(known.sum()), compared, limits, parameters)
    others = len(set.intersection(*map(set, keys[1:])) - set(keys[0])) if places.passive else 0
    if kind_named(plan.kind).other_rows:
        for party in places.passive:
            check_others(party, others, by_party[party].private.policy.minimum_rows)
    kind_named(plan.kind).check_common(by_party[places.active], common, known, others)
    return Together(len(chosen), _count(known), _lost_zeros(owners, places.owners, len(chosen), rules))


def keys_compared(tables: Mapping[str, Table], owners: Sequence[str], rules: IdRules) -> list[list[bytes]]:
    """The keys by which owners compare their rows."""
    return [keys_of(*as_compared(tables[party], rules)) for party in owners]


def rows_in_all(keys: Sequence[Sequence[bytes]]) -> Ints:
    """The rows of the first list that are in all of them."""
    found = set.intersection(*map(set, keys))
    return np.flatnonzero([key in found for key in keys[0]])


def known_rows(common: Table, seeker: Table, rules: IdRules) -> Bools:
    """Which of the active party's rows the seeker has."""
    sought = set(keys_of(seeker, rules))
    return np.array([key in sought for key in keys_of(common, rules)], bool)


def _count(known: Bools | None) -> int | None:
    return None if known is None else int(known.sum())


def _check_id_columns(tables: Mapping[str, Table]) -> None:
    (first, one), *others = tables.items()
    for party, table in others:
        if len(table.id) != len(one.id):
            both = f"{first} by {len(one.id)}, {party} by {len(table.id)}"
            raise InputError(f"the parties identify rows by different numbers of columns: {both}")


def _check_sizes(places: Places, sizes: Mapping[str, int], limits: Mapping[str, Limits], psi: Psi) -> None:
    """Refuse tables that are too small or too large for a policy; in pairs, passive parties see no other's."""
    together = places.meets(psi)
    for one, other in permutations(places.owners, 2):
        if together or places.active in (one, other):
            check_sizes(one, {other: sizes[other]}, limits[one])


def _check_enough(found: int, tables: Mapping[str, Table], limits: Mapping[str, Limits], rules: IdRules) -> None:
    strictest = max(tables, key=lambda party: limits[party].overlap)
    least = limits[strictest].overlap
    if found >= least:
        return
    looks = {party: looks_of(comparable(table, rules)) for party, table in tables.items()}
    first, *others = tables
    hints = [hint(looks[first], looks[other], first, other, len(tables[first].id)) for other in others]
    hints += [f"{party}: {text}" for party, table in tables.items() for text in advice(table, rules)]
    raise InputError(
        f"{', '.join(tables)} have {found:,} ids in common, and {strictest} requires {least:,} "
        f"(policy.{limits[strictest].setting}): {'; '.join(hints)}"
    )


def _lost_zeros(tables: Mapping[str, Table], owners: Sequence[str], found: int, rules: IdRules) -> tuple[str, ...]:
    """Ids that would match without leading zeros, which spreadsheets remove."""
    if rules.hash or any(len(tables[party].id) > 1 for party in owners):
        return ()
    stripped = [set(comparable(tables[party], rules).to_series().str.strip_chars_start("0")) for party in owners]
    more = len(set.intersection(*stripped)) - found
    if more <= 0:
        return ()
    names = ", ".join(owners)
    return (
        f"{more:,} more ids would match without leading zeros: a table of {names} may have lost them "
        "(the rule digits in normalise restores them)",
    )
