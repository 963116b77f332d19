"""Services that are killed: each of the four of the example, at each stage of a job's life, with SIGKILL.

For each party there are fresh services, and a small search for each stage. At that stage the party's service is killed
and started again. `lost`: searches that did not finish at every party. `different`: those whose list is not the list of
an undisturbed search with the same random seeds. `twice`: those with a result that came about more than once, by the
audit logs. `broken`: audit logs and ledgers that are not intact. All bars are 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from unpooled.errors import UnpooledError
from unpooled.ledger import read_ledger
from unpooled.serve import example
from unpooled.serve.example import ExampleService
from unpooled.serve.state import audit_log

SMALL: dict[str, Any] = {
    "model": {"learner": "gbdt", "trees": 6},
    "method": {"iterations": 2},
    "top": 50,
}
ROWS = 1_000
DRAFTER, SEEKER = "bank", "shop"
STAGES = ("offered", "approved", "starting", "learning", "finished")

Services = dict[str, ExampleService]
console = Console(stderr=True)


def main() -> None:
    parties = sys.argv[1:] or ["shop", "telco", "bank", "coordinator"]
    counts = dict.fromkeys(("lost", "different", "twice", "broken"), 0)
    attempts: dict[str, int] = {}
    for party in parties:
        with tempfile.TemporaryDirectory() as name:
            services = example.make_services(Path(name), ROWS)
            with example.running(services) as processes:
                wanted = searched(services, lambda _stage, _job: None)
                for stage in STAGES:
                    job = searched(services, killing(services, processes, party, stage))
                    counts["lost"] += job is None
                    counts["different"] += job is not None and listed(services, job) != listed(services, wanted)
                    counts["twice"] += job is not None and finished_twice(services, job)
                    attempts[f"{party}, {stage}"] = attempts_of(services[party], job) if job else 0
                    console.print(f"{party} killed while {stage}: {'ended' if job else 'lost'}")
            counts["broken"] += sum(not intact(service) for service in services.values())
    bars = [{"name": name, "value": value, "bar": 0, "holds": value == 0} for name, value in counts.items()]
    print(json.dumps({"benchmark": "serve_kills", "attempts": attempts, "bars": bars}))


def searched(services: Services, at: Callable[[str, str], None]) -> str | None:
    """A search from the offer to the end; `at` is called at each stage. None if it does not finish everywhere."""
    job = example.offer_example(services, DRAFTER, **SMALL)
    for service in services.values():
        example.wait_for(service, job, "offered")
    at("offered", job)
    first, *others = sorted(services, key=lambda party: party == SEEKER)
    example.approve_when_offered(services, [first], job)
    example.approve_when_offered(services, others, job)
    at("starting", job)
    pages = home_of(services[DRAFTER], job) / ".working" / "checkpoint"
    while not (pages.is_dir() and any(pages.iterdir())):
        time.sleep(0.02)
    at("learning", job)
    try:
        ends = [example.wait_for(service, job, "finished", "failed") for service in services.values()]
    except UnpooledError:
        return None
    at("finished", job)
    return job if set(ends) == {"finished"} else None


def killing(
    services: Services, processes: dict[str, subprocess.Popen[bytes]], party: str, wanted: str
) -> Callable[[str, str], None]:
    """Kills a party's service at one stage, and starts it again."""

    def at(stage: str, job: str) -> None:
        if stage == "offered" and wanted == "approved":
            example.approve_when_offered(services, [party], job)
        elif stage != wanted:
            return
        processes[party].kill()
        processes[party].wait()
        stream = processes[party].stdin
        if stream:
            stream.close()
        processes[party] = example.start(services[party])

    return at


def home_of(service: ExampleService, job: str) -> Path:
    return service.folder.runs / f"{job}-1" / service.party


def listed(services: Services, job: str | None) -> str:
    return (home_of(services[SEEKER], job) / "reliable.csv").read_text() if job else ""


def attempts_of(service: ExampleService, job: str) -> int:
    with example.opened(service) as context:
        row = context.database.row("SELECT max(attempt) AS attempts FROM runs WHERE job = ?", job)
    return int(row["attempts"]) if row else 0


def finished_twice(services: Services, job: str) -> bool:
    """Whether a party's run finished more than once."""
    for service in services.values():
        with example.opened(service) as context:
            ends = [act for act in audit_log.acts(context.database, job) if act.who == "service"]
        if sum(act.what == "run finished" for act in ends) != 1:
            return True
    return False


def intact(service: ExampleService) -> bool:
    try:
        with example.opened(service) as context:
            audit_log.verify(context.database)
        read_ledger(service.folder.ledger)
    except UnpooledError as error:
        console.print(f"{service.party}: {error}")
        return False
    return True


if __name__ == "__main__":
    main()
