"""Look-alikes after a completion: owners compare handles, the seeker has ids, and rows may have weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import outline_of
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.private import Private
from unpooled.jobs.together import check_together
from unpooled.pu.federated import search as searching
from unpooled.pu.federated.search import NextBags
from unpooled.run import audit
from unpooled.secure.evidence import Arrays

PLAIN: dict[str, Any] = {"engine": "plain"}
SMALL: dict[str, Any] = {"method": {"name": "bagging", "bags": 2}, "estimate": False, "top": 20}
SHORT: dict[str, Any] = {"estimate": False} | PLAIN
LINEAR = {"learner": "linear", "reveal": "gradients", "epochs": 3, "insecure_batch": True}
COMMON = 240


def by_handle(tables: dict[str, Table]) -> dict[str, Table]:
    """The bank has a file of handles, which have the order of its ids, and the telco only handles."""
    bank, telco = tables["bank"], tables["telco"]
    everybody = sorted({*bank.frame["id"], *telco.frame["id"]})
    handles = {person: f"{7 * number:016x}" for number, person in enumerate(everybody)}
    named = replace(telco, frame=telco.frame.with_columns(pl.col("id").replace_strict(handles)))
    return tables | {"bank": replace(bank, handles=bank.frame["id"].replace_strict(handles)), "telco": named}


def weighed(seeking: Any, plan: Any, weights: Callable[[int], Any]) -> dict[str, Table]:
    """The tables, with a column of weights at the bank."""
    tables: dict[str, Table] = seeking.tables(plan)
    frame = tables["bank"].frame
    bank = table_from_frame(frame.with_columns(trust=pl.Series(weights(len(frame)))), "id", "bank")
    return tables | {"bank": bank}


def some(rows: int) -> Any:
    return np.random.default_rng(8).uniform(0, 1, rows).round(2)


# Handles


def test_the_list_by_handle_is_the_list_by_id(seeking: Any) -> None:
    plan = seeking.plan(compare="handles", advice=True, describe=True, **PLAIN)
    by_id = seeking.plan(advice=True, describe=True, **PLAIN)
    results = seeking.run(plan, tables=by_handle(seeking.tables(plan))).results
    told = seeking.run(by_id, "by-id").results
    assert results["bank"]["common"] == COMMON
    assert seeking.reliable().equals(seeking.reliable("by-id"))
    assert seeking.ranking().equals(seeking.ranking("by-id"))
    assert results["shop"]["advice"] == told["shop"]["advice"]
    aligned = pl.read_csv(seeking.root / "run" / "telco" / "aligned.csv", infer_schema=False)["id"]
    assert aligned.str.len_chars().unique().to_list() == [16]


def test_the_seeker_is_compared_by_the_rules_of_the_plan(seeking: Any) -> None:
    plan = seeking.plan(compare="handles", normalise="case", hash="sha256", **SMALL, **PLAIN)
    tables = by_handle(seeking.tables(plan))
    shop = tables["shop"].frame.with_columns(pl.col("id").str.to_uppercase())
    tables["shop"] = replace(tables["shop"], frame=shop)
    results = seeking.run(plan, tables=tables).results
    assert (results["bank"]["common"], results["bank"]["positives"]) == (COMMON, 41)
    jobs = [
        checked(plan, party, Private.model_validate({"consent": {"positives": True, "found": True}}), tables.get(party))
        for party in plan.parties
    ]
    together = check_together(jobs)
    assert together is not None
    assert (together.common, together.known) == (COMMON, 41)


def test_an_active_party_that_has_only_handles_is_refused(seeking: Any) -> None:
    plan = seeking.plan(compare="handles", **PLAIN)
    tables = by_handle(seeking.tables(plan))
    bank = tables["bank"]
    tables["bank"] = replace(bank, frame=bank.frame.with_columns(bank.handles.alias("id")), handles=None)  # type: ignore[union-attr]
    tables["telco"] = replace(seeking.tables(plan)["telco"], handles=tables["telco"].frame["id"])
    with pytest.raises(PlanError, match=r"bank: table\.handles: shop has ids, and bank has only handles"):
        seeking.run(plan, tables=tables)
    job = checked(plan, "bank", Private.model_validate({"consent": {"found": True}}), tables["bank"])
    with pytest.raises(PlanError, match=r"bank: table\.handles: shop has ids"):
        LOOKALIKE.check_table(job, tables["bank"])


def test_other_handles_are_another_table_to_a_resumed_search(seeking: Any, search: Any) -> None:
    plan = seeking.plan(compare="handles", **SHORT)
    tables = by_handle(seeking.tables(plan))
    run = search(plan, tables, seeking.root / "run")
    run.stop("bank", 1, NextBags)
    handles = tables["bank"].handles
    assert handles is not None
    common = set(tables["telco"].frame["id"])
    one, other = [place for place, handle in enumerate(handles) if handle in common][:2]
    order = np.arange(len(handles))
    order[[one, other]] = other, one
    run.tables = tables | {"bank": replace(tables["bank"], handles=handles[order])}
    with pytest.raises(InputError, match=r"^bank: .*table"):
        run.go()
    run.tables = tables
    run.go()
    whole = search(plan, tables, seeking.root / "whole")
    whole.go()
    assert run.found == whole.found


# Weights


def test_weights_count_only_where_the_plan_says_so(seeking: Any) -> None:
    plan = seeking.plan(**SMALL, **PLAIN)
    with pytest.raises(PlanError, match=r"bank: weight: .*weights = 'bank'"):
        seeking.run(plan, tables=weighed(seeking, plan, some), bank={"weight": "trust"})
    weighted = seeking.plan(weights="bank", **SMALL, **PLAIN)
    assert [(one.sender, one.receiver, one.kind) for one in outline_of(weighted)] == [
        (one.sender, one.receiver, one.kind) for one in outline_of(plan)
    ]
    seeking.run(plan, "unweighted")
    for name, weights in (("ones", np.ones), ("weighted", some)):
        tables = weighed(seeking, weighted, weights)
        seeking.run(weighted, name, tables=tables, bank={"weight": "trust"})
    with pytest.raises(PlanError, match=r"bank: weight: rows count by the weights of bank .*name the column"):
        seeking.run(weighted, "none")
    assert seeking.ranking("ones").equals(seeking.ranking("unweighted"))
    assert not seeking.ranking("weighted").equals(seeking.ranking("unweighted"))
    assert set(seeking.ranking("weighted")["id"]) == set(seeking.ranking("unweighted")["id"]), "no row is lost"


@pytest.mark.parametrize("model", [{"hide_bags": False}, {"hide_nodes": False}, LINEAR], ids=str)
def test_secret_weights_find_the_same_by_shares(seeking: Any, model: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"weights": "bank", "model": model} | SMALL
    for name, engine in (("shares", {}), ("plain", PLAIN)):
        plan = seeking.plan(**settings, **engine)
        seeking.run(plan, name, tables=weighed(seeking, plan, some), bank={"weight": "trust"})
    assert seeking.ranking("shares").equals(seeking.ranking("plain"))


def test_weights_that_cannot_count_are_refused(seeking: Any) -> None:
    plan = seeking.plan(weights="bank", **PLAIN)
    for number, (weights, fault) in enumerate(
        (
            (lambda rows: ["much"] * rows, "column 'trust': a weight is a number"),
            (lambda rows: [-1.0] * rows, "column 'trust': rows .*a weight is missing, negative or above"),
            (np.zeros, "column 'trust': every row has weight zero"),
            (lambda rows: [1.0] + [0.0] * (rows - 1), "who have a weight above zero, shop knows [01]; at least 5"),
        )
    ):
        with pytest.raises(InputError, match=f"^bank: data frame: .*{fault}"):
            seeking.run(plan, str(number), tables=weighed(seeking, plan, weights), bank={"weight": "trust"})
    with pytest.raises(InputError, match=r"^bank: data frame: column 'worth': weight names it"):
        seeking.run(plan, bank={"weight": "worth"})


def test_a_stopped_search_goes_on_with_its_weights(seeking: Any, search: Any) -> None:
    plan = seeking.plan(weights="bank", **SHORT)
    tables = weighed(seeking, plan, some)
    whole, run = (search(plan, tables, seeking.root / name, {"bank": {"weight": "trust"}}) for name in ("whole", "run"))
    whole.go()
    run.stop("bank", 1, NextBags)
    run.tables = weighed(seeking, plan, np.ones)
    with pytest.raises(InputError, match=r"^bank: .*table"):
        run.go()
    run.tables = tables
    run.go()
    assert run.found == whole.found


# Audits


def problems(run: Path) -> set[str]:
    return set(audit.trial(run / "telco", run / "bank", None).wrong.values())


@pytest.mark.parametrize("model", [{}, LINEAR], ids=["trees", "linear"])
def test_an_audit_accepts_weights_of_the_plan(seeking: Any, model: dict[str, Any]) -> None:
    plan = seeking.plan(weights="bank", model=model, **SMALL)
    seeking.run(plan, tables=weighed(seeking, plan, some), bank={"weight": "trust"})
    assert problems(seeking.root / "run") == set()


def test_an_audit_finds_other_weights_in_another_model(seeking: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))

    def dishonest(target: Any, **changes: Any) -> Any:
        if next(times) >= 2:
            changes["row_weights"] = changes["row_weights"] ** 2
        return replace(target, **changes)

    monkeypatch.setattr(searching, "replace", dishonest)
    plan = seeking.plan(weights="bank", estimate=False, top=9)
    seeking.run(plan, tables=weighed(seeking, plan, some), bank={"weight": "trust"})
    assert problems(seeking.root / "run") == {"rows have other weights than in another model"}


def test_what_is_said_of_opened_labels_and_weights() -> None:
    assert LOOKALIKE.audit is not None
    problem, off, on = LOOKALIKE.audit.problem, LOOKALIKE.parameters(), LOOKALIKE.parameters(weights="bank")
    bag: Arrays = {"values": np.array([[1.0, 0.0, 0.0]]), "weights": np.array([[1.0, 1.0, 0.0]])}
    counted = bag | {"row_weights": np.array([0.5, 0.1, 1.0])}
    assert problem(off, bag, []) == problem(off, bag, [bag]) == ""
    assert problem(on, counted, []) == problem(on, counted, [counted]) == ""
    assert "does not say whose" in problem(off, counted, [])
    assert "rows have no weights" in problem(on, bag, [counted])
    assert "other weights" in problem(on, counted, [bag | {"row_weights": np.ones(3)}])
    assert "not those of bags" in problem(on, counted | {"weights": np.array([[1.0, 0.5, 0.0]])}, [])
