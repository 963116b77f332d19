"""The list of look-alikes: what the active party sends of its ranking, and the file that the seeker gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from unpooled.align.normalise import IdRules, comparable
from unpooled.arrays import Floats, Ints, Ints32
from unpooled.data.columns import rows_named, unfit_ids
from unpooled.data.table import Table
from unpooled.errors import InputError, ProtocolError
from unpooled.jobs.exclusion import rows_left
from unpooled.jobs.learning.scores import write_rows
from unpooled.pu.ranking import Ranking
from unpooled.wire import message

RELIABLE, RANKING = "reliable.csv", "ranking.csv"
TIERS = ("first", "second", "third")
_FORMULA, _NUMBER = r"^'*[=+\-@＝＋－＠]", r"^[+-][0-9]+([.,][0-9]+)?$"
"""What a spreadsheet takes for a formula, and which of it is none: a number has no way to do anything."""

_ADDED = ("rank", "score", "tier", "iteration")
_RANKED = ("rank", "score", "iteration")
"""What stands behind the ids in either file; a name that an id column has already comes with something after it."""


@message(
    discloses="the ids of the look-alikes, whom the owners of columns know as customers, with their order, scores and "
    "iterations",
    to="the seeker",
)
class Lookalikes:
    """Ids row by row, each with as many texts as an id has columns; not-a-number stands for no score."""

    ids: tuple[str, ...]
    scores: Floats
    iterations: Ints32


@dataclass(frozen=True, eq=False)
class Listed:
    """The look-alikes as the seeker received them, the likeliest first."""

    ids: pl.DataFrame
    scores: Floats
    iterations: Ints


def message_of(table: Table, rules: IdRules, ranking: Ranking, chosen: Ints) -> Lookalikes:
    """The rows chosen, with ids as the active party writes them, or as hashes if the plan compares hashes."""
    rows = table.take(chosen)
    ids = comparable(rows, rules) if rules.hash else rows.ids
    texts = tuple(text for row in ids.iter_rows() for text in row)
    return Lookalikes(texts, ranking.scores[chosen], ranking.iterations[chosen].astype(np.int32))


def listed(said: Lookalikes, table: Table, sender: str, most: int, last: int) -> Listed:
    """What the seeker makes of it, with its own names of id columns.

    The list must be whole, with ids fit to be shown, no more than `most` rows and no iteration after the `last`.
    """
    columns, rows = len(table.id), len(said.scores)
    fits = said.scores.ndim == said.iterations.ndim == 1 and len(said.iterations) == rows
    if not fits or len(said.ids) != rows * columns or (said.iterations < 0).any() or np.isinf(said.scores).any():
        raise ProtocolError(f"invalid Lookalikes from {sender}: ids, scores and iterations do not match")
    if rows > most or (said.iterations > last).any():
        raise ProtocolError(f"invalid Lookalikes from {sender}: more rows or iterations than there can be")
    frame = pl.DataFrame({name: list(said.ids[place::columns]) for place, name in enumerate(table.id)})
    if frame.is_duplicated().any() or frame.null_count().row(0) != (0,) * columns:
        raise ProtocolError(f"invalid Lookalikes from {sender}: duplicate or missing ids")
    for texts in frame:
        if unfit := unfit_ids(texts):
            raise ProtocolError(f"invalid Lookalikes from {sender}: {rows_named(unfit[1])}: {unfit[0]}")
    return Listed(frame, said.scores, said.iterations.astype(np.int64))


def without(found: Listed, exclude: Path | None, party: str, rules: IdRules, *, hashed: bool) -> Listed:
    """The list without the people of a party's own file, whose ids are `hashed` if those of its table are."""
    ids = Table(party, "the list", tuple(found.ids.columns), {}, found.ids, bool(rules.hash))
    left = rows_left(ids, exclude, rules, hashed=hashed)
    return Listed(ids.take(left).ids, found.scores[left], found.iterations[left])


def write_reliable(folder: Path, found: Listed) -> None:
    """The seeker's file: id, rank, score, tier (thirds of the list) and iteration.

    The ids are another party's, and people open the file in spreadsheets: see `_without_formulas`.
    """
    rows = len(found.scores)
    tier = np.array(TIERS)[np.arange(rows) * len(TIERS) // max(rows, 1)]
    ids = _without_formulas(found.ids)
    _write(folder / RELIABLE, ids, np.arange(1, rows + 1), found.scores, found.iterations, tier)


def _without_formulas(ids: pl.DataFrame) -> pl.DataFrame:
    """The ids with an apostrophe before those that a spreadsheet would compute; `as_sent` takes it off again."""
    formula = pl.all().str.contains(_FORMULA) & ~pl.all().str.contains(_NUMBER)
    return ids.with_columns(pl.when(formula).then(pl.all().str.replace("^", "'")).otherwise(pl.all()))


def as_sent(ids: pl.DataFrame) -> pl.DataFrame:
    """The ids of `reliable.csv` as they were before it was written.

    >>> ids = pl.DataFrame({"id": ["=1+1", "'=1", "+49301234", "-7", "@ann", "o'neil", "'quoted'"]})
    >>> _without_formulas(ids)["id"].to_list()
    ["'=1+1", "''=1", '+49301234', '-7', "'@ann", "o'neil", "'quoted'"]
    >>> as_sent(_without_formulas(ids)).equals(ids)
    True
    """
    marked = pl.all().str.starts_with("'") & pl.all().str.contains(_FORMULA)
    return ids.with_columns(pl.when(marked).then(pl.all().str.slice(1)).otherwise(pl.all()))


def write_ranking(folder: Path, table: Table, ranking: Ranking) -> None:
    """The active party's file: all unlabelled rows in their order."""
    order = ranking.order
    rank = np.arange(1, len(order) + 1)
    _write(folder / RANKING, table.take(order).ids, rank, ranking.scores[order], ranking.iterations[order])


def _write(
    path: Path, ids: pl.DataFrame, rank: Ints, scores: Floats, iterations: Ints, tier: np.ndarray | None = None
) -> None:
    columns = {"rank": pl.Series(rank), "score": pl.Series(scores).fill_nan(None)}
    if tier is not None:
        columns["tier"] = pl.Series(tier.tolist(), dtype=pl.String)
    columns["iteration"] = pl.Series(iterations)
    write_rows(path, ids, columns)


@dataclass(frozen=True, eq=False)
class ListFile:
    """The ids, and for each rank, score (null if it has none), in a seeker's list the tier, and iteration."""

    ids: pl.DataFrame
    lines: pl.DataFrame


def read_list(path: Path, first: int | None = None) -> ListFile:
    """The seeker's whole list, or the first few rows of it; InputError if the file is not one."""
    return _read(path, _ADDED, first)


def read_ranking(path: Path) -> ListFile:
    """The active party's ranking; InputError if the file is not one."""
    return _read(path, _RANKED, None)


def _read(path: Path, added: tuple[str, ...], first: int | None) -> ListFile:
    try:
        cells = pl.read_csv(path, infer_schema=False, n_rows=first, glob=False)
    except FileNotFoundError:
        raise InputError(f"{path}: there is no such file") from None
    except (OSError, pl.exceptions.PolarsError):
        raise InputError(f"{path}: cannot be read as a list of look-alikes") from None
    ids, names = cells.columns[: -len(added)], cells.columns[-len(added) :]
    if not ids or tuple(name.rstrip("_") for name in names) != added:
        raise InputError(f"{path}: its columns are not ids followed by {', '.join(added)}")
    given = cells.select(names).rename(dict(zip(names, added, strict=True)))
    types = {"rank": pl.UInt32, "score": pl.Float64, "tier": pl.String, "iteration": pl.UInt32}
    lines = given.with_columns(pl.col(name).cast(types[name], strict=False) for name in added)
    for name, told in zip(added, names, strict=True):
        wrong = lines[name].is_null()
        if name == "score":
            wrong &= given[name].is_not_null()
        if name == "tier":
            wrong = ~lines[name].is_in(TIERS).fill_null(value=False)
        if wrong.any():
            numbers = (wrong.arg_true() + 1).to_list()
            raise InputError(
                f"{path}: column '{told}': {rows_named(numbers)}: not what a list of look-alikes has there"
            )
    people = as_sent(cells.select(ids)) if added == _ADDED else cells.select(ids)
    for column in people:
        if unfit := unfit_ids(column):
            raise InputError(f"{path}: column '{column.name}': {rows_named(unfit[1])}: {unfit[0]}")
    return ListFile(people, lines)
