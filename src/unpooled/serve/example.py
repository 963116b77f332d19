"""Services of the example's four parties on one machine: with certificates, accounts, tables and an offered job."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from unpooled import atomic
from unpooled.data.example import SEED
from unpooled.errors import InputError
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.kinds import kind_named
from unpooled.jobs.lookalike.kind import LOOKALIKE
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.serve import peers, tables
from unpooled.serve.accounts import people
from unpooled.serve.certificates import use
from unpooled.serve.context import Context
from unpooled.serve.folder import StateFolder
from unpooled.serve.jobs import acts
from unpooled.serve.jobs.life import State, state_of
from unpooled.serve.jobs.offer import written
from unpooled.serve.jobs.records import find_job, job_named
from unpooled.serve.settings import ServiceSettings, load_settings, save_settings
from unpooled.serve.state.database import open_database
from unpooled.serve.tables import Choices, TableEntry
from unpooled.transport.certificates import make_trial

PURPOSE = "Find out who else is likely to buy at the shop, for one letter by post"
_TABLE = "customers"
_LOOK_SECONDS, _GRACE_SECONDS, _MOST_SECONDS = 0.2, 15.0, 300.0


@dataclass(frozen=True)
class ExampleService:
    """A party's state folder, where its console will be, and with which name and password to sign in."""

    party: str
    folder: StateFolder
    console: str
    name: str
    password: str


def make_services(root: Path, rows: int | None = None, **settings: object) -> dict[str, ExampleService]:
    """Set up the services of shop, telco, bank and coordinator in sub-folders of `root`; none is started.

    Each has an administrator, who may do everything; all others are its peers, and the owners have their table.
    """
    example = kind_named(LOOKALIKE.name).example
    job = example_job(LOOKALIKE.name)
    example.tables.write(root / "tables", example.tables.rows if rows is None else rows, SEED)
    make_trial(root / "certificates", list(job.plan.parties))
    with ExitStack() as held:
        ports = [free_port(held) for _ in range(2 * len(job.plan.parties))]
    made, addresses = {}, {}
    for party, (peering, console) in zip(job.plan.parties, zip(*[iter(ports)] * 2, strict=True), strict=True):
        addresses[party] = f"127.0.0.1:{peering}"
        chosen = ServiceSettings.model_validate(
            {"party": party, "address": addresses[party], "console": f"127.0.0.1:{console}", **settings}
        )
        made[party] = _set_up(root, chosen, job.privates[party])
    for party, service in made.items():
        with opened(service) as context:
            for other in set(made) - {party}:
                peers.add_peer(context.database, service.name, party, other, addresses[other])
    return made


def example_plan(services: dict[str, ExampleService], **parameters: Any) -> Plan:
    """The example's search, with the addresses of these services, and other parameters, if some are given."""
    plan = example_job(LOOKALIKE.name).plan
    parties = {}
    for name, party in plan.parties.items():
        with opened(services[name]) as context:
            parties[name] = party.model_copy(update={"address": context.settings.address})
    return plan.model_copy(update={"parties": parties, "parameters": {**plan.parameters, **parameters}})


def example_choices(party: str) -> Choices:
    """What a party chooses when it approves the example's search."""
    private = example_job(LOOKALIKE.name).privates[party]
    return Choices(table=_TABLE if private.table else None, target=private.target, consent=private.consent)


def offer_example(services: dict[str, ExampleService], drafter: str = "bank", **parameters: Any) -> str:
    """Offer the example's search; returns the job's id."""
    plan = written(example_plan(services, **parameters))
    with opened(services[drafter]) as context:
        job = acts.draft(context, services[drafter].name, purpose=PURPOSE, plan=plan)
        acts.offer(context, services[drafter].name, job)
    return job


@contextmanager
def opened(service: ExampleService) -> Iterator[Context]:
    """A service's state, while the service itself does not run."""
    context = Context(load_settings(service.folder), service.folder, open_database(service.folder.database))
    try:
        yield context
    finally:
        context.database.close()


def _set_up(root: Path, settings: ServiceSettings, private: Private) -> ExampleService:
    folder, party = StateFolder(root / settings.party), settings.party
    folder.make()
    save_settings(folder, settings)
    installed = folder.certificates.with_name("installed")
    shutil.copytree(root / "certificates" / party, installed)
    atomic.close_folder(installed)
    use(folder.certificates, installed)
    service = ExampleService(party, folder, f"http://{settings.console}", party, secrets.token_urlsafe(12))
    with opened(service) as context:
        people.add_first_administrator(context.database, PasswordHasher(), service.name, service.password)
        if private.table:
            table = private.at(root / "tables").table
            entry = TableEntry.model_validate({"table": table, "seed": private.seed})
            tables.set_table(context.database, service.name, _TABLE, entry)
    return service


def free_port(held: ExitStack) -> int:
    """A loopback port that is free now; all are held until the last is chosen, so that no two are the same."""
    port: int = held.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
    return port


def start(service: ExampleService) -> subprocess.Popen[bytes]:
    """Start a service as a process that ends with this one; its log goes to a file in its state folder."""
    with open(service.folder.root / "log.jsonl", "ab", opener=atomic.owner_only) as output:
        return subprocess.Popen(
            [sys.executable, "-m", "unpooled", "serve", "--state", str(service.folder.root), "--attached"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a service as an administrator would."""
    process.terminate()
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdin:
        process.stdin.close()


@contextmanager
def running(services: dict[str, ExampleService]) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """All services as processes, while the block runs."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for party, service in services.items():
            processes[party] = start(service)
        yield processes
    finally:
        for process in processes.values():
            stop(process)


def approve_when_offered(services: dict[str, ExampleService], parties: Iterable[str], job: str) -> None:
    """Let parties approve the example's search as soon as they have been offered it."""
    for party in parties:
        with opened(services[party]) as context:
            _wait(lambda context=context: _knows(context, job), f"{party} to be offered the job")  # type: ignore[misc]
            acts.approve(context, services[party].name, job, example_choices(party))


def wait_for(service: ExampleService, job: str, *states: State) -> State:
    """Wait until a party sees a job in one of these states."""
    with opened(service) as context:
        _wait(lambda: _knows(context, job), f"{service.party} to be offered the job")
    _wait(lambda: state_at(service, job) in states, f"the job to be {' or '.join(states)} at {service.party}")
    return state_at(service, job)


def state_at(service: ExampleService, job: str) -> State:
    """How far a job is, as a party sees it."""
    with opened(service) as context, context.database.reading() as connection:
        return state_of(job_named(connection, job))


def _knows(context: Context, job: str) -> bool:
    with context.database.reading() as connection:
        return find_job(connection, job) is not None


def _wait(done: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + _MOST_SECONDS
    while not done():
        if time.monotonic() > until:
            raise InputError(f"waited {_MOST_SECONDS:g} s for {what}")
        time.sleep(_LOOK_SECONDS)
