"""What shows before the start when the tables of all parties are on one machine."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from unpooled.data.table import table_from_frame
from unpooled.errors import InputError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.jobs.together import check_together
from unpooled.jobs.work import CheckedJob

ROLES = {"shop": "seeker", "telco": "passive", "bank": "active", "helper": "coordinator"}
CONSENTS = {"shop": {"positives": True}, "telco": {"found": True}, "bank": {"found": True}, "helper": {}}


def ids(numbers: Sequence[int], form: str = "{:05}") -> pl.DataFrame:
    return pl.DataFrame({"id": [form.format(number) for number in numbers], "x": list(numbers)})


def jobs(kind: str, frames: dict[str, pl.DataFrame], **private: Any) -> list[CheckedJob[Any]]:
    """All parties' sides of a job; `private` has more settings of the bank."""
    parties = {name: {"role": role} for name, role in ROLES.items() if name in frames or name == "helper"}
    plan = Plan.model_validate({"kind": kind, "parties": parties})
    made = []
    for party in parties:
        consent = CONSENTS[party] if kind == "lookalike" else {}
        settings = Private.model_validate({"consent": consent} | (private if party == "bank" else {}))
        table = table_from_frame(frames[party], "id", party) if party in frames else None
        made.append(checked(plan, party, settings, table))
    return made


def test_the_rows_in_common_are_counted() -> None:
    frames = {"shop": ids(range(40)), "telco": ids(range(200)), "bank": ids(range(10, 300))}
    found = check_together(jobs("lookalike", frames))
    assert found is not None
    assert (found.common, found.known, found.warnings) == (190, 30, ())
    assert check_together(jobs("check", {"bank": ids(range(40))} | {"telco": ids(range(40))})) is None


def test_too_few_ids_in_common_are_refused_with_a_hint() -> None:
    frames = {"telco": ids(range(100)), "bank": ids(range(100), "{}")}
    with pytest.raises(InputError, match=r"bank, telco have 0 ids in common.*minimum_overlap.*telco's 5"):
        check_together(jobs("align", frames))
    frames = {"telco": ids(range(100)), "bank": ids(range(60, 160))}
    with pytest.raises(InputError, match=r"40 ids in common, and bank requires 50"):
        check_together(jobs("align", frames, policy={"minimum_overlap": 50}))
    frames = {"shop": ids(range(500, 600)), "telco": ids(range(100)), "bank": ids(range(100))}
    with pytest.raises(InputError, match=r"bank, shop have 0 ids in common"):
        check_together(jobs("lookalike", frames))


def test_a_seeker_who_knows_too_few_is_refused_by_the_limit_for_positives() -> None:
    frames = {"shop": ids(range(60, 200)), "telco": ids(range(100)), "bank": ids(range(100))}
    with pytest.raises(InputError, match=r"bank, shop have 40 ids in common, and bank requires 50 .*minimum_positives"):
        check_together(jobs("lookalike", frames, policy={"minimum_positives": 50}))


def test_ids_are_compared_by_the_rules_of_the_plan() -> None:
    lost = ids(range(1, 101), "{}")
    hashes = [hashlib.sha256(f"{number:05}".encode()).hexdigest() for number in range(41, 141)]
    made = jobs("align", {"telco": lost, "bank": pl.DataFrame({"id": hashes})})
    rules = {"normalise": {"name": "digits", "length": 5}, "hash": "sha256"}
    plan = made[0].plan.model_copy(update={"parameters": rules})
    tables = {job.party: job.table and replace(job.table, hashed=job.party == "bank") for job in made}
    found = check_together([checked(plan, job.party, job.private, tables[job.party]) for job in made])
    assert found is not None
    assert (found.common, found.warnings) == (60, ())


@pytest.mark.parametrize("limit", [{"minimum_peer_rows": 101}, {"maximum_peer_rows": 99}])
def test_tables_too_small_or_large_for_a_policy_are_refused(limit: dict[str, int]) -> None:
    frames = {"telco": ids(range(100)), "bank": ids(range(100))}
    with pytest.raises(RefusedError, match=rf"bank .*{next(iter(limit))}.*telco"):
        check_together(jobs("align", frames, policy=limit))


def test_lost_leading_zeros_are_a_warning() -> None:
    lost = pl.concat([ids(range(50), "{}"), ids(range(50, 200))])
    found = check_together(jobs("align", {"telco": lost, "bank": ids(range(200))}))
    assert found is not None
    assert found.common == 150
    assert "50 more ids" in found.warnings[0]


def test_nobody_to_find_is_refused_and_not_told_to_others() -> None:
    everybody = {"shop": ids(range(100)), "telco": ids(range(100)), "bank": ids(range(100))}
    with pytest.raises(InputError, match=r"^bank: .*shop knows all 100 people") as caught:
        check_together(jobs("lookalike", everybody))
    assert not caught.value.shareable
    with pytest.raises(InputError, match=r"^bank: .*shop does not know 2"):
        check_together(jobs("lookalike", everybody | {"shop": ids(range(98))}))


def test_labels_of_the_common_rows_are_looked_at() -> None:
    bank = ids(range(100)).with_columns(bought=pl.col("x") >= 99)
    telco = ids(range(100))
    with pytest.raises(InputError, match=r"^bank: .*column 'bought': only one common row .*'true'"):
        check_together(jobs("train", {"telco": telco, "bank": bank}, target="bought"))
    with pytest.raises(InputError, match=r"^bank: .*column 'bought': 1 different labels"):
        check_together(jobs("train", {"telco": telco.head(90), "bank": bank}, target="bought"))
