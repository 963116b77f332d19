"""The kind `deliver`: a list of another length from an earlier search, exactly as that ranked people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.errors import InputError, PlanError
from unpooled.jobs.checks import checked
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Private
from unpooled.run.simulate import Outcome, simulate_job

PLAIN = {"engine": "plain"}
ROLES = {"shop": "seeker", "telco": "passive", "bank": "active"}
WHEN_SLOW = ("Waiting", "Working")


def plan(roles: dict[str, str] | None = None, **parameters: Any) -> Plan:
    parties = {party: {"role": role} for party, role in (roles or ROLES).items()}
    return Plan.model_validate({"kind": "deliver", "parties": parties, "parameters": parameters, "timeout": 600.0})


@pytest.fixture
def earlier(seeking: Any) -> Path:
    """The folder of a search with the first 19 people on the list."""
    seeking.run(seeking.plan(advice=True, **PLAIN), "search")
    return Path(seeking.root / "search")


def privates(earlier: Path, **own: dict[str, Any]) -> dict[str, Private]:
    agreed = {"consent": {"found": True, "advice": True}}
    given: dict[str, dict[str, Any]] = {"shop": {}, "telco": agreed, "bank": agreed | {"earlier": earlier / "bank"}}
    return {party: Private.model_validate(settings | own.get(party, {})) for party, settings in given.items()}


def deliver(seeking: Any, earlier: Path, name: str = "run", *, top: int = 60, **own: Any) -> Outcome[dict[str, Any]]:
    tables = {"shop": seeking.tables(seeking.plan())["shop"]}
    tables |= {party: seeking.tables(seeking.plan())[party] for party in ("telco", "bank")}
    return simulate_job(plan(top=top, advice=True), privates(earlier, **own), tables, seeking.root / name)


def test_a_longer_and_a_shorter_list_are_the_top_of_the_same_ranking(seeking: Any, earlier: Path) -> None:
    ranking = seeking.ranking("search")
    for top in (5, 60, 10_000):
        outcome = deliver(seeking, earlier, f"top-{top}", top=top)
        found = seeking.reliable(f"top-{top}")
        assert found.drop("tier").equals(ranking.head(top))
        assert outcome.results["shop"]["listed"] == outcome.results["bank"]["listed"] == len(found)
    assert outcome.results["bank"]["ranked"] == len(found) == len(ranking)
    assert outcome.results["telco"] == {}


def test_advice_is_that_of_the_search(seeking: Any, earlier: Path) -> None:
    found = deliver(seeking, earlier).results["shop"]
    assert found["advice"]["rows"] == len(seeking.ranking("search"))
    assert found["expected"]["length"] == found["listed"] == 60


def test_the_outline_is_what_is_said(seeking: Any, earlier: Path) -> None:
    ledgers = deliver(seeking, earlier).ledgers
    said = {(party, e.peer, e.kind) for party, r in ledgers.items() for e in r.entries if e.way == "sent"}
    foretold = {(e.sender, e.receiver, e.kind) for e in outline_of(plan(top=60, advice=True))}
    assert {each for each in said if each[2] not in WHEN_SLOW} == foretold


def test_people_are_left_out_at_either_end(seeking: Any, earlier: Path, tmp_path: Path) -> None:
    ranked = seeking.ranking("search")["id"]
    for party, rows in (("bank", [0, 2]), ("shop", [1, 3])):
        pl.DataFrame({"id": [*ranked.gather(rows), "nobody"]}).write_csv(tmp_path / f"{party}-out.csv")
    own = {party: {"exclude": tmp_path / f"{party}-out.csv"} for party in ("bank", "shop")}
    results = deliver(seeking, earlier, top=10, **own).results
    assert seeking.reliable()["id"].to_list() == ranked.gather(range(4, 12)).to_list()
    assert (results["bank"]["excluded"], results["bank"]["listed"]) == (2, 10)
    assert (results["shop"]["excluded"], results["shop"]["listed"]) == (2, 8)


def refused(earlier: Path, plan: Plan, party: str = "bank", **own: dict[str, Any]) -> None:
    private = privates(earlier, **own)[party].model_copy(update={"table": None})
    table = {"path": earlier / "bank" / "ranking.csv", "id": "id", "columns": []}
    private = Private.model_validate(private.model_dump() | {"table": table})
    preflight(checked(plan, party, private))


def test_the_earlier_run_must_be_a_search_by_the_same_parties(earlier: Path, tmp_path: Path) -> None:
    refused(earlier, plan(advice=True))
    with pytest.raises(InputError, match=r"bank: earlier: .*plan\.toml"):
        refused(tmp_path / "nothing", plan())
    with pytest.raises(PlanError, match=r"bank: earlier: normalise"):
        refused(earlier, plan(normalise="case"))
    with pytest.raises(PlanError, match=r"bank: earlier: .*passive was telco.*railway"):
        refused(earlier, plan(ROLES | {"railway": "passive"}))
    (earlier / "bank" / "result.json").write_text("{}")
    refused(earlier, plan())
    with pytest.raises(InputError, match=r"bank: earlier: .*result\.json has no advice"):
        refused(earlier, plan(advice=True))
    (earlier / "bank" / "result.json").write_text("{")
    with pytest.raises(InputError, match=r"bank: earlier: .*result\.json"):
        refused(earlier, plan(advice=True))
    path = earlier / "bank" / "plan.toml"
    path.write_text(path.read_text().replace('"lookalike"', '"align"'))
    with pytest.raises(InputError, match=r"bank: earlier: .*kind align"):
        refused(earlier, plan())


def test_a_damaged_ranking_is_named(earlier: Path) -> None:
    path = earlier / "bank" / "ranking.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], lines[2], lines[1]]))
    with pytest.raises(InputError, match=r"bank: .*ranking\.csv: column 'rank'"):
        refused(earlier, plan())
    path.unlink()
    with pytest.raises(InputError, match=r"bank: earlier: .*ranking\.csv"):
        refused(earlier, plan())


def test_a_file_of_people_to_exclude_is_looked_at(earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"bank: .*absent\.csv"):
        refused(
            earlier,
            plan(),
            bank={"exclude": tmp_path / "absent.csv"}
            | privates(earlier)["bank"].model_dump(include={"consent", "earlier"}),
        )


def test_everybody_must_agree(earlier: Path) -> None:
    for party in ("telco", "bank"):
        with pytest.raises(PlanError, match=rf"{party}: consent\.found"):
            refused(earlier, plan(), party, **{party: {"consent": {}}})
    with pytest.raises(PlanError, match=r"bank: consent\.advice"):
        refused(earlier, plan(advice=True), bank={"consent": {"found": True}})


def test_a_passive_party_cannot_leave_people_out_of_an_earlier_search(earlier: Path, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"telco: exclude: .*new search"):
        refused(earlier, plan(), "telco", telco={"exclude": tmp_path / "out.csv"})


def test_there_is_one_seeker() -> None:
    assert kind_named("deliver").needs == ("seeker", "active", "passive")
    with pytest.raises(PlanError, match="one seeker"):
        outline_of(plan(ROLES | {"store": "seeker"}))
