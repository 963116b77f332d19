"""What a look before the start finds at a party, and every fault it reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from unpooled.data.sources import TableSettings
from unpooled.errors import CertificateError, InputError, PlanError, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Private
from unpooled.transport.certificates import make_trial

PLAN = Plan.model_validate(
    {
        "kind": "check",
        "parties": {"bank": {"role": "active"}, "telco": {"role": "passive"}, "helper": {"role": "coordinator"}},
    }
)


@pytest.fixture
def bank(tmp_path: Path) -> dict[str, Any]:
    """A good private file of the bank, to be spoiled."""
    path = tmp_path / "bank.csv"
    path.write_text("id,age,opened,risk\n1,40,2020-01-01,low\n2,50,2021-01-01,high\n")
    table = {"path": str(path), "id": "id", "types": {"risk": ["low", "high"]}}
    return {"table": table, "policy": {"minimum_rows": 2}}


def test_a_party_in_order_is_described(bank: dict[str, Any]) -> None:
    found = preflight(checked(PLAN, "bank", Private.model_validate(bank)))
    assert found.party == "bank"
    assert found.origin == bank["table"]["path"]
    assert found.columns == {"age": "number", "opened": "date", "risk": "ordered category"}
    assert found.certificates == "made for the run"
    assert found.quality is not None
    assert (found.quality.rows, len(found.quality.columns)) == (2, 3)


def test_too_few_rows_are_refused(bank: dict[str, Any]) -> None:
    with pytest.raises(RefusedError, match=r"bank .*3 rows .*minimum_rows"):
        preflight(checked(PLAN, "bank", Private.model_validate(bank | {"policy": {"minimum_rows": 3}})))


def test_every_row_is_looked_at(bank: dict[str, Any]) -> None:
    path = Path(bank["table"]["path"])
    path.write_text("id,age\n" + "".join(f"{row},{row}\n" for row in range(1200)) + "last,none\n")
    table = {"path": str(path), "id": "id"}
    with pytest.raises(InputError, match=r"bank: .*bank\.csv: column 'age': row 1201: 'none'"):
        preflight(checked(PLAN, "bank", Private.model_validate({"table": table})))


@pytest.mark.parametrize(
    ("labels", "classes", "column", "reason"),
    [
        ("yes,yes,yes", 2, "bought", "1 different labels"),
        ("yes,no,yes", 3, "bought", "2 different labels"),
        (",,", 0, "bought", "no row"),
        ("yes,no,yes", 2, "visits", "negative"),
        ("yes,no,yes", 2, "absent", "not among"),
    ],
)
def test_a_target_or_weight_that_cannot_be_used_is_refused(
    tmp_path: Path, labels: str, classes: int, column: str, reason: str
) -> None:
    lines = [f"{row},{label},{1 - row}" for row, label in enumerate(labels.split(","), start=1)]
    (tmp_path / "bank.csv").write_text("\n".join(["id,bought,visits", *lines]) + "\n")
    roles = {"bank": {"role": "active"}, "telco": {"role": "passive"}, "helper": {"role": "coordinator"}}
    plan = Plan.model_validate({"kind": "train", "parties": roles, "parameters": {"model": {"classes": classes}}})
    settings: dict[str, Any] = {"table": {"path": str(tmp_path / "bank.csv"), "id": "id"}, "target": "bought"}
    settings |= {"policy": {"minimum_rows": 1}} | ({} if column == "bought" else {"weight": column})
    with pytest.raises(InputError, match=rf"^bank: .*bank\.csv: column '{column}': .*{reason}"):
        preflight(checked(plan, "bank", Private.model_validate(settings)))


def test_a_coordinator_has_no_table() -> None:
    found = preflight(checked(PLAN, "helper", Private()))
    assert (found.origin, found.columns) == ("no table", {})


def test_certificates_are_checked_where_they_are_named(bank: dict[str, Any], tmp_path: Path) -> None:
    make_trial(tmp_path / "certs", ["bank", "telco"])
    found = preflight(
        checked(PLAN, "bank", Private.model_validate(bank | {"certificates": str(tmp_path / "certs/bank")}))
    )
    assert found.certificates == "valid"
    with pytest.raises(CertificateError, match="telco"):
        preflight(checked(PLAN, "bank", Private.model_validate(bank | {"certificates": str(tmp_path / "certs/telco")})))
    with pytest.raises(CertificateError, match="absent"):
        preflight(checked(PLAN, "bank", Private.model_validate(bank | {"certificates": str(tmp_path / "absent")})))


def test_a_party_that_joins_over_a_network_needs_certificates(bank: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="bank: certificates: "):
        preflight(checked(PLAN, "bank", Private.model_validate(bank)), joins=True)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"path": "absent.csv"}, r"bank: absent\.csv: "),
        ({"id": "customer"}, r"bank: .*bank\.csv: column 'customer': .*id, age"),
        ({"columns": ["agee"]}, r"bank: .*bank\.csv: column 'agee': "),
        ({"types": {"risk": "number"}}, r"bank: .*bank\.csv: column 'risk': rows 1 and 2: "),
    ],
)
def test_faults_of_a_table_name_party_file_and_column(bank: dict[str, Any], change: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        preflight(checked(PLAN, "bank", Private.model_validate({"table": bank["table"] | change})))


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        ("agee", ""),
        ("opened", "date.*number"),
        ("risk", "ordered category.*number"),
    ],
)
def test_limits_of_what_is_no_number_are_refused(bank: dict[str, Any], column: str, reason: str) -> None:
    private = Private.model_validate(bank | {"prepare": {"limits": {"age": [0, 120], column: [0, 1]}}})
    with pytest.raises(InputError, match=rf"^bank: .*bank\.csv: column '{column}': prepare\.limits .*{reason}"):
        preflight(checked(PLAN, "bank", private))


def test_what_does_not_fit_the_plan_or_the_policy_is_refused(bank: dict[str, Any]) -> None:
    with pytest.raises(PlanError, match="shop"):
        preflight(checked(PLAN, "shop", Private.model_validate(bank)))
    with pytest.raises(PlanError, match=r"helper .*coordinator"):
        preflight(checked(PLAN, "helper", Private.model_validate(bank)))
    with pytest.raises(RefusedError, match=r"telco .*RowCount"):
        preflight(checked(PLAN, "telco", Private.model_validate(bank | {"policy": {"never_send": ["RowCount"]}})))


@pytest.mark.parametrize(
    ("parameters", "table", "reason"),
    [
        ({"normalise": "email"}, {}, r"^bank: .*bank\.csv: column 'id': row 1500: not an e-mail address"),
        ({"normalise": "email", "hash": "sha256"}, {"hashed": True}, r"column 'id': rows 1, 2, .*table\.hashed"),
        ({}, {"hashed": True}, r"^bank: table\.hashed"),
        ({"normalise": ["email", "email"]}, {}, r"parameters\.normalise: .*bank"),
    ],
)
def test_ids_are_checked_in_every_row(tmp_path: Path, parameters: Any, table: Any, reason: str) -> None:
    path = tmp_path / "bank.csv"
    path.write_text("id,age\n" + "".join(f"p{n}@x.org,{n}\n" for n in range(1499)) + "p1499 at x.org,40\n")
    parties = {"bank": {"role": "active"}, "telco": {"role": "passive"}}
    plan = Plan.model_validate({"kind": "align", "parties": parties, "parameters": parameters})
    private = Private.model_validate({"table": {"path": str(path), "id": "id", "types": {"age": "number"}, **table}})
    with pytest.raises((InputError, PlanError), match=reason):
        preflight(checked(plan, "bank", private))
    plain = plan.model_copy(update={"parameters": {"normalise": "case"}})
    good = private.model_copy(update={"table": TableSettings(path=path, id="id")})
    assert preflight(checked(plain, "bank", good)).columns == {"age": "number"}


@pytest.mark.parametrize("party", ["shop", "bank"])
def test_every_id_of_a_file_of_exclusions_is_checked(tmp_path: Path, party: str) -> None:
    path, excluded = tmp_path / "people.csv", tmp_path / "out.csv"
    path.write_text("id,age\n" + "".join(f"p{n}@x.org,{n}\n" for n in range(40)))
    excluded.write_text("id\np1@x.org\np2 at x.org\n")
    parties = {"shop": {"role": "seeker"}, "bank": {"role": "active"}}
    plan = Plan.model_validate({"kind": "align", "parties": parties, "parameters": {"normalise": "email"}})
    private = Private.model_validate({"table": {"path": str(path), "id": "id"}, "exclude": str(excluded)})
    with pytest.raises(InputError, match=rf"^{party}: .*out\.csv: column 'id': row 2"):
        preflight(checked(plan, party, private))
