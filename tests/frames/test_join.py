"""Parties that take part from Python over mutual TLS on loopback, each with a data frame in place of its table."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from every_kind import AGREED, BANK, HELPED, SMALL, TELCO

from unpooled import (
    InputError,
    Member,
    Outcome,
    PartyOutcome,
    PeerError,
    Plan,
    PlanError,
    Private,
    join,
    reconcile,
    simulate,
)
from unpooled.budget.book import Book
from unpooled.budget.places import usual_places
from unpooled.jobs.files import write_toml
from unpooled.run.progress import Progress
from unpooled.transport.certificates import make_trial

MODEL = SMALL | {"trees": 4, "lockstep": 1}
FRAMES = {"telco": {"frame": TELCO, "id": "customer"}, "bank": {"frame": BANK, "id": "account"}, "coordinator": {}}


@dataclass(frozen=True)
class Network:
    """Certificates of three parties, and their settings without tables."""

    folder: Path

    def private(self, party: str, **settings: Any) -> Private:
        target = {"target": "buys"} if party == "bank" else {}
        return Private(certificates=self.folder / party, seed=len(party), consent=AGREED, **target, **settings)

    def plan(self, kind: str = "train", **parameters: Any) -> Plan:
        """Three parties at free addresses."""
        parties = {}
        for party, member in HELPED.items():
            with socket.create_server(("127.0.0.1", 0)) as listener:
                parties[party] = {"role": member.role, "address": f"127.0.0.1:{listener.getsockname()[1]}"}
        content = {"kind": kind, "parties": parties, "parameters": parameters, "timeout": 300.0}
        return Plan.model_validate(content)

    def together(
        self, plan: Plan, runs: Path, given: Mapping[str, Mapping[str, Any]] = FRAMES, **both: Any
    ) -> dict[str, PartyOutcome | BaseException]:
        """What each party ends with, or the error that it ends with."""

        def part(party: str) -> PartyOutcome | BaseException:
            try:
                own = {"private": self.private(party), "folder": runs / party} | dict(given[party]) | both
                return join(plan, party, **own)
            except BaseException as error:
                return error

        with ThreadPoolExecutor(len(plan.parties)) as pool:
            return dict(zip(plan.parties, pool.map(part, plan.parties), strict=True))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Network:
    folder = tmp_path_factory.mktemp("certificates")
    make_trial(folder, tuple(HELPED))
    return Network(folder)


@pytest.fixture(scope="module")
def simulated(network: Network) -> Outcome:
    """The same job in this process."""
    privates = {party: network.private(party) for party in HELPED}
    members = {p: Member(one.role, one.frame, id=one.id, private=privates[p]) for p, one in HELPED.items()}
    return simulate("train", members, model=MODEL)


@pytest.fixture(scope="module")
def joined(network: Network, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    found: dict[str, Any] = network.together(network.plan(model=MODEL), tmp_path_factory.mktemp("runs"))
    return found


def by_person(outcome: PartyOutcome) -> pl.DataFrame:
    return outcome.tables["predictions"].select("account", "score").sort("account")


def test_each_party_has_what_a_simulation_hands_back(joined: dict[str, Any], simulated: Outcome) -> None:
    for party, expected in simulated.parties.items():
        found = joined[party]
        assert found.result.keys() == expected.result.keys()
        assert found.tables.keys() == expected.tables.keys()
        assert (found.model is None) == (expected.model is None)
        assert found.metrics == expected.metrics
        assert party in found.report.html
        assert (found.folder / "report.html").exists()
    assert by_person(joined["bank"]).equals(by_person(simulated["bank"]))
    assert reconcile(joined["bank"].ledger, joined["telco"].ledger) == []


def test_what_is_disclosed_is_counted_in_a_book_of_the_partys_frames(joined: dict[str, Any]) -> None:
    assert isinstance(joined["telco"], PartyOutcome)
    assert Book("data frames of telco", usual_places()).read()
    assert Book("data frames of bank", usual_places()).read()


def test_models_of_a_simulation_predict_over_the_network_with_settings_from_files(
    network: Network, simulated: Outcome, tmp_path: Path
) -> None:
    """A frame takes the place of the file that `[table]` names, whose id column and columns still hold."""
    plan = network.plan("predict")
    write_toml(tmp_path / "plan.toml", plan)
    table = {"path": "nowhere.csv", "id": "account", "columns": ["balance"]}
    private = network.private("bank").model_copy(update={"target": None})
    write_toml(tmp_path / "bank.toml", Private.model_validate(private.model_dump(exclude={"table"}) | {"table": table}))
    bank = {"private": tmp_path / "bank.toml", "frame": BANK.head(100), "model": simulated.models["bank"]}
    telco = FRAMES["telco"] | {"model": simulated.models["telco"]}
    given = {"telco": telco, "bank": bank, "coordinator": {}}
    found = network.together(plan, tmp_path, given)
    bank_found = found["bank"]
    assert isinstance(bank_found, PartyOutcome), bank_found
    expected = by_person(simulated["bank"]).filter(pl.col("account").cast(pl.Int64) < 100)
    assert by_person(bank_found).equals(expected)
    assert Book(str((tmp_path / "nowhere.csv").resolve()), usual_places()).read(), "the book is that of [table]"


def stops_in(step: str) -> Callable[[Progress], None]:
    def watch(progress: Progress) -> None:
        if progress.where.startswith(step) and progress.done > 1:
            raise KeyboardInterrupt

    return watch


def test_an_interrupted_run_goes_on_with_the_same_rows_in_any_order_and_with_no_others(
    network: Network, simulated: Outcome, tmp_path: Path
) -> None:
    plan = network.plan(model=MODEL)
    given: dict[str, dict[str, Any]] = {party: dict(own) for party, own in FRAMES.items()}
    cut = network.together(plan, tmp_path, given | {"bank": given["bank"] | {"watcher": stops_in("fit")}})
    assert isinstance(cut["bank"], KeyboardInterrupt), cut["bank"]
    assert isinstance(cut["telco"], PeerError), cut["telco"]
    assert cut["telco"].__notes__ == [
        f"the files of this run are in {tmp_path / 'telco'}; once the cause is gone, go on with this folder and "
        "resume=True"
    ]
    other = BANK.with_columns(balance=pl.col("balance") + 1)
    changed = network.together(plan, tmp_path, given | {"bank": given["bank"] | {"frame": other}}, resume=True)
    assert isinstance(changed["bank"], InputError), changed["bank"]
    assert "table" in str(changed["bank"])
    shuffled = given | {"telco": given["telco"] | {"frame": TELCO.reverse()}}
    resumed = network.together(plan, tmp_path, shuffled, resume=True)
    bank = resumed["bank"]
    assert isinstance(bank, PartyOutcome), bank
    assert by_person(bank).equals(by_person(simulated["bank"]))
    assert len(bank.ledger.resumed) == 2


def test_what_is_missing_is_said_before_anybody_is_called(network: Network, tmp_path: Path) -> None:
    plan = network.plan("align")
    with pytest.raises(PlanError, match=r"bank: certificates: name the folder"):
        join(plan, "bank", Private(), BANK, id="account", folder=tmp_path / "run")
    with pytest.raises(InputError, match=r"bank: data frame: column 'id': there is no such column"):
        join(plan, "bank", network.private("bank"), BANK, folder=tmp_path / "other")
    with pytest.raises(InputError, match="already holds a run"):
        join(plan, "bank", network.private("bank"), BANK, id="account", folder=tmp_path / "run")
    with pytest.raises(PlanError, match=r"plan\.toml: there is no such file"):
        join(tmp_path / "plan.toml", "bank", network.private("bank"), BANK)
    with pytest.raises(InputError, match="bank: resume: name the folder"):
        join(plan, "bank", network.private("bank"), BANK, resume=True)
    with pytest.raises(InputError, match=r"nowhere is not a run's folder"):
        join(plan, "bank", network.private("bank"), BANK, id="account", folder=tmp_path / "nowhere", resume=True)
