"""Which type a column has, decided over all its rows, and what its owner should know about that.

A Parquet file, a PostgreSQL table and a data frame have types, and these are kept: text there is a category, and a
column of Polars' type Enum, as ordered categories of a completed table are written, an ordered category. A CSV file
has only text. Without its missing cells, and unless the party declares its type, a column of text is

1. a number, if its cells are numbers. Cells such as ``007`` are codes: if half the cells have a leading zero, or all
   are of one length, the column is a category;
2. a date, if its cells are dates of one format;
3. a boolean, if every cell is ``true`` or ``false``;
4. otherwise a category. A column without any value counts as a number.

If most cells are numbers or dates and some are not, nothing is guessed: the column is refused, with the rows and the
settings that would accept it. Likewise if numbers or dates can be read in more than one way. From text, ordered
categories are never inferred.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from unpooled.data.columns import (
    DATE_SHAPES,
    ISO_DATE,
    MISSING_TEXTS,
    USUAL,
    Kind,
    Writing,
    for_people,
    rows_named,
    typed,
    what_is_wrong,
    without_missing,
)
from unpooled.data.stored import Stored

_LEADING_ZERO = r"^[+-]?0[0-9]"
_LIKE_A_DATE = r"^([0-9]{4}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./]([0-9]{2}){1,2})([T ,].*)?$"
_DECIMAL_COMMA = Writing(decimal=",")
_OTHER_NUMBERS = (
    _DECIMAL_COMMA,
    Writing(thousands=","),
    Writing(decimal=",", thousands="."),
    Writing(thousands=" "),
    Writing(decimal=",", thousands=" "),
    Writing(thousands="'"),
)
_FIRST_LOOK = 200
_LONGEST_SHOWN = 40


@dataclass(frozen=True)
class Note:
    """What a table's owner should know about a column, or without a column about the table; an error is refused.

    A note may quote a cell, so it is for the owner alone.
    """

    column: str
    text: str
    level: Literal["note", "warning", "error"] = "note"
    rows: tuple[int, ...] = ()

    def __str__(self) -> str:
        places = [f"column '{self.column}'"] if self.column else []
        return ": ".join([*places, *([rows_named(self.rows)] if self.rows else []), self.text])


@dataclass(frozen=True)
class CellSettings:
    """What a party says about its cells; what it does not say is inferred.

    `untyped`: the source has only text. `commas`: a comma in a cell may be a decimal mark, since it separates no
    fields.
    """

    types: Mapping[str, Kind]
    missing: Sequence[str] = MISSING_TEXTS
    unfit: float = 0.0
    decimal: str | None = None
    thousands: str | None = None
    dates: str | None = None
    untyped: bool = False
    commas: bool = False


@dataclass(frozen=True, eq=False)
class Understood:
    """A column of a known type, how its text was written, and what there is to say about it."""

    cells: pl.Series
    kind: Kind
    writing: Writing
    notes: tuple[Note, ...] = ()


def understand(raw: pl.Series, settings: CellSettings) -> Understood:
    """Give a column its declared or inferred type; what cannot be accepted is in its notes."""
    cells = without_missing(raw, settings.missing)
    declared = settings.types.get(raw.name)
    if cells.dtype == pl.String and (settings.untyped if declared is None else declared in ("number", "date")):
        found = _of_text(cells, declared, settings)
    else:
        found = _of_dtype(cells) if declared is None else _Found(declared)
    notes = [found.note] if found.note else []
    if raw.dtype == pl.String and (spaces := int(raw.str.contains(r"^\s+\S|\S\s+$").sum())):
        notes.append(Note(raw.name, f"spaces around {spaces:,} cells were removed"))
    if found.note and found.note.level == "error":
        shown = cells if cells.dtype == pl.String else pl.Series(cells.name, [None] * len(cells), dtype=pl.String)
        return Understood(shown, found.kind, found.writing, (*notes,))
    column = typed(cells, found.kind, found.writing)
    notes += _about_unfit(cells, column, found, settings)
    return Understood(column.fill_nan(None) if found.kind == "number" else column, found.kind, found.writing, (*notes,))


def mixed_decimals(raw: pl.DataFrame | Stored, columns: Sequence[Understood], settings: CellSettings) -> list[Note]:
    """If a decimal comma was inferred in one column, a point in another may be anything."""
    numbers = [column for column in columns if column.kind == "number"]
    commas = [column.cells.name for column in numbers if column.writing.decimal == ","]
    if settings.decimal or not commas:
        return []
    numbers = [column for column in numbers if raw[column.cells.name].dtype == pl.String]
    text = f"numbers have a point here and a comma in column '{commas[0]}': set decimal and thousands in [table]"
    points = [column.cells.name for column in numbers if column.writing.decimal == "."]
    return [Note(name, text, "error") for name in points if raw[name].str.contains(r"[0-9]\.[0-9]").any()]


@dataclass(frozen=True)
class _Found:
    """A type, how it is written, and what there is to say."""

    kind: Kind
    writing: Writing = USUAL
    note: Note | None = None


def _of_dtype(cells: pl.Series) -> _Found:
    dtype = cells.dtype
    if dtype.is_numeric() or dtype == pl.Null:
        return _Found("number")
    if isinstance(dtype, pl.Enum) and len(levels := tuple(dtype.categories)) > 1:
        text = f"an ordered category, from '{levels[0]}' to '{levels[-1]}'; if the order means nothing, "
        return _Found(levels, note=Note(cells.name, text + f'types = {{{_key(cells.name)} = "category"}}'))
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        texts = cells.cast(pl.String).drop_nulls()
        numbers = len(texts) > 0 and _fit(texts, "number", USUAL).all() and not texts.str.contains(_LEADING_ZERO).any()
        text = f'all texts are numbers, and this is a category; if not, types = {{{_key(cells.name)} = "number"}}'
        return _Found("category", note=Note(cells.name, text, "warning") if numbers else None)
    if dtype in (pl.Date, pl.Datetime):
        return _Found("date")
    if dtype == pl.Boolean:
        return _Found("boolean")
    problem = Note(cells.name, f"cells of type {dtype} cannot be used; leave the column out", "error")
    return _Found("category", note=problem)


def _of_text(texts: pl.Series, declared: Kind | None, settings: CellSettings) -> _Found:
    if not texts.count():
        return _Found(declared or "number")
    found = _as_number(texts, declared, settings) if declared != "date" else None
    found = found or (_as_date(texts, declared, settings) if declared != "number" else None)
    if found:
        return found
    truths = texts.str.to_lowercase().is_in(["true", "false"])
    if truths.all():
        return _Found("boolean")
    return _Found("category", note=_about_truths(texts, truths) if _most(truths, texts) else None)


def _about_truths(texts: pl.Series, truths: pl.Series) -> Note:
    others = ~truths & texts.is_not_null()
    text = (
        f"{_shown(texts, others)} is neither true nor false, and {truths.sum():,} other cells are: this is a category; "
        "if it stands for a missing value, add it to missing in [table]"
    )
    return Note(texts.name, text, "warning", _rows(others))


def _as_number(texts: pl.Series, declared: Kind | None, settings: CellSettings) -> _Found | None:
    """A number, or a code, or what can be read in several ways; None for anything else."""
    writing = Writing(settings.decimal or ("," if settings.thousands == "." else "."), settings.thousands or "")
    fits = _fit(texts, "number", writing)
    if not (settings.decimal or settings.thousands or fits.sum() == texts.count()):
        others = _other_numbers(texts)
        if others and not (settings.commas and others == [_DECIMAL_COMMA]):
            return _doubt(texts, ~fits, "could be a number", " or ".join(map(_toml, others)))
        if settings.commas and (with_commas := _fit(texts, "number", _DECIMAL_COMMA)).sum() > fits.sum():
            writing, fits = _DECIMAL_COMMA, with_commas
    if declared is None and not _most(fits, texts):
        return None
    zeros = texts.str.contains(_LEADING_ZERO) & fits
    if declared is None and zeros.any():
        if 2 * zeros.sum() >= fits.sum() or texts.filter(fits).str.len_chars().n_unique() == 1:
            return _Found("category", note=Note(texts.name, "a category: numbers with leading zeros are codes"))
        number = f'types = {{{_key(texts.name)} = "number"}}'
        return _doubt(texts, zeros, "begins with a zero like a code, and most cells do not", number)
    inferred = writing.decimal == "," and not (settings.decimal or settings.thousands)
    note = Note(texts.name, "numbers have a decimal comma") if inferred else None
    return _Found("number", writing, note)


def _as_date(texts: pl.Series, declared: Kind | None, settings: CellSettings) -> _Found | None:
    """A date, or what can be read in several ways; None for anything else."""
    formats = [settings.dates] if settings.dates else list(DATE_SHAPES)
    fits = {written: _fit(texts, "date", Writing(dates=written)) for written in formats}
    best = max(formats, key=lambda written: fits[written].sum())
    if declared is None and not _most(fits[best], texts):
        like = texts.str.contains(_LIKE_A_DATE)
        if settings.dates or not _most(like, texts):
            return None
        problem = "looks like a date, and the format is unknown, or not the same in all cells"
        return _doubt(texts, ~fits[best], problem, 'dates, such as "%d.%m.%Y"')
    same = [written for written in formats if fits[written].sum() == fits[best].sum() > 0]
    if len(same) > 1:
        names = " or ".join(map(for_people, same))
        return _doubt(texts, fits[best], f"could be {names}", " or ".join(f'dates = "{written}"' for written in same))
    for written in formats:
        if (mixed := fits[written] & ~fits[best]).any():
            problem = f"is written {for_people(written)}, and most dates here {for_people(best)}"
            return _doubt(texts, mixed, problem, "one format for all of them")
    note = None if best in (ISO_DATE, settings.dates) else Note(texts.name, f"dates are written {for_people(best)}")
    return _Found("date", Writing(dates=best), note)


def _about_unfit(cells: pl.Series, column: pl.Series, found: _Found, settings: CellSettings) -> list[Note]:
    """Cells that do not fit the column's type: refused, or missing as far as the party allows it."""
    unfit = cells.is_not_null() & column.is_null()
    if not unfit.any():
        return []
    count, name, rows = int(unfit.sum()), cells.name, _rows(unfit)
    text = f"{_shown(cells, unfit)} is {what_is_wrong(found.kind, found.writing)}"
    if count <= settings.unfit * cells.count():
        return [Note(name, f"{text}; such cells count as missing (unfit)", "warning", rows)]
    if count < cells.count():
        text += (
            f", and {cells.count() - count:,} other cells fit: in [table] add it to missing if it stands for a missing "
            f'value, set types = {{{_key(name)} = "category"}}, or let such cells count as missing with '
            f"unfit = {_rounded_up(count / cells.count()):g}"
        )
    return [Note(name, text, "error", rows)]


def _doubt(texts: pl.Series, chosen: pl.Series, problem: str, remedy: str) -> _Found:
    """A column of which nobody can tell what it means: an error, with the settings that would tell."""
    category = f'types = {{{_key(texts.name)} = "category"}}'
    chosen = chosen & texts.is_not_null()
    text = f"{_shown(texts, chosen)} {problem}: in [table] set {remedy}, or {category}"
    return _Found("category", note=Note(texts.name, text, "error", _rows(chosen)))


def _fit(texts: pl.Series, kind: Kind, writing: Writing) -> pl.Series:
    return typed(texts, kind, writing).is_not_null()


def _other_numbers(texts: pl.Series) -> list[Writing]:
    """Other ways to write numbers that fit every cell, without those that have more marks than the cells."""
    present, found = texts.drop_nulls(), list[Writing]()
    for way in _OTHER_NUMBERS:
        looks = (present.head(_FIRST_LOOK), present)  # most columns of text are not numbers at first sight
        if Writing(way.decimal) not in found and all(_fit(some, "number", way).all() for some in looks):
            found.append(way)
    return found


def _most(fits: pl.Series, texts: pl.Series) -> bool:
    return 2 * int(fits.sum()) > texts.count()


def _rows(chosen: pl.Series) -> tuple[int, ...]:
    return tuple((chosen.arg_true() + 1).to_list())


def _shown(cells: pl.Series, chosen: pl.Series) -> str:
    """The first chosen cell; what cannot be seen is written as an escape."""
    text = str(cells.filter(chosen)[0])
    return repr(text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…")


def _rounded_up(fraction: float) -> float:
    """To one digit.

    >>> _rounded_up(0.000667), _rounded_up(0.2)
    (0.0007, 0.2)
    """
    step = 10.0 ** math.floor(math.log10(fraction))
    return round(math.ceil(fraction / step - 1e-9) * step, 12)


def _key(name: str) -> str:
    """A column's name as TOML has it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)


def _toml(writing: Writing) -> str:
    decimal = ['decimal = ","'] if writing.decimal == "," else []
    thousands = [f'thousands = "{writing.thousands}"'] if writing.thousands else []
    return " and ".join(decimal + thousands)
