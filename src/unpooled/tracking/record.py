"""What is logged of a party's own side of a run, read from its folder: settings, figures, and the files it asks for.

Never a table, ids, keys or working files. What the plan says is left out where it would help others to guess ids, or
find parties.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from unpooled.errors import InputError
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.learning.model_files import MODEL, PREPARATION
from unpooled.jobs.plan import fields_of
from unpooled.jobs.private import Artefact
from unpooled.jobs.run_files import RESULT, PartyFiles
from unpooled.report.gather import gather
from unpooled.report.page import write_report
from unpooled.run.folder import REPORT, read_json
from unpooled.version import PROTOCOL_VERSION, __version__

FILES: Mapping[Artefact, tuple[str, ...]] = {"result": (RESULT,), "report": (REPORT,), "model": (MODEL, PREPARATION)}
"""The files of an artefact; a kind of job need not leave them all."""
LEDGER_SUMMARY = "ledger.json"
_SECRET = ("parameters.salt",)


@dataclass(frozen=True)
class Tracked:
    """One party's side of a run: `files` are copied as they are, `ledger` is a summary as text, if it is asked for."""

    name: str
    finished: bool
    started: datetime
    ended: datetime
    tags: Mapping[str, str]
    parameters: Mapping[str, str]
    metrics: Mapping[str, float]
    files: tuple[Path, ...]
    ledger: str | None


def tracked(folder: Path, artefacts: tuple[Artefact, ...]) -> Tracked:
    """What the folder of one party says of its run, which has ended."""
    run = gather(folder)
    if run.owner is None:
        raise InputError(f"{folder} has several parties; each logs its own side: name the folder of one")
    party = run.parties[run.owner]
    status, plan = party.status, run.plan
    if status is None or status.ended is None:
        raise InputError(f"{folder}: the run has not ended, so there is nothing to log yet")
    if "report" in artefacts and not (folder / REPORT).exists():
        write_report(folder, run)
    result = read_json(folder / RESULT)
    figures = {figure.name: float(figure.value) for figure in kind_named(plan.kind).headline(result)} if result else {}
    spent = {"seconds": (status.ended - status.started).total_seconds()}
    spent |= {"cpu_seconds": status.cpu_seconds or 0.0, "peak_memory_mb": status.peak_memory_mb or 0.0}
    sent = {
        f"{way}_bytes": float(sum(line.bytes for line in party.lines if line.way == way))
        for way in ("sent", "received")
    }
    files = (folder / name for artefact in artefacts for name in FILES.get(artefact, ()))
    return Tracked(
        name=f"{run.name} {run.owner}" if run.name != run.owner else f"{folder.resolve().parent.name} {run.owner}",
        finished=status.state == "finished",
        started=status.started,
        ended=status.ended,
        tags={
            "unpooled.kind": plan.kind,
            "unpooled.party": run.owner,
            "unpooled.role": plan.parties[run.owner].role,
            "unpooled.engine": plan.engine,
            "unpooled.state": status.state,
            "unpooled.plan": run.plan_digest,
            "unpooled.protocol": str(PROTOCOL_VERSION),
            "unpooled.version": __version__,
        },
        parameters=dict(_plain(fields_of(plan, parameters_of(plan)))),
        metrics=dict(_numbers(result)) | figures | spent | sent,
        files=tuple(path for path in files if path.exists()),
        ledger=_summary(party) if "ledger" in artefacts else None,
    )


def _plain(fields: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The plan's fields as texts, without addresses and secrets."""
    for name, written in fields.items():
        if name not in _SECRET and not (name.startswith("parties.") and name.endswith(".address")):
            value = json.loads(written)
            yield name, value if isinstance(value, str) else written


def _numbers(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """The numbers of a result by their dotted names; lists, which have one for each column or bin, are left out."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield f"{prefix}{key}", float(value)


def _summary(party: PartyFiles) -> str:
    """The ledger by message type: what went to whom, or came from whom, how often, and what that disclosed."""
    lines = [
        {
            "way": line.way,
            "peer": line.peer,
            "message": line.kind,
            "discloses": line.disclosure.what,
            "to": line.disclosure.to,
            "frames": line.frames,
            "bytes": line.bytes,
        }
        for line in party.lines
    ]
    return json.dumps(lines, indent=2, ensure_ascii=False) + "\n"
