"""Four services as processes, with mutual TLS: a search from an offer to a list, while services are killed."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from unpooled.ledger import read_ledger
from unpooled.run.folder import LEDGER, STATUS, read_json
from unpooled.serve import example
from unpooled.serve.example import ExampleService
from unpooled.serve.jobs.records import job_named
from unpooled.serve.state.audit_log import verify

ROWS = 1_000
SMALL = {"model": {"learner": "gbdt", "trees": 6}, "method": {"iterations": 2}, "top": 50}
Services = dict[str, ExampleService]


@pytest.fixture
def services(tmp_path: Path) -> Services:
    return example.make_services(tmp_path, ROWS)


def listed(services: Services, job: str) -> str:
    return (home_of(services, job, "shop") / "reliable.csv").read_text()


def home_of(services: Services, job: str, party: str) -> Path:
    return services[party].folder.runs / f"{job}-1" / party


def attempts(services: Services, job: str, party: str) -> int:
    with example.opened(services[party]) as context, context.database.reading() as connection:
        return job_named(connection, job).runs[1, party].attempt


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdin
    process.stdin.close()


def wait_for_progress(services: Services, job: str, party: str) -> None:
    """Wait until a party's run has learned something that it keeps."""
    pages = home_of(services, job, party) / ".working" / "checkpoint"
    until = time.monotonic() + 300
    while not (pages.is_dir() and any(pages.iterdir())):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_killed_at_each_stage_of_a_jobs_life(services: Services) -> None:
    """Every service is killed once, each at another stage: nothing is lost or run twice, and the list is that of two
    jobs that run at once, undisturbed."""
    parties = list(services)
    job = example.offer_example(services, **SMALL)
    with example.running(services) as processes:

        def restart(party: str) -> None:
            kill(processes[party])
            processes[party] = example.start(services[party])

        example.wait_for(services["telco"], job, "offered")
        restart("telco")  # an offer is in its inbox
        example.approve_when_offered(services, ["telco", "bank", "coordinator"], job)
        restart("coordinator")  # it has approved
        example.approve_when_offered(services, ["shop"], job)
        wait_for_progress(services, job, "bank")
        restart("bank")  # it learns
        for party in parties:
            assert example.wait_for(services[party], job, "finished", "failed") == "finished"
        restart("shop")  # it has the list
        example.wait_for(services["shop"], job, "finished")
        for party in parties:
            assert attempts(services, job, party) == 2
    for party in parties:
        home = home_of(services, job, party)
        assert read_json(home / STATUS)["state"] == "finished"
        assert read_ledger(home / LEDGER).party == party
        assert read_ledger(services[party].folder.ledger).party == party
        with example.opened(services[party]) as context:
            assert verify(context.database) > 0
            assert not context.database.rows("SELECT 1 FROM outbox")
    undisturbed = [example.offer_example(services, party, **SMALL) for party in ("bank", "shop")]
    with example.running(services):
        for other in undisturbed:  # at once, over one port
            example.approve_when_offered(services, services, other)
        for other in undisturbed:
            for party in parties:
                assert example.wait_for(services[party], other, "finished", "failed") == "finished"
    for other in undisturbed:
        assert attempts(services, other, "bank") == 1
        assert listed(services, other) == listed(services, job)
