"""PostgreSQL as a source of a table: a server-side cursor in a read-only transaction."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, LiteralString

import polars as pl

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

    from unpooled.data.sources import TableSettings

_ROWS_PER_FETCH = 10_000
_SECONDS_TO_CONNECT = 10  # psycopg itself would wait for two minutes

# How the server casts a column, by its PostgreSQL type; every other type becomes text.
_Cast = tuple[LiteralString, type[pl.DataType]]
_AS_TEXT: _Cast = ("{}::text", pl.String)
_CASTS: dict[str, _Cast] = {
    **dict.fromkeys(("int2", "int4", "int8", "float4", "float8", "numeric"), ("{}::float8", pl.Float64)),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), ("{}::date", pl.Date)),
    "bool": ("{}", pl.Boolean),
}


@contextmanager
def _connected(settings: TableSettings) -> Iterator[tuple[psycopg.Connection, list[psycopg.Column]]]:
    """A read-only connection, and the columns of the source."""
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
        # Prepared, as the cursor below declares its own: the server then accepts one statement only, so that no second
        # one can end the read-only transaction.
        look = connection.execute(sql.SQL("select * from {} limit 0").format(_source(settings)), prepare=True)
        yield connection, look.description or []


def columns_of(settings: TableSettings) -> list[str]:
    """The names of the source's columns."""
    with _connected(settings) as (_, columns):
        return [column.name for column in columns]


def batches(settings: TableSettings, wanted: Callable[[Sequence[str]], list[str]]) -> Iterator[pl.DataFrame]:
    """The rows, a batch at a time, after one without rows; `wanted` says which of the columns that there are."""
    from psycopg import sql

    with _connected(settings) as (connection, columns):
        types = {column.name: connection.adapters.types.get(column.type_code) for column in columns}
        casts = {}
        for name in wanted([column.name for column in columns]):
            info, declared = types[name], settings.types.get(name)
            as_text = name in settings.id or declared == "category" or isinstance(declared, tuple)
            casts[name] = _AS_TEXT if as_text or info is None else _CASTS.get(info.name, _AS_TEXT)
        ids = [sql.SQL('{}::text collate "C"').format(sql.Identifier(name)) for name in settings.id]
        statement = sql.SQL("select {} from {} order by {}").format(
            sql.SQL(", ").join(sql.SQL(template).format(sql.Identifier(name)) for name, (template, _) in casts.items()),
            _source(settings),
            sql.SQL(", ").join(ids),
        )
        dtypes = {name: dtype for name, (_, dtype) in casts.items()}
        yield pl.DataFrame(schema=dtypes)
        with connection.cursor(name="unpooled") as cursor:
            cursor.execute(statement)
            while rows := cursor.fetchmany(_ROWS_PER_FETCH):
                yield pl.DataFrame(rows, schema=dtypes, orient="row")


def _source(settings: TableSettings) -> sql.Composable:
    from psycopg import sql

    if settings.table is not None:
        return sql.Identifier(*settings.table.split("."))
    # The query is the party's own, and runs in a read-only transaction. The line break ends a comment on its last line.
    query = sql.SQL((settings.query or "").strip().rstrip(";"))
    return sql.SQL("({}\n) as source").format(query)


def reason(error: psycopg.Error) -> str:
    """The text of an error about connections, names or permissions; other texts may quote cells or secrets."""
    import psycopg

    if error.sqlstate is None and isinstance(error, psycopg.OperationalError):
        return str(error).strip()
    if error.sqlstate is None and isinstance(error, psycopg.ProgrammingError):
        return "the connection string is malformed"
    if error.sqlstate is not None and error.sqlstate.startswith("42"):
        return error.diag.message_primary or type(error).__name__
    return f"PostgreSQL reports {type(error).__name__}"
