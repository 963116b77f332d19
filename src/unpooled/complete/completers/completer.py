"""What a completer offers: one `Completer` describes each, and `filling` is written against that alone.

`single.py` lists them. A new one, be it an imputer or a generator, is a module with such a description and a place
in that list. It sees a matrix of numbers (`data.coding`), NaN for what is unknown, and only columns with a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from unpooled.arrays import Bools, Floats, Ints
from unpooled.data.coding import Column
from unpooled.settings import Section


class CompleterSettings(Section):
    """What every completer can be told; a completer's own class gives `completer` its name, and adds its settings."""

    completer: str
    held_out: float = Field(
        0.2,
        description="the fraction of the rows that is held out to measure how well each column is filled; 0: no "
        "measurement, and half the time",
        ge=0,
        lt=1,
    )

    @model_serializer(mode="wrap")
    def _with_its_name(self, usual: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Files leave out defaults, but must say which completer it is."""
        return {"completer": self.completer, **usual(self)}

    @property
    def random(self) -> bool:
        """Whether draws differ."""
        return True


Fit = Callable[[Any, Sequence[Column], Floats, np.random.Generator], Any]
"""(settings, columns, values, rng) to the state."""

Draw = Callable[[Any, Sequence[Column], Any, Floats, Bools, np.random.Generator], Iterator[Floats]]
"""(settings, columns, state, values, wanted, rng) to values with the wanted cells filled, again and again without end.

Cells that are not wanted may have any value. Numbers may be fractional or out of range: `decode` sees to that.
"""

Arrays = Mapping[str, NDArray[Any]]
"""A state as a file has it: arrays by name."""


def _field_arrays(state: Any) -> Arrays:
    """The fields of a dataclass."""
    return {field.name: getattr(state, field.name) for field in fields(state)}


def _nothing_needed(_: CompleterSettings) -> None:
    """All that it needs comes with this package."""


@dataclass(frozen=True)
class Completer:
    """One completer: its settings, what it learns, how it learns that, and how it fills cells.

    The state is a frozen dataclass of arrays of floats, whose last axis is the columns: it is saved as such. A state of
    another form says how it becomes `arrays`, and how (settings, columns, arrays) become it again: `restored` raises
    ValueError if they do not fit each other. `check` raises InputError if a package that it needs is not installed.
    """

    settings: type[CompleterSettings]
    state: type[Any]
    fit: Fit
    draw: Draw
    arrays: Callable[[Any], Arrays] = _field_arrays
    restored: Callable[[Any, Sequence[Column], Arrays], Any] | None = None
    check: Callable[[Any], object] = _nothing_needed

    @property
    def name(self) -> str:
        """What plans and files call it."""
        return str(self.settings.model_fields["completer"].default)

    def restore(self, settings: CompleterSettings, columns: Sequence[Column], arrays: Arrays) -> Any:
        """The state that these arrays are; ValueError if they are not one for these columns."""
        if self.restored is not None:
            return self.restored(settings, columns, arrays)
        fits = all(array.dtype == np.float64 and array.shape[-1:] == (len(columns),) for array in arrays.values())
        if set(arrays) != {field.name for field in fields(self.state)} or not fits:
            raise ValueError("these arrays are not a state for these columns")
        return self.state(**arrays)


def row_patterns(cells: Bools) -> Iterator[tuple[Bools, Ints]]:
    """The distinct rows of a matrix of true and false, and where each occurs."""
    distinct, which = np.unique(cells, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(which.ravel(), minlength=len(distinct)))
    yield from zip(distinct, np.split(order, ends[:-1]), strict=True)


def some_rows(values: Floats, most: int, rng: np.random.Generator) -> Floats:
    """The rows with a value, or that many drawn at random if there are more; every column keeps a value."""
    rows = np.flatnonzero(~np.isnan(values).all(axis=1))
    if len(rows) <= most:
        return values[rows]
    drawn = rng.choice(rows, most, replace=False)
    for place in np.flatnonzero(np.isnan(values[drawn]).all(axis=0)):
        drawn = np.append(drawn, rng.choice(np.flatnonzero(~np.isnan(values[:, place]))))
    some: Floats = values[np.unique(drawn)]
    return some
