"""From a party's table to the matrix that its learner gets, in two steps.

`clean` works on single rows: ids, duplicates, impossible values, rows with missing values. `fit` learns from the
training rows what `transform` then does to any rows:

- numbers: missing cells become the median; then minus the mean, divided by the standard deviation;
- dates, as days since 1970-01-01: likewise;
- ordered categories, as their rank from 0, and booleans, as 0 and 1: missing cells become the most frequent value,
  then as numbers;
- categories: missing cells become the most frequent level; then one column of 0 and 1 per level, rare levels together
  in one column `name=(other)`, which also takes levels not seen in training. Without rare levels in training an unseen
  level has 0 in all columns of its category;
- categories with `categories = "in order"`: one column, the level's rank from 0 in the order of names, rare levels
  together as the last one, then as numbers. An unseen level counts as rare, or without rare ones as a missing cell.
  It is meant for trees, which can split between any neighbours.

A column that is constant in the training rows is reported, and becomes 0 if it is standardised. A column without any
value in the training rows is left out and reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    PositiveFloat,
    StrictBool,
    ValidationError,
    model_validator,
)

from unpooled import atomic, on_disk
from unpooled.data.columns import Kind, Levels, fault, kind_name, rows_named
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.settings import faults

OTHER = "(other)"
LARGEST = 1e100  # beyond that, sums of squares may become infinite
_ROW, _COMPARED = "\0row", "\0id "


def _ordered(limits: tuple[float, float]) -> tuple[float, float]:
    if not limits[0] <= limits[1]:
        raise ValueError("the lower limit must not be above the upper one")
    return limits


class PrepareSettings(BaseModel):
    """The `[prepare]` section of a party's private file: how its rows become numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    missing: Literal["impute", "drop", "keep"] = Field(
        "impute", description="missing values: impute them, drop their rows, or keep them missing (trees can use that)"
    )
    standardise: StrictBool = Field(True, description="shift and scale numbers to mean 0 and variance 1")
    rare: float = Field(
        0.01, ge=0, lt=1, description="levels of a category with less than this fraction of the rows are pooled"
    )
    categories: Literal["one-hot", "in order"] = Field(
        "one-hot",
        description="a category becomes a column of 0 and 1 for each level, or one column, its levels numbered by name",
    )
    limits: dict[str, Annotated[tuple[float, float], AfterValidator(_ordered)]] = Field(
        {},
        description="the lowest and highest possible value of a number, for example age = [0, 120] or debt = [0, inf]",
    )
    impossible: Literal["error", "missing"] = Field(
        "error", description="values beyond their limits, and infinite ones: stop with an error, or treat as missing"
    )


@dataclass(frozen=True)
class Cleaning:
    """What `clean` found and did, only for columns with a finding; `impossible` has row numbers of the source."""

    rows_read: int
    duplicates_removed: int
    rows_dropped: int
    missing: dict[str, int]
    impossible: dict[str, tuple[int, ...]]


class NumberColumn(BaseModel):
    """A column that becomes one column: (value - centre) / scale."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["number", "date", "boolean"] | Levels
    missing_becomes: FiniteFloat | None
    centre: FiniteFloat
    scale: Annotated[PositiveFloat, Field(allow_inf_nan=False)]


class CategoryColumn(BaseModel):
    """A category, which becomes one column per level, and one more if rare levels were pooled."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    missing_becomes: str | None
    levels: tuple[str, ...]
    pooled: tuple[str, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        known = self.levels + self.pooled
        if len(set(known)) < len(known):
            raise ValueError("a level is repeated")
        if not known or OTHER in self.levels:
            raise ValueError(f"levels are missing, or include {OTHER}, which is reserved for pooled levels")
        if self.missing_becomes is not None and self.missing_becomes not in known:
            raise ValueError("missing_becomes is not one of the levels")
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The levels that have a column, in order."""
        return (*self.levels, OTHER) if self.pooled else self.levels


class RankedCategory(CategoryColumn):
    """A category that becomes one column: (rank of its level - centre) / scale."""

    centre: FiniteFloat
    scale: Annotated[PositiveFloat, Field(allow_inf_nan=False)]


class Preparation(BaseModel):
    """What `fit` learned from the training rows and `transform` needs; saved as readable JSON."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    settings: PrepareSettings
    numbers: dict[str, NumberColumn]
    categories: dict[str, CategoryColumn]
    ranked: dict[str, RankedCategory] = {}
    constant: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def kinds(self) -> dict[str, Kind]:
        """The types of the columns that `transform` needs."""
        texts = [*self.ranked, *self.categories]
        return {name: c.kind for name, c in self.numbers.items()} | dict.fromkeys(texts, "category")

    @property
    def names(self) -> tuple[str, ...]:
        """The matrix's columns: numbers, ranked categories, then `name=level` for every level of the other ones."""
        one_hot = [f"{name}={level}" for name, category in self.categories.items() for level in category.columns]
        return (*self.numbers, *self.ranked, *one_hot)

    @property
    def sources(self) -> tuple[str, ...]:
        """For each of the matrix's columns the table's that it is made of."""
        levels = [name for name, category in self.categories.items() for _ in category.columns]
        return (*self.numbers, *self.ranked, *levels)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows as a learner gets them, with their ids; `unseen` counts cells with a level that training did not have."""

    ids: pl.DataFrame
    matrix: NDArray[np.float64]
    names: tuple[str, ...]
    unseen: dict[str, int]


def clean(table: Table, settings: PrepareSettings, ids: pl.DataFrame | None = None) -> tuple[Table, Cleaning]:
    """Check ids and values, remove repeated rows and, if set, rows with missing values.

    `ids` has for each row its id as it is compared, if that is not how it is written: rows with the same one have the
    same id, and the first of repeated rows stays as it is written.
    """
    check_limits(settings, table.kinds, table.party, table.origin)
    _check_ids_present(table)
    compared = (table.ids if ids is None else ids).rename(lambda name: f"{_COMPARED}{name}")
    rows = table.frame.height
    places: NDArray[np.integer] = np.arange(rows)
    unique = table
    if compared.n_unique() < rows:
        places = _without_repeated(table, compared)
        unique, compared = table.take(places), compared[places]
    possible, impossible = _without_impossible(unique, places + 1, settings)
    complete = compared.select(pl.all_horizontal(pl.all().is_not_null())).to_series()
    missing: dict[str, int] = {}
    for name in table.kinds:
        cells = possible.column(name)
        if cells.has_nulls():
            missing[name] = cells.null_count()
            complete &= cells.is_not_null()
    kept = possible
    if settings.missing == "drop" and not complete.all():
        kept = possible.take(np.flatnonzero(complete))
    if kept.frame.is_empty():
        reason = "every row has a missing value, so no rows are left" if rows else "there are no rows"
        raise fault(table.party, table.origin, reason)
    cleaning = Cleaning(
        rows_read=rows,
        duplicates_removed=rows - len(places),
        rows_dropped=len(places) - kept.frame.height,
        missing=missing,
        impossible=impossible,
    )
    return kept, cleaning


def _without_repeated(table: Table, compared: pl.DataFrame) -> NDArray[np.integer]:
    """The places of rows without those that repeat another; only rows whose id is there twice are looked at."""
    doubtful = compared.is_duplicated().to_numpy()
    places = np.flatnonzero(doubtful)
    some = table.take(places)
    rows = pl.DataFrame([some.column(name) for name in (*table.id, *table.kinds)]).hstack(compared[places])
    rows = rows.insert_column(0, pl.Series(_ROW, places + 1))
    unique = rows.unique(subset=[*compared.columns, *table.kinds], keep="first", maintain_order=True)
    _check_ids_unique(table, unique, compared.columns)
    left = ~doubtful
    left[unique[_ROW].to_numpy() - 1] = True
    return np.flatnonzero(left)


def check_limits(settings: PrepareSettings, kinds: Mapping[str, Kind], party: str, origin: str) -> None:
    """Refuse limits of a column that does not exist or is not of type number."""
    for name in settings.limits:
        if name not in kinds:
            raise fault(party, origin, "prepare.limits names it, but it is not among the columns that are read", name)
        if kinds[name] != "number":
            reason = f"prepare.limits names it, but its type is {kind_name(kinds[name])}, not number"
            raise fault(party, origin, reason, name)


def _check_ids_present(table: Table) -> None:
    for name in table.id:
        absent = table.frame[name].is_null().arg_true() + 1
        if len(absent):
            reason = "the id is blank, or a text for a missing value"
            raise fault(table.party, table.origin, reason, name, absent.to_list())


def _check_ids_unique(table: Table, rows: pl.DataFrame, ids: Sequence[str]) -> None:
    groups = rows.group_by(ids, maintain_order=True).agg(_ROW)[_ROW]
    repeated = groups.filter(groups.list.len() > 1)
    if len(repeated):
        others = f" (and so for {len(repeated) - 1} more ids)" if len(repeated) > 1 else ""
        as_compared = "" if rows.select(table.id).rows() == rows.select(ids).rows() else ", as the plan normalises ids,"
        reason = f"the same id{as_compared} with different values{others}"
        raise fault(table.party, table.origin, reason, ", ".join(table.id), repeated[0].to_list())


def _without_impossible(
    table: Table, numbers: NDArray[np.integer], settings: PrepareSettings
) -> tuple[Table, dict[str, tuple[int, ...]]]:
    """The table without impossible values, and which of the rows, which have these numbers, have one."""
    found: dict[str, tuple[int, ...]] = {}
    for name in [name for name, kind in table.kinds.items() if kind == "number"]:
        low, high = settings.limits.get(name, (-LARGEST, LARGEST))
        cells = table.column(name)
        beyond = ~cells.is_between(max(low, -LARGEST), min(high, LARGEST)).fill_null(True)
        if beyond.any():
            found[name] = tuple(numbers[beyond.to_numpy()].tolist())
            table = table.with_column(cells.set(beyond, None))
    if found and settings.impossible == "error":
        places = "; ".join(f"column '{name}': {rows_named(rows)}" for name, rows in found.items())
        raise fault(table.party, table.origin, f"impossible values (infinite, or beyond their limits): {places}")
    return table, found


def fit(table: Table, settings: PrepareSettings, training_rows: NDArray[np.integer] | None = None) -> Preparation:
    """Learn from the rows at these positions, or from all rows of a cleaned table."""
    training = table if training_rows is None else table.take(training_rows)
    if training.frame.is_empty():
        raise fault(table.party, table.origin, "there are no training rows")
    numbers, categories = dict[str, NumberColumn](), dict[str, CategoryColumn]()
    ranked, constant, left_out = dict[str, RankedCategory](), list[str](), list[str]()
    for name, kind in table.kinds.items():
        cells = training.column(name)
        if not cells.count():
            left_out.append(name)
            continue
        if kind != "category":
            numbers[name] = _fit_number(cells, kind, settings)
        elif settings.categories == "in order":
            ranked[name] = _fit_ranks(cells, _fit_category(cells, settings), settings)
        else:
            categories[name] = _fit_category(cells, settings)
        if cells.drop_nulls().n_unique() == 1:
            constant.append(name)
    preparation = Preparation(
        settings=settings,
        numbers=numbers,
        categories=categories,
        ranked=ranked,
        constant=tuple(constant),
        left_out=tuple(left_out),
    )
    names = preparation.names
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise fault(table.party, table.origin, "two columns of the matrix would have this name", twice)
    return preparation


def _as_floats(cells: pl.Series, kind: Kind) -> NDArray[np.float64]:
    """A column that is not a category as floats, with NaN for missing cells."""
    physical = cells.to_physical() if kind == "date" or isinstance(kind, tuple) else cells
    return physical.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _fit_number(cells: pl.Series, kind: Kind, settings: PrepareSettings) -> NumberColumn:
    values = _as_floats(cells, kind)
    present = values[~np.isnan(values)]
    fill: float | None = None
    if settings.missing != "keep":
        fill = float(np.median(present)) if kind in ("number", "date") else _most_frequent(present)
        present = np.where(np.isnan(values), fill, values)
    centre, scale = _centre_and_scale(present, settings)
    return NumberColumn(kind=kind, missing_becomes=fill, centre=centre, scale=scale)


def _centre_and_scale(present: NDArray[np.float64], settings: PrepareSettings) -> tuple[float, float]:
    if not settings.standardise:
        return 0.0, 1.0
    if present.min() == present.max():
        return float(present[0]), 1.0  # exactly; the mean may have a rounding error
    return float(present.mean()), float(present.std()) or 1.0


def _most_frequent(values: NDArray[np.float64]) -> float:
    """The smallest of the most frequent values."""
    distinct, counts = np.unique(values, return_counts=True)
    return float(distinct[counts.argmax()])


def pooled_levels(cells: pl.Series, settings: PrepareSettings) -> tuple[str, ...]:
    """The rare levels of a category, which become one."""
    return _fit_category(cells, settings).pooled


def _fit_category(cells: pl.Series, settings: PrepareSettings) -> CategoryColumn:
    counts = dict(cells.drop_nulls().value_counts().rows())
    fill: str | None = None
    if settings.missing != "keep":
        fill = min(counts, key=lambda level: (-counts[level], level))
        counts[fill] += cells.null_count()
    enough = settings.rare * sum(counts.values())
    levels = sorted(level for level, count in counts.items() if count >= enough and level != OTHER)
    return CategoryColumn(missing_becomes=fill, levels=levels, pooled=sorted(set(counts).difference(levels)))


def _fit_ranks(cells: pl.Series, category: CategoryColumn, settings: PrepareSettings) -> RankedCategory:
    ranks, _ = _ranks(cells, category)
    centre, scale = _centre_and_scale(ranks[~np.isnan(ranks)], settings)
    return RankedCategory(**category.model_dump(), centre=centre, scale=scale)


def transform(preparation: Preparation, table: Table, folder: Path | None = None) -> Prepared:
    """Turn a cleaned table's rows into a matrix; it needs the columns of the training table, with the same types.

    With a folder the matrix lies on disk, column after column.
    """
    for name, kind in preparation.kinds.items():
        if name not in table.kinds:
            raise fault(table.party, table.origin, "the column was there in training and is missing now", name)
        if table.kinds[name] != kind:
            reason = f"its type was {kind} in training and is {table.kinds[name]} now; declare it in types"
            raise fault(table.party, table.origin, reason, name)
    rows, width, unseen = table.frame.height, len(preparation.names), dict[str, int]()
    matrix = np.empty((rows, width)) if folder is None else on_disk.empty((width, rows), np.float64, folder).T
    for place, column in enumerate(_columns(preparation, table, unseen)):
        matrix[:, place] = column
        on_disk.let_go(matrix)
    strangers = {name: count for name, count in unseen.items() if count}
    return Prepared(table.ids, matrix, preparation.names, strangers)


def _columns(preparation: Preparation, table: Table, unseen: dict[str, int]) -> Iterator[NDArray[np.float64]]:
    """The columns of the matrix, one after the other; `unseen` is told how many cells have a level not seen before."""
    for name, number in preparation.numbers.items():
        values = _as_floats(table.column(name), number.kind)
        if number.missing_becomes is not None:
            values = np.where(np.isnan(values), number.missing_becomes, values)
        yield (values - number.centre) / number.scale
    for name, ranked in preparation.ranked.items():
        ranks, unseen[name] = _ranks(table.column(name), ranked)
        yield (ranks - ranked.centre) / ranked.scale
    for name, category in preparation.categories.items():
        cells, unseen[name] = _with_rare_pooled(table.column(name), category)
        for level in category.columns:
            yield (cells == level).cast(pl.Float64).fill_null(np.nan).to_numpy()


def _ranks(cells: pl.Series, category: CategoryColumn) -> tuple[NDArray[np.float64], int]:
    """Each cell's level as its rank, and the number of cells with a level not seen in training."""
    cells, unseen = _with_rare_pooled(cells, category)
    ranks = cells.cast(pl.Enum(category.columns), strict=False).to_physical().cast(pl.Float64)
    if category.missing_becomes in category.levels:
        ranks = ranks.fill_null(category.levels.index(category.missing_becomes))
    return ranks.fill_null(np.nan).to_numpy(), unseen


def _with_rare_pooled(cells: pl.Series, category: CategoryColumn) -> tuple[pl.Series, int]:
    """Fill missing cells and pool rare and unseen levels if there were rare ones; also how many cells were unseen."""
    if category.missing_becomes is not None:
        cells = cells.fill_null(category.missing_becomes)
    unseen = int((~cells.is_in([*category.levels, *category.pooled])).sum())
    if category.pooled:
        common = cells.is_in(list(category.levels)) | cells.is_null()
        cells = cells.set(~common, OTHER)
    return cells, unseen


def save(preparation: Preparation, path: Path) -> None:
    """Write the preparation as JSON for the owner only, since it reveals facts about the data; numbers are exact."""
    atomic.write_text(path, preparation.model_dump_json(indent=2) + "\n")


def load_preparation(path: Path) -> Preparation:
    """Read what `save` wrote, and check every value."""
    try:
        return Preparation.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        raise InputError(f"{path}: {faults(error)[0]}") from None
