"""Pictures of tables: blocks of people, heat maps, intervals, and pairs of distributions."""

from __future__ import annotations

import pytest

from unpooled.drawing.blocks import LABELS, WIDTH, blocks_of
from unpooled.drawing.matrix import COLUMNS_SHOWN, Estimate, intervals_of, matrix_of
from unpooled.drawing.pairs import pair_chart

WORDS = ("a", "b", "c")


def test_blocks_are_as_wide_as_their_people_are_many() -> None:
    drawn = blocks_of([("age", ({}, {"real": 150, "predicted": 50}, {"predicted": 200}))], (0, 200, 200), WORDS)
    assert drawn.to_scale
    assert [(one.count, one.words) for one in drawn.headings] == [(200, "b"), (200, "c")]
    real, first, second = drawn.lines[0].pieces
    assert real.width == pytest.approx(3 * first.width, abs=0.1)
    assert second.width == pytest.approx(real.width + first.width, abs=0.2)
    assert real.left == LABELS
    assert second.left + second.width == pytest.approx(WIDTH, abs=5)


def test_a_small_block_is_wide_enough_for_its_heading_and_that_is_said() -> None:
    parts = ({"outside": 1}, {"real": 10}, {"generated": 100_000})
    drawn = blocks_of([("age", parts)], (1, 10, 100_000), WORDS)
    assert not drawn.to_scale
    assert min(piece.width for piece in drawn.lines[0].pieces) > 100
    assert all(piece.left + piece.width <= WIDTH for piece in drawn.lines[0].pieces)


def test_cells_beyond_the_line_are_outlined_and_the_strongest_columns_come_first() -> None:
    drawn = matrix_of(["age", "sex"], [[0.25, -0.75], [0.5, 0.0]], 0.5, [0.75, 0.5], [True, False], 0.5)
    assert [(one.shade, one.negative, one.beyond) for one in drawn.cells] == [
        (0.75, True, True),
        (0.25, False, False),
        (0.0, False, False),
        (0.5, False, False),
    ]
    assert drawn.cells[0].title == "age, column 1: -0.75"
    strong, weak = drawn.strengths
    assert (strong.passes, weak.passes) == (True, False)
    assert drawn.line == pytest.approx(drawn.strengths_left + weak.width)


def test_of_very_many_columns_the_weakest_are_left_out() -> None:
    values = [[place / 1000 for place in range(100)]]
    drawn = matrix_of(["age"], values, None, [None], [False], None)
    assert (len(drawn.cells), drawn.left_out, drawn.strengths) == (COLUMNS_SHOWN, 100 - COLUMNS_SHOWN, ())
    assert drawn.cells[0].shade == 0.099
    assert max(cell.left for cell in drawn.cells) + drawn.cell <= WIDTH
    alone = matrix_of(["age"], [], None, [0.25], [True], None)
    assert (alone.cells, alone.scale, alone.strengths_right) == ((), (), WIDTH)


def test_what_is_worse_than_nothing_has_an_arrow_instead_of_a_dot() -> None:
    drawn = intervals_of(
        [Estimate("age", 0.5, 0.25, 0.75, 0.0, "0.50"), Estimate("sex", -2.0, -3.0, -1.0, 0.0, "−2.00")]
    )
    good, bad = drawn.whiskers
    assert good.low < good.at < good.high
    assert (good.below, bad.below) == (False, True)
    assert bad.low == bad.high == bad.guess == dict(drawn.ticks)["0"]


def test_a_pair_of_distributions_has_columns_and_a_line() -> None:
    drawn = pair_chart([-0.5, 0.5, 1.5], [0.25, 0.75], [0.5, 0.5], dates=False)
    low, high = drawn.columns
    assert high.height == pytest.approx(3 * low.height, abs=0.3)
    assert drawn.curve.count("H") == 2
    assert [tick.text for tick in drawn.x_ticks] == ["-0.5", "0", "0.5", "1", "1.5"]
    days = pair_chart([18_000.0, 18_500.0, 19_000.0], [0.5, 0.5], [1.0, 0.0], dates=True)
    assert days.x_ticks[0].text == "2019-04"
    assert days.y_ticks[-1].text == "100 %"
