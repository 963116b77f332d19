"""Generated rows beside real ones: distances and their floor, associations, and what shows memorised rows."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from unpooled.arrays import Floats
from unpooled.data.coding import Column
from unpooled.data.table import Table, table_from_frame
from unpooled.evaluate.generated import MOST_COLUMNS, judge_generated
from unpooled.evaluate.side_by_side import OTHERS, side_by_side

SIZES = ("small", "middle", "large")


def table(rows: int, seed: int, tied: float = 0.9, missing: float = 0.2) -> Table:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = tied * x + (1 - tied**2) ** 0.5 * rng.normal(size=rows)
    frame = pl.DataFrame(
        {
            "x": x,
            "y": pl.Series(y).set(pl.Series(rng.random(rows) < missing), None),
            "side": np.where(x > 0, "right", "left"),
            "size": pl.Series(SIZES, dtype=pl.Enum(SIZES)).gather(np.digitize(y, [-0.5, 0.5])),
        }
    )
    return table_from_frame(frame, (), "telco")


def test_rows_of_the_same_distribution_are_as_far_as_held_out_ones() -> None:
    found = judge_generated(table(900, 1), table(900, 2), table(300, 3), np.random.default_rng(1))
    assert (found.rows, found.training, found.held_out, found.compared) == (900, 900, 300, 300)
    for generated, floor in found.means.values():
        assert floor
        assert generated / floor == pytest.approx(1.0, abs=0.75)
    assert [sorted(column.distances) for column in found.columns] == [
        ["ks", "wasserstein"],
        ["ks", "wasserstein"],
        ["total_variation"],
        ["total_variation"],
    ]
    assert found.columns[1].missing == pytest.approx((0.2, 0.2), abs=0.04)
    near = found.nearest
    assert near
    assert near.nearer_to_training == pytest.approx(0.5, abs=0.08)
    assert near.median_to_training == pytest.approx(near.held_out_median, rel=0.3)
    assert (found.copies, found.held_out_copies) == (0, 0)


def test_lost_associations_show() -> None:
    found = judge_generated(table(600, 1, tied=0.0), table(600, 2), table(600, 3), np.random.default_rng(1))
    generated, floor = found.means["association"]
    assert floor
    assert generated > 4 * floor
    places = found.associations.columns
    x, y, side = places.index("x"), places.index("y"), places.index("side")
    assert found.associations.real[x][y] == pytest.approx(0.9, abs=0.05)
    assert abs(found.associations.generated[x][y]) < 0.15
    assert found.associations.difference[x][y] == pytest.approx(-0.9, abs=0.15)
    assert found.associations.real[x][side] == found.associations.real[side][x] > 0.7


def test_copies_show_in_every_figure() -> None:
    training, held_out = table(200, 1), table(200, 2)
    copied = training.take(np.random.default_rng(3).integers(200, size=500))
    found = judge_generated(copied, training, held_out, np.random.default_rng(1))
    assert (found.copies, found.held_out_copies) == (500, 0)
    assert found.nearest
    assert found.nearest.nearer_to_training == 1.0
    assert found.nearest.median_to_training == 0.0 < found.nearest.median_to_held_out


def test_without_held_out_rows_there_is_no_floor() -> None:
    found = judge_generated(table(100, 1), table(100, 2), None, np.random.default_rng(1))
    assert found.nearest is None
    assert found.held_out == 0
    assert {floor for _, floor in found.means.values()} == {None}
    assert found.associations.held_out == ()
    assert found.compared == 100


def test_unusual_tables() -> None:
    """One column, no values at all, levels that only some rows have, and very many columns."""

    def odd(levels: str, rows: int = 40) -> Table:
        cells = pl.Series([*levels]).gather(np.arange(rows) % len(levels))
        frame = pl.DataFrame({"level": cells, "nothing": pl.Series([None] * rows, dtype=pl.Float64)})
        return table_from_frame(frame, (), "telco")

    found = judge_generated(odd("ab"), odd("abc"), odd("abd"), np.random.default_rng(1))
    assert found.columns[0].distances["total_variation"] == pytest.approx(1 / 3, abs=0.05)
    assert found.columns[1].distribution is None
    assert found.columns[1].missing == (1.0, 1.0)
    alone = table_from_frame(pl.DataFrame({"x": range(40)}), (), "telco")
    assert "association" not in judge_generated(alone, alone, None, np.random.default_rng(1)).means
    values = np.random.default_rng(1).normal(size=(50, MOST_COLUMNS + 5))
    wide = table_from_frame(pl.DataFrame(values, schema=[f"c{n}" for n in range(MOST_COLUMNS + 5)]), (), "telco")
    assert len(judge_generated(wide, wide, wide, np.random.default_rng(1)).associations.columns) == MOST_COLUMNS


def number(values: Floats, whole: bool = False) -> Column:
    low, high = float(values.min()), float(values.max())
    return Column(name="x", kind="number", low=low, high=high, whole=whole, spread=1.0)


def test_long_tails_are_cut_only_if_asked() -> None:
    cells = np.append(np.linspace(0.0, 10.0, 999), 1000.0)
    whole, cut = (side_by_side(number(cells), cells, cells, cut=asked) for asked in (False, True))
    assert (whole.edges[-1], whole.cut, whole.first[0]) == (1000.0, False, 0.999)
    assert cut.cut
    assert cut.edges[-1] == pytest.approx(9.9, abs=0.1)
    assert sum(cut.first) == pytest.approx(1.0)
    even = np.linspace(0.0, 10.0, 999)
    assert not side_by_side(number(even), even, even, cut=True).cut


def test_rare_levels_are_put_together() -> None:
    levels = tuple(f"level {place:02}" for place in range(30))
    column = Column(name="x", kind="category", levels=levels, low=0.0, high=29.0, whole=True, spread=1.0)
    cells = np.repeat(np.arange(30.0), np.arange(30, 0, -1))
    found = side_by_side(column, cells, cells[:30])
    assert (len(found.levels), found.levels[0], found.levels[-1]) == (12, "level 00", OTHERS)
    assert sum(found.first) == pytest.approx(1.0)
    assert found.second[0] == 1.0
    assert found.apart > 0.9
