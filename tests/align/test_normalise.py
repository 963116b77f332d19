"""Rules by which ids are normalised and hashed: what becomes the same, what is refused and where."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from unpooled.align import normalise
from unpooled.align.normalise import IdRules, Rule, comparable
from unpooled.data.table import Table
from unpooled.errors import InputError, PlanError
from unpooled.jobs.align.job import Parameters
from unpooled.jobs.plan import Plan, fields_of

MakeTable = Callable[..., Table]

GERMAN = {"name": "phone", "country": "49"}
AMERICAN = {"name": "phone", "country": "1", "trunk": "1"}
ITALIAN = {"name": "phone", "country": "39", "trunk": ""}


@pytest.mark.parametrize(
    ("rule", "written", "normal"),
    [
        ("exact", "Ann@X.org", "Ann@X.org"),
        ("case", "STRASSE", "strasse"),
        ("case", "Straße", "strasse"),
        ("email", "Ann.Lee+shop@Example.ORG", "ann.lee+shop@example.org"),
        ("email", "JÖRG@Müller.de", "jörg@müller.de"),
        ({"name": "digits", "length": 7}, "7", "0000007"),
        ({"name": "digits", "length": 7}, "0000007", "0000007"),
        (GERMAN, "030 123456", "4930123456"),
        (GERMAN, "(030) 12-34/56", "4930123456"),
        (GERMAN, "+49 (0)30 123456", "4930123456"),
        (GERMAN, "0049.30.123456", "4930123456"),
        (GERMAN, "(+49) 30 123456", "4930123456"),
        (GERMAN, "30123456", "4930123456"),
        (GERMAN, "+1 415 555 2671", "14155552671"),
        (AMERICAN, "1 (415) 555-2671", "14155552671"),
        (AMERICAN, "415.555.2671", "14155552671"),
        (ITALIAN, "06 1234567", "39061234567"),
        (ITALIAN, "+39 06 1234567", "39061234567"),
    ],
)
def test_a_rule_makes_one_id_of_different_writings(table: MakeTable, rule: Any, written: str, normal: str) -> None:
    found = comparable(table("bank", [f" {written} "]), IdRules(normalise=rule))
    assert found["id"].to_list() == [normal]


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ("email", "a@b.org", ["ann", "@b.org", "a@", "a@b@c.org", "a b@c.org"]),
        ({"name": "digits", "length": 3}, "123", ["1234", "12a", "-12", "1.0", "١٢"]),
        (
            GERMAN,
            "030123456",
            ["ext 12", "++49 30 123456", "030 12+3456", "0301", "+49 1234567890123456", "+0 30 123456", "--"],
        ),
    ],
)
def test_an_id_that_does_not_fit_is_named_by_party_file_column_and_row(
    table: MakeTable, rule: Any, good: str, bad: list[str]
) -> None:
    for unfit in bad:
        with pytest.raises(InputError, match=r"^bank: data frame: column 'id': row 2: not an? ") as caught:
            comparable(table("bank", [good, unfit]), IdRules(normalise=rule))
        assert unfit not in str(caught.value)


def test_each_column_has_its_rule_or_all_have_one(table: MakeTable) -> None:
    ids = table("bank", {"branch": ["7", "12"], "mail": ["A@x.org", "b@X.org"]})
    rules = IdRules(normalise=[{"name": "digits", "length": 3}, "email"])
    assert comparable(ids, rules).rows() == [("007", "a@x.org"), ("012", "b@x.org")]
    assert comparable(ids, IdRules(normalise="case")).rows() == [("7", "a@x.org"), ("12", "b@x.org")]
    with pytest.raises(PlanError, match=r"parameters\.normalise.* 3 rules.* bank .* 2 columns"):
        comparable(ids, IdRules(normalise=["exact"] * 3))


def test_missing_ids_are_left_to_cleaning(table: MakeTable) -> None:
    for rules in (IdRules(), IdRules(normalise="email"), IdRules(normalise="email", hash="sha256")):
        assert comparable(table("bank", ["a@x.org", ""]), rules)["id"].is_null().to_list() == [False, True]


def test_hashes_are_of_the_salt_and_the_normalised_id(table: MakeTable) -> None:
    rules = IdRules(normalise="email", hash="sha256", salt="pepper:")
    (found,) = comparable(table("bank", ["Ann@X.org"]), rules)["id"]
    assert found == hashlib.sha256(b"pepper:ann@x.org").hexdigest()
    held = replace(table("telco", [found.upper()]), hashed=True)
    assert comparable(held, rules)["id"].to_list() == [found]


def test_what_is_no_hash_is_refused_where_hashes_are_said_to_be(table: MakeTable) -> None:
    held = replace(table("telco", ["a" * 64, "a" * 63, "ann@x.org"]), hashed=True)
    with pytest.raises(InputError, match=r"^telco: data frame: column 'id': rows 2 and 3: .*table\.hashed"):
        comparable(held, IdRules(normalise="email", hash="sha256"))
    with pytest.raises(PlanError, match=r"telco: table\.hashed: .*hash"):
        comparable(held, IdRules(normalise="email"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"normalise": []},
        {"normalise": "phone"},
        {"normalise": "digits"},
        {"normalise": {"name": "phone", "country": "+49"}},
        {"normalise": {"name": "phone", "country": "049"}},
        {"normalise": {"name": "digits", "length": 0}},
        {"normalise": {"name": "email", "length": 5}},
        {"normalise": {"name": "digits", "length": 5, "country": "49"}},
        {"hash": "md5"},
        {"salt": "pepper"},
    ],
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        IdRules(**wrong)


def test_rules_are_part_of_the_plan_and_one_rule_is_a_list_of_one() -> None:
    plan = Plan.model_validate({"kind": "align", "parties": {"bank": {"role": "active"}, "shop": {"role": "seeker"}}})
    fields = [
        fields_of(plan, Parameters.model_validate({"normalise": rule}))
        for rule in ("email", ["email"], {"name": "email"}, [GERMAN], "exact")
    ]
    assert fields[0] == fields[1] == fields[2]
    assert [one["parameters.normalise"] for one in fields[2:]] == [
        '["email"]',
        '[{"name": "phone", "country": "49"}]',
        '["exact"]',
    ]
    assert Rule.model_validate({"name": "case"}) == Rule(name="case")


def test_long_columns_are_normalised_piece_by_piece(table: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normalise, "_AT_ONCE", 3)
    mails, rules = (
        [f"Person{number}@Example.org" for number in range(8)],
        IdRules.model_validate({"normalise": "email"}),
    )
    assert comparable(table("bank", mails), rules)["id"].to_list() == [mail.lower() for mail in mails]
    with pytest.raises(InputError, match=r"rows 5.* 10"):
        comparable(table("bank", [*mails[:4], "nobody", *mails[4:], "no one"]), rules)
