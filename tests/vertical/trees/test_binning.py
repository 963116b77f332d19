"""Edges, bins and bundles, against loops over single values and whole numbers of any size."""

import json
import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from unpooled.errors import InputError
from unpooled.vertical.trees.binning import MISSING, Binning, apply_bins, binned, fit_bins
from unpooled.vertical.trees.bundles import to_logical

Matrix = np.ndarray[Any, Any]


def matrix_of(*columns: list[float]) -> Matrix:
    return np.array(columns, np.float64).T.reshape(-1, len(columns))


def fitted(matrix: Matrix, bins: int = 32, **others: Any) -> Binning:
    names = [f"c{place}" for place in range(matrix.shape[1])]
    return fit_bins(matrix, names, **{"bins": bins, "party": "clinic"} | others)


def edges_of(values: list[float], bins: int) -> tuple[float, ...]:
    return fitted(matrix_of(values), bins).features[0].edges


def bin_of(edges: tuple[float, ...], value: float) -> int:
    return next((number for number, edge in enumerate(edges) if value <= edge), len(edges))


def expected_edges(values: list[float], bins: int) -> tuple[float, ...]:
    """The rule, in exact numbers: cut where rows are nearest to equal parts, heavy values counting as two parts."""
    counts = Counter(value for value in values if not math.isnan(value))
    distinct = sorted(counts)
    cuts = set(range(len(distinct) - 1))
    if len(distinct) > bins:
        most = next(m for m in range(1, len(values) + 1) if m * bins >= 2 * sum(min(m, c) for c in counts.values()))
        ends = [sum(min(most, counts[value]) for value in distinct[: place + 1]) for place in range(len(distinct))]
        cuts = {min(cuts, key=lambda cut: (abs(ends[cut] * bins - k * ends[-1]), cut)) for k in range(1, bins)}
    edges = []
    for cut in sorted(cuts):
        middle = distinct[cut] / 2 + distinct[cut + 1] / 2
        edges.append(middle if middle < distinct[cut + 1] else distinct[cut])
    return tuple(edges)


ANY = st.floats(allow_infinity=False)
FEW = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 1.0, 1.5, 3.0, 7.0, math.nan])
NEAR = st.integers(0, 40).map(lambda steps: 1.0 + steps * 2.0**-52)
TINY = st.integers(-20, 20).map(lambda steps: steps * 5e-324)
SKEWED = st.integers(0, 2**12).map(lambda number: float(number.bit_length() ** 2))
COLUMN = st.one_of(*(st.lists(kind, min_size=1, max_size=60) for kind in (ANY, FEW, NEAR, TINY, SKEWED)))
BINS = st.integers(2, 12)


@settings(deadline=None, max_examples=100)
@given(values=COLUMN, bins=BINS)
def test_edges_are_those_of_the_rule(values: list[float], bins: int) -> None:
    assert edges_of(values, bins) == expected_edges(values, bins)


@pytest.mark.parametrize(
    "heavy", [[300], [300, 200], [300, 200, 60, 60, 30], [40, 30, 25, 20, 18, 15, 12, 11, 10, 9, 8]]
)
@pytest.mark.parametrize("bins", [2, 3, 5, 8, 16, 31])
def test_edges_are_those_of_the_rule_with_several_heavy_values(heavy: list[int], bins: int) -> None:
    rng = np.random.default_rng(bins)
    counts = rng.permutation(heavy + [1] * 40 + [2] * 10)
    values = np.repeat(np.arange(len(counts)), counts).astype(float).tolist()
    assert edges_of(values, bins) == expected_edges(values, bins)


@settings(deadline=None, max_examples=100)
@given(values=COLUMN, bins=BINS)
def test_bins_are_full_and_kept_apart_by_their_edges(values: list[float], bins: int) -> None:
    edges = edges_of(values, bins)
    present = [value for value in values if not math.isnan(value)]
    members = [[v for v in present if bin_of(edges, v) == number] for number in range(len(edges) + 1)]
    assert len(members) <= bins
    assert all(members) or not present
    assert len(members) == max(1, len(set(present))) or len(set(present)) > bins
    for edge, (below, above) in zip(edges, pairwise(members), strict=True):
        assert max(below) <= edge < min(above)
    for each in members:
        assert len(set(each)) <= 1 or len(each) * bins <= 2 * len(present)
    for value, count in Counter(present).items():
        if count * bins >= 2 * len(present):
            assert len(set(members[bin_of(edges, value)])) == 1


@given(values=COLUMN, bins=BINS, data=st.data())
@settings(deadline=None)
def test_neither_the_order_of_rows_nor_the_sign_of_zero_matters(
    values: list[float], bins: int, data: st.DataObject
) -> None:
    shuffled = [value or -value for value in data.draw(st.permutations(values))]
    one, other = fitted(matrix_of(values), bins), fitted(matrix_of(shuffled), bins)
    assert one.model_dump_json() == other.model_dump_json()


def test_different_values_are_shared_out_evenly() -> None:
    rng = np.random.default_rng(0)
    values = rng.permutation(1000) ** 3.0
    for bins in (2, 10, 32, 256):
        counts = np.bincount(apply_bins(fitted(values[:, np.newaxis], bins), values[:, np.newaxis], "a")[:, 0])
        assert len(counts) == bins
        assert set(counts.tolist()) <= {1000 // bins, -(-1000 // bins)}


@pytest.mark.parametrize("where", ["first", "middle", "last"])
def test_a_heavy_value_takes_no_bins_from_the_others(where: str) -> None:
    rest = np.arange(1.0, 401.0)
    heavy = {"first": 0.0, "middle": 200.5, "last": 500.0}[where]
    edges = edges_of([*rest.tolist(), *[heavy] * 1600], 32)
    assert len(edges) + 1 == 31
    assert sum(bin_of(edges, value) == bin_of(edges, heavy) for value in rest) == 0


def test_edges_lie_half_way_and_values_on_them_below() -> None:
    edges = edges_of([1.0, 2.0, 4.0, 2.0], 8)
    assert edges == (1.5, 3.0)
    binning = fitted(matrix_of([1.0, 2.0, 4.0, 2.0]), 8)
    new = [-1e308, 1.0, 1.5, math.nextafter(1.5, 2), 3.0, 3.5, 1e308]
    assert apply_bins(binning, matrix_of(new), "clinic")[:, 0].tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_numbers_without_one_between_them_are_still_kept_apart() -> None:
    neighbours = [1.0, math.nextafter(1.0, 2), math.nextafter(math.nextafter(1.0, 2), 2)]
    assert edges_of(neighbours, 8) == tuple(neighbours[:2])
    assert edges_of([1.7e308, -1.7e308, math.nextafter(1.7e308, math.inf)], 8) == (0.0, 1.7e308)


@settings(deadline=None)
@given(training=COLUMN, new=COLUMN, bins=BINS)
def test_any_rows_get_the_bins_that_counting_edges_gives(training: list[float], new: list[float], bins: int) -> None:
    binning = fitted(matrix_of(training), bins)
    feature = binning.features[0]
    missing = len(feature.edges) + 1 if any(map(math.isnan, training)) else MISSING
    found = apply_bins(binning, matrix_of(new), "clinic")
    assert found.dtype == np.uint16
    assert found[:, 0].tolist() == [missing if math.isnan(v) else bin_of(feature.edges, v) for v in new]


def test_columns_without_a_choice_have_no_edges() -> None:
    binning = fitted(matrix_of([5.0, 5.0, 5.0], [math.nan] * 3, [math.nan, 2.0, 2.0]))
    assert [feature.edges for feature in binning.features] == [(), (), ()]
    assert [(f.values, f.missing, f.usual) for f in binning.layout.features] == [
        (1, False, 0),
        (1, True, 1),
        (1, True, 0),
    ]
    found = apply_bins(binning, matrix_of([9.0, math.nan], [9.0, math.nan], [9.0, math.nan]), "clinic")
    assert found.tolist() == [[0, 0, 0], [MISSING, 1, 1]]


def test_no_columns_are_fine() -> None:
    binning = fitted(np.empty((3, 0)))
    assert (binning.features, binning.bundles) == ((), ())
    assert binned(binning, np.empty((3, 0)), "clinic").columns.shape == (3, 0)


def test_256_bins_and_one_for_missing_values() -> None:
    values = np.append(np.arange(5000.0), [math.nan] * 5)[:, np.newaxis]
    training = binned(binning := fitted(values, 256), values, "clinic")
    assert binning.layout.sizes == (257,)
    assert training.columns.max() == 256
    assert training.columns.dtype == training.feature_bins.dtype == np.uint16
    assert np.bincount(training.feature_bins[:, 0])[-1] == 5


def test_features_come_in_the_order_asked_for_and_the_matrix_stays_as_it_is() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.normal(size=(60, 5))
    matrix[rng.random((60, 5)) < 0.1] = math.nan
    order = np.array([3, 0, 4, 2, 1])
    plain, shuffled = fitted(matrix, 4, bundle=False), fitted(matrix, 4, bundle=False, order=order)
    assert shuffled.features == tuple(plain.features[column] for column in order)
    assert [feature.name for feature in shuffled.features] == ["c3", "c0", "c4", "c2", "c1"]
    assert (apply_bins(shuffled, matrix, "clinic") == apply_bins(plain, matrix, "clinic")[:, order]).all()


def test_columns_may_have_limits_of_their_own() -> None:
    matrix = np.random.default_rng(3).normal(size=(200, 3))
    order = np.array([2, 0, 1])
    binning = fit_bins(matrix, ["a", "b", "c"], bins=[4, 9, 32], order=order, party="clinic")
    assert [(feature.name, len(feature.edges)) for feature in binning.features] == [("c", 31), ("a", 3), ("b", 8)]
    with pytest.raises(InputError, match="2 to 256 bins"):
        fit_bins(matrix, ["a", "b", "c"], bins=[4, 1, 32], party="clinic")


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0, [0, 0, 0, 0]),
        (3, [1, 1, 1, 0]),
        (9, [3, 3, 1, 2]),
        (12, [5, 4, 1, 2]),
        (14, [7, 4, 1, 2]),
        (99, [7, 4, 1, 2]),
    ],
)
def test_thresholds_are_limited_and_shared_out(most: int, expected: list[int]) -> None:
    rng = np.random.default_rng(2)
    matrix = np.column_stack([rng.integers(0, high, 400) for high in (8, 5, 2, 3)]).astype(float)
    binning = fitted(matrix, 16, most_thresholds=most)
    assert [len(feature.edges) for feature in binning.features] == expected
    backwards = fitted(matrix, 16, most_thresholds=3, order=np.array([3, 2, 1, 0]))
    assert [len(feature.edges) for feature in backwards.features] == [1, 1, 1, 0]


@settings(deadline=None)
@given(columns=st.lists(st.lists(ANY | FEW, min_size=30, max_size=30), max_size=5), most=st.integers(0, 40), bins=BINS)
def test_there_are_never_more_thresholds_than_allowed(columns: list[list[float]], most: int, bins: int) -> None:
    matrix = np.array(columns, np.float64).reshape(-1, 30).T
    free, limited = fitted(matrix, bins), fitted(matrix, bins, most_thresholds=most)
    counts = [len(feature.edges) for feature in limited.features]
    assert sum(counts) <= most
    if sum(len(feature.edges) for feature in free.features) <= most:
        assert limited == free
    assert all(len(one.edges) <= len(other.edges) for one, other in zip(limited.features, free.features, strict=True))


def test_the_levels_of_a_category_are_one_column() -> None:
    rng = np.random.default_rng(7)
    matrix = np.hstack(
        [np.eye(9)[rng.integers(0, 9, 500)], rng.normal(size=(500, 1)), np.eye(5)[rng.integers(0, 5, 500)]]
    )
    binning = fitted(matrix)
    assert binning.bundles == (tuple(range(9)), (9,), tuple(range(10, 15)))
    assert binning.layout.sizes == (10, 32, 6)
    assert fitted(matrix, bundle=False).bundles == tuple((place,) for place in range(15))


SPARSE = st.tuples(st.integers(1, 30), st.integers(0, 9), st.integers(0, 2**32 - 1))


def sparse_matrix(rows: int, columns: int, seed: int) -> Matrix:
    """Columns that are usually one value, some of them missing values, some dense."""
    rng = np.random.default_rng(seed)
    usual = np.append(rng.integers(0, 3, columns - 1), [np.nan])[:columns] if columns else np.empty(0)
    odd = np.where(rng.random((rows, columns)) < 0.1, np.nan, rng.integers(0, 5, (rows, columns)))
    return np.where(rng.random((rows, columns)) < rng.choice([0.05, 0.1, 0.6], columns), odd, usual)


def expected_bundles(bins: Matrix, binning: Binning) -> list[list[int]]:
    """First fit, those with most unusual rows first, with sets of rows."""
    features = binning.layout.features
    away = [set(np.flatnonzero(bins[:, n] != feature.usual).tolist()) for n, feature in enumerate(features)]
    bundles: list[list[int]] = []
    for place in sorted(range(len(features)), key=lambda n: (-len(away[n]), n)):
        for bundle in bundles:
            together = [*bundle, place]
            if (
                all(2 * len(away[other]) <= len(bins) and not away[other] & away[place] for other in bundle)
                and 1 + sum(features[number].size - 1 for number in together) <= 256
            ):
                bundle.append(place)
                break
        else:
            bundles.append([place])
    return sorted(sorted(bundle) for bundle in bundles)


@settings(deadline=None)
@given(shape=SPARSE, bins=BINS)
def test_bundles_are_those_of_the_rule(shape: tuple[int, int, int], bins: int) -> None:
    matrix = sparse_matrix(*shape)
    binning = fitted(matrix, bins)
    assert [list(bundle) for bundle in binning.bundles] == expected_bundles(apply_bins(binning, matrix, "a"), binning)


@settings(deadline=None)
@given(shape=SPARSE, bins=BINS, nodes=st.integers(1, 5))
def test_bundling_loses_nothing_in_any_node(shape: tuple[int, int, int], bins: int, nodes: int) -> None:
    matrix = sparse_matrix(*shape)
    rng = np.random.default_rng(shape[2])
    node, weights = rng.integers(0, nodes, len(matrix)), rng.integers(-1000, 1000, (len(matrix), 2))
    totals = np.zeros((nodes, 2), np.int64)
    np.add.at(totals, node, weights)
    histograms = []
    for bundle in (False, True):
        training = binned(fitted(matrix, bins, bundle=bundle), matrix, "clinic")
        sums = np.zeros((nodes, training.layout.bins, 2), np.int64)
        for column, start in enumerate(np.cumsum([0, *training.layout.sizes])[:-1]):
            np.add.at(sums, (node, start + training.columns[:, column]), weights)
        histograms.append(to_logical(training.layout, sums, totals))
    assert (histograms[0] == histograms[1]).all()


def test_a_bundle_has_at_most_256_bins() -> None:
    values = np.zeros((600, 3))
    values[:128, 0] = np.arange(1, 129)
    values[200:327, 1] = np.arange(1, 128)
    values[400, 2] = 1
    assert fitted(values, 256).layout.sizes == (256, 2)
    assert fitted(values, 256).bundles == ((0, 1), (2,))
    assert fitted(values[:, [0, 2, 1]], 256).bundles == ((0, 2), (1,))


@settings(deadline=None)
@given(columns=st.lists(st.lists(ANY, min_size=6, max_size=6), max_size=4), shape=SPARSE, bins=BINS)
def test_it_comes_back_from_json_exactly(columns: list[list[float]], shape: tuple[int, int, int], bins: int) -> None:
    for matrix in (np.array(columns, np.float64).reshape(-1, 6).T, sparse_matrix(*shape)):
        binning = fitted(matrix, bins, order=np.arange(matrix.shape[1])[::-1])
        again = Binning.model_validate_json(binning.model_dump_json())
        assert again == binning
        assert again.layout == binning.layout
        assert (apply_bins(again, matrix, "clinic") == apply_bins(binning, matrix, "clinic")).all()


GOOD = {
    "features": [
        {"name": "age", "column": 1, "edges": [0.5, 1.5], "missing": True, "usual": 3},
        {"name": "debt", "column": 0, "edges": [], "missing": False, "usual": 0},
    ],
    "bundles": [[0, 1]],
}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges": [1.5, 0.5]}, "edges"),
        ({"edges": [0.5, 0.5]}, "edges"),
        ({"edges": [0.5, "NaN"]}, "edges.1"),
        ({"edges": [0.5, math.inf]}, "edges.1"),
        ({"edges": list(range(256))}, "255"),
        ({"usual": 4}, "usual"),
        ({"usual": -1}, "usual"),
        ({"usual": "3"}, "usual"),
        ({"missing": 1}, "missing"),
        ({"column": 0}, "column"),
        ({"column": 2}, "column"),
        ({"colour": 1}, "colour"),
        ({"bundles": [[0]]}, "feature"),
        ({"bundles": [[0, 1], [1]]}, "feature"),
        ({"bundles": [[0, 1], []]}, "feature"),
    ],
)
def test_a_damaged_binning_is_refused_without_echoing_it(change: dict[str, Any], words: str) -> None:
    assert Binning.model_validate_json(json.dumps(GOOD)).layout.sizes == (4,)
    damaged = json.loads(json.dumps(GOOD))
    (damaged if "bundles" in change else damaged["features"][0]).update(change)
    with pytest.raises(ValidationError, match=words) as caught:
        Binning.model_validate_json(json.dumps(damaged))
    assert "input_value" not in str(caught.value)


@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_infinite_values_are_errors_with_party_column_and_row(value: float) -> None:
    good = matrix_of([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    bad = matrix_of([1.0, 2.0, 3.0], [1.0, math.nan, value])
    words = "^clinic.*c1.*row 3"
    with pytest.raises(InputError, match=words):
        fitted(bad)
    with pytest.raises(InputError, match=words):
        apply_bins(fitted(good, order=np.array([1, 0])), bad, "clinic")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bins": 1}, "2 to 256"),
        ({"bins": 257}, "2 to 256"),
        ({"names": ["x"]}, "1 .* 2 "),
        ({"matrix": np.empty((0, 2))}, "rows"),
        ({"most_thresholds": -1}, "thresholds"),
        ({"order": np.array([0, 0])}, ""),
        ({"order": np.array([0])}, ""),
        ({"order": np.array([1, 2])}, ""),
    ],
)
def test_what_cannot_be_learned_from_is_refused(change: dict[str, Any], words: str) -> None:
    good = {"matrix": matrix_of([1.0, 2.0], [1.0, 2.0]), "names": ["x", "y"], "bins": 8, "party": "clinic"}
    assert len(fit_bins(**good).features) == 2
    with pytest.raises(InputError, match=rf"^clinic: .*{words}"):
        fit_bins(**good | change)


def test_rows_that_are_not_those_of_training_are_refused_where_it_matters() -> None:
    matrix = np.eye(4)
    binning = fitted(matrix)
    assert binning.bundles == ((0, 1, 2, 3),)
    with pytest.raises(InputError, match="bundle"):
        binned(binning, np.ones((1, 4)), "clinic")
    with pytest.raises(InputError, match=r"clinic.*missing"):
        binned(binning, np.full((1, 4), math.nan), "clinic")
    with pytest.raises(InputError, match=r"clinic.* 3 .* 4"):
        apply_bins(binning, np.ones((1, 3)), "clinic")
    assert apply_bins(binning, np.ones((1, 4)), "clinic").tolist() == [[1, 1, 1, 1]]
