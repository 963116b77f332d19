"""Fixed point: exact where it can be, the nearest step where not, an error beyond its range."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unpooled.errors import InputError
from unpooled.secure.fixedpoint import FixedPoint, largest_sums


@given(st.integers(0, 30), st.lists(st.floats(-100, 100), max_size=20))
def test_a_value_becomes_the_nearest_step(bits: int, values: list[float]) -> None:
    scale = FixedPoint(bits, 100.0)
    numbers = scale.encode(np.array(values, float), "x")
    assert numbers.dtype == np.int64
    assert all(abs(int(number) - value * 2**bits) <= 0.5 for number, value in zip(numbers, values, strict=True))
    assert not numbers.size or np.abs(numbers).max() <= scale.bound


@given(st.integers(-(2**15), 2**15))
def test_steps_come_back_exactly(number: int) -> None:
    scale = FixedPoint(15, 1.0)
    assert scale.encode(scale.decode(np.array([number])), "x").tolist() == [number]


def test_ties_go_to_the_even_step() -> None:
    assert FixedPoint(0, 10.0).encode(np.array([0.5, 1.5, 2.5, -0.5, -1.5]), "x").tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize("value", [1.0001, -2.0, np.nan, np.inf, -np.inf])
def test_what_does_not_fit_is_refused_without_showing_it(value: float) -> None:
    with pytest.raises(InputError, match=r"bank: g\b") as caught:
        FixedPoint(15, 1.0).encode(np.array([0.0, value]), "bank: g")
    assert "1.0001" not in str(caught.value)


@pytest.mark.parametrize(("bits", "largest"), [(-1, 1.0), (53, 1.0), (10, np.inf), (10, -1.0), (40, 10_000.0)])
def test_impossible_scales_are_refused(bits: int, largest: float) -> None:
    with pytest.raises(InputError, match="fixed point"):
        FixedPoint(bits, largest)


@given(st.lists(st.lists(st.integers(-1000, 1000), min_size=2, max_size=2), max_size=6))
def test_the_largest_sums_are_those_of_all_choices_of_rows(rows: list[list[int]]) -> None:
    numbers = np.array(rows, np.int64).reshape(-1, 2)
    choices = [[rows[i] for i in range(len(rows)) if choice >> i & 1] for choice in range(1 << len(rows))]
    expected = [max(abs(sum(row[column] for row in chosen)) for chosen in choices) for column in range(2)]
    assert largest_sums(numbers) == expected
