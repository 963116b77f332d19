"""Passive parties describe their columns: as pooled rows would, not knowing who is listed, and only if they agreed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled import Member, simulate
from unpooled.data import example
from unpooled.errors import InputError, PlanError, ProtocolError, RefusedError
from unpooled.jobs.checks import check_policy
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.lookalike.described_bins import MOST_BINS, binned, lines_from
from unpooled.jobs.lookalike.in_common import InCommon
from unpooled.jobs.lookalike.list_counts import ListSizes, OwnBins, most_counts
from unpooled.jobs.private import Policy, Private
from unpooled.secure.product import Contribution
from unpooled.session import Session
from unpooled.wire import kind_of

FIVE = ("shop", "telco", "bank", "railway", "coordinator")
PLAIN = {"engine": "plain"}
PAILLIER = {"engine": "paillier", "key_bits": 512, "insecure": True}
ONE_BAG = {"method": {"name": "bagging", "bags": 1}, "estimate": False, "top": 80}
COLUMNS = {"telco": ["calls", "tariff", "data"], "railway": ["trips", "card"]}
FEWEST = 10


def own(party: str, fewest: int = FEWEST, **policy: Any) -> dict[str, Any]:
    consent = {"found": True, "describe": COLUMNS.get(party, ["income"])}
    return {"consent": consent, "policy": {"minimum_rows": fewest} | policy}


@pytest.fixture
def describe(seeking: Any) -> Callable[..., Any]:
    def describe(name: str = "run", fewest: int = FEWEST, **settings: Any) -> Any:
        plan = seeking.plan(**{"describe": True, **ONE_BAG, **PLAIN} | settings)
        return seeking.run(plan, name, **{party: own(party, fewest) for party in plan.owners})

    return describe


def pooled(seeking: Any, party: str, fewest: int = FEWEST) -> list[dict[str, Any]]:
    """What somebody would say who has the party's table and the ranking."""
    run = seeking.root / "run"
    common = pl.read_csv(run / "bank" / "aligned.csv")["id"]
    table = seeking.tables(seeking.plan(FIVE))[party]
    place = {person: row for row, person in enumerate(table.frame["id"])}
    table = table.take(np.array([place[person] for person in common]))
    row = {person: number for number, person in enumerate(common)}
    order = np.array([row[person] for person in seeking.ranking()["id"]])
    length = len(seeking.reliable())
    found = binned(table, COLUMNS[party], fewest, most_counts(len(common)))
    counts = [
        [np.bincount(column.bins[group], minlength=column.size) for group in (order[:length], order[length:])]
        for column in found
    ]
    lines = lines_from(party, found, np.concatenate([np.array(each).T for each in counts]), fewest)
    return [asdict(line) for line in lines]


def told_by(results: dict[str, dict[str, Any]], party: str) -> list[dict[str, Any]]:
    return [line for line in results["shop"]["in_common"] if line["party"] == party]


@pytest.mark.parametrize("engine", [PLAIN, {"engine": "shares"}, PAILLIER], ids=lambda one: one["engine"])
def test_each_party_says_what_pooled_rows_would_say(
    seeking: Any, describe: Callable[..., Any], engine: dict[str, Any]
) -> None:
    results = describe(parties=FIVE, **engine).results
    for party, columns in COLUMNS.items():
        lines = told_by(results, party)
        assert lines == results[party]["in_common"] == pooled(seeking, party)
        assert {line["column"] for line in lines} == set(columns)
    assert {line["column"] for line in told_by(results, "bank")} == {"income"}


def test_with_linear_models_too(seeking: Any, describe: Callable[..., Any]) -> None:
    model = {"learner": "linear", "epochs": 2, "insecure_batch": True}
    results = describe(engine="shares", model=model).results
    assert told_by(results, "telco") == pooled(seeking, "telco") != []


def test_those_who_are_named_describe(seeking: Any, describe: Callable[..., Any]) -> None:
    results = describe(parties=FIVE, describe=["railway"]).results
    assert {line["party"] for line in results["shop"]["in_common"]} == {"railway"}
    assert "in_common" not in results["telco"] | results["bank"]
    plan = seeking.plan(FIVE, describe=["railway"])
    sent = {(e.sender, e.receiver, e.message) for e in outline_of(plan)}
    told = {(sender, receiver) for sender, receiver, kind in sent if kind is InCommon}
    assert told == {("railway", "shop")}
    assert ("bank", "telco", Contribution) not in sent
    with pytest.raises(PlanError, match="describe: 'shop' has no columns to describe; it can name telco, bank"):
        outline_of(seeking.plan(describe=["shop"]))
    with pytest.raises(PlanError, match=r"describe: must be true, false or a list of parties"):
        outline_of(seeking.plan(describe="telco"))


def test_without_a_passive_partys_consent_it_is_refused(seeking: Any) -> None:
    with pytest.raises(PlanError, match=r"telco: consent\.describe: shop learns .*without describe"):
        seeking.run(seeking.plan(describe=True), telco={"consent": {"found": True}})
    with pytest.raises(InputError, match=r"telco: .*'income': consent\.describe names it"):
        seeking.run(seeking.plan(describe=True), telco={"consent": {"found": True, "describe": ["income"]}})
    with pytest.raises(RefusedError, match=r"telco never sends .*InCommon"):
        check_policy(seeking.plan(describe=True), "telco", Policy(never_send=(kind_of(InCommon),)))


def test_nothing_is_told_of_few_people(seeking: Any, describe: Callable[..., Any]) -> None:
    results = describe(top=FEWEST - 1).results
    assert "in_common" not in results["shop"]
    assert results["telco"]["in_common"] == []
    results = describe("none", fewest=121).results
    assert results["telco"]["in_common"] == []
    assert results["bank"]["questions"] == 1, "there are no bins of so many people: one of all rows is counted"


def test_the_active_party_sees_nothing_of_the_bins(describe: Callable[..., Any]) -> None:
    """And telco is sent as much however long the list is."""
    received = []
    for name, top in (("short", 5), ("long", 150)):
        ledgers = describe(name, engine="shares", top=top).ledgers
        at_bank, at_telco = (
            [e for e in ledgers[party].entries if e.way == "received" and "/describe" in e.scope]
            for party in ("bank", "telco")
        )
        assert {(e.peer, e.kind.rpartition(".")[2]) for e in at_bank} == {("telco", "Hidden")}
        received.append([(e.peer, e.kind, e.bytes) for e in at_telco])
    assert received[0] == received[1]


# Wrong messages


@pytest.mark.parametrize("sizes", [(), (0,), (3, -1), (MOST_BINS + 1,)])
def test_bins_that_cannot_be_are_refused(
    describe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(OwnBins, "sizes", sizes)
    with pytest.raises(ProtocolError, match="invalid DescribedBins from telco: a column has 1 to 20 bins"):
        describe()


def test_more_counts_than_a_tenth_of_the_rows_are_refused(
    seeking: Any, describe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OwnBins, "sizes", (20, 5))
    with pytest.raises(RefusedError, match="bank answers at most 24 counts about its list among 240 rows, and telco"):
        describe()
    monkeypatch.undo()
    private = {"telco": own("telco"), "bank": own("bank", maximum_questions=3)}
    with pytest.raises(RefusedError, match=r"at most 3 counts about its list \(policy\.maximum_questions\)"):
        seeking.run(seeking.plan(describe=["telco"], **ONE_BAG, **PLAIN), "policy", **private)
    assert not list((seeking.root / "policy").rglob("pages-*")), "before anything is learned"


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ((-1, 100), "invalid ListSizes from bank: there are 240 rows in common"),
        ((200, 41), "invalid ListSizes from bank: there are 240 rows in common"),
        ((79, 100), "invalid counts from bank: they are not those of two groups of people"),
    ],
)
def test_groups_that_cannot_be_are_refused(
    describe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, said: tuple[int, int], fault: str
) -> None:
    send = Session.send

    def send_wrong(self: Session, peer: str, message: object, **how: Any) -> None:
        send(self, peer, ListSizes(*said) if isinstance(message, ListSizes) else message, **how)

    monkeypatch.setattr(Session, "send", send_wrong)
    with pytest.raises(ProtocolError, match=fault):
        describe()


# Resumed


@pytest.fixture
def begin(seeking: Any, search: Any) -> Callable[..., Any]:
    def begin(name: str, **policy: Any) -> Any:
        plan = seeking.plan(describe=True, **ONE_BAG)
        privates = {party: own(party, **policy) for party in plan.owners}
        return search(plan, seeking.tables(plan), seeking.root / name, privates)

    return begin


def test_a_description_is_made_again_and_counted_on(begin: Callable[..., Any]) -> None:
    whole, run = begin("whole"), begin("run")
    outcome = whole.go(resume=False)
    once = whole.asked("bank")["answered"][" listed telco"]
    assert once == outcome.results["bank"]["questions"] > 0
    for times in range(1, 4):
        run.stop("telco", 0, InCommon)
        assert run.asked("bank")["answered"][" listed telco"] == times * once
    again = run.go()
    assert again.results["shop"]["in_common"] == outcome.results["shop"]["in_common"]
    assert run.found == whole.found
    with pytest.raises(RefusedError, match=f"bank answers at most {4 * once} columns"):
        run.go()


# From Python, and examples


def test_it_takes_a_line_of_python() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 2))
    shop = pl.DataFrame({"id": np.flatnonzero((x.sum(axis=1) > 1) & (rng.random(400) < 0.5))})
    telco = Private.model_validate({"consent": {"found": True, "describe": ["b"]}, "seed": 1})
    bank = Private.model_validate({"consent": {"found": True}, "seed": 1})
    members = {
        "shop": Member("seeker", shop, private=Private.model_validate({"consent": {"positives": True}})),
        "telco": Member("passive", pl.DataFrame({"id": range(400), "b": x[:, 1]}), private=telco),
        "bank": Member("active", pl.DataFrame({"id": range(400), "a": x[:, 0]}), private=bank),
        "coordinator": Member("coordinator"),
    }
    outcome = simulate("lookalike", members, describe=["telco"], model={"trees": 5}, **ONE_BAG)
    mean, median = outcome.results["shop"]["in_common"]
    assert (mean["party"], mean["measure"], median["measure"]) == ("telco", "mean", "median")
    assert mean["listed"] > mean["others"]


def test_an_example_describes_columns_that_are_there() -> None:
    (agreement,) = (one for one in kind_named("lookalike").consents["passive"] if one.key == "describe")
    assert set(agreement.example) <= set(example.population(1000).tables["telco"].columns)
