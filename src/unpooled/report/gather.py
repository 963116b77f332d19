"""Read a run's folder into plain values; what is missing or broken there is told, not hidden."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, BaseModel, Field, TypeAdapter, ValidationError

from unpooled.errors import InputError, LedgerError
from unpooled.jobs.files import load_plan
from unpooled.jobs.kinds import Result, parameters_of
from unpooled.jobs.plan import Plan, digest_of, fields_of
from unpooled.ledger import Line, Pair, Record, Way, read_ledger, reconcile_all, summarise
from unpooled.run.folder import LEDGER, LOG, PLAN, RESULT, STATUS, read_json
from unpooled.wire import Disclosure

Taken = Annotated[float, Field(ge=0, le=1e15)]

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Status:
    """What a party's `status.json` says."""

    party: str
    state: Literal["running", "finished", "failed"]
    started: AwareDatetime
    ended: AwareDatetime | None = None
    origin: str = ""
    error: str = ""
    cpu_seconds: Taken | None = None
    peak_memory_mb: Taken | None = None


@dataclass(frozen=True)
class PartyFiles:
    """What one party's folder holds: no status if it never began, and either a ledger or what is wrong with it."""

    name: str
    folder: Path
    status: Status | None
    ledger: Record | None
    ledger_fault: str
    lines: tuple[Line, ...]
    result: Result

    @property
    def state(self) -> str:
        return self.status.state if self.status else "absent"

    def messages(self, way: Way) -> list[Message]:
        """What went one way by kind of message, those that disclose something first."""
        grouped: dict[tuple[str, Disclosure], list[Line]] = {}
        for line in self.lines:
            if line.way == way:
                grouped.setdefault((line.kind, line.disclosure), []).append(line)
        messages = [Message(kind, disclosure, tuple(lines)) for (kind, disclosure), lines in grouped.items()]
        return sorted(messages, key=lambda message: not message.disclosure.to)


@dataclass(frozen=True)
class Message:
    """A kind of message that went one way, with a line for every peer."""

    kind: str
    disclosure: Disclosure
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Trouble:
    """Why a party did not finish."""

    party: str
    text: str


@dataclass(frozen=True)
class Setting:
    """A setting of the plan, in words."""

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Story:
    """A run as its folder tells it; `teller` is the party whose own folder it is, None for a run with all of them."""

    name: str
    teller: str | None
    plan: Plan
    plan_digest: str
    settings: tuple[Setting, ...]
    parties: Mapping[str, PartyFiles]
    troubles: tuple[Trouble, ...]
    flows: Mapping[tuple[str, str], int]
    pairs: tuple[Pair, ...]

    @property
    def state(self) -> Literal["finished", "failed", "unfinished"]:
        states = {party.state for party in self.parties.values()}
        if states == {"finished"}:
            return "finished"
        return "failed" if "failed" in states else "unfinished"

    @property
    def resumed(self) -> int:
        """How often the run was resumed, as far as the ledgers that are here know."""
        return max((len(party.ledger.resumed) for party in self.parties.values() if party.ledger), default=0)

    @property
    def started(self) -> datetime | None:
        """When the first party began, or began again after an interruption."""
        return min((party.status.started for party in self.parties.values() if party.status), default=None)

    @property
    def ended(self) -> datetime | None:
        """When the last party ended; None while any has not."""
        ends = [party.status.ended for party in self.parties.values() if party.status]
        return max((end for end in ends if end), default=None) if None not in ends else None


def gather(run: Path) -> Story:
    """Read the folder of a whole run, or of one party in it."""
    if not (run / PLAN).exists():
        raise InputError(f"{run} is not a run's folder: it has no {PLAN}")
    plan = load_plan(run / PLAN)
    parameters = parameters_of(plan)
    teller = _teller(run, plan) if (run / STATUS).exists() else None
    folders = {teller: run} if teller else {name: run / name for name in plan.parties}
    if not any(folder.is_dir() for folder in folders.values()):
        raise InputError(f"{run} is not a run's folder: it has neither {STATUS} nor a folder for a party")
    parties = {name: _read_party(name, folder) for name, folder in folders.items()}
    return Story(
        name=run.resolve().name,
        teller=teller,
        plan=plan,
        plan_digest=digest_of(fields_of(plan, parameters)),
        settings=(*_settings(plan, without={"parameters", "parties"}), *_settings(parameters)),
        parties=parties,
        troubles=_troubles(parties.values()),
        flows=_flows(plan, parties),
        pairs=reconcile_all(party.ledger for party in parties.values() if party.ledger),
    )


def _teller(folder: Path, plan: Plan) -> str:
    status = _read_status(folder)
    if status is None or status.party not in plan.parties:
        raise InputError(f"{folder / STATUS} does not name a party of {PLAN}")
    return status.party


def _read_party(name: str, folder: Path) -> PartyFiles:
    ledger, fault = _read_ledger(name, folder / LEDGER)
    lines = tuple(summarise(ledger)) if ledger else ()
    return PartyFiles(name, folder, _read_status(folder), ledger, fault, lines, read_json(folder / RESULT))


def _read_status(folder: Path) -> Status | None:
    try:
        return TypeAdapter(Status).validate_python(read_json(folder / STATUS))
    except ValidationError:
        return None


def _read_ledger(party: str, path: Path) -> tuple[Record | None, str]:
    if not path.exists():
        return None, "there is none: this party never got as far as a conversation, or it was removed"
    try:
        record = read_ledger(path)
    except LedgerError as error:
        return None, str(error).removeprefix(f"{path} ")
    if record.party != party:
        return None, f"it is the ledger of {record.party}"
    return record, ""


def _troubles(parties: Collection[PartyFiles]) -> tuple[Trouble, ...]:
    """What went wrong at each party, the original error first: it is at a party that errors name as their origin."""
    origins = {party.status.origin for party in parties if party.status}

    def order(party: PartyFiles) -> tuple[bool, datetime]:
        ended = party.status.ended if party.status else None
        return party.name not in origins, ended or _BEFORE_ALL

    unlucky = sorted((party for party in parties if party.state != "finished"), key=order)
    return tuple(Trouble(party.name, _what_happened(party)) for party in unlucky)


def _what_happened(party: PartyFiles) -> str:
    if party.status is None:
        return f"left no readable {STATUS}, so it probably never began; its {LOG} may say why"
    if party.status.state == "running":
        return "has not said how it ended: it is still running, or its process was killed"
    return party.status.error.removeprefix(f"{party.name}: ")


def _flows(plan: Plan, parties: Mapping[str, PartyFiles]) -> dict[tuple[str, str], int]:
    """Bytes from one party to another, by the sender's ledger, or by the receiver's if there is no other."""
    flows = {}
    for sender, receiver in permutations(plan.parties, 2):
        for teller, way, peer in ((receiver, "received", sender), (sender, "sent", receiver)):
            if teller in parties and parties[teller].ledger:
                lines = parties[teller].lines
                flows[sender, receiver] = sum(line.bytes for line in lines if (line.way, line.peer) == (way, peer))
    return flows


def _settings(section: BaseModel, without: Iterable[str] = (), prefix: str = "") -> list[Setting]:
    """A section's settings, those of a section within it with its name and a dot before theirs."""
    settings = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            settings += _settings(value, prefix=f"{prefix}{name}.")
        elif name not in without:
            settings.append(Setting(f"{prefix}{name}", _in_words(value), field.description or ""))
    return settings


def _in_words(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
