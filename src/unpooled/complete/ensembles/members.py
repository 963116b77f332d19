"""The members of an ensemble: fitting them, what they answer, and their states as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Arrays
from unpooled.complete.completers.matrix import Learned, draw, learn, middle
from unpooled.complete.completers.single import SINGLE, completer_among
from unpooled.complete.ensembles.settings import EnsembleSettings
from unpooled.data.coding import Column


def check_members(settings: EnsembleSettings) -> None:
    """InputError if a package that a member needs is not installed."""
    for member in settings.members:
        completer_among(SINGLE, member).check(member)


def fit_members(
    settings: EnsembleSettings, columns: Sequence[Column], values: Floats, rng: np.random.Generator
) -> tuple[Learned, ...]:
    """Each member, fitted to the known cells."""
    return tuple(
        learn(completer_among(SINGLE, member), member, columns, values, own)
        for member, own in zip(settings.members, rng.spawn(len(settings.members)), strict=True)
    )


def answers(
    settings: EnsembleSettings, members: Sequence[Learned], values: Floats, wanted: Bools, rng: np.random.Generator
) -> Iterator[Floats]:
    """What each member fills the wanted cells with, members × rows × columns, again and again."""
    found = [
        _answers(settings, member, values, wanted, own)
        for member, own in zip(members, rng.spawn(len(members)), strict=True)
    ]
    while True:
        yield np.stack([next(each) for each in found])


def _answers(
    settings: EnsembleSettings, member: Learned, values: Floats, wanted: Bools, rng: np.random.Generator
) -> Iterator[Floats]:
    """One member's; numbers may be fractional."""
    draws = draw(member, values, wanted, rng, rounding=False)
    if not member.settings.random:
        yield from repeat(next(draws))
    while True:
        several = np.stack(list(islice(draws, settings.member_draws)))
        found = several[0].copy()
        for place, column in enumerate(member.columns):
            rows = wanted[:, place]
            found[rows, place] = middle(column, several[:, rows, place])
        yield found


def member_arrays(members: Sequence[Learned]) -> dict[str, NDArray[Any]]:
    """The states of all members as arrays, each name with the number of its member before it."""
    return {
        f"{number}.{name}": array
        for number, member in enumerate(members)
        for name, array in member.completer.arrays(member.state).items()
    }


def restored_members(settings: EnsembleSettings, columns: Sequence[Column], arrays: Arrays) -> tuple[Learned, ...]:
    """The members whose states these arrays are; ValueError if they do not fit the settings and columns."""
    own: list[dict[str, NDArray[Any]]] = [{} for _ in settings.members]
    for name, array in arrays.items():
        number, _, rest = name.partition(".")
        if number not in map(str, range(len(own))):
            raise ValueError("there are arrays of no member")
        own[int(number)][rest] = array
    completers = [completer_among(SINGLE, member) for member in settings.members]
    return tuple(
        Learned(completer, member, tuple(columns), completer.restore(member, columns, some))
        for completer, member, some in zip(completers, settings.members, own, strict=True)
    )
