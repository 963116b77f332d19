"""Pictures with two axes: everything lies in the field, and no two labels touch."""

from __future__ import annotations

import re
from itertools import pairwise, product

import numpy as np
import pytest

from unpooled.drawing.chart import (
    HEIGHT,
    LETTER,
    WIDTH,
    Chart,
    calibration_chart,
    expected_chart,
    histogram_chart,
    loss_chart,
    precision_recall_chart,
    roc_chart,
)

RANGES = [
    (0.0, 1.0),
    (-3.0, 104.0),
    (5.0, 5.0),
    (0.0, 0.0),
    (-20_000.0, 1_000_000.0),
    (999_999.99, 1_000_000.01),
    (1e7, 1.0000001e7),
    (-1e-7, 2e-6),
    (1e-310, 2e-310),
    (-1e150, 1e150),
    (1234.5, 1234.6),
]


def points(path: str) -> list[tuple[float, float]]:
    """The corners of a path that knows M, L, H and V."""
    found = [(0.0, 0.0)]
    for command, first, second in re.findall(r"([MLHV])(-?[\d.]+)(?: (-?[\d.]+))?", path):
        x, y = found[-1]
        found.append({"H": (float(first), y), "V": (x, float(first))}.get(command) or (float(first), float(second)))
    return found[1:]


def check_frame(chart: Chart) -> None:
    """Labels are apart, beside the field and within the picture."""
    assert 0 < chart.left < chart.right < WIDTH
    assert 0 < chart.top < chart.bottom < HEIGHT
    for one, other in pairwise(chart.x_ticks):
        assert other.at - one.at >= (len(one.text) + len(other.text)) / 2 * LETTER
    for tick in chart.x_ticks:
        assert chart.left <= tick.at <= chart.right
        assert tick.at - len(tick.text) / 2 * LETTER >= 0
        assert tick.at + len(tick.text) / 2 * LETTER <= WIDTH
    for one, other in pairwise(chart.y_ticks):
        assert one.at - other.at >= 25
    assert all(len(tick.text) * LETTER <= chart.left - 8 for tick in chart.y_ticks)
    assert len({tick.text for tick in chart.y_ticks}) == len(chart.y_ticks) >= 3


def check_within(chart: Chart, path: str) -> None:
    assert all(chart.left <= x <= chart.right and chart.top <= y <= chart.bottom for x, y in points(path))


def test_a_roc_curve_goes_from_corner_to_corner() -> None:
    chart = roc_chart([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    check_frame(chart)
    middle, height = (chart.left + chart.right) / 2, (chart.top + chart.bottom) / 2
    corners = [(chart.left, chart.bottom), (chart.left, height), (middle, chart.top), (chart.right, chart.top)]
    assert points(chart.curve) == corners
    assert points(chart.area)[-2:] == [(chart.right, chart.bottom), (chart.left, chart.bottom)]
    assert points(chart.reference) == [(chart.left, chart.bottom), (chart.right, chart.top)]
    assert [tick.text for tick in chart.x_ticks] == ["0", "0.25", "0.5", "0.75", "1"]


def test_a_second_curve_is_on_the_same_scale() -> None:
    one, other = ([0.5, 1.0], [1.0, 0.25]), ([0.25, 1.0], [0.5, 0.25])
    chart = precision_recall_chart(*one, other)
    assert chart.second == precision_recall_chart(*other).curve
    assert (chart.curve, precision_recall_chart(*one).second) == (precision_recall_chart(*one).curve, "")


def test_precision_falls_in_steps_to_the_share_of_the_class() -> None:
    chart = precision_recall_chart([0.5, 1.0], [1.0, 0.25])
    check_frame(chart)
    check_within(chart, chart.area)
    middle, quarter = (chart.left + chart.right) / 2, chart.bottom - (chart.bottom - chart.top) / 4
    steps = [(chart.left, chart.top), (middle, chart.top), (middle, quarter), (chart.right, quarter)]
    assert list(dict.fromkeys(points(chart.curve))) == steps
    assert points(chart.reference) == [(chart.left, quarter), (chart.right, quarter)]


def test_calibration_has_one_scale_for_both_axes() -> None:
    for low, high in RANGES:
        predicted, observed = np.linspace(low, high, 10).tolist(), np.linspace(high, low, 10).tolist()
        chart = calibration_chart(predicted, observed, shares=False)
        check_frame(chart)
        check_within(chart, chart.curve)
        assert points(chart.reference) == [(chart.left, chart.bottom), (chart.right, chart.top)], (low, high)
        assert {tick.text for tick in chart.x_ticks} <= {tick.text for tick in chart.y_ticks}, (low, high)
        assert [(dot.x, dot.y) for dot in chart.dots] == points(chart.curve), (low, high)


def test_calibration_of_shares_shows_all_from_0_to_1() -> None:
    chart = calibration_chart([0.1, 0.2], [0.1, 0.2], shares=True)
    assert [tick.text for tick in chart.y_ticks] == ["0", "0.25", "0.5", "0.75", "1"]
    for dot in chart.dots:
        across = (dot.x - chart.left) / (chart.right - chart.left)
        assert (chart.bottom - dot.y) / (chart.bottom - chart.top) == pytest.approx(across, abs=0.001)


def test_columns_are_as_high_as_they_are_many() -> None:
    for (low, high), most in product(RANGES, [0, 1, 17, 4_000_000]):
        counts = [0, most // 2, most]
        chart = histogram_chart(np.linspace(low, high, 4).tolist(), counts, "score")
        check_frame(chart)
        heights = [column.height for column in chart.columns]
        assert heights[0] == 0, (low, high, most)
        assert heights[1] == pytest.approx(heights[2] * counts[1] / (counts[2] or 1), abs=0.2), (low, high, most)
        for column in chart.columns:
            assert chart.left <= column.left, (low, high, most)
            assert column.left + column.width <= chart.right + 1, (low, high, most)
            assert column.top >= chart.top, (low, high, most)
            assert column.top + column.height == pytest.approx(chart.bottom), (low, high, most)


def test_columns_stand_beside_each_other() -> None:
    columns = histogram_chart(np.linspace(0, 1, 21).tolist(), [5] * 20, "score").columns
    assert len(columns) == 20
    assert all(one.left + one.width < other.left for one, other in pairwise(columns))


def test_counts_of_rows_are_whole() -> None:
    chart = histogram_chart([0.0, 1.0], [1], "score")
    assert [tick.text for tick in chart.y_ticks] == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("losses", [[0.5], [0.25, 0.25], [1.0, 0.4, 0.3, 0.35], list(np.linspace(0.3, 0.1, 100))])
def test_a_loss_falls_from_left_to_right(losses: list[float]) -> None:
    chart = loss_chart(losses)
    check_frame(chart)
    found = points(chart.curve)
    assert len(found) == len(losses)
    for (x, y), (next_x, next_y), loss, after in zip(found, found[1:], losses, losses[1:], strict=False):
        assert chart.left <= x < next_x <= chart.right
        assert (next_y > y) == (after < loss)
    assert all(chart.top <= y <= chart.bottom for _, y in found)
    assert len(chart.dots) == (len(losses) == 1)


def test_what_is_expected_lies_in_its_band() -> None:
    lengths, expected = [10.0, 40.0, 80.0], [0.5, 0.25, 0.25]
    chart = expected_chart(lengths, expected, ([0.25, 0.0, 0.0], [1.0, 0.5, 0.25]), suggested=40.0, here=(80.0, 0.25))
    corners = [tuple(map(float, corner.split())) for corner in chart.area.strip("MZ").split("L")]
    assert [x for x, _ in corners] == [x for x, _ in corners][::-1]
    assert corners[-1][1] == chart.top
    points = [tuple(map(float, point.split())) for point in chart.curve.strip("M").split("L")]
    assert chart.reference == f"M{points[1][0]} {chart.bottom}V{chart.top}"
    assert (chart.dots[0].x, chart.dots[0].y) == points[2]
    for (_, low), (_, middle), (_, high) in zip(corners[:3], points, corners[:2:-1], strict=True):
        assert low >= middle >= high, "upwards is less"
