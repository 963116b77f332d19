"""What an experiment on searches consists of: all of them share cells, and differ in which they name and show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import polars as pl

from unpooled.experiments.experiment import Cell, Experiment, Tier
from unpooled.experiments.figures import Picture
from unpooled.experiments.lookalike import searches
from unpooled.experiments.lookalike.estimating import seconds
from unpooled.experiments.lookalike.judging import FIGURES


def experiment_on_searches(
    name: str,
    about: str,
    cells: Callable[[Tier, int], Sequence[Cell]],
    section: Callable[[pl.DataFrame], str],
    pictures: Callable[[pl.DataFrame], Mapping[str, Picture]],
) -> Experiment:
    """An experiment whose cells are searches."""
    return Experiment(
        name=name,
        about=about,
        file=searches.FILE,
        keys=searches.KEYS,
        figures=FIGURES,
        packages=searches.PACKAGES,
        seed=searches.FIRST_SEED,
        cells=cells,
        check=searches.check,
        seconds=seconds,
        compute=searches.compute,
        one_core=searches.one_core,
        section=section,
        pictures=pictures,
    )
