"""Services of several parties in one process, without a network, with make-believe runs."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unpooled.errors import UnpooledError
from unpooled.jobs.work import WORKING
from unpooled.run import folder as run_folder
from unpooled.serve import peers, tables
from unpooled.serve.context import Context
from unpooled.serve.folder import StateFolder
from unpooled.serve.jobs import acts, news
from unpooled.serve.jobs.records import Job, job_named
from unpooled.serve.messages import JOB_MESSAGES
from unpooled.serve.running.keeper import Keeper
from unpooled.serve.running.process import folder_of, run_key
from unpooled.serve.settings import ServiceSettings
from unpooled.serve.state.database import open_database
from unpooled.serve.tables import Choices, TableEntry
from unpooled.wire import kind_of, read_body, read_header

KINDS = {kind_of(kind): kind for kind in JOB_MESSAGES}
ROLES = {"shop": "seeker", "bank": "active", "telco": "passive", "dealer": "coordinator"}
CHOICES = {
    "shop": Choices.model_validate({"table": "people", "consent": {"positives": True}}),
    "bank": Choices.model_validate({"table": "people", "consent": {"found": True}}),
    "telco": Choices.model_validate({"table": "people", "consent": {"found": True}}),
    "dealer": Choices.model_validate({"consent": {"found": True}}),
}


def plan_text(addresses: dict[str, str] | None = None) -> str:
    """A look-alike search between shop, bank, telco and dealer."""
    lines = ['kind = "lookalike"']
    for party, role in ROLES.items():
        address = (addresses or {}).get(party, f"{party}.example.org:7433")
        lines.append(f'[parties.{party}]\nrole = "{role}"\naddress = "{address}"')
    return "\n".join(lines)


@dataclass
class FakeProcess:
    """A make-believe process of a run."""

    home: Path
    job: str
    occurrence: int
    attempt: int
    key: str = ""
    returncode: int | None = None
    process: Any = None
    connections: Any = None

    def __post_init__(self) -> None:
        self.process = self
        self.key = run_key(self.job, self.occurrence, self.attempt)

    def poll(self) -> int | None:
        return self.returncode

    def end(self, state: str, error: str = "", *, resumable: bool = True, code: int = 0) -> None:
        status = {"state": state, "error": error, "resumable": resumable}
        (self.home / run_folder.STATUS).write_text(json.dumps(status))
        self.returncode = code

    def stop(self) -> None:
        if self.returncode is None:
            self.end("failed", "interrupted", code=143)

    def close(self) -> None:
        self.stop()


@dataclass
class World:
    """Parties, their services, and how often each job's attempts were begun and finished."""

    root: Path
    contexts: dict[str, Context] = field(default_factory=dict)
    keepers: dict[str, Keeper] = field(default_factory=dict)
    processes: dict[str, list[FakeProcess]] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)

    def add(self, party: str, **settings: Any) -> None:
        folder = StateFolder(self.root / party)
        folder.make()
        chosen = ServiceSettings(party=party, address=f"{party}.example.org:7433", **settings)
        self.contexts[party] = Context(chosen, folder, open_database(folder.database))
        self.processes[party] = []
        self.start(party)

    def start(self, party: str) -> None:
        context = self.contexts[party]

        def begin(
            folder: StateFolder, name: str, _plan: Any, _private: Any, job: str, occurrence: int, attempt: int
        ) -> FakeProcess:
            home = folder_of(folder, job, occurrence) / name
            (home / WORKING).mkdir(parents=True, exist_ok=True)
            (home / run_folder.STATUS).write_text('{"state": "running"}')
            self.processes[name].append(FakeProcess(home, job, occurrence, attempt))
            return self.processes[name][-1]

        self.keepers[party] = Keeper(context, begin=begin)  # type: ignore[arg-type]

    def kill(self, party: str) -> None:
        """The service dies, and its runs with it; other parties' runs of these jobs fail."""
        for mine in self.alive(party):
            mine.returncode = -9
            for other in self.processes:
                for one in self.alive(other):
                    if one.key == mine.key:
                        one.end("failed", f"{party} was lost", code=3)
        self.start(party)

    def alive(self, party: str) -> list[FakeProcess]:
        return [one for one in self.processes[party] if one.returncode is None]

    def deliver(self, most: int = 1_000_000) -> int:
        """Take letters from outboxes to the handlers, in order for each pair."""
        count = 0
        for sender, context in self.contexts.items():
            for row in context.database.rows("SELECT peer, number, frame FROM outbox ORDER BY number"):
                if count >= most or row["peer"] not in self.contexts:
                    continue
                count += 1
                self._hand_over(self.contexts[row["peer"]], sender, row["frame"])
                with context.database.transaction() as connection:
                    where = "DELETE FROM outbox WHERE peer = ? AND number = ?"
                    connection.execute(where, (row["peer"], row["number"]))
        return count

    def _hand_over(self, to: Context, sender: str, frame: bytes) -> None:
        header = read_header(frame)
        try:
            with to.database.transaction() as connection:
                news.handle(to, connection, sender, read_body(header, KINDS[header.kind]))
        except UnpooledError as error:
            self.refused.append(str(error))

    def finish_runs(self) -> None:
        """Runs whose processes are at work at all parties finish."""
        keys = [{one.key for one in self.alive(party)} for party in self.contexts]
        for key in set.intersection(*keys):
            for party in self.contexts:
                for one in self.alive(party):
                    if one.key == key:
                        one.end("finished")

    def look(self) -> None:
        for keeper in self.keepers.values():
            keeper.look()

    def settle(self, rounds: int = 60) -> None:
        for _ in range(rounds):
            self.look()
            self.deliver()
            self.finish_runs()

    def close(self) -> None:
        for context in self.contexts.values():
            context.database.close()

    def job(self, party: str, job: str) -> Job:
        with self.contexts[party].database.reading() as connection:
            return job_named(connection, job)


def four_parties(root: Path, **settings: Any) -> World:
    """A shop, a bank, a telco and a dealer that know each other, each with a table."""
    world = World(root)
    for party in ROLES:
        world.add(party, **settings)
    for party, context in world.contexts.items():
        for other in set(ROLES) - {party}:
            peers.add_peer(context.database, "admin", party, other, f"{other}.example.org:7433")
        if party != "dealer":
            entry = TableEntry.model_validate({"table": {"path": str(root / "people.csv"), "id": "id"}})
            tables.set_table(context.database, "admin", "people", entry)
    return world


def offered(world: World, drafter: str = "shop", **more: Any) -> str:
    """A job that everybody has been offered."""
    job = acts.draft(world.contexts[drafter], "ann", purpose="find more buyers", plan=plan_text(), **more)
    acts.offer(world.contexts[drafter], "ann", job)
    world.deliver()
    return job


def approve_all(world: World, job: str, parties: Iterable[str] = ROLES) -> None:
    for party in parties:
        acts.approve(world.contexts[party], f"{party}-approver", job, CHOICES[party])
    world.deliver()
