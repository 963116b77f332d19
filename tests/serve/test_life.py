"""A job's life between four services, without a network: approvals, runs, pauses, and services that are killed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from parties_in_memory import CHOICES, ROLES, World, approve_all, four_parties, offered, plan_text

from unpooled.errors import InputError, PlanError, RefusedError
from unpooled.serve import tables
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.life import state_of
from unpooled.serve.messages import JobDecision, JobOffer, JobRun
from unpooled.serve.peering.post import put
from unpooled.serve.state.audit_log import acts as acts_in
from unpooled.serve.state.audit_log import verify
from unpooled.serve.tables import Choices, TableEntry

Parties = Callable[..., World]


@pytest.fixture
def parties(tmp_path: Path) -> Iterator[Parties]:
    """Makes four parties, with these settings."""
    made: list[World] = []

    def make(**settings: Any) -> World:
        made.append(four_parties(tmp_path, **settings))
        return made[-1]

    yield make
    for world in made:
        world.close()


def test_a_job_runs_once_everybody_has_approved(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"offered"}
    approve_all(world, job, ["shop", "bank", "telco"])
    world.settle(5)
    assert not any(world.processes.values())
    approve_all(world, job, ["dealer"])
    world.settle(10)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"finished"}
    assert {party: len(begun) for party, begun in world.processes.items()} == dict.fromkeys(ROLES, 1)
    for context in world.contexts.values():
        assert verify(context.database) > 5
    who = {act.who for act in acts_in(world.contexts["bank"].database, job)}
    assert {"bank-approver", "peer shop", "peer telco", "peer dealer", "service"} <= who


def test_declining_ends_it_for_all_and_tells_why(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job, ["shop", "bank"])
    with pytest.raises(InputError, match="a reason is needed"):
        acts.decline(world.contexts["telco"], "tom", job, " ")
    acts.decline(world.contexts["telco"], "tom", job, "no contract yet")
    world.settle(5)
    for party in ROLES:
        assert state_of(world.job(party, job)) == "declined"
        assert world.job(party, job).reason == "telco: no contract yet"
    with pytest.raises(InputError, match="a job that is declined cannot be approved"):
        acts.approve(world.contexts["dealer"], "dan", job, CHOICES["dealer"])
    assert not any(world.processes.values())


def test_without_consent_nothing_is_approved(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    with pytest.raises(PlanError, match=r"consent\.found"):
        acts.approve(world.contexts["bank"], "ben", job, Choices(table="people"))
    assert "bank" not in world.job("bank", job).decisions


def test_two_people_must_approve_the_same_settings(parties: Parties) -> None:
    world = parties(approvals=2)
    bank, job = world.contexts["bank"], offered(world)
    assert not acts.approve(bank, "ben", job, CHOICES["bank"])
    assert not acts.approve(bank, "ben", job, CHOICES["bank"])  # the same person does not count twice
    other = CHOICES["bank"].model_copy(update={"target": "bought"})
    assert not acts.approve(bank, "eva", job, other)  # other settings: the first approval was not for these
    assert acts.approve(bank, "ben", job, other)
    assert world.job("bank", job).decisions["bank"].choice == "approved"


def test_an_approval_lapses_when_the_tables_settings_change(parties: Parties, tmp_path: Path) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job, ["shop", "bank", "telco"])
    entry = TableEntry.model_validate({"table": {"path": str(tmp_path / "others.csv"), "id": "id"}})
    tables.set_table(world.contexts["telco"].database, "admin", "people", entry)
    approve_all(world, job, ["dealer"])
    world.settle(10)
    assert world.job("shop", job).decisions["telco"].choice == "lapsed"
    assert not any(world.processes.values())
    approve_all(world, job, ["telco"])
    world.settle(20)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"finished"}


def test_an_offer_altered_in_the_database_does_not_start(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job)
    altered = world.job("telco", job).offer.plan.replace('kind = "lookalike"', 'kind = "lookalike"\naudit = false')
    with world.contexts["telco"].database.transaction() as connection:
        connection.execute("UPDATE jobs SET plan = ?", (altered,))
    world.settle(10)
    assert world.job("telco", job).decisions["telco"].choice == "lapsed"
    assert not any(world.processes.values())


def test_what_peers_cannot_do(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    made = world.job("shop", job).offer
    altered = made.plan.replace("seeker", "passive")
    shop, bank = world.contexts["shop"].database, world.contexts["bank"].database
    texts = (made.drafted_by, made.purpose, altered, made.created, made.expires, "", "")
    with shop.transaction() as connection:
        put(connection, "telco", JobOffer(job, *texts))  # the same job again, altered
        put(connection, "telco", JobOffer("../../etc/passwd", *texts))
        put(connection, "telco", JobDecision(job, "0" * 64, "approved", "ann", ""))
        put(connection, "telco", JobRun(job, 1, 10**9, "running", "", True))
        put(connection, "telco", JobRun(job, 1, 1, "winning", "", True))
        put(connection, "telco", JobOffer("ab" * 16, "ann", " ", made.plan, made.created, made.expires, "", ""))
        put(connection, "telco", JobOffer("ab" * 16, "ann", "x", "kind = 7", made.created, made.expires, "", ""))
        alien = made.plan.replace("telco", "thief")
        put(connection, "telco", JobOffer("ab" * 16, "ann", "x", alien, made.created, made.expires, "", ""))
        plain = 'engine = "plain"\n' + made.plan
        put(connection, "telco", JobOffer("ab" * 16, "ann", "x", plain, made.created, made.expires, "", ""))
        put(connection, "telco", JobOffer("ab" * 16, "ann", "x", made.plan, made.created, made.created, "", ""))
    with bank.transaction() as connection:
        put(connection, "telco", JobOffer(job, *texts))  # somebody else's job
    world.deliver()
    assert len(world.refused) == 11
    assert state_of(world.job("telco", job)) == "offered"
    assert len(world.contexts["telco"].database.rows("SELECT 1 FROM jobs")) == 1


def test_a_replayed_offer_changes_nothing(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    made = world.job("shop", job).offer
    approve_all(world, job)
    world.settle(10)
    with world.contexts["shop"].database.transaction() as connection:
        texts = (job, made.drafted_by, made.purpose, made.plan, made.created, made.expires, "", "")
        put(connection, "bank", JobOffer(*texts))
        put(connection, "bank", JobDecision(job, made.digest, "approved", "ann", ""))
    world.settle(5)
    assert state_of(world.job("bank", job)) == "finished"
    assert len(world.processes["bank"]) == 1


def test_letters_of_different_parties_may_cross(parties: Parties) -> None:
    world = parties()
    job = acts.draft(world.contexts["shop"], "ann", purpose="p", plan=plan_text())
    acts.offer(world.contexts["shop"], "ann", job)
    offer = world.job("shop", job)
    with world.contexts["bank"].database.transaction() as connection:  # the bank's approval comes before the offer
        put(connection, "telco", JobDecision(job, offer.digest, "approved", "ben", ""))
        put(connection, "telco", JobDecision(job, "0" * 64, "declined", "ben", ""))
    for sender in ("bank", "shop"):
        for row in world.contexts[sender].database.rows("SELECT * FROM outbox WHERE peer = 'telco'"):
            world._hand_over(world.contexts["telco"], sender, row["frame"])
    assert world.job("telco", job).decisions["bank"].choice == "approved"


def test_pause_and_go_on(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job)
    for _ in range(4):
        world.look()
        world.deliver()
    assert all(world.alive(party) for party in ROLES)
    acts.pause(world.contexts["telco"], "tom", job)
    for _ in range(4):
        world.look()
        world.deliver()
    assert not any(world.alive(party) for party in ROLES)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"paused"}
    acts.proceed(world.contexts["bank"], "ben", job)
    world.settle(20)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"finished"}


def test_cancel_while_running(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job)
    for _ in range(4):
        world.look()
        world.deliver()
    acts.cancel(world.contexts["dealer"], "dan", job, "wrong month", "approver")
    for _ in range(4):
        world.look()
        world.deliver()
    assert not any(world.alive(party) for party in ROLES)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"cancelled"}
    assert world.job("shop", job).reason == "dan at dealer: wrong month"


def test_what_cannot_be_resumed_fails_for_all(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job)
    for _ in range(4):
        world.look()
        world.deliver()
    world.alive("telco")[0].end("failed", "no such column", resumable=False, code=1)
    world.settle(10)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"failed"}
    assert {len(begun) for begun in world.processes.values()} == {1}
    assert world.job("telco", job).runs[1, "telco"].error == "no such column"
    assert world.job("shop", job).runs[1, "telco"].error == ""  # it may hold data


def test_resuming_has_a_limit_and_a_person_may_go_on(parties: Parties) -> None:
    world = parties(automatic_resumes=2)
    job = offered(world)
    approve_all(world, job)
    for _ in range(40):
        world.look()
        world.deliver()
        for party in ROLES:
            for one in world.alive(party):
                one.end("failed", "line broke", code=3)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"failed"}
    assert {len(begun) for begun in world.processes.values()} == {3}
    acts.proceed(world.contexts["shop"], "ann", job)
    world.settle(10)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"finished"}


def test_only_so_many_runs_at_once(parties: Parties) -> None:
    world = parties(runs_at_once=2)
    jobs = [offered(world) for _ in range(7)]
    for job in jobs:
        approve_all(world, job)
    most = 0
    for _ in range(60):
        world.look()
        world.deliver()
        most = max(most, *(len(world.alive(party)) for party in ROLES))
        world.finish_runs()
    assert most == 2
    assert {state_of(world.job("bank", job)) for job in jobs} == {"finished"}


@pytest.mark.parametrize("seed", range(12))
def test_killed_services_lose_nothing_and_run_nothing_twice(seed: int, parties: Parties) -> None:
    world, draw = parties(automatic_resumes=50), random.Random(seed)
    jobs = [offered(world), offered(world, "telco")]
    for job in jobs:
        approve_all(world, job)
    for _ in range(draw.randrange(20, 60)):
        match draw.randrange(7):
            case 0:
                world.kill(draw.choice(list(ROLES)))
            case 1:
                world.finish_runs()
            case 2 | 3:
                world.deliver(draw.randrange(5))
            case _:
                world.keepers[draw.choice(list(ROLES))].look()
    world.settle(60)
    for job in jobs:
        assert {state_of(world.job(party, job)) for party in ROLES} == {"finished"}
        for party in ROLES:
            begun = [one.attempt for one in world.processes[party] if one.job == job]
            assert begun == sorted(set(begun))  # no attempt was begun twice
    assert not world.refused
    before = {party: len(begun) for party, begun in world.processes.items()}
    world.settle(10)
    assert before == {party: len(begun) for party, begun in world.processes.items()}


def test_a_repeated_job_needs_one_approval_until_its_end(parties: Parties) -> None:
    world = parties()
    with pytest.raises(RefusedError, match="until"):
        offered(world, every="day")
    job = offered(world, every="day", until="2027-06-01T00:00:00+00:00")
    approve_all(world, job)
    world.settle(20)
    assert state_of(world.job("bank", job)) == "waiting"
    assert {len(begun) for begun in world.processes.values()} == {1}
    for context in world.contexts.values():  # three days later
        offer = replace(world.job(context.party, job).offer, created=_days_ago(3))
        with context.database.transaction() as connection:
            connection.execute("UPDATE jobs SET created = ?, digest = ?", (offer.created, offer.digest))
    world.settle(20)
    assert {len(begun) for begun in world.processes.values()} == {2}
    assert world.job("telco", job).occurrence == 4
    for context in world.contexts.values():  # its end has passed
        with context.database.transaction() as connection:
            connection.execute("UPDATE jobs SET until = ?", (_days_ago(1),))
    world.settle(5)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"finished"}


def test_working_files_are_removed_after_some_days(parties: Parties) -> None:
    world = parties(purge_after_days=30)
    jobs = [offered(world), offered(world)]
    for job in jobs:
        approve_all(world, job)
    world.settle(20)
    bank = world.contexts["bank"]
    homes = [bank.folder.runs / f"{job}-1" / "bank" for job in jobs]
    for home in homes:
        (home.parent / "plan.toml").write_text(plan_text())
        (home / ".working" / "private.toml").write_text("seed = 7")
    with bank.database.transaction() as connection:
        connection.execute("UPDATE jobs SET created = ? WHERE id = ?", (_days_ago(40), jobs[0]))
        connection.execute("UPDATE runs SET ended = ? WHERE job = ?", (_days_ago(31), jobs[0]))
    world.start("bank")  # it looks when it starts, then every hour
    world.look()
    assert [(home / ".working").exists() for home in homes] == [False, True]
    assert [world.job("bank", job).purged for job in jobs] == [True, False]
    assert acts_in(bank.database, jobs[0])[0].what == "removed the working files of a job"


def test_an_offer_expires(parties: Parties) -> None:
    world = parties()
    job = offered(world)
    approve_all(world, job, ["shop", "bank", "telco"])
    for context in world.contexts.values():
        with context.database.transaction() as connection:
            connection.execute("UPDATE jobs SET expires = ?", (_days_ago(1),))
    world.settle(3)
    assert {state_of(world.job(party, job)) for party in ROLES} == {"expired"}
    with pytest.raises(InputError, match="expired"):
        acts.approve(world.contexts["dealer"], "dan", job, CHOICES["dealer"])
    assert not any(world.processes.values())


def _days_ago(days: int) -> str:
    return (datetime.now(UTC) - timedelta(days=days)).isoformat(timespec="seconds")
