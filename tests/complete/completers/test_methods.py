"""What is particular to the other completers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import polars as pl
import pytest
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer

from unpooled.arrays import Bools
from unpooled.complete.completers.completer import CompleterSettings, row_patterns, some_rows
from unpooled.complete.completers.filling import Completed, complete, fit
from unpooled.complete.completers.from_sklearn import IterativeSettings, KnnSettings
from unpooled.complete.completers.hot_deck import HotDeckSettings
from unpooled.complete.completers.simple import MarginalSettings, MedianSettings
from unpooled.data.table import Table, table_from_frame

Mixed = Callable[[int], Table]


def filled(settings: CompleterSettings, table: Table, mask: Bools | None = None, draws: int = 1) -> Completed:
    fitted = fit(settings, table, np.random.default_rng(3), mask)
    return complete(fitted, table, np.random.default_rng(4), mask, draws=draws)


def test_median_and_mode() -> None:
    frame = pl.DataFrame(
        {
            "id": range(6),
            "whole": [1, 2, 5, 9, None, None],
            "broken": [1.5, 2.0, 5.0, 9.0, None, None],
            "flag": [True, False, True, False, None, None],
            "text": ["b", "a", "b", "c", None, None],
        }
    )
    done = filled(MedianSettings(), table_from_frame(frame, "id", "telco")).table.frame
    assert done.row(5) == ("5", 4.0, 3.5, False, "b")


def test_the_marginal_draws_each_column_by_itself(mixed: Mixed) -> None:
    table = mixed(3000)
    mask = np.zeros((3000, 6), np.bool_)
    mask[:1500] = True
    fitted = fit(MarginalSettings(), table, np.random.default_rng(3), mask)
    for column in fitted.state.values.T:
        assert (np.diff(column) >= 0).all(), "sorted: the rows that values come from are not kept"
    done = complete(fitted, table, np.random.default_rng(4), mask).table.frame
    new, old = done[:1500], table.frame[1500:]
    assert new["paper"].mean() == pytest.approx(old["paper"].mean(), abs=0.05)
    assert abs(np.corrcoef(new["income"], new["children"])[0, 1]) < 0.08


@pytest.mark.parametrize("donor", ["nearest", "random"])
def test_cells_of_a_row_come_from_one_donor(mixed: Mixed, donor: str) -> None:
    table = mixed(200)
    mask = np.zeros((200, 6), np.bool_)
    mask[:100, 1:] = True
    settings = HotDeckSettings.model_validate({"donor": donor})
    new = filled(settings, table, mask).table.frame[:100].drop("id", "income").rows()
    assert set(new) <= set(table.frame[100:].drop("id", "income").rows())


def test_the_nearest_donor_is_near() -> None:
    frame = pl.DataFrame({"id": range(200), "x": np.arange(200.0) % 100, "y": np.arange(200.0) % 100})
    table = table_from_frame(frame, "id", "telco")
    mask = np.zeros((200, 2), np.bool_)
    mask[:100, 1] = True
    near = filled(HotDeckSettings(neighbours=3), table, mask).table.frame[:100]
    assert (near["x"] - near["y"]).abs().max() <= 2
    assert len(set(filled(HotDeckSettings(neighbours=3), table, mask, draws=9).trust[:100, 1])) > 1
    far = filled(HotDeckSettings(donor="random"), table, mask).table.frame[:100]
    assert (far["x"] - far["y"]).abs().max() > 50


def test_equally_near_donors_are_all_used() -> None:
    rows = 300
    frame = pl.DataFrame({"id": range(rows), "same": ["x"] * rows, "value": range(rows)})
    table = table_from_frame(frame, "id", "telco")
    mask = np.zeros((rows, 2), np.bool_)
    mask[:150, 1] = True
    done = filled(HotDeckSettings(neighbours=2), table, mask).table.frame[:150]
    assert done["value"].n_unique() > 60


def test_where_no_row_has_all_cells_each_has_its_own_donor() -> None:
    frame = pl.DataFrame({"id": range(4), "x": [1, None, None, None], "y": [None, 2, None, None]})
    done = filled(HotDeckSettings(), table_from_frame(frame, "id", "telco")).table.frame
    assert done.drop("id").rows() == [(1.0, 2.0)] * 4


def test_a_column_that_is_rarely_known_keeps_a_donor() -> None:
    rows = 500
    values = np.column_stack([np.arange(rows, dtype=float), np.full(rows, np.nan)])
    values[7, 1] = 1.0
    kept = some_rows(values, 20, np.random.default_rng(1))
    assert len(kept) in (20, 21)
    assert (kept[:, 1] == 1.0).sum() == 1


def test_rows_are_grouped_by_pattern() -> None:
    cells = np.array([[True, False], [False, False], [True, False]])
    assert [(pattern.tolist(), rows.tolist()) for pattern, rows in row_patterns(cells)] == [
        ([False, False], [1]),
        ([True, False], [0, 2]),
    ]


@pytest.mark.parametrize("settings", [KnnSettings(), IterativeSettings(iterations=3)], ids=["knn", "iterative"])
def test_numbers_are_those_of_scikit_learn(settings: KnnSettings | IterativeSettings) -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=(120, 3)) @ rng.normal(size=(3, 3))
    hidden = rng.random(values.shape) < 0.2
    values = np.where(hidden, np.nan, values)
    frame = pl.DataFrame({"id": range(120), **{name: values[:, n] for n, name in enumerate("abc")}}, nan_to_null=True)
    done = filled(settings, table_from_frame(frame, "id", "telco")).table.frame.drop("id").to_numpy()
    mean, spread = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    imputer = KNNImputer() if settings.completer == "knn" else IterativeImputer(max_iter=3, tol=0, random_state=0)
    with pytest.warns() if settings.completer == "iterative" else nullcontext():
        expected = imputer.fit_transform((values - mean) / spread) * spread + mean
    low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
    np.testing.assert_allclose(done, np.clip(expected, low, high), atol=1e-6 if settings.completer == "knn" else 0.05)


def test_imputers_fill_categories_with_many_levels() -> None:
    rows = 600
    rng = np.random.default_rng(1)
    place = rng.integers(0, 40, rows)
    frame = pl.DataFrame({"id": range(rows), "x": (place % 3) * 5 + rng.normal(size=rows), "code": place.astype(str)})
    kind = pl.Series(np.array(["a", "b", "c"])[place % 3])
    table = table_from_frame(frame.with_columns(kind=kind), "id", "telco", {"code": "category"})
    mask = np.zeros((rows, 3), np.bool_)
    mask[:200, 1:] = True
    # A line through 0 and 1 cannot tell the level in the middle from those beside it.
    for settings, right in ((KnnSettings(levels=5), 0.9), (IterativeSettings(levels=5, iterations=2), 0.6)):
        done = filled(settings, table, mask).table.frame[:200]
        assert (done["kind"] == table.frame["kind"][:200]).mean() > right
        assert set(done["code"]) <= set(frame["code"][200:])
