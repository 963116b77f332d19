"""Rows that count by a passive party's weights: as if the active party had the same column, and told beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.jobs.checks import check_fits, check_policy, checked
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Policy, Private
from unpooled.jobs.row_weights import LentWeights
from unpooled.ledger import Record
from unpooled.pu.federated.search import NextBags
from unpooled.run import audit
from unpooled.run.forecast import forecast
from unpooled.session import Session
from unpooled.vertical.trees.messages import Grown
from unpooled.wire import kind_of

PLAIN: dict[str, Any] = {"engine": "plain"}
LINEAR = {"learner": "linear", "epochs": 3, "insecure_batch": True}
BAGS: dict[str, Any] = {"method": {"name": "bagging", "bags": 2}, "estimate": False, "top": 20}
TWO = ("telco", "bank", "coordinator")
AGREED = {"positives": True, "found": True, "weights": True}
WEIGHING: dict[str, Any] = {"weight": "trust", "consent": AGREED}
NAMES = re.compile('"name":"[0-9a-f]{32}"')
COMMON = 240


def weighed(tables: Mapping[str, Table], party: str, change: Callable[[pl.Expr], pl.Expr] = lambda e: e) -> Any:
    """The tables, with a column at one party that weighs each person the same, whoever has it."""
    trust = change(pl.col("id").str.tail(3).str.to_integer() % 7 + pl.lit(1))
    own = tables[party].frame.with_columns(trust=trust)
    return dict(tables) | {party: table_from_frame(own, "id", party, tables[party].kinds)}


def lent(ledgers: Mapping[str, Record]) -> list[tuple[str, str, str]]:
    """Who told whom weights, and in which scope."""
    return [
        (party, entry.peer, entry.scope)
        for party, record in ledgers.items()
        for entry in record.entries
        if entry.way == "sent" and entry.kind == kind_of(LentWeights)
    ]


def left(home: Any, party: str, names: tuple[str, ...]) -> list[str]:
    """Files of a run, without the random names of models."""
    return [NAMES.sub("", (home / party / name).read_text()) for name in names]


# The same as if the active party had them


@pytest.mark.parametrize(
    ("settings", "model"),
    [({}, {"hide_nodes": True}), (PLAIN, LINEAR)],
    ids=["shares", "linear"],
)
def test_training_by_lent_weights_is_training_by_ones_own(
    learning: Any, settings: dict[str, Any], model: dict[str, Any]
) -> None:
    metrics = {}
    for party in ("telco", "bank"):
        plan = learning.plan("train", TWO, model=model, weights=party, **settings)
        tables = weighed(learning.tables(plan), party)
        outcome = learning.run(plan, party, tables=tables, **{party: WEIGHING})
        metrics[party] = outcome.results["bank"]["metrics"]
        assert lent(outcome.ledgers) == ([("telco", "bank", "weights")] if party == "telco" else [])
    assert metrics["telco"] == metrics["bank"]
    for party, files in (("bank", ("model.json", "predictions.csv")), ("telco", ("model.json", "preparation.json"))):
        assert left(learning.root / "telco", party, files) == left(learning.root / "bank", party, files)
    learning.run(learning.plan("train", TWO, model=model, **settings), "unweighted")
    assert not learning.predictions("telco").equals(learning.predictions("unweighted"))


@pytest.mark.parametrize(("settings", "model"), [({}, {"hide_bags": False}), (PLAIN, LINEAR)], ids=["shares", "linear"])
def test_a_search_by_lent_weights_is_one_by_ones_own(
    seeking: Any, settings: dict[str, Any], model: dict[str, Any]
) -> None:
    for party in ("telco", "bank"):
        plan = seeking.plan(model=model, weights=party, **BAGS, **settings)
        outcome = seeking.run(plan, party, tables=weighed(seeking.tables(plan), party), **{party: WEIGHING})
        assert lent(outcome.ledgers) == ([("telco", "bank", "weights")] if party == "telco" else [])
    for party, files in (("bank", ("model.json", "ranking.csv")), ("shop", ("reliable.csv",))):
        assert left(seeking.root / "telco", party, files) == left(seeking.root / "bank", party, files)
    seeking.run(seeking.plan(model=model, **BAGS, **settings), "unweighted")
    assert not seeking.ranking("telco").equals(seeking.ranking("unweighted"))


def test_an_audit_accepts_lent_weights(seeking: Any) -> None:
    plan = seeking.plan(weights="telco", **BAGS)
    seeking.run(plan, tables=weighed(seeking.tables(plan), "telco"), telco=WEIGHING)
    assert audit.trial(seeking.root / "run" / "telco", seeking.root / "run" / "bank", None).wrong == {}


# What is said beforehand


@pytest.mark.parametrize("kind", ["train", "lookalike"])
def test_the_outline_says_it_once(learning: Any, seeking: Any, kind: str) -> None:
    makes = learning.plan if kind == "train" else seeking.plan
    plan = makes(weights="telco")
    told = [e for e in outline_of(plan) if e.message is LentWeights]
    assert [(e.sender, e.receiver, e.frames, e.only_if) for e in told] == [("telco", "bank", 1, "")]
    for other in (makes(), makes(weights="bank")):
        assert not [e for e in outline_of(other) if e.message is LentWeights]
    with pytest.raises(RefusedError, match=r"telco never sends .*LentWeights"):
        check_policy(plan, "telco", Policy(never_send=(kind_of(LentWeights),)))
    for nobody in ("shop", "coordinator", "registry", ""):
        with pytest.raises(PlanError, match=rf"weights: '{nobody}' has no column of weights; it can name .*telco"):
            outline_of(makes(weights=nobody))


def test_a_learner_that_cannot_hide_weights_refuses_them_before_the_start(learning: Any) -> None:
    paillier, model = {"engine": "paillier", "key_bits": 2048}, {"learner": "linear", "reveal": "gradients"}
    with pytest.raises(PlanError, match="show_weights"):
        outline_of(learning.plan(weights="telco", model=model, **paillier))
    outline_of(learning.plan(weights="telco", model=model | {"show_weights": True}, **paillier))


@pytest.mark.parametrize("kind", ["train", "lookalike"])
def test_only_the_party_that_is_named_has_weights(learning: Any, seeking: Any, kind: str) -> None:
    makes = learning.plan if kind == "train" else seeking.plan

    def fits(plan: Plan, party: str, **settings: Any) -> None:
        target = {"target": "buys"} if party == "bank" else {}
        check_fits(plan, party, Private.model_validate({"consent": AGREED} | target | settings), table_given=True)

    plan = makes(weights="telco")
    fits(plan, "telco", weight="trust")
    fits(plan, "bank")
    with pytest.raises(PlanError, match=r"telco: weight: rows count by the weights of telco .*name the column"):
        fits(plan, "telco")
    with pytest.raises(PlanError, match=r"bank: weight: rows count by the weights of telco .*remove it"):
        fits(plan, "bank", weight="trust")
    with pytest.raises(PlanError, match=r"telco: weight: .*agree on weights = 'telco'"):
        fits(makes(), "telco", weight="trust")
    with pytest.raises(PlanError, match=r"bank: weight: .*name the column"):
        fits(makes(weights="bank"), "bank")
    no = {"positives": True, "found": True}
    with pytest.raises(PlanError, match=r"telco: consent\.weights: bank learns the weight .*a plan without weights"):
        fits(plan, "telco", weight="trust", consent=no)
    fits(plan, "bank", consent=no)


def test_a_column_that_cannot_weigh_is_found_by_the_dry_run(learning: Any, seeking: Any) -> None:
    for makes, tables in ((learning.plan, learning.tables), (seeking.plan, seeking.tables)):
        plan = makes(weights="telco")
        for change, fault in (
            (lambda trust: -trust, "a weight is missing, negative or above"),
            (lambda trust: pl.when(trust > 1).then(trust), "a weight is missing, negative or above"),
            (lambda trust: trust * 1e12, "a weight is missing, negative or above 1e\\+12"),
            (lambda trust: trust * 0.0, "every row has weight zero"),
            (lambda trust: trust * 1e-200, "every row has weight zero, or below 1e-12"),
            (lambda trust: pl.lit("much"), "a weight is a number"),
        ):
            telco = weighed(tables(plan), "telco", change)["telco"]
            with pytest.raises(InputError, match=rf"^telco: data frame: column 'trust': .*{fault}"):
                preflight(checked(plan, "telco", Private.model_validate(WEIGHING), telco))
        with pytest.raises(InputError, match=r"^telco: .*column 'trust': weight names it"):
            preflight(checked(plan, "telco", Private.model_validate(WEIGHING), tables(plan)["telco"]))
        found = preflight(
            checked(plan, "telco", Private.model_validate(WEIGHING), weighed(tables(plan), "telco")["telco"])
        )
        assert found.not_features == {"weight": "trust"}
        assert "trust" not in found.columns


def test_common_rows_that_all_weigh_nothing_are_refused(seeking: Any) -> None:
    plan = seeking.plan(weights="telco", **BAGS, **PLAIN)
    common = set.intersection(*(set(seeking.tables(plan)[party].frame["id"]) for party in ("telco", "bank")))
    tables = weighed(
        seeking.tables(plan), "telco", lambda trust: pl.when(~pl.col("id").is_in(common)).then(trust).otherwise(0)
    )
    with pytest.raises(InputError, match=r"^telco: data frame: column 'trust': every row has weight zero"):
        seeking.run(plan, tables=tables, telco=WEIGHING)


def test_labelled_rows_that_all_weigh_nothing_are_refused(learning: Any) -> None:
    plan, odd = learning.plan("train", TWO, weights="bank", **PLAIN), pl.col("id").str.tail(1).str.to_integer() % 2
    bank = learning.tables(plan)["bank"]
    unlabelled = replace(bank, frame=bank.frame.with_columns(pl.when(odd == 0).then("buys").alias("buys")))
    tables = weighed(learning.tables(plan) | {"bank": unlabelled}, "bank", lambda trust: trust * odd)
    with pytest.raises(InputError, match=r"^bank: data frame: column 'buys': .*every row has weight zero"):
        learning.run(plan, tables=tables, bank={"weight": "trust", "target": "buys"})


# What arrives


@pytest.mark.parametrize(
    ("kind", "change", "fault"),
    [
        ("train", lambda weights: weights[:-1], f"invalid LentWeights from telco: {COMMON} rows are common"),
        ("train", lambda weights: weights[:, np.newaxis], f"invalid LentWeights from telco: {COMMON} rows are common"),
        ("lookalike", lambda weights: weights - 2, "invalid LentWeights from telco: a weight is missing, negative"),
        (
            "train",
            lambda weights: weights / 0.0,
            "invalid LentWeights from telco: a weight is missing, negative or above",
        ),
        ("train", lambda weights: weights * 1e308, r"invalid LentWeights from telco: .*above 1e\+12"),
        ("lookalike", lambda weights: weights * 1e-200, "invalid LentWeights from telco: every row has weight zero"),
        ("train", lambda weights: weights * np.nan, "invalid LentWeights from telco: a weight is missing"),
        (
            "lookalike",
            lambda weights: np.tile(weights, 1000),
            "telco sent .*LentWeights .* bytes, at most .* are allowed here",
        ),
    ],
    ids=["too few", "a matrix", "negative", "infinite", "large", "small", "missing", "too many"],
)
def test_weights_that_cannot_be_are_refused(
    learning: Any, seeking: Any, monkeypatch: pytest.MonkeyPatch, kind: str, change: Callable[[Any], Any], fault: str
) -> None:
    send = Session.send

    def send_wrong(session: Session, peer: str, message: Any, **how: Any) -> None:
        if isinstance(message, LentWeights):
            with np.errstate(all="ignore"):
                message = LentWeights(change(message.weights))
        send(session, peer, message, **how)

    monkeypatch.setattr(Session, "send", send_wrong)
    makes = learning if kind == "train" else seeking
    plan = makes.plan(weights="telco", **PLAIN) if kind == "lookalike" else makes.plan("train", TWO, weights="telco")
    with pytest.raises(ProtocolError, match=fault):
        makes.run(plan, tables=weighed(makes.tables(plan), "telco"), telco=WEIGHING)


# Resuming, and forecasts


def test_interrupted_training_goes_on_with_the_same_weights_only(learning: Any, search: Any) -> None:
    plan = learning.plan("train", TWO, weights="telco", **PLAIN)
    tables, privates = weighed(learning.tables(plan), "telco"), {"telco": WEIGHING, "bank": {"target": "buys"}}
    whole, run = (search(plan, tables, learning.root / name, privates) for name in ("whole", "run"))
    whole.go()
    run.stop("bank", 1, Grown)
    run.tables = weighed(learning.tables(plan), "telco", lambda trust: trust + 1)
    with pytest.raises(InputError, match=r"^(telco|bank): .*table"):
        run.go()
    run.tables = tables
    run.go()
    assert left(run.root, "bank", ("predictions.csv",)) == left(whole.root, "bank", ("predictions.csv",))


def test_weights_that_are_told_are_part_of_what_the_active_party_compares(
    seeking: Any, search: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A party that tells other weights than before the interruption, with the same table."""
    plan = seeking.plan(weights="telco", estimate=False, **PLAIN)
    tables = weighed(seeking.tables(plan), "telco")
    run = search(plan, tables, seeking.root / "run", {"telco": WEIGHING})
    run.stop("bank", 1, NextBags)
    send = Session.send

    def send_other(session: Session, peer: str, message: Any, **how: Any) -> None:
        lies = isinstance(message, LentWeights)
        send(session, peer, LentWeights(message.weights + 1) if lies else message, **how)

    monkeypatch.setattr(Session, "send", send_other)
    with pytest.raises(InputError, match=r"^bank: .*table"):
        run.go()


def test_a_forecast_has_weights_for_those_who_are_not_here(seeking: Any) -> None:
    plan = seeking.plan(weights="telco", model={"trees": 2}, **BAGS)
    tables = weighed(seeking.tables(plan), "telco")
    for party, private in (("telco", WEIGHING), ("bank", {"consent": AGREED})):
        alone = forecast([checked(plan, party, Private.model_validate(private), tables[party])])
        assert alone.parties["telco"].sent_bytes > 0
