"""What an information job says: it is foretold, policies can forbid it, and the dry run says what it gives away."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl
import pytest
from coordinator_view import differences, view_of, with_other_values
from outlines import check_outline
from privacy_page import received

from unpooled.data.table import table_from_frame
from unpooled.errors import RefusedError
from unpooled.jobs.checks import check_policy, checked
from unpooled.jobs.kinds import kind_named, outline_of, parameters_of
from unpooled.jobs.private import Policy, Private
from unpooled.run.forecast import forecast
from unpooled.wire import disclosure_of

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}


@pytest.mark.parametrize("show", ["iv", "woe"])
@pytest.mark.parametrize("settings", [{}, {"engine": "plain"}, PAILLIER], ids=["shares", "plain", "paillier"])
def test_the_outline_is_what_is_said(informing: Any, settings: dict[str, Any], show: str) -> None:
    plan = informing.plan(show=show, **settings)
    check_outline(outline_of(plan), informing.run(plan).ledgers)


def test_columns_counted_in_groups_are_the_same(informing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are where all columns' bins together would fill the memory."""
    plan = informing.plan()
    whole = informing.run(plan, "whole").results
    monkeypatch.setattr("unpooled.information.protocol._WORDS_AT_ONCE", 1)
    parts = informing.run(plan, "parts")
    assert parts.results["telco"]["columns"] == whole["telco"]["columns"]
    assert parts.results["bank"]["lent"] == whole["bank"]["lent"]
    check_outline(outline_of(plan), parts.ledgers)


def test_counts_can_be_forbidden_and_the_ledger_says_what_they_are(informing: Any) -> None:
    plan = informing.plan(show="woe")
    with pytest.raises(RefusedError, match="bank never sends EvidenceShares"):
        check_policy(plan, "bank", Policy(never_send=("EvidenceShares",)))
    check_policy(informing.plan(), "bank", Policy(never_send=("EvidenceShares",)))
    roles = {name: party.role for name, party in plan.parties.items()}
    seen = {name: what for name, _, what in received("passive", outline_of(plan), roles)}
    assert "about how many positives each bin has" in seen["EvidenceShares"]
    assert "coordinator" in disclosure_of(next(e.message for e in outline_of(plan) if e.kind == "Wanted")).to


def test_the_dry_run_says_what_is_given_away_and_what_it_costs(informing: Any, frames: dict[str, Any]) -> None:
    kind = kind_named("information")
    plan = informing.plan(show="woe", woe_decimals=1, **PAILLIER)
    said = " ".join(kind.said_before(plan, parameters_of(plan)))
    assert "the weight of evidence of each of its bins in 1 decimals, and so about how many positives of bank" in said
    assert "coordinator deals the random numbers" in said
    plain = informing.plan(engine="plain")
    (sentence,) = kind.said_before(plain, parameters_of(plain))
    assert sentence.endswith("by a number instead of a name; nobody learns anything of single bins.")
    tables = {party: table_from_frame(frames[party], "id", party) for party in plan.owners}
    privates = {party: Private() for party in tables} | {"bank": Private.model_validate({"target": "buys"})}
    plan = informing.plan()
    jobs = [checked(plan, party, privates[party], table) for party, table in tables.items()]
    answers = kind.answers(jobs[0])
    assert answers is not None
    assert (answers.bits, answers.rows) == (2 * 21, 390)
    found = forecast([*jobs, checked(plan, "coordinator", Private())])
    assert found.parties["telco"].messages > 10
    assert forecast(jobs[:1], common=300).parties.keys() == set(plan.parties)


@pytest.mark.parametrize("settings", [{}, PAILLIER], ids=["shares", "paillier"])
def test_the_coordinator_cannot_tell_other_tables_of_the_same_shape(informing: Any, settings: dict[str, Any]) -> None:
    frames = informing.frames | {"bank": informing.frames["bank"].with_columns(pl.col("buys").fill_null("no"))}
    views = []
    for name, tables in (("one", frames), ("other", with_other_values(frames, 1))):
        scene = replace(informing, frames=tables)
        views.append(view_of(lambda s=scene, n=name: s.run(s.plan(show="woe", **settings), n)))
    assert differences(*views) == []
    assert "Wanted" in [kind for kind, *_ in views[0].lines["bank"]]
