"""What all completers have in common, each of them by the same tests."""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Bools
from unpooled.complete.completers.completer import CompleterSettings
from unpooled.complete.completers.completers import COMPLETERS, settings_from
from unpooled.complete.completers.copula import CopulaSettings
from unpooled.complete.completers.filling import Completed, complete, fit
from unpooled.complete.completers.from_sklearn import IterativeSettings
from unpooled.complete.completers.hot_deck import HotDeckSettings
from unpooled.complete.completers.simple import MarginalSettings, MedianSettings, MissingSettings
from unpooled.complete.generators.generators import GENERATORS
from unpooled.complete.imputers.imputers import IMPUTERS
from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError

SHORTER: dict[str, dict[str, Any]] = {"iterative": {"iterations": 2}}
SHORTER |= {one.name: {"epochs": 3, "held_out": 0.0} for one in GENERATORS}  # one training instead of two
SHORTER["tabddpm"]["rounds"] = 1
SHORTER |= {one.name: {"steps": 50, "held_out": 0.0} for one in IMPUTERS}
ALL = [completer.settings.model_validate(SHORTER.get(completer.name, {})) for completer in COMPLETERS]
ALL += [HotDeckSettings(donor="random"), IterativeSettings(sample=True, iterations=2)]
FILLING = [settings for settings in ALL if not isinstance(settings, MissingSettings)]
# Networks take long to compile for each shape of a table. Those with a sibling, whose code for tables is the same, are
# left out of some tests, unless ALL_CHECKS=1.
NAMES_OF_NETWORKS = {one.name for one in (*GENERATORS, *IMPUTERS)}
SIBLINGS = {"ctab-gan": "tablegan", "tvae": "vae", "vgain": "gain"}
DISTINCT = [one for one in ALL if one.completer not in SIBLINGS or os.environ.get("ALL_CHECKS")]
NETWORKS = [] if os.environ.get("ALL_CHECKS") else [one for one in ALL if one.completer in NAMES_OF_NETWORKS]
DISTINCT_FILLING = [settings for settings in DISTINCT if not isinstance(settings, MissingSettings)]
Mixed = Callable[[int], Table]
Scattered = Callable[[Table], Bools]


def name(settings: CompleterSettings) -> str:
    return "-".join(str(value) for value in settings.model_dump(exclude_defaults=True).values()) or settings.completer


def filled(settings: CompleterSettings, table: Table, mask: Bools | None = None, **more: Any) -> Completed:
    fitted = fit(settings, table, np.random.default_rng(3), mask)
    return complete(fitted, table, np.random.default_rng(4), mask, **more)


@pytest.mark.parametrize("settings", ALL, ids=name)
def test_known_cells_stay_and_filled_ones_are_possible(
    settings: CompleterSettings, mixed: Mixed, scattered: Scattered
) -> None:
    table = mixed(200)
    mask = scattered(table)
    done = filled(settings, table, mask)
    for place, (column, kind) in enumerate(table.kinds.items()):
        before, after = table.frame[column], done.table.frame[column]
        known = pl.Series(~mask[:, place])
        assert after.dtype == before.dtype
        assert after.filter(known).equals(before.filter(known))
        seen, new = before.filter(known), after.filter(~known).drop_nulls()
        if kind in ("number", "date") and len(new):
            assert seen.min() <= new.min() <= new.max() <= seen.max()  # type: ignore[operator]
        assert kind in ("number", "date") or set(new) <= set(seen)
    children = done.table.frame["children"].drop_nulls()
    assert (children == children.round()).all()
    assert done.filled.sum() == (0 if isinstance(settings, MissingSettings) else mask.sum())
    assert (np.isnan(done.trust) == ~done.filled).all()
    trust = done.trust[done.filled]
    assert ((trust >= 0) & (trust <= 1)).all()


@pytest.mark.parametrize("settings", FILLING, ids=name)
def test_values_under_the_mask_have_no_influence(
    settings: CompleterSettings, mixed: Mixed, scattered: Scattered
) -> None:
    table = mixed(80)
    mask = scattered(table)
    mask[0] = True
    only_there = table.frame["tariff"].set(pl.int_range(80, eager=True) == 0, "a level of one row")
    table = replace(table, frame=table.frame.with_columns(only_there))
    hidden = {
        column: table.frame[column].set(pl.Series(mask[:, place]), None) for place, column in enumerate(table.kinds)
    }
    blank = replace(table, frame=table.frame.with_columns(**hidden))
    with_values, without = filled(settings, table, mask, draws=2), filled(settings, blank, mask, draws=2)
    assert with_values.table.frame.equals(without.table.frame)
    np.testing.assert_array_equal(with_values.trust, without.trust)


@pytest.mark.parametrize("settings", FILLING, ids=name)
def test_a_random_seed_gives_the_same_draws_and_another_one_others(
    settings: CompleterSettings, mixed: Mixed, scattered: Scattered
) -> None:
    table = mixed(80)
    mask = scattered(table)
    fitted = fit(settings, table, np.random.default_rng(1), mask)
    first, again, other = (complete(fitted, table, np.random.default_rng(n), mask, draws=3) for n in (5, 5, 6))
    for one, two in zip(first.draws, again.draws, strict=True):
        assert one.frame.equals(two.frame)
    differ = [not one.frame.equals(first.draws[0].frame) for one in (*first.draws[1:], other.draws[0])]
    assert differ == [settings.random] * 3


@pytest.mark.parametrize(
    ("settings", "rows"),
    [(one, rows) for one in DISTINCT_FILLING for rows in (1, 30) if rows == 1 or one not in NETWORKS],
    ids=lambda value: value if isinstance(value, int) else name(value),
)
def test_tiny_tables(settings: CompleterSettings, rows: int, mixed: Mixed) -> None:
    table = mixed(rows)
    mask = np.zeros((rows, 6), np.bool_)
    mask[rows // 2 :, ::2] = rows > 1
    done = filled(settings, table, mask)
    assert (done.filled == mask).all()
    assert done.table.frame.null_count().sum_horizontal()[0] == 0


@pytest.mark.parametrize("settings", DISTINCT, ids=name)
def test_unusual_columns(settings: CompleterSettings) -> None:
    """One value, nothing but missing cells, a level for each row, and rows of which nothing is known."""
    rows = 150
    frame = pl.DataFrame(
        {
            "id": range(rows),
            "one": [7.5] * rows,
            "none": pl.Series([None] * rows, dtype=pl.Float64),
            "no_text": pl.Series([None] * rows, dtype=pl.String),
            "code": [f"level {row}" for row in range(rows)],
            "number": np.linspace(-1, 1, rows),
        }
    )
    table = table_from_frame(frame, "id", "telco")
    mask = np.zeros((rows, 5), np.bool_)
    mask[:40] = True
    done = filled(settings, table, mask)
    usable = [0, 3, 4]
    expected = mask.copy()
    expected[:, [1, 2]] = False
    if isinstance(settings, MissingSettings):
        expected[:] = False
    else:
        assert done.table.frame["one"].to_list() == [7.5] * rows
        assert set(done.table.frame["code"]) <= set(frame["code"][40:])
    assert (done.filled == expected).all()
    assert done.filled[:, usable].any() == expected.any()


@pytest.mark.parametrize("settings", DISTINCT_FILLING, ids=name)
def test_missing_cells_outside_of_the_mask_stay_missing(settings: CompleterSettings, mixed: Mixed) -> None:
    table = mixed(60)
    gaps = pl.Series([row % 3 == 0 for row in range(60)])
    table = replace(table, frame=table.frame.with_columns(table.frame["income"].set(gaps, None)))
    mask = np.zeros((60, 6), np.bool_)
    mask[:20, 2] = True
    done = filled(settings, table, mask)
    assert done.table.frame["income"].null_count() == gaps.sum()
    assert (done.filled == mask).all()
    everything = filled(settings, table)
    assert everything.table.frame["income"].null_count() == 0
    assert everything.filled.sum() == gaps.sum()


@pytest.mark.parametrize("settings", ALL, ids=name)
def test_nothing_to_fill_and_nothing_to_learn_from(settings: CompleterSettings, mixed: Mixed) -> None:
    table = mixed(30)
    assert filled(settings, table, draws=2).table.frame.equals(table.frame)
    everything = np.ones((30, 6), np.bool_)
    done = filled(settings, table, everything)
    assert not done.filled.any()
    assert done.table.frame.drop("id").null_count().sum_horizontal()[0] == everything.size
    fitted = fit(settings, table, np.random.default_rng(1))
    no_rows = table.take(np.arange(0))
    assert complete(fitted, no_rows, np.random.default_rng(1)).table.frame.is_empty()
    assert not filled(settings, no_rows).filled.any()


@pytest.mark.parametrize("settings", FILLING, ids=name)
def test_new_rows_with_levels_that_were_not_seen(settings: CompleterSettings, mixed: Mixed) -> None:
    table = mixed(60)
    fitted = fit(settings, table, np.random.default_rng(1))
    frame = pl.DataFrame(
        {
            "id": [1, 2],
            "income": [None, 1e9],
            "children": [2, None],
            "tariff": ["unheard of", None],
            "since": pl.Series([None, None], dtype=pl.Date),
            "paper": [True, None],
            "size": ["small", None],
        }
    )
    new = table_from_frame(frame, "id", "telco", {"size": table.kinds["size"]})
    done = complete(fitted, new, np.random.default_rng(2)).table.frame
    assert done["tariff"][0] == "unheard of"
    assert done["income"][1] == 1e9
    assert done.null_count().sum_horizontal()[0] == 0


def test_the_table_has_what_draws_agree_on(mixed: Mixed, scattered: Scattered) -> None:
    table = mixed(300)
    mask = scattered(table)
    done = filled(MarginalSettings(), table, mask, draws=9)
    row, income = int(np.flatnonzero(mask[:, 0])[0]), [draw.frame["income"] for draw in done.draws]
    assert done.table.frame["income"][row] == np.median([draw[row] for draw in income])
    row, tariffs = int(np.flatnonzero(mask[:, 2])[0]), [draw.frame["tariff"] for draw in done.draws]
    drawn = [draw[row] for draw in tariffs]
    assert drawn.count(done.table.frame["tariff"][row]) == max(map(drawn.count, drawn))
    pairs = [one == two for place, one in enumerate(drawn) for two in drawn[:place]]
    assert done.trust[row, 2] == pytest.approx(np.mean(pairs))


def test_trust_by_spread_is_about_right_where_the_model_is(mixed: Mixed) -> None:
    """For classes the probability to be right, for numbers R²: high where other cells tell much, else low."""
    table = mixed(2000)
    mask = np.zeros((2000, 6), np.bool_)
    mask[:1000, [0, 2]] = True
    done = filled(CopulaSettings(), table, mask, draws=20)
    right = [(draw.frame["tariff"] == table.frame["tariff"])[:1000].mean() for draw in done.draws]
    assert done.trust[:1000, 2].mean() == pytest.approx(np.mean(np.array(right, float)), abs=0.05)
    ignorant = filled(MarginalSettings(), table, mask, draws=20)
    assert ignorant.trust[:1000].max(axis=0, initial=0, where=mask[:1000])[0] < 1
    assert np.nanmean(ignorant.trust[:, 0]) + 0.2 < np.nanmean(done.trust[:, 0])


def test_quality_is_measured_as_cells_are_hidden(mixed: Mixed) -> None:
    table = mixed(1500)
    mask = np.zeros((1500, 6), np.bool_)
    mask[:200, 2] = True
    knowing = fit(CopulaSettings(), table, np.random.default_rng(1), mask)
    assert list(knowing.quality) == ["tariff"]
    mask[:200] = True
    ignorant = fit(CopulaSettings(), table, np.random.default_rng(1), mask)
    assert list(ignorant.quality) == list(table.kinds)
    assert ignorant.quality["tariff"] + 0.15 < knowing.quality["tariff"]
    assert ignorant.quality["income"] == 0.0
    done = complete(knowing, table, np.random.default_rng(1), mask)
    assert set(done.trust[:200, 2]) == {knowing.quality["tariff"]}
    assert set(done.trust[:200, 0]) == {0.0}, "not measured"
    assert fit(MedianSettings(held_out=0.0), table, np.random.default_rng(1)).quality == {}


def test_measuring_quality_does_not_change_what_is_filled(mixed: Mixed, scattered: Scattered) -> None:
    table = mixed(100)
    mask = scattered(table)
    assert filled(CopulaSettings(), table, mask).table.frame.equals(
        filled(CopulaSettings(held_out=0.0), table, mask).table.frame
    )


def test_what_is_refused(mixed: Mixed) -> None:
    table = mixed(30)
    rng = np.random.default_rng(1)
    with pytest.raises(InputError, match="telco: data frame: the mask must be 30 rows × 6 columns"):
        fit(MedianSettings(), table, rng, np.zeros((30, 5), np.bool_))
    fitted = fit(MedianSettings(), table, rng)
    with pytest.raises(InputError, match="draw"):
        complete(fitted, table, rng, draws=0)
    other = table_from_frame(table.frame.drop("tariff"), "id", "telco", {"size": table.kinds["size"]})
    with pytest.raises(InputError, match="telco: data frame: column 'tariff'"):
        complete(fitted, other, rng)
    text = table_from_frame(
        table.frame.with_columns(pl.col("income").cast(pl.String)), "id", "telco", {"size": table.kinds["size"]}
    )
    with pytest.raises(InputError, match="column 'income': its type is category, not number"):
        complete(fitted, text, rng)
    infinite = table_from_frame(pl.DataFrame({"id": [1, 2], "x": [1.0, np.inf]}), "id", "telco")
    with pytest.raises(InputError, match="column 'x': row 2"):
        fit(MedianSettings(), infinite, rng)


@pytest.mark.parametrize("completer", ["knn", "iterative"])
def test_without_scikit_learn_an_imputer_says_what_to_install(
    completer: str, monkeypatch: pytest.MonkeyPatch, mixed: Mixed
) -> None:
    imported = builtins.__import__

    def without_sklearn(name: str, *rest: Any) -> Any:
        if name.startswith("sklearn"):
            raise ImportError(name)
        return imported(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    with pytest.raises(InputError, match=rf"{completer}.*unpooled\[sklearn\]"):
        fit(settings_from({"completer": completer}), mixed(30), np.random.default_rng(1))


def test_settings_are_chosen_by_the_name_of_a_completer() -> None:
    assert [settings_from({"completer": completer.name}).completer for completer in COMPLETERS] == [
        completer.name for completer in COMPLETERS
    ]
    assert settings_from({}) == ALL[0]
    assert settings_from(ALL[1]) is ALL[1]
    for wrong in ({"completer": "no such"}, {"completer": 3}, "copula"):
        with pytest.raises(ValueError, match="'copula', 'hot-deck'"):
            settings_from(wrong)
