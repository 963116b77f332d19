"""How alike two tables are whose rows do not belong to each other."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from scipy.stats import ks_2samp, kurtosis, skew, spearmanr, wasserstein_distance

from unpooled.data.table import Table, table_from_frame
from unpooled.errors import InputError
from unpooled.evaluate.alike import how_alike

LEVELS = ("low", "middle", "high")


def rows_of(seed: int, count: int, shift: float = 0.0) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(shift, size=count)
    frame = pl.DataFrame(
        {
            "id": range(count),
            "x": np.exp(x),
            "y": x + 0.2 * rng.normal(size=count),
            "text": np.where(x > 0, "up", "down"),
            "size": np.array(LEVELS)[np.digitize(x, [-0.5, 0.5])],
        }
    )
    return table_from_frame(frame, "id", "telco", {"size": LEVELS})


def test_a_table_is_like_itself_in_any_order() -> None:
    table = rows_of(1, 200)
    found = how_alike(table.take(np.random.default_rng(2).permutation(200)), table)
    assert found.means == pytest.approx(dict.fromkeys(found.means, 0.0), abs=1e-12)
    assert set(found.means) >= {"ks", "wasserstein", "total_variation", "kurtosis", "missing", "association"}
    assert len(found.pairs) == 6


def test_distances_are_those_of_scipy() -> None:
    one, two = rows_of(1, 300, shift=0.3), rows_of(2, 200)
    found = how_alike(one, two)
    made, real = one.frame["x"].to_numpy(), two.frame["x"].to_numpy()
    expected = {
        "ks": ks_2samp(made, real).statistic,
        "wasserstein": wasserstein_distance(made, real) / real.std(),
        "mean": abs(made.mean() - real.mean()) / real.std(),
        "variance": abs(made.var() / real.var() - 1),
        "skewness": abs(skew(made) - skew(real)) / (1 + abs(skew(real))),
        "kurtosis": abs(kurtosis(made) - kurtosis(real)) / (1 + abs(kurtosis(real))),
        "missing": 0.0,
    }
    assert found.columns["x"] == pytest.approx(expected)
    ups = [(table.frame["text"] == "up").mean() for table in (one, two)]
    assert found.columns["text"]["total_variation"] == pytest.approx(abs(ups[0] - ups[1]))
    both = [spearmanr(table.frame["x"], table.frame["y"]).statistic for table in (one, two)]
    assert found.pairs["x", "y"] == pytest.approx(abs(both[0] - both[1]))


def test_columns_drawn_by_themselves_lose_only_their_association() -> None:
    table = rows_of(1, 500)
    rng = np.random.default_rng(3)
    columns = [table.frame[name][rng.permutation(500)] for name in table.kinds]
    means = how_alike(replace(table, frame=table.ids.with_columns(columns)), table).means
    assert means["ks"] == means["total_variation"] == 0
    assert means["association"] > 0.5


def test_missing_cells_are_told_and_left_out() -> None:
    table = rows_of(1, 100)
    gaps = pl.when(pl.int_range(pl.len()) < 25).then(None)
    lacking = replace(table, frame=table.frame.with_columns(gaps.otherwise(pl.col("text", "y")).name.keep()))
    found = how_alike(lacking, table)
    assert found.columns["text"]["missing"] == found.columns["y"]["missing"] == 0.25
    assert found.columns["x"]["missing"] == 0
    empty = replace(table, frame=table.frame.with_columns(pl.lit(None, pl.Float64).alias("y")))
    assert how_alike(empty, table).columns["y"] == {"missing": 1.0}
    assert ("x", "y") not in how_alike(empty, table).pairs


def test_a_constant_column_has_no_spread_to_divide_by() -> None:
    table = rows_of(1, 50)
    constant = replace(table, frame=table.frame.with_columns(y=pl.lit(2.0)))
    assert how_alike(constant, constant).columns["y"] == {"missing": 0, "ks": 0, "skewness": 0, "kurtosis": 0}


def test_what_cannot_be_compared_is_refused() -> None:
    table = rows_of(1, 50)
    with pytest.raises(InputError, match="there are no rows to compare"):
        how_alike(table.take(np.arange(0)), table)
    other = table_from_frame(table.frame.drop("text"), "id", "telco", {"size": LEVELS})
    with pytest.raises(InputError, match="text"):
        how_alike(table, other)
