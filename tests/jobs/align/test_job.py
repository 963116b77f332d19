"""The kind `align` as a job: who may take part, what is said, who ends up with which file, what a policy refuses."""

from __future__ import annotations

import csv
import hashlib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from unpooled.data.sources import TableSettings
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.align.job import ALIGNED, Parameters
from unpooled.jobs.checks import check_fits
from unpooled.jobs.kinds import kind_named, outline_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.ledger import Record, read_ledger, reconcile_all
from unpooled.run.simulate import Outcome, simulate_job

IDS = {
    "bank": [f"person-{n:03}" for n in range(80)],
    "telco": [f"person-{n:03}" for n in range(40, 120)],
    "railway": [f"person-{n:03}" for n in range(20, 100)],
    "shop": [f"person-{n:03}" for n in range(30, 75)],
}
ROLES = {"bank": "active", "telco": "passive", "railway": "passive", "shop": "seeker", "coordinator": "coordinator"}
COMMON = [f"person-{n:03}" for n in range(40, 80)]
LENIENT = {"minimum_rows": 1, "minimum_peer_rows": 1, "minimum_overlap": 1, "minimum_positives": 1}
AGREED = {"aided": True}

Ran = Outcome[dict[str, Any]]


def plan_of(*parties: str, key_bits: int = 1024, **parameters: Any) -> Plan:
    roles = {party: {"role": ROLES[party]} for party in parties}
    settings = {"kind": "align", "key_bits": key_bits, "insecure": key_bits < 2048, "timeout": 600.0}
    return Plan.model_validate(settings | {"parties": roles, "parameters": parameters})


def table_of(party: str, ids: Sequence[str | int], **columns: Sequence[Any]) -> Table:
    return table_from_frame(pl.DataFrame({"id": ids, **columns}), "id", party)


def run(
    plan: Plan,
    folder: Path,
    ids: Mapping[str, Sequence[str]] = IDS,
    policies: Mapping[str, Mapping[str, Any]] | None = None,
) -> Ran:
    privates = {
        party: Private.model_validate({"policy": LENIENT | dict((policies or {}).get(party, {})), "consent": AGREED})
        for party in plan.parties
    }
    tables = {party: table_of(party, ids[party]) for party in plan.parties if party in ids}
    return simulate_job(plan, privates, tables, folder)


def rows_in(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def said(ledgers: Mapping[str, Record]) -> set[tuple[str, str, str]]:
    return {(party, e.peer, e.kind) for party, record in ledgers.items() for e in record.entries if e.way == "sent"}


EVERYBODY = ("bank", "telco", "shop", "coordinator")


# results


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa", "aided"])
def test_owners_have_the_common_ids_and_the_active_party_the_labels(tmp_path: Path, psi: str) -> None:
    results = run(plan_of(*EVERYBODY, psi=psi), tmp_path).results
    bank, telco = (rows_in(tmp_path / party / ALIGNED) for party in ("bank", "telco"))
    assert bank[0] == ["id", "label"]
    assert telco[0] == ["id"]
    assert [row[:1] for row in bank] == telco
    assert {id: int(label) for id, label in bank[1:]} == {id: 1 if id in IDS["shop"] else -1 for id in COMMON}
    counts = {"rows_read": 80, "rows": 80, "common": 40, "file": ALIGNED}
    assert results["bank"] == counts | {"positives": 35, "digest": results["telco"]["digest"]}
    assert results["telco"].items() >= counts.items()
    assert results["shop"] == {"rows_read": 45, "rows": 45, "asked_about": 40}
    assert results["coordinator"] == {}


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa", "aided"])
def test_the_file_is_there_for_those_entitled_to_it_and_for_their_eyes_alone(tmp_path: Path, psi: str) -> None:
    run(plan_of(*EVERYBODY, psi=psi), tmp_path)
    written = {path.parent.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob(ALIGNED)}
    assert written == {"bank": 0o600, "telco": 0o600}
    for party in ("shop", "coordinator"):
        for path in (tmp_path / party).rglob("*"):
            assert path.is_dir() or b"person-" not in path.read_bytes(), path


def test_no_id_is_in_a_ledger_or_a_result(tmp_path: Path) -> None:
    run(plan_of(*EVERYBODY), tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ALIGNED]
    assert {path.name for path in files} >= {"ledger.jsonl", "result.json", "status.json"}
    assert not any(b"person-" in path.read_bytes() for path in files)


def test_the_columns_of_composite_ids_keep_their_names_and_the_label_takes_another(tmp_path: Path) -> None:
    frames = {
        "bank": pl.DataFrame({"label": ["a", "b", "c"], "number": [1, 1, 2]}),
        "telco": pl.DataFrame({"branch": ["c", "b"], "customer": ["2", "1"]}),
        "shop": pl.DataFrame({"x": ["b"], "y": [1]}),
    }
    tables = {party: table_from_frame(frame, frame.columns, party) for party, frame in frames.items()}
    privates = dict.fromkeys(tables, Private.model_validate({"policy": LENIENT}))
    simulate_job(plan_of(*tables), privates, tables, tmp_path)
    bank, telco = (rows_in(tmp_path / party / ALIGNED) for party in ("bank", "telco"))
    assert (bank[0], telco[0]) == (["label", "number", "label_"], ["branch", "customer"])
    assert sorted(bank[1:]) == [["b", "1", "1"], ["c", "2", "-1"]]


def test_odd_ids_come_back_from_the_file(tmp_path: Path) -> None:
    odd = ['say "so"', "a,b", "=1+1", "é", "007", "-3", "🙂"]
    run(plan_of("bank", "telco"), tmp_path, {"bank": odd, "telco": odd[::-1]})
    assert sorted(id for (id,) in rows_in(tmp_path / "bank" / ALIGNED)[1:]) == sorted(odd)


def test_frames_can_be_aligned_in_a_line() -> None:
    members = {
        "bank": Member("active", pl.DataFrame({"id": range(100)})),
        "telco": Member("passive", pl.DataFrame({"id": [str(n) for n in range(60, 200)]})),
    }
    outcome = simulate("align", members)
    results, tables = outcome.results, outcome.tables
    assert results["bank"]["common"] == 40
    assert results["bank"]["digest"] == results["telco"]["digest"]
    assert tables["bank"]["aligned"].equals(tables["telco"]["aligned"])
    assert sorted(tables["bank"]["aligned"]["id"], key=int) == [str(n) for n in range(60, 100)]


def test_case_is_ignored_where_the_plan_says_so(tmp_path: Path) -> None:
    ids = {"bank": ["Anna", "bert"], "telco": ["ANNA", "Bert", "carl"]}
    assert run(plan_of("bank", "telco", normalise="case"), tmp_path / "a", ids).results["telco"]["common"] == 2
    with pytest.raises(RefusedError, match="normalise = 'case'"):
        run(plan_of("bank", "telco"), tmp_path / "b", ids)


# duplicates


def test_rows_that_are_there_twice_count_once(tmp_path: Path) -> None:
    ids = {"bank": ["a", "b", "a ", "c"], "telco": ["a", "c", "c"]}
    results = run(plan_of("bank", "telco"), tmp_path, ids).results
    assert (results["bank"]["rows_read"], results["bank"]["rows"], results["bank"]["common"]) == (4, 3, 2)
    assert (results["telco"]["rows_read"], results["telco"]["rows"]) == (3, 2)


def test_rows_that_normalising_makes_equal_count_once_and_the_first_stays_as_written(tmp_path: Path) -> None:
    ids = {"bank": ["Ann@x.org", "ANN@x.org", "bo@x.org"], "telco": ["ann@x.org", "Bo@X.org"]}
    outcome = run(plan_of("bank", "telco", normalise="email"), tmp_path, ids)
    assert (outcome.results["bank"]["rows_read"], outcome.results["bank"]["rows"]) == (3, 2)
    assert sorted(outcome.tables["bank"]["aligned"]["id"]) == ["Ann@x.org", "bo@x.org"]
    assert sorted(outcome.tables["telco"]["aligned"]["id"]) == ["Bo@X.org", "ann@x.org"]


def test_hashes_match_ids_that_others_have_in_clear(tmp_path: Path) -> None:
    mails = [f"person{n}@x.org" for n in range(6)]
    hashes = [hashlib.sha256(f"salted {mail}".encode()).hexdigest().upper() for mail in mails]
    plan = plan_of("bank", "telco", "shop", normalise="email", hash="sha256", salt="salted ")
    tables = {
        "bank": table_of("bank", [mail.title() for mail in mails[:4]]),
        "telco": replace(table_of("telco", hashes[1:]), hashed=True),
        "shop": table_of("shop", mails[2:3]),
    }
    privates = dict.fromkeys(tables, Private.model_validate({"policy": LENIENT}))
    outcome = simulate_job(plan, privates, tables, tmp_path)
    assert (outcome.results["bank"]["common"], outcome.results["bank"]["positives"]) == (3, 1)
    assert set(outcome.tables["telco"]["aligned"]["id"]) == set(hashes[1:4]), "as telco writes them"
    with pytest.raises(PlanError, match=r"telco: table\.hashed"):
        simulate_job(plan_of("bank", "telco", "shop", normalise="email"), privates, tables, tmp_path / "b")


@pytest.mark.parametrize(
    ("ids", "ages", "parameters", "rows"),
    [
        (["anna", "bert", "anna"], [20, 30, 40], {}, "rows 1 and 3"),
        (["é", "bert", "e\u0301"], [20, 30, 40], {}, "rows 1 and 3"),
        (["anna", "bert", "BERT"], [20, 30, 40], {"normalise": "case"}, "rows 2 and 3: the same id, as the plan"),
    ],
    ids=["same", "same once composed", "same without case"],
)
def test_different_rows_with_one_id_are_an_error_that_names_them(
    tmp_path: Path, ids: list[str], ages: list[int], parameters: dict[str, Any], rows: str
) -> None:
    plan = plan_of("bank", "telco", **parameters)
    tables = {"bank": table_of("bank", ids, age=ages), "telco": table_of("telco", ["anna", "carl"])}
    with pytest.raises(InputError) as caught:
        simulate_job(plan, dict.fromkeys(tables, Private.model_validate({"policy": LENIENT})), tables, tmp_path)
    text = str(caught.value)
    assert text.startswith("bank: ")
    assert rows in text
    assert not any(id.casefold() in text.casefold() for id in ids)
    assert any("bank stopped: its input was refused (" in note for note in caught.value.__notes__)
    assert not list(tmp_path.rglob(ALIGNED))


# what the page about alignment shows


def test_the_settings_on_its_page_are_valid() -> None:
    page = (Path(__file__).parents[3] / "docs" / "alignment.md").read_text(encoding="utf-8")
    shown = [tomllib.loads(text) for text in re.findall(r"^```toml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)]
    plans = [Parameters.model_validate(one["parameters"]) for one in shown if "kind" in one]
    tables = [TableSettings.model_validate(one["table"]) for one in shown if "kind" not in one]
    assert {rule.name for plan in plans for rule in plan.normalise} == {"exact", "digits", "email"}
    assert [table.hashed for table in tables] == [False, True]


# who may take part


@pytest.mark.parametrize(
    ("parties", "parameters", "reason"),
    [
        (("bank", "coordinator"), {}, "alignment"),
        (("bank", "telco", "railway"), {}, "add a coordinator, or set psi = 'blind-rsa'"),
        (("bank", "telco"), {"psi": "aided"}, "psi = 'aided' needs a coordinator"),
        (("bank", "shop"), {"psi": "aided"}, "psi = 'aided' needs a coordinator"),
        (("bank", "telco"), {"psi": "rot13"}, "parameters.psi"),
        (("bank", "telco"), {"normalise": "upper"}, "parameters.normalise"),
        (("bank", "telco"), {"key": 1}, "parameters.key: unknown key"),
    ],
)
def test_a_plan_that_cannot_be_is_refused_before_the_start(
    parties: tuple[str, ...], parameters: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PlanError) as caught:
        outline_of(plan_of(*parties, **parameters))
    assert reason in str(caught.value)


@pytest.mark.parametrize("role", ["seeker", "coordinator"])
def test_of_seekers_and_coordinators_there_is_one_at_most(role: str) -> None:
    roles = {"bank": "active", "telco": "passive", "one": role, "two": role}
    plan = Plan.model_validate({"kind": "align", "parties": {name: {"role": own} for name, own in roles.items()}})
    with pytest.raises(PlanError, match=role):
        outline_of(plan)


@pytest.mark.parametrize(
    ("bits", "insecure"), [(2048, False), (3072, False), (4096, False), (1024, True), (1536, True)]
)
def test_keys_may_have_these_sizes(bits: int, insecure: bool) -> None:
    plan = plan_of("bank", "telco", psi="blind-rsa")
    assert outline_of(plan.model_copy(update={"key_bits": bits, "insecure": insecure}))


@pytest.mark.parametrize(
    ("bits", "insecure", "reason"),
    [
        (2049, False, "key_bits: .*2048, 3072, 4096.*2049"),
        (8192, False, "key_bits: .*blind-rsa"),
        (512, True, "key_bits: .*blind-rsa.* 1024 "),
    ],
)
def test_keys_of_other_sizes_are_refused(bits: int, insecure: bool, reason: str) -> None:
    plan = plan_of("bank", "telco", psi="blind-rsa").model_copy(update={"key_bits": bits, "insecure": insecure})
    with pytest.raises(PlanError, match=reason):
        outline_of(plan)
    assert outline_of(plan.model_copy(update={"parameters": {}}))  # Diffie-Hellman has no keys of that kind


def test_a_small_key_must_be_called_insecure() -> None:
    parties = {"bank": {"role": "active"}, "telco": {"role": "passive"}}
    with pytest.raises(ValueError, match="1024"):
        Plan.model_validate({"kind": "align", "key_bits": 1024, "parties": parties})


def test_keys_have_the_usual_size_unless_told_otherwise(tmp_path: Path) -> None:
    plan = plan_of("bank", "telco", key_bits=2048, psi="blind-rsa")
    assert Plan.model_validate({"kind": "align", "parties": plan.parties}).key_bits == 2048
    outcome = run(plan, tmp_path)
    assert outcome.results["bank"]["common"] == 40
    sizes = [e.bytes for e in outcome.ledgers["bank"].entries if e.kind == "BlindedIds"]
    assert 80 * 256 < sum(sizes) < 80 * 256 + 200


# what is said


CASES = [
    pytest.param(("bank", "telco", "railway", "shop", "coordinator"), {}, id="ring"),
    pytest.param(("bank", "telco"), {}, id="pair"),
    pytest.param(("bank", "telco", "shop"), {}, id="pair and seeker"),
    pytest.param(("bank", "shop"), {}, id="seeker alone"),
    pytest.param(("bank", "shop", "coordinator"), {}, id="seeker and idle coordinator"),
    pytest.param(("bank", "telco", "railway", "shop"), {"psi": "blind-rsa"}, id="blind-rsa"),
    pytest.param(("telco", "coordinator", "bank", "railway"), {"psi": "blind-rsa"}, id="blind-rsa, another order"),
    pytest.param(("bank", "telco", "railway", "shop", "coordinator"), {"psi": "aided"}, id="aided"),
    pytest.param(("telco", "coordinator", "bank"), {"psi": "aided"}, id="aided, another order"),
    pytest.param(("bank", "shop", "coordinator"), {"psi": "aided"}, id="aided, seeker alone"),
]


@pytest.mark.parametrize(("parties", "parameters"), CASES)
def test_the_outline_is_what_is_said(tmp_path: Path, parties: tuple[str, ...], parameters: dict[str, Any]) -> None:
    plan = plan_of(*parties, **parameters)
    outcome = run(plan, tmp_path)
    outline = [exchange for exchange in outline_of(plan) if not exchange.only_if]
    assert {(e.sender, e.receiver, e.kind) for e in outline} == said(outcome.ledgers)
    frames: dict[tuple[str, str, str], int] = {}
    for exchange in outline:
        if exchange.frames is not None:
            key = (exchange.sender, exchange.receiver, exchange.kind)
            frames[key] = frames.get(key, 0) + exchange.frames
    for (sender, receiver, kind), count in frames.items():
        sent = [e for e in outcome.ledgers[sender].entries if (e.way, e.peer, e.kind) == ("sent", receiver, kind)]
        assert len(sent) == count, kind
    assert all(pair.differences == () for pair in reconcile_all(outcome.ledgers.values()))


@pytest.mark.parametrize(
    ("strict", "parties", "parameters"),
    [
        ("telco", ("bank", "telco", "railway", "shop", "coordinator"), {}),
        ("shop", ("bank", "telco", "railway", "shop", "coordinator"), {}),
        ("telco", ("bank", "telco"), {}),
        ("shop", ("bank", "shop"), {}),
        ("railway", ("bank", "telco", "railway", "shop"), {"psi": "blind-rsa"}),
        ("shop", ("bank", "telco", "railway", "shop"), {"psi": "blind-rsa"}),
        ("telco", ("bank", "telco", "railway", "shop", "coordinator"), {"psi": "aided"}),
        ("shop", ("bank", "telco", "shop", "coordinator"), {"psi": "aided"}),
        ("shop", ("bank", "shop", "coordinator"), {"psi": "aided"}),
    ],
)
def test_the_outline_has_what_is_said_when_too_few_are_in_common(
    tmp_path: Path, strict: str, parties: tuple[str, ...], parameters: dict[str, Any]
) -> None:
    plan = plan_of(*parties, **parameters)
    with pytest.raises(RefusedError, match=r"\b79 ids"):
        run(plan, tmp_path, policies={strict: {"minimum_positives" if strict == "shop" else "minimum_overlap": 79}})
    heard = said({party: read_ledger(tmp_path / party / "ledger.jsonl") for party in parties})
    assert {word for word in heard if word[2] != "Abort"} <= {(e.sender, e.receiver, e.kind) for e in outline_of(plan)}
    step = {"bank", "shop", *({"coordinator"} if "psi" in parameters and "aided" in parameters.values() else ())}
    step = step if strict == "shop" else set(parties) - {"shop"}
    ending = {(e.sender, e.receiver, e.kind) for e in outline_of(plan) if e.only_if}
    assert ending & heard == {word for word in ending if set(word[:2]) <= step} != set()


def test_what_only_a_failing_run_says_is_no_reason_to_refuse_a_plan(tmp_path: Path) -> None:
    policies = {"telco": {"never_send": ["IdLooks"]}}
    assert run(plan_of("bank", "telco"), tmp_path / "a", policies=policies).results["telco"]["common"] == 40
    policies["telco"] = {"never_send": ["IdLooks"], "minimum_overlap": 79}
    with pytest.raises(RefusedError, match=r"telco .*IdLooks"):
        run(plan_of("bank", "telco"), tmp_path / "b", policies=policies)
    policies["telco"] = {"never_send": ["RaisedIds"]}
    with pytest.raises(RefusedError, match=r"telco .*RaisedIds"):
        run(plan_of("bank", "telco"), tmp_path / "c", policies=policies)


# consent


@pytest.mark.parametrize("party", ["bank", "telco", "shop"])
def test_who_has_ids_must_agree_to_tags_under_a_shared_key(tmp_path: Path, party: str) -> None:
    plan = plan_of(*EVERYBODY, psi="aided")
    tables = {name: table_of(name, IDS[name]) for name in plan.parties if name in IDS}
    privates = {name: Private.model_validate({"policy": LENIENT, "consent": AGREED}) for name in plan.parties}
    with pytest.raises(PlanError) as refused:
        simulate_job(plan, privates | {party: Private.model_validate({"policy": LENIENT})}, tables, tmp_path)
    assert str(refused.value) == (
        f"{party}: consent.aided: if coordinator colluded with another party whose ids are compared, the two could "
        f"test guesses of the ids of {party}; agree to that in the private file, or agree on a plan without "
        "psi = 'aided'"
    )
    assert not list(tmp_path.rglob("ledger.jsonl"))
    for psi in ("ecdh", "blind-rsa"):
        check_fits(plan_of(*EVERYBODY, psi=psi), party, Private(), table_given=True)
    check_fits(plan, "coordinator", Private())


@pytest.mark.parametrize("kind", ["align", "train", "predict", "lookalike", "complete"])
def test_every_kind_that_compares_ids_asks_for_it(kind: str) -> None:
    asked = kind_named(kind).consents
    with_ids = [role for role in kind_named(kind).takes if role != "coordinator"]
    assert all("aided" in [one.key for one in asked[role]] for role in with_ids)


def test_what_the_outline_and_the_ledgers_say_names_the_trust(tmp_path: Path) -> None:
    plan = plan_of(*EVERYBODY, psi="aided")
    told = {e.kind: e.disclosure.what for e in outline_of(plan)}
    entries = [e for record in run(plan, tmp_path).ledgers.values() for e in record.entries]
    for kind in ("KeyPart", "KeyedTags"):
        assert "collude" in told[kind]
        assert "test guesses of" in told[kind]
        assert {e.discloses for e in entries if e.kind == kind} == {told[kind]}


# policies


def test_the_usual_policy_is_not_that_of_a_probe(tmp_path: Path) -> None:
    few = IDS | {"bank": IDS["bank"][-29:]}
    usual = {party: {"minimum_peer_rows": 30, "minimum_overlap": 1} for party in EVERYBODY}
    assert Private().policy.minimum_peer_rows == Private().policy.minimum_overlap == 30
    with pytest.raises(RefusedError, match=r"telco .*\b30 ids .*bank"):
        run(plan_of(*EVERYBODY), tmp_path, few, usual)
    assert not list(tmp_path.rglob(ALIGNED))
    sent = {e.kind for e in read_ledger(tmp_path / "telco" / "ledger.jsonl").entries if e.way == "sent"}
    assert sent == {"PlanOffer", "Opening", "Abort"}


@pytest.mark.parametrize("psi", ["ecdh", "blind-rsa", "aided"])
@pytest.mark.parametrize("strict", ["bank", "telco"])
def test_too_small_an_overlap_leaves_nobody_with_rows(tmp_path: Path, psi: str, strict: str) -> None:
    with pytest.raises(RefusedError, match=r"\b41 ids .*bank.*telco") as caught:
        run(plan_of(*EVERYBODY, psi=psi), tmp_path, policies={strict: {"minimum_overlap": 41}})
    assert len(caught.value.__notes__) == 3  # one for each of the others
    assert all(str(caught.value) in note for note in caught.value.__notes__), "the others are told the same"
    assert not list(tmp_path.rglob(ALIGNED))
    assert not any((tmp_path / party / "result.json").exists() for party in ("bank", "telco", "shop"))
    assert not any("person-" in text for text in (str(caught.value), *caught.value.__notes__))


def test_a_seeker_refuses_to_be_asked_about_few(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"shop .*\b41 ids"):
        run(plan_of(*EVERYBODY), tmp_path, policies={"shop": {"minimum_peer_rows": 41}})
    assert not (tmp_path / "bank" / ALIGNED).exists()


@pytest.mark.parametrize("strict", ["shop", "bank"])
def test_too_few_positives_leave_the_active_party_without_labels(tmp_path: Path, strict: str) -> None:
    with pytest.raises(RefusedError, match=r"\b36 ids .*bank.*shop.*policy\.minimum_positives"):
        run(plan_of(*EVERYBODY), tmp_path, policies={strict: {"minimum_positives": 36}})
    assert not (tmp_path / "bank" / ALIGNED).exists()


# as processes
