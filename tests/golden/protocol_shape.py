"""What parties of one protocol version have in common, as text: .venv/bin/python tests/golden/protocol_shape.py

It has all message types, for a plan of every kind of job its fields and its outline, and for small jobs what was sent
and a digest of what was computed. Run it after a change of the protocol: it writes `protocol.txt` anew, unless the
version there has been released; then it says that `PROTOCOL_VERSION` must be raised first. `--release` marks the
version as released. docs/formats.md says what a change of the protocol is.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

import unpooled
from regenerate import LEARNERS, MODELS, NAME, OWNERS, ROLES
from unpooled import control, wire
from unpooled.complete.settings import GenerateSettings
from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.kind import Kind
from unpooled.jobs.kinds import KINDS, outline_of, parameters_of
from unpooled.jobs.plan import Plan, fields_of
from unpooled.jobs.private import Consent, Private
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_job
from unpooled.version import PROTOCOL_VERSION, __version__

PROTOCOL = Path(__file__).parent / "protocol.txt"
COMMAND = ".venv/bin/python tests/golden/protocol_shape.py"
UNRELEASED = "not released yet"
SOURCE = Path(unpooled.__file__).parent
CONSENT = Consent(positives=True, found=True, values=True, rows=True)
TIMELY = {wire.kind_of(message) for message in (control.Working, control.Waiting)}
"""Messages that depend on how long something takes."""

Entries = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Shape:
    """A protocol: its version, the release that had it first, and its entries by title."""

    version: int
    released: str
    entries: Entries

    def text(self) -> str:
        blocks = ["\n  ".join((title, *lines)) for title, lines in self.entries.items()]
        return "\n\n".join((f"protocol {self.version}, {self.released}", *blocks)) + "\n"


def read(text: str) -> Shape:
    """A shape from its text."""
    head, *blocks = text.rstrip("\n").split("\n\n")
    version, released = re.fullmatch(r"protocol (\d+), (.*)", head).groups()  # type: ignore[union-attr]
    entries = {title: tuple(line.strip() for line in body) for title, *body in (block.split("\n") for block in blocks)}
    return Shape(int(version), released, entries)


def changed(old: Shape, new: Shape) -> list[str]:
    """The titles of what another party may rely on, and is not as it was."""
    return [title for title, lines in old.entries.items() if new.entries.get(title) != lines]


def renewed(old: Shape, new: Shape) -> Shape:
    """What is to be written in place of the old shape; ValueError if that takes another version.

    A version that was released stays what it is: it may only get entries that it did not have.
    """
    if old.version == new.version and old.released != UNRELEASED:
        if found := changed(old, new):
            raise ValueError(
                f"protocol {old.version} was {old.released} and differs now in: {'; '.join(found)}. If that is "
                f"intended, raise PROTOCOL_VERSION in src/unpooled/version.py (docs/formats.md), then run {COMMAND}"
            )
        return Shape(new.version, old.released, new.entries)
    return new


def shape() -> Shape:
    """The protocol as it is now."""
    parts = (messages(), plans(), jobs())
    return Shape(PROTOCOL_VERSION, UNRELEASED, {title: lines for part in parts for title, lines in sorted(part)})


def messages() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every message type of the package: what it discloses, by which ledgers are compared, and its fields in order."""
    for path in SOURCE.rglob("*.py"):
        if "@message(" in path.read_text(encoding="utf-8"):
            importlib.import_module(".".join(("unpooled", *path.relative_to(SOURCE).with_suffix("").parts)))
    for kind, made in wire._declared.items():
        if made.__module__.startswith("unpooled."):
            hints = get_type_hints(made)
            described = [f"{field.name}: {_type(hints[field.name])}" for field in fields(made)]
            yield f"message {kind}", (f"discloses {wire.disclosure_of(made)}", *described)


def _type(annotation: Any) -> str:
    """A field's type in words that do not depend on how it is written down."""
    if get_origin(annotation) is np.ndarray:
        return f"array of {np.dtype(get_args(get_args(annotation)[1])[0])}"
    if get_origin(annotation) is tuple:
        return f"tuple of {_type(get_args(annotation)[0])}"
    if len(given := get_args(annotation)) == 2 and given[1] is type(None):
        return f"{_type(given[0])} or None"
    return str(annotation.__name__)


def plans() -> Iterator[tuple[str, tuple[str, ...]]]:
    """For a plan of every kind of job and its variants: what parties compare, and who then sends what."""
    for kind in KINDS:
        first = set[str]()
        for variant, settings in _variants(kind):
            roles = {name: {"role": role} for name, role in kind.example.tables.roles.items() if role in kind.takes}
            plan = Plan.model_validate({"kind": kind.name, "parties": roles} | settings)
            found = fields_of(plan, parameters_of(plan)).items()
            settled = [f"{name} = {value}" for name, value in found if not name.startswith(("parties", "versions"))]
            sent = [
                f"{one.sender} -> {one.receiver}: {one.kind} x {one.frames or 'any'} {one.only_if}".rstrip()
                for one in outline_of(plan)
                if one.kind not in control.KINDS
            ]
            yield f"plan {kind.name}, {variant}", (*(line for line in settled if line not in first), *sent)
            first = first or set(settled)


def _variants(kind: Kind[Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    example = dict(kind.example.parameters)
    yield "shares", {"parameters": example}
    if kind.products:
        yield "plain", {"parameters": example, "engine": "plain"}
        yield "paillier", {"parameters": dict(kind.example.paillier_parameters), "engine": "paillier"}
    defaults = kind.parameters.model_fields
    if "psi" in defaults:
        yield "aided", {"parameters": {"psi": "aided"}}
        yield "blind-rsa", {"parameters": {"psi": "blind-rsa"}}
    if "model" in defaults:
        for learner in LEARNERS:
            yield f"learner {learner}", {"parameters": {"model": {"learner": learner}}}
    if "method" in defaults:
        for method in ("bagging", "two-step", "naive"):
            yield f"method {method}", {"parameters": {"method": {"name": method}}}
    if "activations" in defaults:
        yield "activations", {"parameters": {"activations": {}}}


def jobs() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Small jobs on fixed tables: every message in order, and digests of what came out, to the bit."""
    for learner, settings in LEARNERS.items():
        model = {"learner": learner, **settings}
        yield from _run(f"train {learner}", "train", ROLES, {"model": model}, ("model.json", "preparation.json"))
    searched = {"method": {"name": "vfpu", "iterations": 2, "bags": 2}, "model": {"trees": 2}, "estimate": False}
    yield from _run("lookalike vfpu", "lookalike", {"shop": "seeker", **ROLES}, searched, ("ranking.csv",))
    completed = {"columns": ["buys"], "model": {"trees": 2}}
    yield from _run("complete", "complete", ROLES, completed, ("completed.csv", "confidence.csv"))


def _run(
    title: str, kind: str, roles: Mapping[str, str], parameters: Mapping[str, Any], files: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    parties = {party: {"role": role} for party, role in roles.items()}
    plan = Plan.model_validate({"kind": kind, "parties": parties, "parameters": parameters})
    privates = {party: Private(seed=number, consent=CONSENT) for number, party in enumerate(roles)}
    settings = {"target": "buys" if kind == "train" else None, "generate": GenerateSettings(format="csv")}
    privates["bank"] = privates["bank"].model_copy(update=settings)
    with tempfile.TemporaryDirectory() as made:
        ledgers = simulate_job(plan, privates, _tables(kind), Path(made)).ledgers
        written = [f"{party}/{name}" for party in roles for name in files if (Path(made) / party / name).exists()]
        yield f"result {title}", tuple(f"{name} {_digest(Path(made) / name)}" for name in written)
    pairs = [(one, other) for one in roles for other in roles if one != other]
    yield f"sent {title}", tuple(f"{one} -> {other}: {_said(ledgers[one], other)}" for one, other in pairs)


def _tables(kind: str) -> dict[str, Table]:
    """The tables of the golden models; a seeker knows every third person, and half a table is to be completed."""
    bank, telco = (pl.read_csv(MODELS / f"{party}.csv", schema_overrides={"id": pl.String}) for party in OWNERS)
    frames = {"bank": bank, "telco": telco}
    if kind == "lookalike":
        frames |= {"bank": bank.drop("buys"), "shop": bank.select("id").gather_every(3)}
    elif kind == "complete":
        frames |= {"bank": bank.gather_every(2)}
    return {party: table_from_frame(frame, "id", party) for party, frame in frames.items()}


def _said(ledger: Record, peer: str) -> str:
    """What a party sent a peer, in order, and a digest of the scopes, by which ledgers are compared too."""
    sent = [one for one in ledger.entries if (one.way, one.peer) == ("sent", peer) and one.kind not in TIMELY]
    scopes = hashlib.sha256("\n".join(one.scope for one in sent).encode()).hexdigest()[:16]
    kinds = groupby(one.kind for one in sent)
    return ", ".join(f"{kind} x {sum(1 for _ in run)}" for kind, run in kinds) + f"; scopes {scopes}"


def _digest(path: Path) -> str:
    """Of the content without what is random in it: a model's name, handles, and the order of rows that have these."""
    text = re.sub('"name":"[0-9a-f]{32}"', NAME, path.read_text())
    if text.startswith("handle,"):
        text = pl.read_csv(io.StringIO(text), infer_schema=False).drop("handle").sort(pl.all()).write_csv()
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def main() -> None:
    new = shape()
    if PROTOCOL.exists():
        try:
            new = renewed(read(PROTOCOL.read_text(encoding="utf-8")), new)
        except ValueError as error:
            sys.exit(str(error))
    if "--release" in sys.argv[1:] and new.released == UNRELEASED:
        new = Shape(new.version, f"released with {__version__}", new.entries)
    PROTOCOL.write_text(new.text(), encoding="utf-8")


if __name__ == "__main__":
    main()
