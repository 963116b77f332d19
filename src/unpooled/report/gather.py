"""Read a run's folder; what is missing or damaged there is reported."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import permutations
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from unpooled.errors import InputError, LedgerError
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.plan import Plan, digest_of, fields_of
from unpooled.jobs.run_files import PartyFiles, RunFiles, Setting, Status, Trouble
from unpooled.ledger import Record, read_ledger, reconcile_all, summarise
from unpooled.run.folder import LEDGER, LOG, PLAN, STATUS, plan_in, read_json

_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def gather(run: Path) -> RunFiles:
    """Read the folder of a whole run, or of one party in it."""
    plan = plan_in(run)
    parameters = parameters_of(plan)
    owner = _owner(run, plan) if (run / STATUS).exists() else None
    folders = {owner: run} if owner else {name: run / name for name in plan.parties}
    if not any(folder.is_dir() for folder in folders.values()):
        raise InputError(f"{run} is not a run's folder: it has neither {STATUS} nor a folder for a party")
    parties = {name: _read_party(name, folder) for name, folder in folders.items()}
    return RunFiles(
        name=run.resolve().name,
        owner=owner,
        plan=plan,
        plan_digest=digest_of(fields_of(plan, parameters)),
        settings=(*_settings(plan, without={"parameters", "parties"}), *_settings(parameters)),
        parties=parties,
        troubles=_troubles(parties.values()),
        flows=_flows(plan, parties),
        pairs=reconcile_all(party.ledger for party in parties.values() if party.ledger),
    )


def _owner(folder: Path, plan: Plan) -> str:
    status = _read_status(folder)
    if status is None or status.party not in plan.parties:
        raise InputError(f"{folder / STATUS} does not name a party of {PLAN}")
    return status.party


def _read_party(name: str, folder: Path) -> PartyFiles:
    ledger, fault = _read_ledger(name, folder / LEDGER)
    lines = tuple(summarise(ledger)) if ledger else ()
    return PartyFiles(name, folder, _read_status(folder), ledger, fault, lines)


def _read_status(folder: Path) -> Status | None:
    try:
        return TypeAdapter(Status).validate_python(read_json(folder / STATUS))
    except ValidationError:
        return None


def _read_ledger(party: str, path: Path) -> tuple[Record | None, str]:
    if not path.exists():
        return None, "missing: this party never started to talk to others, or its ledger was removed"
    try:
        record = read_ledger(path)
    except LedgerError as error:
        return None, str(error).removeprefix(f"{path} ")
    if record.party != party:
        return None, f"it is the ledger of {record.party}"
    return record, ""


def _troubles(parties: Collection[PartyFiles]) -> tuple[Trouble, ...]:
    """What went wrong at each party, the original error first: errors name the party that they began with."""
    origins = {party.status.origin for party in parties if party.status}

    def order(party: PartyFiles) -> tuple[bool, datetime]:
        ended = party.status.ended if party.status else None
        return party.name not in origins, ended or _BEFORE_ALL

    unlucky = sorted((party for party in parties if party.state != "finished"), key=order)
    return tuple(Trouble(party.name, _what_happened(party)) for party in unlucky)


def _what_happened(party: PartyFiles) -> str:
    if party.status is None:
        return f"has no readable {STATUS}: it probably never started; its {LOG} may say why"
    if party.status.state == "running":
        return "is still running, or its process was killed"
    return party.status.error.removeprefix(f"{party.name}: ")


def _flows(plan: Plan, parties: Mapping[str, PartyFiles]) -> dict[tuple[str, str], int]:
    """Bytes from one party to another, from the sender's ledger or else from the receiver's."""
    flows = {}
    for sender, receiver in permutations(plan.parties, 2):
        for party, way, peer in ((receiver, "received", sender), (sender, "sent", receiver)):
            if party in parties and parties[party].ledger:
                lines = parties[party].lines
                flows[sender, receiver] = sum(line.bytes for line in lines if (line.way, line.peer) == (way, peer))
    return flows


def _settings(section: BaseModel, without: Iterable[str] = (), prefix: str = "") -> list[Setting]:
    """A section's settings; those of an inner section are named `inner.name`."""
    settings = []
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            settings += _settings(value, prefix=f"{prefix}{name}.")
        elif name not in without:
            written = section.model_dump(mode="json", include={name})[name]
            settings.append(Setting(f"{prefix}{name}", _in_words(written), field.description or ""))
    return settings


def _in_words(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
