"""Searches by semi-supervised networks on pooled columns, with their default settings; these need JAX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Floats
from unpooled.data import datasets
from unpooled.errors import InputError
from unpooled.experiments.lookalike.dealing import OWNERS, Dealt

PREFIX = "semisup, "
"""What the name of such a search begins with; the method follows."""

CHANGES: dict[str, Any] = {}
"""What is set otherwise than by default."""


def by_network(search: str) -> bool:
    """Whether a search is by a network."""
    return search.startswith(PREFIX)


def estimator_of(search: str, seed: int) -> Any:
    """The estimator of a search; InputError if what it needs is not installed."""
    try:
        import jax  # noqa: F401

        from unpooled.semisup.estimators import ESTIMATORS
    except ImportError:
        raise InputError("networks need: pip install 'unpooled[experiments,generate]'") from None
    return ESTIMATORS[search.removeprefix(PREFIX)](random_state=seed, **CHANGES)


def search_by_network(dealt: Dealt, search: str, seed: int) -> tuple[Floats, Floats]:
    """The scores of all rows and of test rows; known positives are 1, all others unlabelled."""
    made = estimator_of(search, seed)
    rows = _rows(dealt, dealt.tables)
    made.fit(rows, np.where(dealt.known, 1, -1))
    test = _rows(dealt, dealt.test_tables)
    scores = made.predict_proba(test)[:, 1] if test.height else np.empty(0)
    return made.predict_proba(rows)[:, 1], scores


def _rows(dealt: Dealt, tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """All owners' columns, categories as texts and missing ones without."""
    frame = pl.concat([tables[party].drop("id") for party in OWNERS], how="horizontal")
    codes = [name for name in datasets.TYPES[dealt.name] if name in frame.columns]
    missing = dict.fromkeys(datasets.MISSING[dealt.name])
    return frame.with_columns(pl.col(codes).cast(pl.String)).with_columns(pl.col(pl.String).replace(missing))
