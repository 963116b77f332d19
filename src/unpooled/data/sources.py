"""Sources of a party's table: a CSV file (also gzipped), a Parquet file, a PostgreSQL table or query, or a data frame.

Only the named columns are read, and all rows: the type of a column is decided over all of them. Rows are counted from 1
in the order of the source, in a CSV file from the first one after the header. A PostgreSQL table has no order of its
own: its rows are counted in the order of their ids (as text, by character code).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import polars as pl
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    ValidationError,
    field_validator,
    model_validator,
)

from unpooled.data import csv_files, postgres
from unpooled.data.columns import MISSING_TEXTS, Kind, fault
from unpooled.data.csv_files import CsvFormat, Unreadable
from unpooled.data.handles import handle_column, with_handles
from unpooled.data.inference import CellSettings, Note
from unpooled.data.stored import Stored
from unpooled.data.table import DATA_FRAME, Table, accepted, as_polars, table_from_raw
from unpooled.errors import InputError
from unpooled.settings import faults

rows_at_once = 2**17
"""Of a file whose columns stay on disk, in memory."""
_FILE_ENDINGS = (".csv", ".csv.gz", ".parquet")
_PASSWORD = re.compile(r"password\s*=|^\w+://[^@]*:[^@]*@", re.IGNORECASE)


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
    handles: Path | None = Field(
        None,
        description="where the plan says compare = 'handles': the handles.csv that completing a table has left at this "
        "party; without it the id column has the handles",
    )
    book: str | None = Field(
        None,
        min_length=1,
        description="a name for the book that counts, over all runs, what was disclosed about these people; tables of "
        "the same people should have the same name. Without it the table's path or address",
    )
    columns: tuple[str, ...] | None = Field(None, description="the columns to use; without it all besides the id")
    types: dict[str, Kind] = Field(
        {},
        description="column types that should not be inferred: number, category, date, boolean, "
        "or a list of levels from low to high",
    )
    missing: tuple[str, ...] = Field(MISSING_TEXTS, description="the texts that stand for a missing value")
    unfit: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="the fraction of a column's cells that may count as missing because they do not fit its type; with "
        "more, the table is refused",
    )
    separator: str | None = Field(
        None, description='for .csv: what separates the fields; without it inferred among "," ";" "\\t" and "|"'
    )
    encoding: str | None = Field(
        None,
        description="for .csv: such as latin-1 or cp1252; without it UTF-8, or UTF-16 if the file is marked as such",
    )
    decimal: Literal[".", ","] | None = Field(
        None, description="the decimal mark of numbers in text; without it a point, or a comma if there is no doubt"
    )
    thousands: Literal[",", ".", " ", "'"] | None = Field(
        None, description="what separates groups of three digits in text; without it nothing may"
    )
    dates: str | None = Field(
        None,
        description="the format of dates in text, such as %d.%m.%Y; without it inferred if there is no doubt",
    )

    _frame: Any = PrivateAttr(None)
    _handles: Any = PrivateAttr(None)

    @classmethod
    def of_frame(cls, frame: Any, id: str | Sequence[str] = "id", *, handles: Any = None, **settings: Any) -> Self:
        """A polars or pandas data frame as the source, with settings as in `[table]`.

        `handles` may also be a data frame with the same id columns and a column `handle`, such as completing a table
        hands back.
        """
        file = handles if isinstance(handles, str | Path) else None
        try:
            # Checked as a file that has types, which a frame is like.
            ids = id if isinstance(id, str) else tuple(id)
            found = cls(path=Path("frame.parquet"), id=ids, handles=file, **settings)
        except ValidationError as error:
            raise InputError(f"{DATA_FRAME}: {'; '.join(faults(error))}") from None
        found = found.model_copy(update={"path": None})
        found._frame, found._handles = frame, None if file else handles
        return found

    @property
    def is_frame(self) -> bool:
        """Whether the source is a data frame."""
        return self._frame is not None

    @field_validator("path", "handles")
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

    @field_validator("separator")
    @classmethod
    def _one_character(cls, separator: str | None) -> str | None:
        if separator is not None and (len(separator) != 1 or not separator.isascii() or separator in '"\r\n'):
            raise ValueError("must be one character, not a letter beyond ASCII, a quotation mark or a line end")
        return separator

    @field_validator("encoding")
    @classmethod
    def _known_encoding(cls, encoding: str | None) -> str | None:
        try:
            "".encode(encoding or "utf-8")
        except LookupError:
            raise ValueError("there is no such encoding; some are utf-8, utf-16, latin-1 and cp1252") from None
        return encoding and codecs.lookup(encoding).name

    @field_validator("dates")
    @classmethod
    def _a_date(cls, dates: str | None) -> str | None:
        if dates is not None and not (re.search("%[Yy]", dates) and re.search("%[mbB]", dates) and "%d" in dates):
            raise ValueError("a date format has a year, a month and a day, for example %d.%m.%Y")
        return dates

    @model_validator(mode="after")
    def _of_text(self) -> Self:
        if not self.is_csv and (self.separator or self.encoding):
            raise ValueError("separator and encoding: only CSV files have them")
        if (self.decimal or ("," if self.thousands == "." else ".")) == self.thousands:
            raise ValueError("decimal and thousands cannot be the same mark")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.postgres is None) and not self.is_frame:
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
        if self.is_frame:
            return DATA_FRAME
        if self.path is not None:
            return str(self.path)
        return f"PostgreSQL table {self.table}" if self.table is not None else "PostgreSQL query"

    @property
    def is_csv(self) -> bool:
        """Whether the source is a CSV file, which has only text."""
        return self.path is not None and self.path.suffix.lower() != ".parquet"


class RowsSettings(TableSettings):
    """The same where rows need no id."""

    id: Annotated[tuple[str, ...], BeforeValidator(_one_or_more)] = Field(
        (), description="the column that identifies a row, or several, if there are any"
    )


def load(settings: TableSettings, party: str, folder: Path | None = None) -> Table:
    """Read the whole table, and the handles of its rows if it has any; cells that do not fit are refused.

    With a folder all columns but the ids stay on disk, in files there without a name.
    """
    table = accepted(look(settings, party, folder))
    ids, only = (*settings.id, handle_column(settings.id)), {"columns": (), "missing": settings.missing}
    if settings.handles is not None:
        source = TableSettings(path=settings.handles, id=ids, **only)
        return with_handles(table, look(source, party).ids, source.origin)
    if settings._handles is not None:
        source = TableSettings.of_frame(settings._handles, ids, **only)
        return with_handles(table, look(source, party).ids, "handles")
    return table


def look(settings: TableSettings, party: str, folder: Path | None = None) -> Table:
    """Read the whole table, whatever its cells hold; what `load` would refuse is among its notes."""
    raw = read(settings, party) if folder is None else _streamed(settings, party, folder)
    written = _csv_format(settings)
    cells = CellSettings(
        settings.types,
        settings.missing,
        settings.unfit,
        settings.decimal,
        settings.thousands,
        settings.dates,
        untyped=written is not None,
        commas=written is not None and written.separator == ";",
    )
    notes = [Note("", text) for text in written.said] if written else []
    into = None if folder is None else Stored(folder)
    table = table_from_raw(raw, settings.id, party, settings.origin, cells, notes, into)
    return replace(table, hashed=settings.hashed, dtypes={} if settings.postgres else table.dtypes)


def column_names(settings: TableSettings, party: str) -> list[str]:
    """The names of all columns of the source; of a CSV file those in its header."""
    if settings.is_frame:
        return as_polars(settings._frame, party).columns
    with _faults_named(settings, party):
        if settings.path is None:
            return postgres.columns_of(settings)
        written = _csv_format(settings)
        return list(written.header) if written else pl.scan_parquet(settings.path, glob=False).collect_schema().names()


def read(settings: TableSettings, party: str) -> pl.DataFrame:
    """The id columns and the named ones as the source has them; CSV cells are texts."""
    if settings.is_frame:
        frame = as_polars(settings._frame, party)
        return frame.select(_wanted(settings, party, frame.columns))
    with _faults_named(settings, party):
        if settings.path is None:
            return pl.concat(postgres.batches(settings, partial(_wanted, settings, party)))
        return _scan(settings.path, settings, party).collect(engine="streaming")


def _streamed(settings: TableSettings, party: str, folder: Path) -> Stored:
    """The same on disk; a batch of rows at a time is in memory."""
    found = Stored(folder)
    if settings.is_frame:
        found.append(read(settings, party))
        return found
    with _faults_named(settings, party):
        if settings.path is None:
            batches = postgres.batches(settings, partial(_wanted, settings, party))
        else:
            scan = _scan(settings.path, settings, party)
            found.append(scan.collect_schema().to_frame())
            batches = scan.collect_batches(chunk_size=rows_at_once, lazy=True, engine="streaming")
        for batch in batches:
            found.append(batch)
    return found


def _scan(path: Path, settings: TableSettings, party: str) -> pl.LazyFrame:
    """The wanted columns of a file."""
    if written := _csv_format(settings):
        wanted, scan = _wanted(settings, party, written.header), csv_files.scan(path, written)
    else:
        scan = pl.scan_parquet(path, glob=False)
        wanted = _wanted(settings, party, scan.collect_schema().names())
    return scan.select(wanted)


def _csv_format(settings: TableSettings) -> CsvFormat | None:
    """How the file is written; None if it has types of its own."""
    if settings.path is None or not settings.is_csv:
        return None
    return csv_files.format_of(settings.path, settings.id, settings.separator, settings.encoding)


@contextmanager
def _faults_named(settings: TableSettings, party: str) -> Iterator[None]:
    """Errors of a source as one that names it; the texts of others are not shown where they may quote cells."""
    path = settings.path
    if path is None:
        with _postgres_faults_named(settings, party):
            yield
        return
    if path.is_dir():  # polars would read the files in it
        raise fault(party, settings.origin, "this is a folder, not a file")
    try:
        yield
    except FileNotFoundError:
        raise fault(party, settings.origin, "there is no such file") from None
    except OSError as error:
        raise fault(party, settings.origin, f"cannot be read: {error}") from None
    except Unreadable as error:
        raise fault(party, settings.origin, str(error)) from None
    except pl.exceptions.PolarsError:
        written = _csv_format(settings)
        reason = csv_files.why_unreadable(path, written) if written else "not a Parquet file, or a broken one"
        raise fault(party, settings.origin, reason) from None


@contextmanager
def _postgres_faults_named(settings: TableSettings, party: str) -> Iterator[None]:
    try:
        import psycopg
    except ImportError:
        raise fault(party, settings.origin, "reading it needs: pip install unpooled[postgres]") from None
    try:
        yield
    except psycopg.Error as error:
        raise fault(party, settings.origin, postgres.reason(error)) from None


def _wanted(settings: TableSettings, party: str, available: Sequence[str]) -> list[str]:
    """The columns to read, ids first; each must exist exactly once."""
    features = settings.columns if settings.columns is not None else [c for c in available if c not in settings.id]
    for place, name in enumerate(available, start=1):
        if name in features and not name.strip():
            reason = (
                f"column {place} has no name, like the index that pandas writes; name the columns to use with "
                "columns = [...] in [table], or write the file without it (index=False)"
            )
            raise fault(party, settings.origin, reason)
    wanted = [*settings.id, *features]
    for name in wanted:
        if name not in available:
            raise fault(party, settings.origin, f"there is no such column; there are: {', '.join(available)}", name)
        if available.count(name) > 1:
            places = [str(place) for place, other in enumerate(available, start=1) if other == name]
            reason = (
                f"columns {' and '.join(places)} have this name; rename one, or name the columns to use with "
                "columns = [...] in [table]"
            )
            raise fault(party, settings.origin, reason, name)
    return wanted
