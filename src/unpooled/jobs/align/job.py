"""Find the people that all parties know, and which of them the seeker knows as positive, without showing any other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from unpooled.align import rows
from unpooled.align.handles import as_compared
from unpooled.align.ids import keys_of
from unpooled.align.normalise import IdRules
from unpooled.align.opening import Limits
from unpooled.align.outline import alignment_outline
from unpooled.align.rows import Method, Places, Psi
from unpooled.arrays import Ints
from unpooled.data.prepare import Cleaning
from unpooled.data.table import Table
from unpooled.errors import PlanError
from unpooled.jobs.kind import Agreement
from unpooled.jobs.learning.scores import write_rows
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.work import CheckedJob, Work
from unpooled.session import Session

ALIGNED = "aligned.csv"
LABEL = "label"
AIDED = Agreement(
    "aided",
    "if {coordinator} colluded with another party whose ids are compared, the two could test guesses of the ids of "
    "{party}",
    "psi",
    value="aided",
)
_KEY_SIZES = (2048, 3072, 4096)
_SMALLEST_KEY = 1024


class Parameters(IdRules):
    """What an alignment can be told."""

    psi: Psi = Field(
        "ecdh",
        description="how ids are compared: ecdh; blind-rsa with keys of key_bits, which takes far longer; or aided, "
        "which takes seconds for a million ids, but a coordinator that colludes with a party could test guesses of the "
        "others' ids, so all parties with ids must agree to it (consent.aided)",
    )


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True, eq=False)
class Common:
    """An owner's rows that all owners have, in an order that their ids decide, their digest, and counts for a result.

    All owners have the same ids, or the same handles if they compare these, so they have this order in common too.
    Unlike that of the alignment it is the same in every run, so that draws of rows come out the same again. `rows` says
    where they are in the party's whole table.
    """

    table: Table
    rows: Ints
    digest: str
    counts: dict[str, Any]


def role(session: Session, work: Work[Parameters]) -> dict[str, Any]:
    """Every party's part, by its role in the plan; the result has counts, and the ids go into a file of their own."""
    places, method = places_of(work.plan, work.parameters), method_of(work.plan, work.parameters)
    limits = limits_of(work)
    table, cleaning = work.table, work.cleaning
    if table is None or cleaning is None:
        rows.help_find_common(session, places, method, limits)
        return {}
    result = brought(work, table, cleaning)
    if session.party == places.seeker:
        return result | {"asked_about": rows.help_label(session, places, table, method, label_limits_of(work))}
    aligned = rows.find_common(session, places, table, method, limits)
    _count_found(work, places, table.take(aligned.rows), aligned.digest)
    labels = None
    if session.party == places.active and places.seeker is not None:
        labels = rows.label(session, places, table, aligned, method, label_limits_of(work))
        result["positives"] = int((labels == rows.POSITIVE).sum())
    write_aligned(work.folder, table.take(aligned.rows), labels)
    return result | {"common": len(aligned.rows), "digest": aligned.digest, "file": ALIGNED}


def outline(plan: Plan, parameters: Parameters) -> list[Exchange]:
    """What an alignment says; how many chunks it takes depends on the tables."""
    places = places_of(plan, parameters)
    method_of(plan, parameters)
    return alignment_outline(places, parameters.psi)


def places_of(plan: Plan, parameters: Parameters) -> Places:
    """Who does what in a plan; PlanError if its parties cannot be aligned."""
    passive, seekers, coordinators = (plan.with_role(role) for role in ("passive", "seeker", "coordinator"))
    if len(seekers) > 1 or len(coordinators) > 1:
        raise PlanError("parties: there can be one seeker and one coordinator at most")
    if not passive and not seekers:
        raise PlanError("parties: an alignment needs a passive party or a seeker besides the active one")
    if parameters.psi == "ecdh" and len(passive) > 1 and not coordinators:
        raise PlanError("parties: to align several passive parties, add a coordinator, or set psi = 'blind-rsa'")
    if parameters.psi == "aided" and not coordinators:
        raise PlanError("parties: psi = 'aided' needs a coordinator, which compares; add one, or set psi = 'ecdh'")
    return Places(plan.active, tuple(passive), next(iter(seekers), None), next(iter(coordinators), None))


def method_of(plan: Plan, parameters: Parameters) -> Method:
    """How ids are compared; PlanError if the plan's keys cannot be made."""
    if parameters.psi == "blind-rsa":
        if not plan.insecure and plan.key_bits not in _KEY_SIZES:
            raise PlanError(f"key_bits: for blind-rsa one of {', '.join(map(str, _KEY_SIZES))}, not {plan.key_bits}")
        if plan.key_bits < _SMALLEST_KEY:
            raise PlanError(f"key_bits: keys for blind-rsa have at least {_SMALLEST_KEY} bits, even if insecure")
    return Method(parameters.psi, plan.key_bits, parameters)


def limits_of(work: CheckedJob[P]) -> Limits:
    """What this party's policy asks where owners find their common rows."""
    policy, spending = work.private.policy, work.spending if isinstance(work, Work) else None
    opened = spending.opened if spending else None
    return Limits(policy.minimum_peer_rows, policy.minimum_overlap, policy.maximum_peer_rows, opened=opened)


def label_limits_of(work: CheckedJob[P]) -> Limits:
    """What this party's policy asks where the active party learns which of these the seeker has."""
    return replace(limits_of(work), overlap=work.private.policy.minimum_positives, setting="minimum_positives")


def common_rows(session: Session, work: Work[P], places: Places) -> Common | int | None:
    """Align as the first step of another job; at the coordinator, who helps, how many rows are common, if it sees."""
    method = method_of(work.plan, work.parameters)
    with session.scope("align"):
        if work.table is None or work.cleaning is None:
            return rows.help_find_common(session, places, method, limits_of(work))
        compared, rules = as_compared(work.table, method.ids)
        aligned = rows.find_common(session, places, compared, replace(method, ids=rules), limits_of(work))
    keys = keys_of(compared.take(aligned.rows), rules)
    rows_in_order = aligned.rows[np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)]
    table = work.table.take(rows_in_order)
    _count_found(work, places, table, aligned.digest)
    write_aligned(work.folder, table)
    counts = brought(work, work.table, work.cleaning) | {"common": len(keys)}
    return Common(table, rows_in_order, aligned.digest, counts | {"digest": aligned.digest})


def _count_found(work: Work[P], places: Places, common: Table, digest: str) -> None:
    """Write into the book of the party's table which rows are common with the others, and refuse a small change."""
    if work.spending and (others := [owner for owner in places.owners if owner != work.party]):
        work.spending.found(others, common.ids, digest)


def brought(work: Work[P], table: Table, cleaning: Cleaning) -> dict[str, Any]:
    """What a result says of the party's own table."""
    return {"rows_read": cleaning.rows_read, "rows": table.frame.height, **work.left_out}


def write_aligned(folder: Path, table: Table, labels: NDArray[np.int8] | None = None) -> None:
    """Write the ids of aligned rows in their common order, and the labels where this party is entitled to them."""
    write_rows(folder / ALIGNED, table.ids, {} if labels is None else {LABEL: pl.Series(labels)})
