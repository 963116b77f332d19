"""From bins by feature to bins by column and back, against loops over single rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.errors import InputError
from unpooled.vertical.trees.bundles import Feature, Layout, narrow, to_logical, to_physical_bins


@st.composite
def features(draw: st.DrawFn) -> Feature:
    values, missing = draw(st.integers(1, 5)), draw(st.booleans())
    return Feature(values, missing, draw(st.integers(0, values + missing - 1)))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    chosen = tuple(draw(st.lists(features(), max_size=7)))
    columns: dict[int, list[int]] = {}
    for number in draw(st.permutations(range(len(chosen)))):
        columns.setdefault(draw(st.integers(0, 3)), []).append(number)
    return Layout(chosen, tuple(tuple(bundle) for bundle in columns.values()))


def random_rows(layout: Layout, rng: np.random.Generator, rows: int = 40) -> np.ndarray[Any, Any]:
    """Bins by feature, in bundles at most one away from its usual bin."""
    bins = np.empty((rows, len(layout.features)), narrow(feature.size for feature in layout.features))
    for number, feature in enumerate(layout.features):
        bins[:, number] = rng.integers(0, feature.size, rows)
    for bundle in layout.bundles:
        for row in range(rows) if len(bundle) > 1 else ():
            for number in set(bundle) - {rng.choice(bundle)}:
                bins[row, number] = layout.features[number].usual
    return bins


@settings(deadline=None)
@given(layout=layouts())
def test_logical_bins_follow_one_another(layout: Layout) -> None:
    layout.check()
    every = [(number, place) for number, feature in enumerate(layout.features) for place in range(feature.size)]
    assert layout.logical == len(every)
    assert list(zip(layout.owner.tolist(), layout.place.tolist(), strict=True)) == every
    assert layout.starts.tolist() == [every.index((number, 0)) for number in range(len(layout.features))]
    assert layout.usual.tolist() == [every.index((n, feature.usual)) for n, feature in enumerate(layout.features)]


@settings(deadline=None)
@given(layout=layouts())
def test_bins_of_columns_are_numbered_feature_by_feature_without_the_usual_ones(layout: Layout) -> None:
    expected: dict[tuple[int, int], int] = {}
    offset = 0
    for bundle, size in zip(layout.bundles, layout.sizes, strict=True):
        following = offset + (len(bundle) > 1)
        for number in bundle:
            for place in range(layout.features[number].size):
                if len(bundle) > 1 and place == layout.features[number].usual:
                    expected[number, place] = offset
                else:
                    expected[number, place] = following
                    following += 1
        assert size == following - offset
        assert type(size) is int
        offset = following
    assert layout.bins == offset
    pairs = zip(layout.owner.tolist(), layout.place.tolist(), strict=True)
    assert layout.physical.tolist() == [expected[pair] for pair in pairs]


@settings(deadline=None)
@given(layout=layouts(), seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 4), width=st.integers(1, 3))
def test_sums_over_columns_become_those_over_features(layout: Layout, seed: int, nodes: int, width: int) -> None:
    rng = np.random.default_rng(seed)
    rows = random_rows(layout, rng)
    weights = rng.integers(-(2**40), 2**40, (len(rows), width))
    node = rng.integers(-1, nodes, len(rows))
    columns = to_physical_bins(layout, rows)
    assert columns.dtype == narrow(layout.sizes)
    offsets = np.cumsum([0, *layout.sizes])
    sums = np.zeros((nodes, layout.bins, width), np.int64)
    expected = np.zeros((nodes, layout.logical, width), np.int64)
    totals = np.zeros((nodes, width), np.int64)
    for row in np.flatnonzero(node >= 0):
        totals[node[row]] += weights[row]
        for column in range(len(layout.bundles)):
            assert columns[row, column] < layout.sizes[column]
            sums[node[row], offsets[column] + columns[row, column]] += weights[row]
        for number in range(len(layout.features)):
            expected[node[row], layout.starts[number] + rows[row, number]] += weights[row]
    before = sums.copy()
    assert (to_logical(layout, sums, totals) == expected).all()
    assert (sums == before).all()


def test_a_column_of_its_own_has_its_features_bins() -> None:
    layout = Layout((Feature(3, True, 2), Feature(2, False, 1)), ((1,), (0,)))
    assert layout.sizes == (2, 4)
    assert to_physical_bins(layout, np.array([[3, 0], [2, 1]], np.uint16)).tolist() == [[0, 3], [1, 2]]


def test_features_of_a_bundle_that_stand_out_together_are_refused() -> None:
    hot = Feature(2, False, 0)
    layout = Layout((hot, Feature(1, True, 1), hot), ((0, 1, 2),))
    assert to_physical_bins(layout, np.array([[1, 1, 0], [0, 0, 0]], np.uint16)).tolist() == [[1], [2]]
    with pytest.raises(InputError, match="bundle"):
        to_physical_bins(layout, np.array([[0, 1, 0], [1, 1, 1]], np.uint16))


def test_nothing_is_a_layout_too() -> None:
    layout = Layout((), ())
    layout.check()
    assert (layout.sizes, layout.bins, layout.logical) == ((), 0, 0)
    assert to_physical_bins(layout, np.empty((5, 0), np.uint16)).shape == (5, 0)
    assert to_logical(layout, np.zeros((2, 0, 3), np.int64), np.ones((2, 3), np.int64)).shape == (2, 0, 3)


def test_what_is_worked_out_once_cannot_be_changed() -> None:
    layout = Layout((Feature(2, False, 0), Feature(2, True, 0)), ((0, 1),))
    for array in (layout.starts, layout.owner, layout.place, layout.usual, layout.shared, layout.physical):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert layout == Layout(layout.features, layout.bundles)
    assert hash(layout) == hash(Layout(layout.features, layout.bundles))


HOT = Feature(2, False, 0)
LARGE = Feature(40_000, False, 0)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (Layout((Feature(0, False, 0),), ((0,),)), "feature 0 .* 65535 "),
        (Layout((HOT, Feature(0, True, 0)), ((0,), (1,))), "feature 1 .* 65535 "),
        (Layout((Feature(-3, False, 0),), ((0,),)), "feature 0 .* 65535 "),
        (Layout((Feature(65535, True, 0),), ((0,),)), "feature 0 .* 65535 "),
        (Layout((Feature(2, False, 2),), ((0,),)), "usual.*feature 0"),
        (Layout((Feature(2, True, -1),), ((0,),)), "usual.*feature 0"),
        (Layout((HOT, HOT), ((0,),)), "feature"),
        (Layout((HOT, HOT), ((0, 1), (1,))), "feature"),
        (Layout((HOT,), ((0,), (1,))), "feature"),
        (Layout((HOT,), ((-1,),)), "feature"),
        (Layout((HOT,), ((0,), ())), "column"),
        (Layout((LARGE, LARGE), ((0, 1),)), "column.* 65535 "),
    ],
)
def test_what_cannot_be_a_layout_is_refused(layout: Layout, words: str) -> None:
    with pytest.raises(InputError, match=rf"^layout: .*{words}"):
        layout.check()


def test_the_largest_layout_is_accepted() -> None:
    Layout((Feature(65534, True, 65534), LARGE), ((0,), (1,))).check()
