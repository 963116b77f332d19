"""scikit-learn's imputers as completers; they need the extra `sklearn`.

They see standardised numbers and, for each category, a column of 0 and 1 for each of its most frequent levels. Other
levels are what is left over from 1: a column of their own would follow from these, and a regression would learn nothing
else. The greatest decides; what is left over stands for the most frequent of the other levels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from pydantic import Field

from unpooled.arrays import Bools, Floats
from unpooled.complete.completers.completer import Completer, CompleterSettings, some_rows
from unpooled.data.coding import Column
from unpooled.errors import InputError

_SEEDS = 2**31


class _ImputerSettings(CompleterSettings):
    """What both have in common."""

    levels: int = Field(10, description="how many levels of a category have a column of their own", ge=1)


class KnnSettings(_ImputerSettings):
    """The mean of the nearest rows, or the most frequent level among them."""

    completer: Literal["knn"] = Field("knn", description="mean of the nearest rows (scikit-learn's KNNImputer)")
    neighbours: int = Field(5, description="how many nearest rows", ge=1)
    rows: int = Field(5_000, description="the most rows that are kept to be neighbours, drawn at random", ge=1)

    @property
    def random(self) -> bool:
        """It has one answer."""
        return False


class IterativeSettings(_ImputerSettings):
    """Each column is regressed on the others, in turn and again."""

    completer: Literal["iterative"] = Field(
        "iterative", description="regression of each column on the others (scikit-learn's IterativeImputer)"
    )
    iterations: int = Field(10, description="how often every column is regressed", ge=1)
    sample: bool = Field(False, description="draw from the regression's posterior instead of taking its mean")
    rows: int = Field(20_000, description="the most rows that are learned from, drawn at random", ge=2)

    @property
    def random(self) -> bool:
        """Only draws differ."""
        return self.sample


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """The rows that an imputer learns from, each time that it is used: it has no format of its own without pickle."""

    rows: Floats


def _fit(
    settings: KnnSettings | IterativeSettings, _: Sequence[Column], values: Floats, rng: np.random.Generator
) -> TrainingRows:
    _imputer(settings, 0)  # so that a missing package is found before anything is learned
    return TrainingRows(some_rows(values, settings.rows, rng))


def _draw(
    settings: KnnSettings | IterativeSettings,
    columns: Sequence[Column],
    state: TrainingRows,
    values: Floats,
    wanted: Bools,
    rng: np.random.Generator,
) -> Iterator[Floats]:
    blocks = [_Block(column, cells, settings.levels) for column, cells in zip(columns, state.rows.T, strict=True)]
    imputer = _imputer(settings, int(rng.integers(_SEEDS)))
    training, asked = (
        np.hstack([block.spread(cells) for block, cells in zip(blocks, matrix.T, strict=True)])
        for matrix in (state.rows, values)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the last change was not yet small
        imputer.fit(training)
    ends = np.cumsum([block.width for block in blocks])[:-1]
    while True:
        parts = np.split(imputer.transform(asked), ends, axis=1)
        found = np.column_stack([block.gather(part) for block, part in zip(blocks, parts, strict=True)])
        yield np.where(wanted, found, values)


def _check(settings: KnnSettings | IterativeSettings) -> None:
    _imputer(settings, 0)


def _imputer(settings: KnnSettings | IterativeSettings, seed: int) -> Any:
    try:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer, KNNImputer
    except ImportError:
        raise InputError(f"the completer {settings.completer} needs: pip install unpooled[sklearn]") from None
    if isinstance(settings, KnnSettings):
        return KNNImputer(n_neighbors=settings.neighbours, keep_empty_features=True)
    return IterativeImputer(
        max_iter=settings.iterations,
        sample_posterior=settings.sample,
        random_state=seed,
        keep_empty_features=True,
    )


class _Block:
    """How one column becomes the columns that an imputer sees, and how its answer becomes one column again."""

    def __init__(self, column: Column, cells: Floats, most: int) -> None:
        known = cells[~np.isnan(cells)]
        codes, counts = np.unique(known, return_counts=True)
        frequent = codes[np.argsort(-counts, kind="stable")]
        self.nominal = column.nominal
        self.levels = frequent[: most + 1]
        self.centre, self.scale = float(known.mean()), float(known.std()) or 1.0
        self.width = max(len(self.levels) - 1, 1) if column.nominal else 1

    def spread(self, cells: Floats) -> Floats:
        """The columns that the imputer sees."""
        if not self.nominal:
            return ((cells - self.centre) / self.scale)[:, np.newaxis]
        ones = (cells[:, np.newaxis] == self.levels[: self.width]).astype(np.float64)
        return np.where(np.isnan(cells)[:, np.newaxis], np.nan, ones)

    def gather(self, answer: Floats) -> Floats:
        """The column again."""
        if not self.nominal:
            return answer[:, 0] * self.scale + self.centre
        if len(self.levels) > 1:
            answer = np.column_stack([answer, 1.0 - answer.sum(axis=1)])
        found: Floats = self.levels[answer.argmax(axis=1)]
        return found


KNN = Completer(KnnSettings, TrainingRows, _fit, _draw, check=_check)
ITERATIVE = Completer(IterativeSettings, TrainingRows, _fit, _draw, check=_check)
