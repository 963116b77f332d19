"""CSV files: which separator and encoding a file has, its header, and why one cannot be read.

A file in UTF-8 is read lazily, the named columns only. One in another encoding is decoded in memory first.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_MARK = "\ufeff"
_SET_ENCODING = 'set encoding in [table], for example encoding = "cp1252" or encoding = "latin-1"'


class Unreadable(Exception):
    """Why a file cannot be read, in words without any cell."""


@dataclass(frozen=True)
class CsvFormat:
    """How a file is written, and the names in its header."""

    separator: str
    encoding: str
    header: tuple[str, ...]

    @property
    def said(self) -> list[str]:
        """What is out of the ordinary about it."""
        name = SEPARATORS.get(self.separator, repr(self.separator))
        encoding = [] if self.encoding == "utf-8" else [f"the file is read as {self.encoding}"]
        return encoding + ([] if self.separator == "," else [f"fields are separated by {name}"])


def format_of(path: Path, ids: Sequence[str], separator: str | None, encoding: str | None) -> CsvFormat:
    """The format of a file: what the party says; otherwise UTF-8, or UTF-16 if its first bytes are a mark of that.

    A separator is inferred if the header has all id columns with this one alone; without ids, if it has most fields.
    """
    encoding = encoding or _marked(path)
    try:
        with _opened(path, encoding) as lines:
            first = lines.readline()
    except UnicodeError:
        raise Unreadable(f"not text in {encoding}; {_SET_ENCODING}") from None
    if "\0" in first:
        raise Unreadable('the header has null characters; if this is UTF-16, set encoding = "utf-16-le" in [table]')
    headers = {mark: _header(path, encoding, mark) for mark in ([separator] if separator else SEPARATORS)}
    least = 0 if ids else max(map(len, headers.values()))
    fitting = {mark: names for mark, names in headers.items() if set(ids) <= set(names) and len(names) >= least}
    if len(set(fitting.values())) > 1:
        names = ", ".join(SEPARATORS[mark] for mark in fitting)
        raise Unreadable(f"fields could be separated by {names}: set separator in [table]")
    mark = next(iter(fitting), None) or max(headers, key=lambda one: len(headers[one]))
    if not headers[mark]:
        raise Unreadable("the file is empty, or its first line is")
    return CsvFormat(mark, encoding, headers[mark])


def scan(path: Path, written: CsvFormat) -> pl.LazyFrame:
    """All fields as text; a row with fewer fields than the header is refused, where polars would fill it up."""
    source: Path | io.BytesIO = path
    if written.encoding != "utf-8":
        source = io.BytesIO(_decoded(path, written.encoding))
    found = pl.scan_csv(source, separator=written.separator, infer_schema=False, glob=False)
    last = pl.col(found.collect_schema().names()[-1])
    if len(written.header) > 1 and found.select(last.has_nulls()).collect(engine="streaming").item():
        _check_short_rows(path, written)
    return found


def _check_short_rows(path: Path, written: CsvFormat) -> None:
    width = len(written.header)
    with _opened(path, written.encoding) as lines, suppress(csv.Error, UnicodeError):  # of which polars will tell
        for row, cells in enumerate(csv.reader(lines, delimiter=written.separator)):
            if 0 < len(cells) < width:
                raise Unreadable(f"row {row}: {len(cells)} fields, but the header has {width}")


def why_unreadable(path: Path, written: CsvFormat) -> str:
    """Find out why a file is not valid CSV, with the row where that helps."""
    width = len(written.header)
    try:
        with _opened(path, written.encoding) as lines:
            reader = csv.reader(lines, delimiter=written.separator, strict=True)
            next(reader, None)
            for row, cells in enumerate(reader, start=1):
                if len(cells) > width:
                    return f"row {row}: {len(cells)} fields, but the header has {width}"
    except UnicodeError:
        return f"not text in {written.encoding}; {_SET_ENCODING}"
    except csv.Error:
        return "a quotation mark is not closed"
    return f"not a CSV file with {SEPARATORS.get(written.separator, repr(written.separator))} between the fields"


def _marked(path: Path) -> str:
    with _bytes_of(path) as file:
        return "utf-16" if file.read(2) in _UTF16 else "utf-8"


def _header(path: Path, encoding: str, separator: str) -> tuple[str, ...]:
    try:
        with _opened(path, encoding) as lines:
            first, *others = next(csv.reader(lines, delimiter=separator), ()) or [""]
    except csv.Error:
        return ()
    return (first.removeprefix(_MARK), *others) if first or others else ()


def _decoded(path: Path, encoding: str) -> bytes:
    try:
        with _bytes_of(path) as file:
            return file.read().decode(encoding).encode()
    except UnicodeError:
        raise Unreadable(f"not text in {encoding}; {_SET_ENCODING}") from None


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[io.TextIOWrapper]:
    with _bytes_of(path) as file:
        yield io.TextIOWrapper(file, encoding=encoding, newline="")  # type: ignore[arg-type]


@contextmanager
def _bytes_of(path: Path) -> Iterator[io.BufferedIOBase]:
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            yield file
    except (gzip.BadGzipFile, EOFError):
        raise Unreadable("not a gzip file, or a broken one (unexpected end of file)") from None
