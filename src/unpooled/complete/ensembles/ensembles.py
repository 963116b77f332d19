"""The ensembles that there are, as completers.

First it is learned which members to follow, on rows that are held out (`trial`); then members are fitted to all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, cast

import numpy as np

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Arrays, Completer
from unpooled.complete.completers.matrix import Learned
from unpooled.complete.ensembles.dynamic import DYNAMIC
from unpooled.complete.ensembles.members import answers, check_members, fit_members, member_arrays, restored_members
from unpooled.complete.ensembles.settings import EnsembleSettings
from unpooled.complete.ensembles.stacking import STACKING
from unpooled.complete.ensembles.votes import VOTE, WEIGHTED
from unpooled.complete.ensembles.way import Combination, Way
from unpooled.data.coding import Column

_OWN = "combination."


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Members that have learned, and how they are combined."""

    way: Way
    members: tuple[Learned, ...]
    combination: Combination

    def arrays(self) -> Arrays:
        """As a file has it."""
        own = {
            f"{_OWN}{field.name}": getattr(self.combination, field.name)
            for field in fields(cast(Any, self.combination))
        }
        return {**member_arrays(self.members), **own}


def _fit(
    way: Way, settings: EnsembleSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator
) -> Ensemble:
    for_learning, for_members = rng.spawn(2)
    combination = way.learn(settings, columns, values, for_learning)
    return Ensemble(way, fit_members(settings, columns, values, for_members), combination)


def _draw(
    way: Way,
    settings: EnsembleSettings,
    columns: Sequence[Column],
    state: Ensemble,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    combine = way.prepare(settings, columns, state.combination, values, wanted)
    yield from map(combine, answers(settings, state.members, values, wanted, rng))


def _restored(way: Way, settings: EnsembleSettings, columns: Sequence[Column], arrays: Arrays) -> Ensemble:
    own = {name.removeprefix(_OWN): array for name, array in arrays.items() if name.startswith(_OWN)}
    if set(own) != {field.name for field in fields(cast(Any, way.learned))} or any(
        array.dtype != np.float64 for array in own.values()
    ):
        raise ValueError("these arrays are not those of this ensemble")
    combination = way.learned(**own)
    if not combination.fits(len(settings.members), len(columns)):
        raise ValueError("these arrays are of other members or columns")
    of_members = {name: array for name, array in arrays.items() if not name.startswith(_OWN)}
    return Ensemble(way, restored_members(settings, columns, of_members), combination)


ENSEMBLES: tuple[Completer, ...] = tuple(
    Completer(
        way.settings,
        Ensemble,
        partial(_fit, way),
        partial(_draw, way),
        arrays=Ensemble.arrays,
        restored=partial(_restored, way),
        check=check_members,
    )
    for way in (VOTE, WEIGHTED, STACKING, DYNAMIC)
)
