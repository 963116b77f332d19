"""Why people are first: each owner has what its own columns add, in files, results, tables and on its page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from outlines import check_outline, said

from unpooled.errors import InputError, PlanError
from unpooled.jobs.checks import check_fits, checked
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.learning.explained_section import read_people
from unpooled.jobs.learning.explaining import CONTRIBUTIONS
from unpooled.jobs.private import Private
from unpooled.report.page import write_report
from unpooled.vertical import learners
from unpooled.vertical.explained import Explain

PARTIES = ("shop", "telco", "bank", "railway", "coordinator")
CONSENT = {"positives": True, "found": True, "aided": True, "explain": True}
AGREED = {party: {"consent": CONSENT} for party in PARTIES}
LINEAR = {"learner": "linear", "epochs": 2, "insecure_batch": True}


def lines(home: Path) -> pl.DataFrame:
    return pl.read_csv(home / CONTRIBUTIONS)


def totals(home: Path) -> dict[str, float]:
    """By person what all lines of a file add up to."""
    return dict(lines(home).group_by("id", maintain_order=True).agg(pl.sum("contribution")).iter_rows())


def of_party(found: pl.DataFrame, party: str) -> dict[str, float]:
    return dict(found.filter(pl.col("party") == party).select("id", "contribution").iter_rows())


# Predictions


@pytest.mark.parametrize(
    ("target", "model"),
    [
        ("buys", {"learner": "xgb", "hide_nodes": True}),
        ("group", {"learner": "rf", "classes": 3}),
        ("amount", {"learner": "linear", "classes": 0, "insecure_batch": True}),
    ],
)
def test_predictions_are_explained(learning: Any, target: str, model: dict[str, Any]) -> None:
    learning.run(learning.plan(model=model, engine="plain"), target=target)
    plan = learning.plan("predict", explain=7)
    homes = learning.models(plan)
    agreed = {party: home | {"consent": CONSENT} for party, home in homes.items()}
    outcome = learning.run(plan, "new", target, **agreed)
    foretold = {(one.sender, one.receiver, one.kind): one.only_if for one in outline_of(plan)}
    sent = said(outcome.ledgers)
    assert {one for one, condition in foretold.items() if not condition} <= sent <= foretold.keys()
    assert ("bank", "telco", "Explain") in sent
    scored = learning.predictions("new").with_columns(best=pl.max_horizontal(pl.col("^(score|probability_.*)$")))
    first = scored.sort("best", descending=True, maintain_order=True).head(7)
    bank = lines(learning.root / "new" / "bank")
    assert bank["id"].unique(maintain_order=True).to_list() == first["id"].to_list()
    margins = np.array(list(totals(learning.root / "new" / "bank").values()))
    predicted = 1 / (1 + np.exp(-margins)) if target == "buys" else margins
    np.testing.assert_allclose(predicted, first["best"], atol=1e-9 if model["learner"] != "linear" else 1e-5)
    for party in ("telco", "railway"):
        own = totals(learning.root / "new" / party)
        assert list(own) == sorted(own, key=learning.predictions("new")["id"].to_list().index), "not by score"
        together = of_party(bank, party)
        assert own.keys() == together.keys()
        np.testing.assert_allclose([own[person] for person in together], list(together.values()), atol=1e-9)
        assert set(lines(learning.root / "new" / party)["party"]) == {party}
    table = outcome.tables["telco"]["contributions"]
    assert table.columns == ["id", "party", "column", "value", "contribution"]
    assert set(table["column"]) == {"calls", "data", "tariff"}, "of a category all levels together"
    cells = learning.frames["telco"].cast(pl.String).unpivot(index="id", variable_name="column")
    cells = cells.with_columns(pl.col("value").str.strip_suffix(".0"))
    joined = table.join(cells, on=["id", "column"], how="left", maintain_order="left")
    assert joined["value"].cast(pl.String).to_list() == joined["value_right"].to_list()


def test_a_model_or_learner_that_cannot_explain_is_refused_before_the_start(
    learning: Any, seeking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    learning.run(learning.plan(engine="plain"))
    plan, searched = learning.plan("predict", explain=1), seeking.plan(explain=1)
    private = Private.model_validate({**learning.models(plan)["bank"], "consent": CONSENT, "target": "buys"})
    model = learning.root / "run" / "bank" / "model.json"
    model.write_text(re.sub(r',"cover":\[[^]]*\]', "", model.read_text()))
    with pytest.raises(PlanError, match=r"bank: explain: .* the model lacks how many training rows"):
        kind_named("predict").check_files(checked(plan, "bank", private, learning.tables(plan)["bank"]))
    blind = tuple(learner.__class__(**vars(learner) | {"explaining": None}) for learner in learners.LEARNERS)
    monkeypatch.setattr(learners, "LEARNERS", blind)
    with pytest.raises(PlanError, match="explain: trees cannot say what columns add; leave it out of the plan"):
        kind_named("predict").check_files(checked(plan, "bank", private, learning.tables(plan)["bank"]))
    with pytest.raises(PlanError, match="explain: trees cannot say"):
        outline_of(searched)


# Look-alikes


@pytest.mark.parametrize("model", [{}, {"hide_nodes": False, "hide_bags": False}, LINEAR], ids=["", "shown", "linear"])
def test_the_first_people_of_a_list_are_explained(seeking: Any, model: dict[str, Any]) -> None:
    settings = {"parties": PARTIES, "engine": "plain", "explain": 5, "estimate": False}
    plan = seeking.plan(model=model, **settings)
    outcome = seeking.run(plan, **AGREED)
    check_outline(outline_of(plan), outcome.ledgers)
    home = seeking.root / "run"
    first = seeking.reliable()["id"].to_list()[:5]
    bank, explained = lines(home / "bank"), outcome.results["bank"]["explained"]
    assert bank["id"].unique(maintain_order=True).to_list() == first
    assert (explained["rows"], explained["margin"]) == (5, "log-odds")
    sizes = {one["name"]: one["size"] for one in explained["parties"]}
    for party in ("telco", "railway"):
        own, together = totals(home / party), of_party(bank, party)
        assert sorted(own) == sorted(first)
        np.testing.assert_allclose([own[person] for person in together], list(together.values()), atol=1e-9)
        assert sizes[party] == pytest.approx(np.mean(np.abs(list(together.values()))))
        told = [e.bytes for e in outcome.ledgers[party].entries if e.kind == "Explain"]
        assert len(told) == 1
        page = write_report(home / party).read_text()
        assert "Why the first people are on the list" in page
        assert all(f"<caption>{person}</caption>" in page for person in first)
        assert "income" not in page
    page = write_report(home / "bank").read_text()
    assert f"<caption>1. {first[0]}</caption>" in page
    assert "In all: log-odds" in page
    assert "calls" not in page
    assert "Why the first" not in write_report(home / "shop").read_text()


def test_an_interrupted_run_explains_the_same(seeking: Any, search: Any) -> None:
    plan = seeking.plan(engine="plain", explain=4, estimate=False)
    runs = [search(plan, seeking.tables(plan), seeking.root / name, AGREED) for name in ("whole", "stopped")]
    runs[0].go(resume=False)
    runs[1].stop("bank", 0, Explain)
    runs[1].go()
    for party in ("bank", "telco"):
        whole, again = ((run.root / party / CONTRIBUTIONS).read_text() for run in runs)
        assert whole == again
    assert runs[1].asked()["bits"].keys() == {"", " explained"}


@pytest.mark.parametrize("party", ["shop", "telco", "bank"])
def test_everybody_about_whom_something_is_told_must_agree(seeking: Any, party: str) -> None:
    consent = CONSENT | {"explain": False}
    for explain in (0, 3):
        plan, private = seeking.plan(explain=explain), Private.model_validate({"consent": consent})
        if not explain:
            check_fits(plan, party, private, table_given=True)
            continue
        with pytest.raises(PlanError, match=rf"{party}: consent\.explain: .*; agree .* without explain"):
            check_fits(plan, party, private, table_given=True)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("id,contribution\n1,2\n", "its columns are not ids followed by"),
        ("id,party,column,value,contribution\n1,bank,age,3,much\n", "column 'contribution': not a number"),
        ("id,party,column,value,contribution\n1,bank,age,3,inf\n", "column 'contribution': not a number"),
        ("", "cannot be read"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / CONTRIBUTIONS).write_text(text)
    with pytest.raises(InputError, match=fault):
        read_people(tmp_path / CONTRIBUTIONS, "bank", 3)
