"""A party's tables, as its administrator has set them up, and what an approval chooses among them."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import Field, ValidationError

from unpooled.complete.settings import GenerateSettings
from unpooled.data.prepare import PrepareSettings
from unpooled.data.sources import TableSettings
from unpooled.errors import InputError
from unpooled.jobs.files import as_toml
from unpooled.jobs.private import Consent, Policy, Private, Workers
from unpooled.serve.folder import StateFolder
from unpooled.serve.state.audit_log import note
from unpooled.serve.state.database import Database, now
from unpooled.settings import Section, faults

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}")


def _said(key: str) -> str | None:
    """What a key of the private file means."""
    return Private.model_fields[key].description


class TableEntry(Section):
    """A table with everything that its administrator decides once: where it is, how it is read, what it never gives."""

    table: TableSettings = Field(description="where the table is, and how it is read")
    prepare: PrepareSettings = Field(PrepareSettings(), description="how it is prepared")
    policy: Policy = Field(Policy(), description="limits that this party's own software enforces")
    memory: float | None = Field(None, description=_said("memory"), gt=0)
    exclude: Path | None = Field(None, description=_said("exclude"), strict=False)
    seed: int | None = Field(None, description=_said("seed"), ge=0)
    workers: Workers = Field(Workers(), description="where heavy arithmetic is done")


class Choices(Section):
    """What an approval chooses: a table, the columns with a special use, what others may learn."""

    table: str | None = Field(None, description="one of this party's tables; a coordinator has none")
    target: str | None = Field(None, description=_said("target"))
    weight: str | None = Field(None, description=_said("weight"))
    model: str | None = Field(None, description="the run in which this party's part of a model was trained")
    earlier: str | None = Field(None, description="the earlier run whose results the job continues from")
    generate: GenerateSettings = Field(GenerateSettings(), description=_said("generate"))
    consent: Consent = Field(Consent(), description="what others may learn about this party's people")


@dataclass(frozen=True)
class NamedTable:
    """A table in the list of a service."""

    name: str
    entry: TableEntry
    changed: str
    changed_by: str


def tables_in(database: Database) -> list[NamedTable]:
    return [_named(row) for row in database.rows("SELECT * FROM tables ORDER BY name")]


def read_entry(text: str) -> TableEntry:
    """A table's settings from the text of a TOML file; InputError says what is wrong with it."""
    try:
        return TableEntry.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"the settings are not TOML: {error}") from None
    except ValidationError as error:
        raise InputError("\n".join(faults(error))) from None


def written(entry: TableEntry) -> str:
    return tomli_w.dumps(as_toml(entry))


def add_table(database: Database, by: str, name: str, entry: TableEntry) -> None:
    """Add a table; one that is there already is not replaced."""
    if database.row("SELECT 1 FROM tables WHERE name = ?", name):
        raise InputError(f"there is a table {name} already")
    set_table(database, by, name, entry)


def set_table(database: Database, by: str, name: str, entry: TableEntry) -> None:
    """Add a table or change its settings; approvals of jobs that use it lapse, because they were for other settings."""
    if not _NAME.fullmatch(name):
        raise InputError("a table's name has letters, digits, blanks, dots, hyphens; at most 64 of them")
    if name.lower() == "new":
        raise InputError("a table cannot be called new: choose another name")
    for path in (entry.table.path, entry.table.handles, entry.exclude):
        if path is not None and not path.is_absolute():
            raise InputError(f"{path}: write the whole path on this server, beginning with /")
    with database.transaction() as connection:
        connection.execute(
            "INSERT INTO tables (name, settings, changed, changed_by) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (name) DO UPDATE SET (settings, changed, changed_by) = "
            "(excluded.settings, excluded.changed, excluded.changed_by)",
            (name, written(entry), now(), by),
        )
        note(connection, by, "set a table", name)


def remove_table(database: Database, by: str, name: str) -> None:
    with database.transaction() as connection:
        if not connection.execute("DELETE FROM tables WHERE name = ?", (name,)).rowcount:
            raise InputError(f"there is no table {name[:64]!r}")
        note(connection, by, "removed a table", name)


def table_named(connection: sqlite3.Connection, name: str) -> TableEntry:
    row = connection.execute("SELECT * FROM tables WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise InputError(f"there is no table {name[:64]!r}")
    return _named(row).entry


def private_of(connection: sqlite3.Connection, folder: StateFolder, choices: Choices) -> Private:
    """A party's settings for a job, from its tables as they are now and what was chosen."""
    taken: dict[str, Any] = {"target": choices.target, "weight": choices.weight, "consent": choices.consent}
    taken |= {"certificates": folder.certificates, "generate": choices.generate}
    taken |= {key: _run(folder, name) for key in ("model", "earlier") if (name := getattr(choices, key))}
    if choices.table:
        entry = table_named(connection, choices.table)
        taken |= {key: getattr(entry, key) for key in TableEntry.model_fields}
    return Private().model_copy(update=taken)


def digest_of_settings(private: Private) -> str:
    """What an approval is bound to on the party's own side."""
    content = private.model_dump(mode="json")
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _run(folder: StateFolder, name: str) -> Path:
    """The folder of this party in an earlier run; only runs of this service can be named."""
    found = [home for home in folder.runs.glob("*/*") if home.parent.name == name and home.is_dir()]
    if len(found) != 1:
        raise InputError(f"there is no run {name[:64]!r}")
    return found[0]


def _named(row: sqlite3.Row) -> NamedTable:
    return NamedTable(row["name"], read_entry(row["settings"]), row["changed"], row["changed_by"])
