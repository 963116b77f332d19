"""Whole tables of generated rows: a generator, or a plain sampler, learns from a table and draws rows like its own.

Ids are not learned: columns that are ids, and texts that differ in nearly all rows, are left out. Rows held out from
learning follow from the table's length alone, so that a model which was saved can later be judged by the same rows.

>>> from unpooled.data.table import table_from_frame
>>> frame = pl.DataFrame({"age": [20, 30, 40, 50] * 5, "tariff": ["a", "b", "b", "b"] * 5})
>>> fitted = fit_generator(sampler_settings("copula"), table_from_frame(frame, (), "telco"), np.random.default_rng(1))
>>> rows = sample_table(fitted, 1000, np.random.default_rng(2))
>>> rows.schema == frame.schema, rows.height, sorted(rows["age"].unique())
(True, 1000, [20, 30, 40, 50])
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from pydantic import ValidationError

from unpooled.complete.completers import files
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.filling import Fitted, dtypes_of
from unpooled.complete.generators.generators import GENERATORS, model_of
from unpooled.complete.generators.plain import PLAIN, fit_plain, sample_plain
from unpooled.complete.generators.settings import GeneratorSettings
from unpooled.data.coding import decode, encode_all, learn_all
from unpooled.data.columns import fault
from unpooled.data.inference import Note
from unpooled.data.restore import check_restorable, restored
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.settings import faults

if TYPE_CHECKING:
    from unpooled.networks.training import Watch

LEAST_ROWS = 10
_SPLIT_SEED = 20
_MANY, _NEARLY_ALL, _FEW = 0.5, 0.9, 30
_SAMPLERS = (*GENERATORS, *PLAIN)
SAMPLERS: tuple[str, ...] = tuple(one.name for one in _SAMPLERS)
"""The names of all that draws whole rows."""


def sampler_settings(model: str, given: Mapping[str, Any] | None = None) -> CompleterSettings:
    """The settings of a model by its name, with what is set otherwise; what it needs must be installed."""
    sampler = next((one for one in _SAMPLERS if one.name == model), None)
    if sampler is None:
        raise InputError(f"there is no model '{model}' that draws whole rows; there are: {', '.join(SAMPLERS)}")
    try:
        settings = sampler.settings.model_validate(given or {})
    except ValidationError as error:
        raise InputError(f"settings of the model '{model}': {'; '.join(faults(error))}") from None
    sampler.check(settings)
    return settings


def without_ids(table: Table) -> tuple[Table, tuple[str, ...]]:
    """The table without its ids and without texts that differ in nearly every row; the names of these columns."""
    texts = [name for name, kind in table.kinds.items() if kind == "category" and _like_ids(table.frame[name])]
    kinds = {name: kind for name, kind in table.kinds.items() if name not in texts}
    return replace(table, id=(), kinds=kinds, frame=table.frame.select(*kinds), handles=None), (*table.id, *texts)


def _like_ids(texts: pl.Series) -> bool:
    known = texts.drop_nulls()
    distinct = known.n_unique()
    return len(known) > 1 and (distinct == len(known) or distinct > max(_NEARLY_ALL * len(known), _FEW))


def doubtful_columns(table: Table) -> list[Note]:
    """Columns that may be ids although they are learned, and texts that generated rows would repeat."""
    found = []
    for name, kind in table.kinds.items():
        known = table.frame[name].drop_nulls()
        distinct = known.n_unique()
        if kind == "category" and distinct > max(_MANY * len(known), _FEW):
            text = (
                "nearly every row has a text of its own, and generated rows repeat these texts; leave it out as an id"
            )
            found.append(Note(name, text, "warning"))
        elif kind == "number" and distinct == len(known) > _FEW and bool((known == known.round()).all()):
            found.append(
                Note(name, "every row has another whole number; if it is an id, leave it out as one", "warning")
            )
    return found


def split(table: Table, fraction: float) -> tuple[Table, Table]:
    """Rows to learn from, and a fraction of all rows that is held out; in the table's order."""
    rows = table.frame.height
    order = np.random.default_rng(_SPLIT_SEED).permutation(rows)
    held_out = round(fraction * rows)
    return table.take(np.sort(order[held_out:])), table.take(np.sort(order[:held_out]))


def fit_generator(
    settings: CompleterSettings,
    table: Table,
    rng: np.random.Generator,
    watch: Watch | None = None,
    checkpoint: Path | None = None,
) -> Fitted:
    """Learn from all rows of a table without ids; only a training that takes epochs has something to watch or keep."""
    check_learnable(table)
    columns = learn_all(table)
    values = encode_all(columns, table)
    used = [place for place, column in enumerate(columns) if not column.empty]
    told, known = [columns[place] for place in used], values[:, used]
    if isinstance(settings, GeneratorSettings):
        more: dict[str, Any] = {} if watch is None else {"watch": watch}
        state = model_of(settings).fit(settings, told, known, rng, checkpoint=checkpoint, **more)
    else:
        state = fit_plain(settings, told, known, rng)
    return Fitted(settings, columns, state, {}, dtypes=dtypes_of(table))


def check_learnable(table: Table) -> None:
    """Refuse a table without columns, without values, with too few rows, or with cells that could not be given back."""
    if not table.kinds:
        raise fault(table.party, table.origin, "there is no column to learn, besides ids")
    known = table.frame.select(*table.kinds)
    rows = known.filter(pl.any_horizontal(pl.all().is_not_null())).height
    if rows < LEAST_ROWS:
        reason = f"at least {LEAST_ROWS} rows with a value are needed to learn from; there are {rows}"
        raise fault(table.party, table.origin, reason)
    check_restorable(replace(table, timed=()))  # a time of day is dropped, and that is said


def sample_rows(fitted: Fitted, rows: int, rng: np.random.Generator) -> Table:
    """So many generated rows as a table in memory, without ids."""
    if rows < 1:
        raise InputError(f"at least one row must be generated, not {rows}")
    used = [place for place, column in enumerate(fitted.columns) if not column.empty]
    told = [fitted.columns[place] for place in used]
    values = np.full((rows, len(fitted.columns)), np.nan)
    if isinstance(fitted.settings, GeneratorSettings):
        model = model_of(fitted.settings)
        values[:, used] = model.sample(fitted.settings, told, fitted.state, rows, rng)
    else:
        values[:, used] = sample_plain(fitted.settings, told, fitted.state, rows, rng)
    frame = pl.DataFrame([decode(column, values[:, place]) for place, column in enumerate(fitted.columns)])
    kinds = {column.name: column.kind for column in fitted.columns}
    return Table("generated", fitted.settings.completer, (), kinds, frame, dtypes=fitted.dtypes)


def sample_table(fitted: Fitted, rows: int, rng: np.random.Generator) -> pl.DataFrame:
    """So many generated rows, with the columns in the types of the table that was learned from."""
    return restored_frame(fitted, sample_rows(fitted, rows, rng))


def restored_frame(fitted: Fitted, rows: Table) -> pl.DataFrame:
    """Generated rows in the types of the table that was learned from."""
    columns = [
        restored(rows.frame[column.name], column.kind, fitted.dtypes.get(column.name), whole=column.whole)
        for column in fitted.columns
    ]
    return pl.DataFrame(columns)


def load_generator(path: Path) -> Fitted:
    """What `completers.files.save` wrote of a model that draws whole rows."""
    fitted = files.load(path)
    if not isinstance(fitted.settings, tuple(one.settings for one in _SAMPLERS)):
        raise InputError(f"{path}: a fitted completer '{fitted.settings.completer}', which draws no whole rows")
    if fitted.state is None:
        raise InputError(f"{path}: this completer has learned from no value")
    return fitted


@dataclass(frozen=True, eq=False)
class Learned:
    """The rows that a model has learned from, and those that were held out, if any."""

    training: Table
    held_out: Table | None


def learned_from(fitted: Fitted, table: Table) -> Learned | None:
    """Which rows of a table a model has learned from, by the range, levels and spread of columns; None if none."""
    training, held_out = split(table, fitted.settings.held_out)
    if held_out.frame.height and learn_all(training) == fitted.columns:
        return Learned(training, held_out)
    return Learned(table, None) if learn_all(table) == fitted.columns else None
