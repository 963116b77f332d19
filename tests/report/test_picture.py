from __future__ import annotations

from itertools import combinations, permutations

import pytest

from unpooled.report.picture import BOX_HEIGHT, BOX_WIDTH, Picture, Point, picture_of

LETTER_WIDTH, LETTER_HEIGHT = 12.5, 22
"""Of a flow's label where it is written largest, on a telephone."""


def drawn(count: int, size: int = 123_456_789) -> Picture:
    names = [f"party-{number}" for number in range(count)]
    return picture_of(names, dict.fromkeys(permutations(names, 2), size))


def apart(a: Point, b: Point, width: float, height: float) -> bool:
    return abs(a.x - b.x) >= width or abs(a.y - b.y) >= height


def test_boxes_are_inside_and_apart() -> None:
    for count in range(2, 31):
        picture = drawn(count)
        for box in picture.boxes.values():
            assert BOX_WIDTH / 2 <= box.x <= picture.width - BOX_WIDTH / 2, count
            assert BOX_HEIGHT / 2 <= box.y <= picture.height - BOX_HEIGHT / 2, count
        for a, b in combinations(picture.boxes.values(), 2):
            assert apart(a, b, BOX_WIDTH, BOX_HEIGHT), count
        assert len(picture.connectors) == count * (count - 1) / 2


@pytest.mark.parametrize("count", [2, 3, 4])
def test_numbers_do_not_touch_each_other_or_a_box(count: int) -> None:
    picture = drawn(count)
    labels = [label for connector in picture.connectors for label in connector.labels]
    assert len(labels) == count * (count - 1)
    width = LETTER_WIDTH * max(len(label.text) for label in labels)
    for a, b in combinations(labels, 2):
        assert apart(a.at, b.at, width, LETTER_HEIGHT), (a, b)
    for label in labels:
        for box in picture.boxes.values():
            assert apart(label.at, box, (width + BOX_WIDTH) / 2, (LETTER_HEIGHT + BOX_HEIGHT) / 2), (label, box)


def test_many_parties_have_lines_without_numbers() -> None:
    picture = drawn(5)
    assert not picture.numbered
    assert not any(connector.labels for connector in picture.connectors)


def test_a_number_stands_near_its_sender_and_points_away() -> None:
    picture = picture_of(["left", "right"], {("left", "right"): 8_021_488, ("right", "left"): 36})
    there, back = picture.connectors[0].labels
    assert (there.text, back.text) == ("→ 8.0 MB", "← 36 bytes")
    assert picture.boxes["left"].x < there.at.x < back.at.x < picture.boxes["right"].x


def test_only_known_connections_have_a_line() -> None:
    picture = picture_of(["a", "b", "c"], {("a", "b"): 1, ("b", "a"): 2})
    assert len(picture.boxes) == 3
    assert len(picture.connectors) == 1
