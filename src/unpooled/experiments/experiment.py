"""What an experiment consists of: one `Experiment` describes each, and everything around it is written against that.

A *cell* is the smallest piece of work that is kept: a choice of a data set, a random seed and settings. It is computed
once and gives figures for one or more methods. Tables and figures are made from cells on disk alone.
`experiments.py` lists the experiments; a new one is a module with such a record, and a place in that list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

import polars as pl

from unpooled.experiments.figures import Picture

T = TypeVar("T")

Value = str | int | float
Cell = Mapping[str, Value]
"""What identifies a cell: a value for every key of the experiment."""

Figures = Mapping[str, Mapping[str, float]]
"""What a cell gives: by method, figures by name."""


class Tier(StrEnum):
    """How much is computed."""

    quick = "quick"
    standard = "standard"
    seed = "seed"


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    `keys` are what identifies a cell, with their types; `figures` are the names of what is measured; `packages` are
    those whose versions are kept. `seed` is the first random seed unless another one is given. `check` refuses what
    would fail later, such as a data set that is missing. `seconds` is a guess, which measured cells correct.
    Experiments with the same `file` share its cells; then keys, figures and how to compute a cell must be the same.
    `one_core` says of a cell that computing it keeps one core busy, so that several are computed side by side.
    """

    name: str
    about: str
    file: str
    keys: Mapping[str, type[Value]]
    figures: tuple[str, ...]
    packages: tuple[str, ...]
    seed: int
    cells: Callable[[Tier, int], Sequence[Cell]]
    check: Callable[[Sequence[Cell]], None]
    seconds: Callable[[Cell], float]
    compute: Callable[[Cell], Figures]
    one_core: Callable[[Cell], bool]
    section: Callable[[pl.DataFrame], str]
    """Tables and sentences as Markdown, from a frame with the keys, `method` and the figures."""
    pictures: Callable[[pl.DataFrame], Mapping[str, Picture]]
    """Pictures by name; the section shows each as `![…](NAME.svg)`."""

    def key(self, cell: Cell) -> tuple[Value, ...]:
        """A cell as something to look up."""
        return tuple(kind(cell[name]) for name, kind in self.keys.items())

    def own(self, tier: Tier, done: Mapping[tuple[Value, ...], T]) -> dict[tuple[Value, ...], T]:
        """Those of the cells in a file that this experiment names, whatever random seed it began with."""
        place = list(self.keys).index("seed")
        named = {self.key(cell) for seed in {key[place] for key in done} for cell in self.cells(tier, int(seed))}
        return {key: one for key, one in done.items() if key in named}
