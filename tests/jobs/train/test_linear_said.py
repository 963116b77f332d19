"""What `train` and `predict` say with linear models: it is foretold, and policies can stop it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import RefusedError
from unpooled.jobs.checks import check_policy
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.private import Policy
from unpooled.ledger import Record, reconcile_all

PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
TWO = ("telco", "bank", "coordinator")
THREE = ("telco", "bank", "railway", "coordinator")
LINEAR = {"learner": "linear"}
TINY = LINEAR | {"insecure_batch": True, "epochs": 1, "reveal": "gradients"}


def bare(tables: Mapping[str, Table]) -> dict[str, Table]:
    """The tables, but nobody except the bank has columns."""
    without = {party: table_from_frame(table.frame.select("id"), "id", party) for party, table in tables.items()}
    return without | {"bank": tables["bank"]}


def said(ledgers: Mapping[str, Record]) -> set[tuple[str, str, str]]:
    return {(party, e.peer, e.kind) for party, record in ledgers.items() for e in record.entries if e.way == "sent"}


def check_outline(plan: Any, ledgers: Mapping[str, Record]) -> set[str]:
    """Assert that the outline is what was said; the kinds of message that came up although they need not."""
    exchanges = outline_of(plan)
    certain, possible = (
        {(e.sender, e.receiver, e.kind) for e in exchanges if with_conditions or not e.only_if}
        for with_conditions in (False, True)
    )
    assert certain <= said(ledgers) <= possible
    for exchange in exchanges:
        key = (exchange.sender, exchange.receiver, exchange.kind)
        sent = [e for e in ledgers[exchange.sender].entries if ("sent", e.peer, e.kind) == (e.way, *key[1:])]
        same = [e for e in exchanges if (e.sender, e.receiver, e.kind) == key]
        if sent and all(e.frames is not None for e in same):
            assert len(sent) == sum(e.frames or 0 for e in same), key
    assert all(pair.differences == () for pair in reconcile_all(ledgers.values()))
    return {kind for _, _, kind in said(ledgers) - certain}


def check_nothing_more_is_foretold(plan: Any, ledgers: Mapping[str, Record]) -> None:
    """Where all have columns, all comes up that has to do with learning."""
    foretold = {(e.sender, e.receiver, e.kind) for e in outline_of(plan)}
    assert not [one for one in foretold - said(ledgers) if one[2].startswith(("secure.", "vertical."))]


FIRST = ("bank", "telco", "coordinator")
"""The active party may be the first in the plan, too."""
FIRST_OF_THREE = ("bank", "railway", "telco", "coordinator")


@pytest.mark.parametrize(
    ("settings", "parties"),
    [({}, TWO), ({}, FIRST_OF_THREE), ({"engine": "plain"}, THREE), (PAILLIER, FIRST), (PAILLIER, THREE)],
)
def test_the_outline_is_what_is_said(learning: Any, settings: dict[str, Any], parties: tuple[str, ...]) -> None:
    plan = learning.plan(parties=parties, model=TINY, **settings)
    tables = learning.tables(plan)
    ledgers = learning.run(plan, tables=tables).ledgers
    check_outline(plan, ledgers)
    check_nothing_more_is_foretold(plan, ledgers)
    check_outline(plan, learning.run(plan, "bare", tables=bare(tables)).ledgers)


@pytest.mark.parametrize(("settings", "parties"), [({}, FIRST), ({}, THREE), ({"engine": "plain"}, FIRST_OF_THREE)])
def test_so_it_is_where_nothing_is_shown_before_the_end(
    learning: Any, settings: dict[str, Any], parties: tuple[str, ...]
) -> None:
    plan = learning.plan(parties=parties, model=TINY | {"reveal": "final"}, **settings)
    tables = learning.tables(plan)
    outcome = learning.run(plan, tables=tables)
    check_outline(plan, outcome.ledgers)
    check_nothing_more_is_foretold(plan, outcome.ledgers)
    kinds = {kind for _, _, kind in said(outcome.ledgers)}
    assert "LastShare" in kinds
    assert not {"Contribution", "NextEpoch"} & kinds
    check_outline(plan, learning.run(plan, "bare", tables=bare(tables)).ledgers)


@pytest.mark.parametrize(
    ("settings", "parties", "shown"),
    [
        ({}, TWO, False),
        ({}, TWO, True),
        ({}, THREE, True),
        ({"engine": "plain"}, TWO, False),
        (PAILLIER, TWO, False),
        (PAILLIER, THREE, True),
    ],
)
def test_so_it_is_with_weights(learning: Any, settings: dict[str, Any], parties: tuple[str, ...], shown: bool) -> None:
    plan = learning.plan(parties=parties, model=TINY | {"show_weights": shown}, **settings)
    more = check_outline(plan, learning.run(plan, weight="counts").ledgers)
    assert ("RowWeights" in more) == shown


@pytest.mark.parametrize("parties", [TWO, THREE], ids=["one passive", "two passive"])
def test_the_outline_of_a_prediction_is_what_is_said(learning: Any, parties: tuple[str, ...]) -> None:
    learning.run(learning.plan(parties=parties, engine="plain", model=TINY))
    plan = learning.plan("predict", parties=parties)
    outcome = learning.run(plan, "new", **learning.models(plan))
    seeds = {"MaskSeed"} if len(parties) == 4 else set()
    scored = {"Score", "PartialScores"}
    assert check_outline(plan, outcome.ledgers) == scored | seeds
    steps = {e.scope.split("/")[0] for record in outcome.ledgers.values() for e in record.entries}
    assert steps == {"plan", "align", "score", ""}


def test_a_party_stops_at_the_questions_it_answers(many: Any) -> None:
    plan = many.plan(parties=TWO, engine="plain", model=LINEAR | {"reveal": "gradients"})
    with pytest.raises(RefusedError, match=r"telco .*\b3 columns"):
        many.run(plan, telco={"policy": {"maximum_questions": 3}})


@pytest.mark.parametrize(
    ("kind", "model", "refused"),
    [
        ("PartialScores", {}, True),
        ("Width", {}, True),
        ("Contribution", {}, False),
        ("Contribution", {"reveal": "gradients"}, True),
        ("LastShare", {"reveal": "gradients"}, False),
        ("LastShare", {}, True),
        ("LentColumns", {}, False),
    ],
)
def test_policies_go_by_what_the_plan_needs(learning: Any, kind: str, model: dict[str, Any], refused: bool) -> None:
    plan, policy = learning.plan(model=LINEAR | model), Policy(never_send=(kind,))
    if refused:
        with pytest.raises(RefusedError, match=f"telco .*{kind}"):
            check_policy(plan, "telco", policy)
    else:
        check_policy(plan, "telco", policy)
