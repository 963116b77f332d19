"""Jobs that count what they disclose in the books of the parties' tables, and what these refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.budget.accounts import Account, account_of
from unpooled.budget.book import Book
from unpooled.budget.places import Places
from unpooled.data.sources import TableSettings
from unpooled.errors import BookError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.over_runs import check_over_runs, said
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import loaded
from unpooled.jobs.private import Consent, Policy, Private
from unpooled.jobs.work import CheckedJob, cleaned
from unpooled.run.simulate import simulate_job

PARTIES = {"telco": {"role": "passive"}, "bank": {"role": "active"}, "dealer": {"role": "coordinator"}}


class Firms:
    """A bank and a telephone company with tables on disk, and their books."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.places, self.runs = folder, Places(folder / "books", folder / "anchors"), 0
        self.have("bank", range(300))
        self.have("telco", range(50, 400))

    def have(self, party: str, people: Iterable[int]) -> None:
        """What a party's table holds from now on."""
        ids = list(people)
        rows = {"id": [f"p{i:05}" for i in ids], "income": [i % 7 for i in ids], "buys": [i % 2 for i in ids]}
        pl.DataFrame(rows).write_csv(self.folder / f"{party}.csv")

    def private(self, party: str, policy: Policy | None = None, **settings: Any) -> Private:
        if party == "dealer":
            return Private()
        table = TableSettings(path=self.folder / f"{party}.csv", id=("id",), columns=("income", "buys"))
        return Private(table=table, policy=policy or Policy(), consent=Consent(aided=True), seed=1, **settings)

    def plan(self, kind: str, **parameters: Any) -> Plan:
        return Plan.model_validate({"kind": kind, "parties": PARTIES, "parameters": parameters})

    def run(self, plan: Plan, policies: dict[str, Policy] | None = None, **bank: Any) -> None:
        self.runs += 1
        privates = {
            party: self.private(party, (policies or {}).get(party), **(bank if party == "bank" else {}))
            for party in PARTIES
        }
        simulate_job(plan, privates, folder=self.folder / f"run {self.runs}", books=self.places)

    def book(self, party: str) -> Book:
        return Book(str(self.folder / f"{party}.csv"), self.places)

    def account(self, party: str) -> Account:
        return account_of(self.book(party).read())

    def job(self, party: str, plan: Plan, policy: Policy | None = None, **settings: Any) -> CheckedJob[Any]:
        return loaded(checked(plan, party, self.private(party, policy, **settings)))

    def check(self, party: str, plan: Plan, policy: Policy | None = None, **settings: Any) -> list[str]:
        """What a dry run says of the party's book."""
        job = self.job(party, plan, policy, **settings)
        standing = check_over_runs(job, cleaned(job)[0], self.places)
        assert standing is not None
        return list(said(party, standing))


@pytest.fixture
def firms(tmp_path: Path) -> Firms:
    return Firms(tmp_path)


Align = Callable[[Firms], Plan]
METHODS: dict[str, Align] = {
    "ring": lambda firms: firms.plan("align"),
    "blind-rsa": lambda firms: firms.plan("align", psi="blind-rsa"),
    "aided": lambda firms: firms.plan("align", psi="aided"),
}


@pytest.mark.parametrize("method", METHODS)
def test_the_same_tables_can_be_aligned_again(firms: Firms, method: str) -> None:
    for _ in range(3):
        firms.run(METHODS[method](firms))
    assert firms.account("telco").peers["bank"].alignments == 3
    assert firms.account("telco").peers["bank"].ids == 900
    assert firms.account("bank").peers["telco"].ids == 3 * 350
    assert [e["common"] for e in firms.book("telco").read() if "common" in e] == [250] * 3


@pytest.mark.parametrize("method", METHODS)
def test_a_peer_with_one_more_id_is_refused_at_the_door(firms: Firms, method: str) -> None:
    """The bank's own software would refuse too, so its owner allows everything."""
    firms.run(METHODS[method](firms))
    firms.have("bank", [*range(300), 399])
    with pytest.raises(RefusedError, match=r"^telco: bank brings 301 ids, and brought 300 .*policy.minimum_change"):
        firms.run(METHODS[method](firms), {"bank": Policy(minimum_change=1)})
    assert firms.account("telco").peers["bank"].alignments == 1, "no second comparison took place"


@pytest.mark.parametrize("method", METHODS)
def test_a_peer_that_exchanges_one_id_is_refused_when_the_rows_differ(firms: Firms, method: str) -> None:
    """Person 399 is among the telco's; in place of person 0, who is not, the bank asks about them."""
    firms.run(METHODS[method](firms))
    firms.have("bank", [*range(1, 300), 399])
    with pytest.raises(RefusedError, match=r"telco has common rows with bank that differ .* fewer than 10 people"):
        firms.run(METHODS[method](firms), {"bank": Policy(minimum_change=1)})


def test_another_rule_for_ids_does_not_hide_the_difference(firms: Firms) -> None:
    firms.run(firms.plan("align"))
    firms.have("bank", [*range(1, 300), 399])
    with pytest.raises(RefusedError, match=r"fewer than 10 people"):
        firms.run(firms.plan("align", normalise=["case"]), {"bank": Policy(minimum_change=1)})


def test_a_table_that_grows_is_not_refused(firms: Firms) -> None:
    for size in (300, 320, 3000):
        firms.have("bank", range(size))
        firms.have("telco", range(50, size + 100))
        firms.run(firms.plan("align"))
    assert firms.account("bank").peers["telco"].alignments == 3


def test_an_own_table_with_a_few_people_less_is_refused_before_the_run(firms: Firms) -> None:
    firms.run(firms.plan("align"))
    firms.have("telco", range(53, 400))
    with pytest.raises(RefusedError, match=r"telco: telco brings 347 ids, and brought 350 to an earlier run"):
        firms.check("telco", firms.plan("align"))
    assert firms.check("telco", firms.plan("align"), Policy(minimum_change=3))


def test_what_a_dry_run_says(firms: Firms) -> None:
    assert firms.check("bank", firms.plan("align"))[0].startswith("bank: 0 runs so far in the book of ")
    firms.run(firms.plan("align"))
    assert firms.check("bank", firms.plan("align"))[1:] == [
        "  with telco: 1 of 50 alignments, gradients of 0 of 3 linear fits shown"
    ]
    with pytest.raises(RefusedError, match=r"policy.maximum_alignments"):
        firms.check("bank", firms.plan("align"), Policy(maximum_alignments=1))


def linear(firms: Firms, **model: Any) -> Plan:
    settings = {"learner": "linear", "epochs": 2, "batch_rows": 100, "insecure_batch": True, "reveal": "gradients"}
    return firms.plan("train", model=settings | model)


def test_fits_of_linear_models_are_counted_and_refused(firms: Firms) -> None:
    for _ in range(3):
        firms.run(linear(firms), target="buys")
    assert firms.account("bank").peers["telco"].fits == firms.account("telco").peers["bank"].fits == 3
    with pytest.raises(RefusedError, match=r"shows (bank|telco) gradients of at most 3 fits"):
        firms.run(linear(firms), target="buys")
    for party, own in (("bank", {"target": "buys"}), ("telco", {})):
        with pytest.raises(RefusedError, match=r"policy.maximum_linear_fits"):
            firms.check(party, linear(firms), **own)
    assert firms.check("bank", linear(firms, reveal="final"), target="buys"), "it shows no gradients"
    firms.run(linear(firms, reveal="final"), target="buys")
    assert firms.account("bank").peers["telco"].fits == 3


def trees(firms: Firms) -> Plan:
    return firms.plan("train", model={"trees": 3, "depth": 2})


def test_answers_of_trees_are_added_up_and_refused(firms: Firms) -> None:
    firms.run(trees(firms), target="buys")
    account = firms.account("telco")
    once = {what: account.amount(what) for what in ("questions", "bits_per_row", "splits")}
    assert once["bits_per_row"] > 0
    assert once["questions"] > 0
    firms.run(trees(firms), target="buys")
    assert firms.account("telco").amount("questions") == 2 * once["questions"]
    limit = Policy(maximum_total_questions=int(2.5 * once["questions"]))
    with pytest.raises(RefusedError, match=r"telco answers at most .* questions over all .*maximum_total_questions"):
        firms.run(trees(firms), {"telco": limit}, target="buys")
    assert 2 * once["questions"] < firms.account("telco").amount("questions") <= 2.5 * once["questions"]
    with pytest.raises(RefusedError, match=r"telco has answered .* questions over all its runs"):
        firms.check("telco", trees(firms), Policy(maximum_total_questions=int(2 * once["questions"])))
    assert firms.check("telco", firms.plan("align"), Policy(maximum_total_questions=1)), "an alignment asks none"


def test_a_book_that_was_deleted_stops_the_next_run(firms: Firms) -> None:
    firms.run(firms.plan("align"))
    firms.book("telco").path.unlink()
    with pytest.raises(BookError, match=r"the book is missing"):
        firms.run(firms.plan("align"))
    with pytest.raises(BookError, match=r"the book is missing"):
        firms.check("telco", firms.plan("align"))
    firms.book("telco").accept("deleted by mistake")
    firms.run(firms.plan("align"))
    assert firms.account("telco").accepted == ["deleted by mistake"]


def test_tables_with_the_same_name_share_a_book(firms: Firms) -> None:
    firms.have("export", range(50, 400))
    plan = firms.plan("align")
    for name in ("telco", "export"):
        table = TableSettings(path=firms.folder / f"{name}.csv", id=("id",), book="customers")
        privates = {party: firms.private(party) for party in PARTIES} | {"telco": Private(table=table)}
        simulate_job(plan, privates, folder=firms.folder / name, books=firms.places)
    assert account_of(Book("customers", firms.places).read()).peers["bank"].alignments == 2
