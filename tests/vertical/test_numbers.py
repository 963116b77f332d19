"""Numbers that decide a model: accurate, the same however they are computed, and whole numbers within their bounds."""

import hashlib
import math
import sys
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unpooled.arrays import Floats
from unpooled.errors import InputError
from unpooled.vertical import numbers
from unpooled.vertical.numbers import (
    exact_sum,
    exp,
    log,
    mean_of,
    sigmoid,
    softmax,
    to_integers,
    to_short_integers,
)

BIG = 2.0**500

some_floats = st.floats(-1e6, 1e6)
matrices = arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(0, 4)), elements=st.floats(-BIG, BIG))


def from_integers(numbers: np.ndarray, exponents: list[int]) -> np.ndarray:
    """The values that whole numbers stand for; the last axis is that of the columns, each with its exponent."""
    return numbers.astype(np.float64) * np.ldexp(1.0, -np.array(exponents, np.int32))


def drawing(rows: int) -> Callable[[], Floats]:
    rng = np.random.default_rng(5)
    return lambda: rng.random(rows)


def off(computed: Floats, points: Floats, reference: Callable[[float], float]) -> float:
    """The largest relative error; where the reference is 0, the largest absolute one."""
    expected = np.array([reference(point) for point in points.tolist()])
    return float((np.abs(computed - expected) / np.where(expected == 0.0, 1.0, np.abs(expected))).max())


# exp and log


def test_exp_is_accurate_everywhere() -> None:
    rng = np.random.default_rng(1)
    halves = (np.arange(-1000, 1000) + 0.5) * math.log(2)  # where the reduction changes its power of two
    spots = np.array([0.0, -0.0, 1.0, -1.0, 1e-300, -1e-300, 5e-324, 700.0, -700.0, -708.0, 709.0])
    points = np.concatenate([np.linspace(-700, 700, 100_001), rng.normal(size=20_000), halves, spots])
    assert off(exp(points), points, math.exp) < 1e-15


def test_exp_at_and_beyond_its_ends() -> None:
    ends = exp(np.array([-708.0, -708.01, -745.0, -746.0, -1e308, -np.inf, 709.0, 710.0, 1e308, np.inf]))
    assert ends[0] >= sys.float_info.min
    assert ends[1:6].tolist() == [0.0] * 5
    assert np.isfinite(ends).all()
    assert set(ends[6:].tolist()) == {ends[6]}


def test_log_is_accurate_everywhere() -> None:
    rng = np.random.default_rng(2)
    near_one = np.concatenate([1.0 + rng.normal(size=10_000) * 1e-6, np.nextafter(1.0, [0.0, 2.0])])
    around_the_seam = math.sqrt(0.5) * 2.0 ** np.arange(-1000, 1000) * (1.0 + rng.normal(size=2000) * 1e-12)
    spots = np.array([1.0, 5e-324, 1e-310, sys.float_info.min, sys.float_info.max, 0.5, 2.0])
    spread = 10.0 ** rng.uniform(-307, 308, 50_000)
    points = np.concatenate([near_one, around_the_seam, spots, spread, rng.uniform(0.1, 10.0, 50_000)])
    assert off(log(points), points, math.log) < 1e-15


def test_log_undoes_exp() -> None:
    points = np.linspace(-700, 700, 5001)
    np.testing.assert_allclose(log(exp(points)), points, rtol=1e-14, atol=1e-14)


def test_the_two_parts_of_ln_2_make_it_up() -> None:
    with localcontext() as context:
        context.prec = 60
        rest = Decimal(2).ln() - Decimal(numbers._LN2_HIGH)
        assert float(rest) == numbers._LN2_LOW
    assert Fraction(numbers._LN2_HIGH).numerator < 2**28


def test_shapes_stay_and_inputs_are_left_alone() -> None:
    for shape in [(0,), (3,), (2, 3), ()]:
        x = np.full(shape, 0.5)
        for function in (exp, log, sigmoid):
            assert function(x).shape == shape
        assert (x == 0.5).all()


def test_what_has_no_exp_or_log_is_refused() -> None:
    with pytest.raises(InputError, match="number"):
        exp(np.array([0.0, np.nan]))
    for value in (0.0, -0.0, -1.0, np.nan, np.inf, -np.inf):
        with pytest.raises(InputError, match="positive"):
            log(np.array([1.0, value]))


# sigmoid and softmax


def test_sigmoid_is_accurate_on_both_sides() -> None:
    def reference(x: float) -> float:
        return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))

    points = np.linspace(-690, 36, 50_001)
    assert off(sigmoid(points), points, reference) < 1e-15


def test_sigmoid_rises_and_stays_inside() -> None:
    points = np.linspace(-30, 30, 200_001)
    rises = np.diff(sigmoid(points))
    assert (rises >= 0).all()
    assert (rises[points[1:] < 10] > 0).all()  # further up, values so near to 1 have the same neighbour
    far = sigmoid(np.array([-np.inf, -1e308, -800.0, -700.0, 36.0, 37.0, 800.0, 1e308, np.inf]))
    assert (np.diff(far) >= 0).all()
    assert far.min() > 0.0
    assert far.max() < 1.0
    assert np.isfinite(log(far)).all()
    assert np.isfinite(log(1.0 - far)).all()
    assert sigmoid(np.array([0.0, -0.0])).tolist() == [0.5, 0.5]


@settings(deadline=None)
@given(st.floats(allow_nan=False))
def test_sigmoid_is_symmetric(x: float) -> None:
    both = sigmoid(np.array([x, -x]))
    assert both.sum() == pytest.approx(1.0, abs=3e-16)


def test_sigmoid_refuses_what_is_not_a_number() -> None:
    with pytest.raises(InputError, match="number"):
        sigmoid(np.array([1.0, np.nan]))


@settings(deadline=None)
@given(arrays(np.float64, st.tuples(st.integers(0, 8), st.integers(1, 6)), elements=st.floats(-50, 50)))
def test_softmax_is_the_quotient_it_says(scores: Floats) -> None:
    result = softmax(scores)
    assert result.shape == scores.shape
    for row, chances in zip(scores.tolist(), result.tolist(), strict=True):
        powers = [math.exp(score - max(row)) for score in row]
        assert chances == pytest.approx([power / sum(powers) for power in powers], rel=1e-13)
        assert sum(chances) == pytest.approx(1.0, abs=1e-14)


def test_softmax_of_two_is_the_sigmoid_of_the_difference() -> None:
    x = np.linspace(-30, 30, 1001)
    np.testing.assert_allclose(softmax(np.stack([np.zeros_like(x), x], axis=1))[:, 1], sigmoid(x), rtol=1e-14)


def test_softmax_of_scores_far_apart_is_never_zero() -> None:
    result = softmax(np.array([[-1e100, 0.0, 1e100], [0.0, -800.0, 800.0], [-3e5, -3e5, -3e5]]))
    assert result.min() > 0.0
    assert result.max() <= 1.0
    assert result[2].tolist() == [1 / 3] * 3


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_softmax_refuses_what_is_not_a_number(value: float) -> None:
    with pytest.raises(InputError, match="softmax"):
        softmax(np.array([[0.0, value]]))
    with pytest.raises(InputError, match="classes"):
        softmax(np.empty((3, 0)))


# The same bits


def results(x: Floats) -> list[Floats]:
    pairs = np.stack([x, -0.5 * x, x * x / 64.0], axis=1)
    whole, exponents = to_integers(pairs)
    totals = np.array([exact_sum(x * x), mean_of(x, np.abs(x))])
    return [exp(x), log(np.abs(x) + 0.125), sigmoid(x), softmax(pairs), from_integers(whole, exponents), totals]


def digest() -> str:
    x = np.arange(-20_000, 20_000) / 64.0
    return hashlib.sha256(b"".join(np.ascontiguousarray(one).tobytes() for one in results(x))).hexdigest()


def test_the_processors_extensions_change_nothing(digest_without_extensions: Callable[[str], str]) -> None:
    """numpy's own exp and log fail this test on processors with AVX-512."""
    assert digest_without_extensions(__file__) == digest()


def test_neighbours_and_layout_change_nothing() -> None:
    x = np.random.default_rng(3).normal(size=203) * 10.0
    for function in (exp, sigmoid, lambda x: log(np.abs(x))):
        together = function(x)
        assert [function(x[i : i + 1])[0] for i in range(len(x))] == together.tolist()
        assert function(x[::-3]).tolist() == together[::-3].tolist()
    scores = x[:200].reshape(50, 4)
    assert softmax(np.asfortranarray(scores)).tolist() == softmax(scores).tolist()
    assert np.concatenate([softmax(row[np.newaxis]) for row in scores]).tolist() == softmax(scores).tolist()


# Whole numbers


@settings(deadline=None)
@given(matrices, st.integers(8, 31))
def test_whole_numbers_are_the_nearest_and_use_their_bits(values: Floats, bits: int) -> None:
    whole, exponents = to_integers(values, bits)
    assert whole.shape == values.shape
    assert whole.dtype == np.int64
    assert len(exponents) == values.shape[1]
    for column, exponent in enumerate(exponents):
        step = Fraction(2) ** -exponent
        exact = [Fraction(value) / step for value in values[:, column].tolist()]
        assert all(abs(int(n) - v) <= Fraction(1, 2) for n, v in zip(whole[:, column], exact, strict=True))
        largest = max(map(abs, exact), default=Fraction(0))
        if largest == 0:
            assert exponent == 0
        else:
            assert largest <= 2**bits - 1
            assert exponent == 500 or 2 * largest > 2**bits - 1
    back = from_integers(whole, exponents)
    assert np.isfinite(back).all()
    assert (np.abs(back - values) <= np.ldexp(0.5, -np.array(exponents, np.int32))).all()


@settings(deadline=None)
@given(st.integers(8, 31), st.data())
def test_whole_numbers_come_back_exactly(bits: int, data: st.DataObject) -> None:
    most = 2**bits - 1
    column = data.draw(st.lists(st.integers(-most, most), min_size=1, max_size=9))
    exponent = data.draw(st.integers(-400, 400))
    values = from_integers(np.array([column]).T, [exponent])
    assert [Fraction(value) for value in values[:, 0]] == [number * Fraction(2) ** -exponent for number in column]
    whole, exponents = to_integers(values, bits)
    assert from_integers(whole, exponents).tolist() == values.tolist()


@pytest.mark.parametrize("bits", [8, 16, 31])
def test_the_bound_is_reached_and_never_passed(bits: int) -> None:
    most = 2.0**bits - 1.0
    cases = {
        most: 0,
        np.nextafter(most, 0): 0,
        np.nextafter(most, np.inf): -1,
        most + 0.5: -1,
        most + 1: -1,
        1.0: bits - 1,
    }
    for value, exponent in cases.items():
        whole, exponents = to_integers(np.array([[value], [-value]]), bits)
        assert exponents == [exponent]
        assert np.abs(whole).max() <= most


def test_columns_have_scales_of_their_own() -> None:
    values = np.array([[1e-9, 0.0, 4e7, -0.25], [-3e-9, 0.0, 1.0, 0.75]])
    whole, exponents = to_integers(values)
    assert exponents[1] == 0
    for column in range(4):
        alone, exponent = to_integers(values[:, [column]])
        assert exponent == [exponents[column]]
        assert alone[:, 0].tolist() == whole[:, column].tolist()


def test_very_small_and_very_large_values() -> None:
    whole, exponents = to_integers(np.array([[5e-324, 1e-160, BIG, 1e-151]]))
    assert exponents[0] == exponents[1] == 500
    assert whole[0, :2].tolist() == [0, 0]
    assert from_integers(whole, exponents)[0, 2] == BIG
    assert whole[0, 3] == round(Fraction(1e-151) * 2**500)


def test_sums_of_whole_numbers_have_columns_last() -> None:
    sums = np.arange(24).reshape(2, 3, 4)
    values = from_integers(sums, [0, 1, -1, 10])
    assert (values == sums * np.array([1.0, 0.5, 2.0, 2.0**-10])).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e151])
def test_what_cannot_become_a_whole_number_is_refused_without_showing_it(value: float) -> None:
    values = np.ones((3, 2))
    values[1, 1] = value
    with pytest.raises(InputError, match=r"column 2 .*2\^500"):
        to_integers(values)


@pytest.mark.parametrize("bits", [7, 32])
def test_too_few_or_too_many_bits_are_refused(bits: int) -> None:
    with pytest.raises(InputError, match="8 to 31"):
        to_integers(np.ones((1, 1)), bits)


# Sums and means


@settings(deadline=None)
@given(st.lists(st.floats(-BIG, BIG), max_size=30), st.randoms(use_true_random=False))
def test_a_sum_is_rounded_once_and_has_no_order(values: list[float], random: Random) -> None:
    expected = float(sum(map(Fraction, values)))
    assert exact_sum(np.array(values, float)) == expected
    random.shuffle(values)
    assert exact_sum(np.array(values, float)) == expected


def test_a_sum_of_many_has_no_order_where_numpys_has() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=100_000) * 10.0 ** rng.uniform(-8, 8, 100_000)
    orders = [values, values[::-1], np.sort(values), rng.permutation(values), values.reshape(100, 1000)]
    assert len({exact_sum(order) for order in orders}) == 1
    assert len({float(order.sum()) for order in orders}) > 1


@settings(deadline=None)
@given(
    st.lists(st.tuples(some_floats, st.floats(0.01, 1e3)), min_size=1, max_size=30), st.randoms(use_true_random=False)
)
def test_a_mean_is_accurate_and_has_no_order(pairs: list[tuple[float, float]], random: Random) -> None:
    computed = mean_of(*np.array(pairs).T)
    exact = [(Fraction(value), Fraction(weight)) for value, weight in pairs]
    total = sum(weight for _, weight in exact)
    mean = sum(value * weight for value, weight in exact) / total
    size = sum(abs(value) * weight for value, weight in exact) / total
    assert abs(Fraction(computed) - mean) <= size * Fraction(1, 10**15) + Fraction(1, 10**300)
    random.shuffle(pairs)
    assert mean_of(*np.array(pairs).T) == computed


def test_rows_without_weight_do_not_count() -> None:
    assert mean_of(np.array([3.0, 1e100, 5.0]), np.array([1.0, 0.0, 3.0])) == 4.5


@pytest.mark.parametrize(
    ("values", "weights", "words"),
    [
        ([1.0, 2.0], [0.0, 0.0], "zero"),
        ([], [], "zero"),
        ([1.0], [1.0, 1.0], "weights"),
        ([1.0, 2.0], [3.0, -1.0], "negative"),
        ([1.0, np.nan], [1.0, 1.0], "mean"),
        ([1.0, np.inf], [1.0, 0.0], "mean"),
        ([1.0, 2.0], [1.0, np.nan], "mean.*weights"),
    ],
)
def test_a_mean_that_is_none_is_refused(values: list[float], weights: list[float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        mean_of(np.array(values), np.array(weights))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e151])
def test_a_sum_of_what_is_not_a_number_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="sum"):
        exact_sum(np.array([1.0, value]))


def test_no_rows_add_up_to_more_than_allowed_and_no_column_is_rougher_than_needed() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(size=(1000, 3)) * [1.0, 1e-6, 1e9]
    for most in (2**15 - 1, 2**23 - 1, 2**40):
        whole, exponents = to_short_integers(values, 16, most, drawing(1000))
        scaled = values * np.ldexp(1.0, np.array(exponents))
        assert (np.maximum(whole, 0).sum(axis=0) <= most).all()
        assert (np.maximum(-whole, 0).sum(axis=0) <= most).all()
        finer = np.rint(2 * scaled)
        sums = np.maximum(np.maximum(finer, 0).sum(axis=0), np.maximum(-finer, 0).sum(axis=0))
        assert ((sums > most - 1000) | (np.abs(finer).max(axis=0) > 2**16 - 1)).all()
        assert (np.abs(whole - scaled) < 1).all()


def test_numbers_that_are_not_too_large_stay_the_nearest() -> None:
    values = np.random.default_rng(3).normal(size=(1000, 3))
    for most in (2**28, 2**40):
        whole, exponents = to_short_integers(values, 16, most, drawing(1000))
        nearest, same = to_integers(values)
        assert (whole == nearest).all()
        assert exponents == same
    assert to_short_integers(np.zeros((5, 1)), 16, 1, drawing(5))[1] == [0]


def test_whole_numbers_and_zeros_stay_as_they_are() -> None:
    """Weights of rows, many of them zero, in words that are just long enough for them."""
    weights = np.random.default_rng(3).integers(0, 3, (30_000, 1)).astype(float)
    whole, exponents = to_short_integers(weights, 16, 2**15 - 1, drawing(30_000))
    assert exponents == [0]
    assert (whole == weights).all()


def test_rough_numbers_are_right_on_average() -> None:
    """Many values far below one: the nearest whole number of each would be zero."""
    values = np.full((20_000, 1), 0.01)
    values[:100] = -1.0
    whole, (exponent,) = to_short_integers(values, 16, 2**9, drawing(20_000))
    assert exponent == 1
    assert set(np.unique(whole).tolist()) == {-2, 0, 1}
    drawn = int(whole[100:].sum())  # each is 1 with a probability of 0.02
    assert abs(drawn - 398) < 5 * (19_900 * 0.02 * 0.98) ** 0.5
