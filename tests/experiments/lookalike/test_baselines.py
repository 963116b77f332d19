"""What the page of `baselines` says in words follows from its cells."""

from __future__ import annotations

import polars as pl

from unpooled.experiments.lookalike.baselines import METHODS, NETWORKS, _in_words, _networks
from unpooled.experiments.lookalike.searches import search_cell


def lines(hits: dict[str, list[int]]) -> pl.DataFrame:
    """Cells of Bank: by method how many of the first 1,000 were positive in each draw."""
    return pl.DataFrame(
        [
            {**search_cell("bank", seed, 0.6, **METHODS[who]), "method": "pooled", "hits_1000": float(count)}
            for who, counts in hits.items()
            for seed, count in enumerate(counts)
        ]
    )


def test_clear_differences_are_told_from_chance() -> None:
    found = {"VFPU_GBDT": [700, 710, 720], "Bagging_GBDT": [650, 661, 669], "naive_GBDT": [760, 650, 722]}
    told = _in_words(lines(found))
    assert "ahead of Bagging_GBDT on bank (+0.050)" in told
    assert "as good as naive_GBDT on bank (-0.001)" in told
    assert "2Step" not in told


def test_a_method_that_finds_more_is_said_to() -> None:
    told = _in_words(lines({"VFPU_GBDT": [500, 510], "naive_GBDT": [600, 612]}))
    assert told.startswith("VFPU_GBDT is behind naive_GBDT on bank (-0.101).")


def test_the_page_says_whether_networks_are_measured() -> None:
    without = lines({"VFPU_GBDT": [500]})
    assert _networks(without) == "Networks (MixMatch and its kin) are not measured yet."
    more = search_cell("bank", 1, 0.6, **NETWORKS["MixMatch"])
    assert (more["learner"], more["settings"]) == ("", "")
    found = _networks(pl.concat([without, pl.DataFrame({**more, "method": "pooled", "hits_1000": 600.0})]))
    assert found.endswith("by a class prior; 1 draw of each.")


def test_one_draw_says_nothing() -> None:
    assert _in_words(lines({"VFPU_GBDT": [500], "naive_GBDT": [600]})) == ""
