"""One party's conversation: the order of its parts, what a failure tells the others, the guard at the door."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unpooled.control import Abort, Goodbye, PlanOffer
from unpooled.errors import InputError, PeerFailed, PlanError, PlanMismatch, RefusedError
from unpooled.jobs.checks import checked
from unpooled.jobs.plan import Plan
from unpooled.jobs.preflight import preflight
from unpooled.jobs.private import Policy, Private
from unpooled.ledger import read_ledger
from unpooled.run.conversation import guard_of, role_of, seed_of
from unpooled.run.simulate import simulate_roles
from unpooled.session import Session
from unpooled.wire import kind_of, message


@message(discloses="nothing: a test")
class Word:
    text: str


PLAN = Plan.model_validate(
    {"kind": "check", "parties": {"bank": {"role": "active"}, "helper": {"role": "coordinator"}}}
)


def role_with(policy: Policy) -> object:
    return role_of(checked(PLAN, "helper", Private(policy=policy)), Path("nowhere"))


def test_a_plan_is_compared_first_and_goodbye_comes_last() -> None:
    def speak(session: Session) -> None:
        session.send("telco", Word("hello"))

    def listen(session: Session) -> str:
        return session.recv("bank", Word).text

    outcome = simulate_roles({"bank": speak, "telco": listen}, fields={"kind": '"test"'})
    assert outcome.results == {"bank": None, "telco": "hello"}
    sent = [entry.kind for entry in outcome.ledgers["bank"].entries if entry.way == "sent"]
    assert sent == [kind_of(PlanOffer), kind_of(Word), kind_of(Goodbye)]


def test_a_failure_is_told_by_its_class_alone_where_its_text_may_hold_data(tmp_path: Path) -> None:
    told = []

    def fail(session: Session) -> None:
        raise InputError("people.csv: column 'income': row 3")

    def listen(session: Session) -> None:
        try:
            session.recv("bank", Word)
        except PeerFailed as error:
            told.append(error)
            raise

    with pytest.raises(InputError, match="income"):
        simulate_roles({"bank": fail, "telco": listen}, folder=tmp_path)
    (heard,) = told
    assert heard.origin == "bank"
    assert str(heard).startswith("bank stopped: its input was refused (see its own message)")
    assert "income" not in str(heard)
    kinds = [entry.kind for entry in read_ledger(tmp_path / "bank" / "ledger.jsonl").entries if entry.way == "sent"]
    assert kinds[-1] == kind_of(Abort)


def test_a_shareable_failure_is_told_in_full() -> None:
    def fail(session: Session) -> None:
        raise RefusedError("bank never sends words")

    def listen(session: Session) -> None:
        session.recv("bank", Word)

    with pytest.raises(RefusedError) as caught:
        simulate_roles({"bank": fail, "telco": listen})
    (note,) = caught.value.__notes__
    assert re.search("telco.*bank never sends words.*Word", note)


def test_a_failure_before_the_role_starts_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    def refuse(session: Session, fields: object) -> None:
        if session.party == "bank":
            raise PlanMismatch("the plans of bank and telco differ in: engine")
        session.recv("bank", Word)

    monkeypatch.setattr("unpooled.run.conversation.agree", refuse)
    with pytest.raises(PlanMismatch, match="engine"):
        simulate_roles(
            {"bank": lambda session: started.append("bank"), "telco": lambda session: started.append("telco")}
        )
    assert started == []


def test_a_seed_is_the_partys_own_or_new_every_time() -> None:
    assert seed_of(Private(seed=0)) == 0
    drawn = {seed_of(Private()) for _ in range(20)}
    assert len(drawn) == 20
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_a_role_that_the_policy_forbids_never_starts() -> None:
    with pytest.raises(RefusedError, match=r"helper .*Echo"):
        role_with(Policy(never_send=("Echo",)))
    with pytest.raises(PlanError, match=r"PlanOffer"):
        role_with(Policy(never_send=("PlanOffer",)))


def test_the_guard_lets_through_exactly_the_limit() -> None:
    guard = guard_of("bank", Policy(maximum_sent_megabytes=0.001))
    guard(Word, 600)
    guard(Word, 400)
    with pytest.raises(RefusedError, match=r"bank .*0\.001 MB"):
        guard(Word, 1)


def test_without_a_policy_the_guard_lets_everything_through() -> None:
    guard = guard_of("bank", Policy())
    for _ in range(3):
        guard(Word, 10**12)


def test_the_guard_stops_a_message_before_it_leaves(tmp_path: Path) -> None:
    def speak(session: Session) -> None:
        session.send("telco", Word("secret"))

    def listen(session: Session) -> None:
        session.recv("bank", Word)

    guards = {"bank": guard_of("bank", Policy(never_send=(kind_of(Word),)))}
    with pytest.raises(RefusedError, match=r"bank .*Word"):
        simulate_roles({"bank": speak, "telco": listen}, guards=guards, folder=tmp_path)
    for party in ("bank", "telco"):
        assert kind_of(Word) not in {entry.kind for entry in read_ledger(tmp_path / party / "ledger.jsonl").entries}


def test_the_engine_that_protects_nothing_does_not_run_over_a_network() -> None:
    plain = PLAN.model_copy(update={"engine": "plain"})
    with pytest.raises(PlanError, match="engine: plain"):
        preflight(checked(plain, "helper", Private()))
