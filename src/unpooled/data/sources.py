"""Sources of a party's table: a CSV file (also gzipped), a Parquet file, or a PostgreSQL table or query.

Only the named columns are read. Rows are counted from 1 in the order of the source, in a CSV file from the
first one after the header. A PostgreSQL table has no order of its own: its rows are counted in the order of their ids
(as text, by character code).
"""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, LiteralString, Self

import polars as pl
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, field_validator, model_validator

from unpooled.data.columns import MISSING_TEXTS, Kind, fault
from unpooled.data.table import Table, table_from_raw

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

ROWS_FOR_A_LOOK = 1000
_ROWS_PER_FETCH = 10_000
_SECONDS_TO_CONNECT = 10  # psycopg itself would wait for two minutes
_FILE_ENDINGS = (".csv", ".csv.gz", ".parquet")
_PASSWORD = re.compile(r"password\s*=|^\w+://[^@]*:[^@]*@", re.IGNORECASE)

# How the server casts a column, by its PostgreSQL type; every other type becomes text.
_Cast = tuple[LiteralString, type[pl.DataType]]
_AS_TEXT: _Cast = ("{}::text", pl.String)
_CASTS: dict[str, _Cast] = {
    **dict.fromkeys(("int2", "int4", "int8", "float4", "float8", "numeric"), ("{}::float8", pl.Float64)),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), ("{}::date", pl.Date)),
    "bool": ("{}", pl.Boolean),
}


def _one_or_more(value: object) -> object:
    return (value,) if isinstance(value, str) else value


class TableSettings(BaseModel):
    """The `[table]` section of a party's private file: where its table is and what its columns hold."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    path: Path | None = Field(None, description="the file: .csv, .csv.gz or .parquet (or use postgres)")
    postgres: str | None = Field(
        None,
        description="a PostgreSQL connection string or URL; its password comes from PGPASSWORD or ~/.pgpass",
    )
    table: str | None = Field(None, description="with postgres: the table, for example people or public.people")
    query: str | None = Field(None, description="with postgres, instead of table: a select statement")
    id: Annotated[tuple[str, ...], BeforeValidator(_one_or_more), Field(min_length=1)] = Field(
        description="the column that identifies a row, or a list of columns that do so together"
    )
    hashed: StrictBool = Field(
        False, description="the ids are SHA-256 hashes in hexadecimal already; the plan must say hash = 'sha256'"
    )
    columns: tuple[str, ...] | None = Field(None, description="the columns to use; without it all besides the id")
    types: dict[str, Kind] = Field(
        {},
        description="column types that should not be inferred: number, category, date, boolean, "
        "or a list of levels from low to high",
    )
    missing: tuple[str, ...] = Field(MISSING_TEXTS, description="the texts that stand for a missing value")

    @field_validator("path")
    @classmethod
    def _known_ending(cls, path: Path | None) -> Path | None:
        if path is not None and not path.name.lower().endswith(_FILE_ENDINGS):
            raise ValueError(f"the file's name must end in {', '.join(_FILE_ENDINGS)}")
        return path

    @field_validator("postgres")
    @classmethod
    def _no_password(cls, connection: str | None) -> str | None:
        if connection is not None and _PASSWORD.search(connection):
            raise ValueError("leave the password out and set PGPASSWORD, or use ~/.pgpass")
        return connection

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.postgres is None):
            raise ValueError("give either path or postgres")
        if (self.table is not None) + (self.query is not None) != (self.postgres is not None):
            raise ValueError("with postgres give either table or query, with path neither")
        named = [*self.id, *(self.columns or ())]
        if len(set(named)) < len(named):
            raise ValueError("a column is named twice in id and columns")
        return self

    @property
    def origin(self) -> str:
        """The name of the table in errors."""
        if self.path is not None:
            return str(self.path)
        return f"PostgreSQL table {self.table}" if self.table is not None else "PostgreSQL query"

    @property
    def is_csv(self) -> bool:
        """Whether the source is a CSV file, which has only text."""
        return self.path is not None and self.path.suffix.lower() != ".parquet"


def load(settings: TableSettings, party: str) -> Table:
    """Read the whole table."""
    return replace(_table(read(settings, party), settings, party), hashed=settings.hashed)


def schema(settings: TableSettings, party: str) -> dict[str, Kind]:
    """The columns and their types, judged by the first rows only: a later row may still change an inferred type."""
    return _table(read(settings, party, first=ROWS_FOR_A_LOOK), settings, party).kinds


def _table(raw: pl.DataFrame, settings: TableSettings, party: str) -> Table:
    origin, types, missing = settings.origin, settings.types, settings.missing
    return table_from_raw(raw, settings.id, party, origin, types, missing, untyped=settings.is_csv)


def read(settings: TableSettings, party: str, first: int | None = None) -> pl.DataFrame:
    """The id columns and the named ones as the source has them, all rows or the first few; CSV cells are texts."""
    if settings.path is not None:
        return _read_file(settings.path, settings, party, first)
    try:
        import psycopg
    except ImportError:
        raise fault(party, settings.origin, "reading it needs: pip install unpooled[postgres]") from None
    try:
        return _read_postgres(settings, party, first)
    except psycopg.Error as error:
        raise fault(party, settings.origin, _postgres_reason(error)) from None


def _wanted(settings: TableSettings, party: str, available: Sequence[str]) -> list[str]:
    """The columns to read, ids first; each must exist exactly once."""
    features = settings.columns if settings.columns is not None else [c for c in available if c not in settings.id]
    wanted = [*settings.id, *features]
    for name in wanted:
        if name not in available:
            found = ", ".join(available)
            hint = " (columns must be separated by commas)" if settings.is_csv and re.search("[;\t]", found) else ""
            raise fault(party, settings.origin, f"there is no such column; there are: {found}{hint}", name)
        if available.count(name) > 1 or f"{name}_duplicated_0" in available:  # polars renames a CSV file's second one
            raise fault(party, settings.origin, "there are two columns of this name", name)
    return wanted


def _read_file(path: Path, settings: TableSettings, party: str, first: int | None) -> pl.DataFrame:
    if path.is_dir():  # polars would read the files in it
        raise fault(party, settings.origin, "this is a folder, not a file")
    is_csv = settings.is_csv
    try:
        scan = pl.scan_csv(path, infer_schema=False, glob=False) if is_csv else pl.scan_parquet(path, glob=False)
        rows = scan.select(_wanted(settings, party, scan.collect_schema().names()))
        return (rows if first is None else rows.head(first)).collect(engine="streaming")
    except FileNotFoundError:
        raise fault(party, settings.origin, "there is no such file") from None
    except OSError as error:
        raise fault(party, settings.origin, f"cannot be read: {error}") from None
    except pl.exceptions.PolarsError:
        # The text of the error is not shown: it may quote cells.
        reason = _csv_reason(path) if is_csv else "not a Parquet file, or a broken one"
        raise fault(party, settings.origin, reason) from None


def _csv_reason(path: Path) -> str:
    """Find out why a file is not valid CSV, with the row where that helps."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            width = len(next(reader, []))
            if not width:
                return "the file is empty"
            for row, cells in enumerate(reader, start=1):
                if len(cells) > width:
                    return f"row {row}: {len(cells)} fields, but the header has {width}"
    except UnicodeDecodeError:
        return "not text in UTF-8"
    except (OSError, EOFError):
        return "not a gzip file, or a broken one"
    except csv.Error:
        return "a quotation mark is not closed"
    return "not a CSV file with commas between the fields"


def _read_postgres(settings: TableSettings, party: str, first: int | None) -> pl.DataFrame:
    import psycopg
    from psycopg import sql
    from psycopg.conninfo import conninfo_to_dict

    target = settings.postgres or ""
    set_by_party = conninfo_to_dict(target).get("connect_timeout") or os.environ.get("PGCONNECT_TIMEOUT")
    with psycopg.connect(target, connect_timeout=set_by_party or _SECONDS_TO_CONNECT) as connection:
        connection.read_only = True
        connection.execute(
            "set default_transaction_read_only to on; set local timezone to 'UTC'; set local datestyle to 'ISO'"
        )
        source = _postgres_source(settings)
        # Prepared, as the cursor below declares its own: the server then accepts one statement only, so that no second
        # one can end the read-only transaction.
        look = connection.execute(sql.SQL("select * from {} limit 0").format(source), prepare=True)
        columns = look.description or []
        types = {column.name: connection.adapters.types.get(column.type_code) for column in columns}
        casts = {}
        for name in _wanted(settings, party, [column.name for column in columns]):
            info, declared = types[name], settings.types.get(name)
            as_text = name in settings.id or declared == "category" or isinstance(declared, tuple)
            casts[name] = _AS_TEXT if as_text or info is None else _CASTS.get(info.name, _AS_TEXT)
        statement = sql.SQL("select {} from {}").format(
            sql.SQL(", ").join(sql.SQL(template).format(sql.Identifier(name)) for name, (template, _) in casts.items()),
            source,
        )
        if first is None:
            ids = [sql.SQL('{}::text collate "C"').format(sql.Identifier(name)) for name in settings.id]
            statement += sql.SQL(" order by {}").format(sql.SQL(", ").join(ids))
        else:
            statement += sql.SQL(" limit {}").format(first)
        dtypes = {name: dtype for name, (_, dtype) in casts.items()}
        batches = [pl.DataFrame(schema=dtypes)]
        with connection.cursor(name="unpooled") as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_ROWS_PER_FETCH):
                batches.append(pl.DataFrame(rows, schema=dtypes, orient="row"))
        return pl.concat(batches)


def _postgres_source(settings: TableSettings) -> sql.Composable:
    from psycopg import sql

    if settings.table is not None:
        return sql.Identifier(*settings.table.split("."))
    # The query is the party's own, and runs in a read-only transaction. The line break ends a comment on its last line.
    query = sql.SQL((settings.query or "").strip().rstrip(";"))
    return sql.SQL("({}\n) as source").format(query)


def _postgres_reason(error: psycopg.Error) -> str:
    """The text of an error about connections, names or permissions; other texts may quote cells or secrets."""
    import psycopg

    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        return str(error).strip()
    if error.sqlstate is None and isinstance(error, psycopg.ProgrammingError):
        return "the connection string is malformed"
    if error.sqlstate is not None and error.sqlstate.startswith("42"):
        return error.diag.message_primary or type(error).__name__
    return f"PostgreSQL reports {type(error).__name__}"
