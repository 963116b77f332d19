"""Plans: what they refuse, what enters their digest, and how parties with different ones find out."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from unpooled.control import PlanOffer
from unpooled.errors import PlanError, PlanMismatch, ProtocolError
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan, agree, digest_of, fields_of
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session
from unpooled.settings import faults
from unpooled.version import PROTOCOL_VERSION, must_upgrade
from unpooled.wire import WIRE_VERSION

CONTENT: dict[str, Any] = {
    "kind": "check",
    "parties": {
        "bank": {"role": "active", "address": "bank.example.org:7433"},
        "telco": {"role": "passive"},
        "helper": {"role": "coordinator", "address": "helper.example.org:7433"},
    },
}
BANK_ELSEWHERE = {**CONTENT["parties"], "bank": {"role": "active", "address": "other.example.org:7433"}}
TELCO_SEEKS = {**CONTENT["parties"], "telco": {"role": "seeker"}}
LEARNING: dict[str, Any] = {"kind": "train"}
CHANGES: dict[str, dict[str, Any]] = {
    "engine": {"engine": "paillier"},
    "key_bits": {"key_bits": 3072},
    "insecure": {"insecure": True},
    "audit": {"audit": False},
    "timeout": {"timeout": 60},
    "parameters.megabytes": {"parameters": {"megabytes": 1}},
    "parameters.round_trips": {"parameters": {"round_trips": 1}},
    "parties.bank.address": {"parties": BANK_ELSEWHERE},
    "parties.telco.role": {"parties": TELCO_SEEKS},
}


def plan(**changes: Any) -> Plan:
    return Plan.model_validate(CONTENT | changes)


def fields(**changes: Any) -> dict[str, str]:
    made = plan(**changes)
    return fields_of(made, parameters_of(made))


def refusal(**changes: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        plan(**changes)
    return "\n".join(faults(caught.value))


def test_everything_in_a_plan_and_the_versions_are_compared() -> None:
    assert fields() == {
        "audit": "true",
        "count_rows": "true",
        "engine": '"shares"',
        "insecure": "false",
        "key_bits": "2048",
        "kind": '"check"',
        "parameters.megabytes": "8",
        "parameters.round_trips": "20",
        "parties.bank.address": '"bank.example.org:7433"',
        "parties.bank.role": '"active"',
        "parties.helper.address": '"helper.example.org:7433"',
        "parties.helper.role": '"coordinator"',
        "parties.telco.address": "null",
        "parties.telco.role": '"passive"',
        "party_order": '["bank", "telco", "helper"]',
        "timeout": "600.0",
        "versions.protocol": str(PROTOCOL_VERSION),
        "versions.wire": str(WIRE_VERSION),
    }


@pytest.mark.parametrize("field", CHANGES)
def test_a_change_of_any_field_changes_that_field_and_the_digest(field: str) -> None:
    before, after = fields(), fields(**CHANGES[field])
    assert [name for name in before if before[name] != after[name]] == [field]
    assert digest_of(before) != digest_of(after)


def test_the_order_of_keys_and_spelled_out_defaults_change_nothing() -> None:
    other = {"timeout": 600, "parameters": {"megabytes": 8}, "engine": "shares", **CONTENT}
    shuffled = dict(random.Random(1).sample(list(other.items()), len(other)))
    assert digest_of(fields(**shuffled)) == digest_of(fields())


def test_the_order_of_parties_counts() -> None:
    turned = dict(reversed(CONTENT["parties"].items()))
    assert fields(parties=turned)["party_order"] == '["helper", "telco", "bank"]'
    assert digest_of(fields(parties=turned)) != digest_of(fields())


def said_to_differ(offers: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Let each party compare its own fields with the others'; what each is told, the original error first."""

    def role(own: Mapping[str, str]) -> Callable[[Session], None]:
        return lambda session: agree(session, own)

    with pytest.raises(PlanMismatch) as caught:
        simulate_roles({party: role(own) for party, own in offers.items()})
    texts = [str(caught.value), *caught.value.__notes__]
    assert len(texts) == len(offers)
    return [text.split("differ in: ")[1].split(" (while")[0] for text in texts]


@pytest.mark.parametrize("field", CHANGES)
def test_both_of_two_parties_are_told_the_field(field: str) -> None:
    assert said_to_differ({"bank": fields(), "telco": fields(**CHANGES[field])}) == [field, field]


def test_all_of_three_parties_are_told_and_exactly_what_differs() -> None:
    odd = fields(key_bits=3072, parameters={"megabytes": 2}) | {"versions.wire": "0"}
    told = said_to_differ({"bank": fields(), "telco": fields(), "helper": odd})
    assert told == ["key_bits, parameters.megabytes, versions.wire"] * 3


def test_the_settings_of_a_learner_are_compared_one_by_one() -> None:
    mine = fields(**LEARNING)
    assert fields(**LEARNING, parameters={"model": {"learner": "gbdt", "depth": 6}}) == mine
    theirs = fields(**LEARNING, parameters={"test_fraction": 0.3, "model": {"depth": 5, "patience": 3}})
    told = said_to_differ({"bank": mine, "telco": theirs})
    assert told == ["parameters.model.depth, parameters.model.patience, parameters.test_fraction"] * 2
    told = said_to_differ({"bank": mine, "telco": fields(**LEARNING, parameters={"model": {"learner": "xgb"}})})
    assert told == ["parameters.model.l2, parameters.model.learner"] * 2


def test_a_field_that_only_one_party_has_is_named() -> None:
    told = said_to_differ({"bank": fields(), "telco": fields() | {"parameters.depth": "6"}})
    assert told == ["parameters.depth (only at telco)"] * 2


@pytest.mark.parametrize(("theirs", "behind"), [(PROTOCOL_VERSION + 1, "bank"), (PROTOCOL_VERSION - 1, "telco")])
def test_with_another_protocol_version_the_one_behind_is_told_to_upgrade(theirs: int, behind: str) -> None:
    """What its plan holds does not matter then: a version may have other fields, or mean something else by them."""

    def other(session: Session) -> None:
        session.recv("bank", PlanOffer)
        session.send("bank", PlanOffer(theirs, ("kind",), (b"",)))
        session.recv("bank", PlanOffer)

    with pytest.raises(PlanMismatch) as caught:
        simulate_roles({"bank": lambda session: agree(session, fields()), "telco": other})
    words = f"bank has protocol version {PROTOCOL_VERSION} and telco {theirs}, so they cannot work together"
    assert str(caught.value) == f"{words}: {behind} must upgrade unpooled"
    assert any(words in note for note in caught.value.__notes__)


def test_a_protocol_version_that_cannot_be_shown_is_not() -> None:
    said = must_upgrade("bank", "telco", 2 ** (8 * 60_000))
    assert said.startswith(f"bank has protocol version {PROTOCOL_VERSION} and telco an impossible one")


def test_a_plan_that_differs_everywhere_is_not_listed_to_the_end() -> None:
    told = said_to_differ({"bank": {}, "telco": {f"parameters.x{number:02}": "1" for number in range(30)}})
    assert all(text.endswith("parameters.x19, ... (only at telco)") for text in told)


def test_same_plans_agree() -> None:
    def compare(session: Session) -> str:
        agree(session, fields())
        return "agreed"

    parties = CONTENT["parties"]
    assert simulate_roles(dict.fromkeys(parties, compare)).results == dict.fromkeys(parties, "agreed")


def test_an_offer_with_names_but_no_digests_has_no_place() -> None:
    def malformed(session: Session) -> None:
        session.send("bank", PlanOffer(PROTOCOL_VERSION, ("kind", "engine"), (b"",)))
        session.recv("bank", PlanOffer)

    with pytest.raises(ProtocolError, match=r"telco: .*\b2 .*\b1 "):
        simulate_roles({"bank": lambda session: agree(session, fields()), "telco": malformed})


@pytest.mark.parametrize("bits", [512, 1024, 2047])
def test_short_keys_take_an_explicit_word(bits: int) -> None:
    assert refusal(key_bits=bits).startswith(f"key_bits: {bits} ")
    assert plan(key_bits=bits, insecure=True).key_bits == bits


@pytest.mark.parametrize("bits", [0, -2048, 511, 8193])
def test_absurd_keys_are_refused_in_any_case(bits: int) -> None:
    assert refusal(key_bits=bits, insecure=True).startswith("key_bits: ")


@pytest.mark.parametrize("name", ["Bank", "", "1bank", "the bank", "bank.example", "b" * 33, "bänk", "../bank"])
def test_a_bad_name_of_a_party_is_refused(name: str) -> None:
    assert f"parties: {name!r} " in refusal(parties={**CONTENT["parties"], name: {"role": "passive"}})


@pytest.mark.parametrize(
    "address",
    ["", "bank", "bank:", ":7433", "bank:0", "bank:65536", "bank:x", "::1:7433", "[::1]", "http://bank:7433", "a b:1"],
)
def test_a_bad_address_is_refused(address: str) -> None:
    said = refusal(parties={**CONTENT["parties"], "shop": {"role": "seeker", "address": address}})
    assert said.startswith("parties.shop.address: ")


@pytest.mark.parametrize("address", ["bank:1", "127.0.0.1:7433", "[::1]:7433", "bank.example.org:65535", "my_host:80"])
def test_a_good_address_is_kept(address: str) -> None:
    parties = {**CONTENT["parties"], "shop": {"role": "seeker", "address": address}}
    assert plan(parties=parties).parties["shop"].address == address


@pytest.mark.parametrize(
    ("roles", "reason"),
    [([], "two"), (["active"], "two"), (["passive", "coordinator"], "active"), (["active"] * 2, "active")],
)
def test_there_are_two_parties_and_one_is_active(roles: list[str], reason: str) -> None:
    said = refusal(parties={f"p{n}": {"role": role} for n, role in enumerate(roles)})
    assert said.startswith("parties: ")
    assert reason in said


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"colour": "red"}, "colour"),
        ({"engine": "fast"}, "engine"),
        ({"key_bits": "2048"}, "key_bits"),
        ({"key_bits": 2048.0}, "key_bits"),
        ({"insecure": "yes"}, "insecure"),
        ({"timeout": "60"}, "timeout"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"parameters": []}, "parameters"),
        ({"parties": "bank, telco"}, "parties"),
        ({"parties": {"bank": "active", "telco": {"role": "passive"}}}, "parties.bank"),
        ({"parties": {"bank": {}, "telco": {"role": "passive"}}}, "parties.bank.role"),
        (
            {"parties": {"bank": {"role": "boss"}, "telco": {"role": "passive"}}},
            "parties.bank.role",
        ),
        (
            {"parties": {"bank": {"role": "active", "port": 1}, "telco": {"role": "passive"}}},
            "parties.bank.port",
        ),
    ],
)
def test_unknown_keys_and_wrong_types_are_refused_by_name(changes: dict[str, Any], key: str) -> None:
    assert refusal(**changes).startswith(f"{key}: ")


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"kind": "chekc"}, "kind"),
        ({"parameters": {"depth": 6}}, "parameters.depth"),
        ({"parameters": {"megabytes": "8"}}, "parameters.megabytes"),
        ({"parameters": {"megabytes": True}}, "parameters.megabytes"),
        ({"parameters": {"megabytes": 0}}, "parameters.megabytes"),
        (
            {"parameters": {"megabytes": 0, "depth": 6}},
            "parameters.megabytes",
        ),
        (LEARNING | {"parameters": {"test_fraction": 1}}, "parameters.test_fraction"),
        (LEARNING | {"parameters": {"model": {"leaves": 3}}}, "parameters.model.leaves"),
        (
            LEARNING | {"parameters": {"model": {"learner": "rf", "trees": 0}}},
            "parameters.model.trees",
        ),
        (
            LEARNING | {"parameters": {"model": {"learner": "svm"}}},
            "parameters.model",
        ),
        (
            LEARNING | {"parameters": {"model": "xgb"}},
            "parameters.model",
        ),
        (
            LEARNING | {"parameters": {"model": {"classes": 1}}},
            "parameters",
        ),
        ({"kind": "predict", "parameters": {"model": {}}}, "parameters.model"),
    ],
)
def test_unknown_kinds_and_wrong_parameters_are_refused_by_name(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(PlanError, match=f"^{key}: "):
        parameters_of(plan(**changes))


def test_parties_are_found_by_role_in_the_order_of_the_plan() -> None:
    four = plan(parties={**CONTENT["parties"], "shop": {"role": "seeker"}, "lender": {"role": "passive"}})
    assert four.active == "bank"
    assert four.with_role("passive") == ["telco", "lender"]
    assert four.with_role("seeker") == ["shop"]
    assert four.owners == ("bank", "telco", "lender")
