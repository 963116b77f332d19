"""Compiled loops give what numpy gives, to the bit."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from unpooled import compiled
from unpooled.arrays import Bools, Floats, Ints
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import alone
from unpooled.vertical.trees.binning import Binned, apply_bins, fit_bins
from unpooled.vertical.trees.bundles import Feature, Layout, to_physical_bins
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.grower.min_rows import covered, merged, representatives, shown_bins, whole
from unpooled.vertical.trees.grower.node_rows import (
    ROOT,
    TreeRows,
    bin_counts,
    bin_sums,
    fill_sides,
    right_totals,
    rows_in_bags,
    shown_rows,
)
from unpooled.vertical.trees.grower.splitting import Best, Space, best_splits
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
)
from unpooled.vertical.trees.split_table import NO_SPLIT, SplitTable, right_of

Both = Callable[[Callable[[], Any]], tuple[Any, Any]]
ROWS = 300


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Both:
    """A result with numpy, and the same with compiled loops."""

    def computed(compute: Callable[[], Any]) -> tuple[Any, Any]:
        found = []
        for choice in (False, True):
            with monkeypatch.context() as patched:
                patched.setattr(compiled, "_choice", lambda choice=choice: choice)
                found.append(compute())
        return found[0], found[1]

    return computed


def assert_equal(one: Any, other: Any) -> None:
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_array_equal(a, b)


def mixed_matrix(seed: int, rows: int = ROWS) -> Floats:
    """Numbers, some missing, a column with few values, and the levels of a category as 0 and 1."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(rows, 3))
    numbers[rng.random(rows) < 0.1, 1] = np.nan
    levels = rng.integers(0, 4, rows)
    hot = (levels[:, np.newaxis] == np.arange(4)).astype(float)
    return np.concatenate([numbers, rng.integers(0, 3, (rows, 1)), hot], axis=1)


def binned(seed: int, rows: int = ROWS) -> Binned:
    matrix = mixed_matrix(seed, rows)
    binning = fit_bins(matrix, [str(k) for k in range(matrix.shape[1])], bins=8, party="bank")
    features = apply_bins(binning, matrix, "bank")
    return Binned(features, to_physical_bins(binning.layout, features), binning.layout)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


TREES, NUMBERS = ints(0, 0, 2), ints(3, 1, 1)
"""Some nodes of trees."""


def some_rows(seed: int, *, cut: bool = False) -> TreeRows:
    """The rows of three trees, of which some are in no tree, in five nodes each."""
    rng = np.random.default_rng(seed)
    trees = rows_in_bags(binned(seed), [rng.random(ROWS) < 0.7 for _ in range(3)], 8, cut=cut)
    for parent, first in ((ROOT, 1), (2, 3)):
        of, nodes, firsts = ints(0, 1, 2), ints(*[parent] * 3), ints(*[first] * 3)
        rows = trees.of(of, nodes)
        trees.split(rows, of, nodes, firsts, rng.random(len(rows)) < 0.6)
    return trees


@pytest.mark.parametrize("cut", [False, True])
def test_rows_are_moved_apart(both: Both, cut: bool) -> None:
    def moved() -> list[Any]:
        trees = some_rows(1, cut=cut)
        return [trees.order, trees.begins, trees.counts, *trees.nodes_of_rows()]

    assert_equal(*both(moved))
    trees = some_rows(1, cut=cut)
    for tree, of_rows in enumerate(trees.nodes_of_rows()):
        assert len(of_rows) == trees.sizes[tree]
        for node in (1, 3, 4):
            rows = np.flatnonzero(of_rows == node)
            assert trees.of(ints(tree), ints(node)).numbers.tolist() == (rows + trees.starts[tree]).tolist()
            assert len(rows) > 9


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize(("columns", "value_bits"), [(1, 16), (2, 16), (2, 22), (2, 31), (3, 16)])
def test_bin_sums_and_counts(both: Both, columns: int, value_bits: int, cut: bool) -> None:
    """Few bits are added several at once in one word, if there are two columns."""
    trees, rng = some_rows(2, cut=cut), np.random.default_rng(3)
    rows, most = trees.of(TREES, NUMBERS), 2**value_bits
    y = rng.integers(1 - most, most, (int(trees.starts[-1]), columns)).astype(np.int32)
    y[rng.random(len(y)) < 0.5] = most - 1
    both_ways = both(lambda: bin_sums(trees, rows, y, value_bits))
    assert_equal(*both_ways)
    assert_equal(*both(lambda: [bin_counts(trees, rows)]))
    sums, counts = both_ways[0]
    np.testing.assert_array_equal(counts, bin_counts(trees, rows))
    assert counts[:, : trees.layout.sizes[0]].sum(axis=1).tolist() == rows.counts.tolist()
    totals = [y[numbers].sum(axis=0).tolist() for numbers in np.split(rows.numbers, np.cumsum(rows.counts)[:-1])]
    assert sums[:, : trees.layout.sizes[0]].sum(axis=1).tolist() == totals


@pytest.mark.parametrize("cut", [False, True])
def test_rows_are_shown_as_their_nodes_are(both: Both, cut: bool) -> None:
    trees, rng = some_rows(4, cut=cut), np.random.default_rng(5)
    rows = trees.of(TREES, NUMBERS)
    tables = rng.integers(0, 255, len(TREES) * trees.layout.bins).astype(np.uint8)
    assert_equal(*both(lambda: [shown_rows(trees, rows, tables)]))


@pytest.mark.parametrize("columns", [2, 4])
def test_totals_on_the_right(both: Both, columns: int) -> None:
    trees, rng = some_rows(6), np.random.default_rng(7)
    rows = trees.of(TREES, NUMBERS)
    y = rng.integers(1 - 2**31, 2**31, (int(trees.starts[-1]), columns)).astype(np.int32)
    sides = rng.random(len(rows)) < 0.3
    assert_equal(*both(lambda: right_totals(y, rows, sides)))


@pytest.mark.parametrize("k", [2, 9, 40])
def test_groups_of_bins(both: Both, k: int) -> None:
    """Of siblings, and then of their children."""
    layout, rng = binned(12).layout, np.random.default_rng(13)
    counts = rng.integers(0, 12, (30, 4, layout.logical)) * (rng.random((30, 4, layout.logical)) < 0.7)

    def found() -> list[Any]:
        parents = merged(layout, whole(layout, 30), counts.reshape(30, 2, 2, -1).sum(axis=2), k)
        groups = merged(layout, parents, counts[:, :2], k)
        more = covered(layout, groups, counts[:, :2], k)
        shown = [representatives(layout, more), shown_bins(layout, more)]
        return [
            parents.ends,
            parents.missing_joined,
            groups.ends,
            groups.missing_joined,
            more.ends,
            more.missing_joined,
            *shown,
        ]

    one, other = both(found)
    assert_equal(one, other)
    assert one[1].any()
    assert (one[0] & ~one[2]).any()
    assert layout.shared.size


@pytest.mark.parametrize("k", [2, 6, 15])
def test_bundles_show_less_where_few_rows_are_left(both: Both, k: int) -> None:
    """In a row only one feature of a bundle is away from its usual bin, and in few rows none is."""
    features = tuple(Feature(values, values % 2 == 1, values // 2) for values in (2, 3, 4, 1, 2, 3))
    layout, rng, found = Layout(features, ((0, 3, 5), (1,), (2, 4))), np.random.default_rng(29), list[Any]()
    away, counts = rng.integers(0, 40, (len(features), 80, 2)), np.zeros((80, 2, layout.logical), np.int64)
    rows = np.maximum(away[[0, 3, 5]].sum(axis=0), away.max(axis=0)) + rng.integers(0, 20, (80, 2))
    for feature, start, some in zip(features, layout.starts.tolist(), away, strict=True):
        others = np.arange(feature.size) != feature.usual
        counts[:, :, start : start + feature.size] = rng.multinomial(some, others / others.sum())
        counts[:, :, start + feature.usual] += rows - some

    def covers() -> list[Any]:
        groups = merged(layout, whole(layout, len(counts)), counts, k)
        more = covered(layout, groups, counts, k)
        found.append((groups.ends & ~more.ends).any())
        return [groups.ends, groups.missing_joined, more.ends, more.missing_joined, shown_bins(layout, more)]

    assert_equal(*both(covers))
    assert all(found)


@pytest.mark.parametrize("missing_left", [False, True])
def test_sides(both: Both, missing_left: bool) -> None:
    trees, table = some_rows(7, cut=True), SplitTable()
    rows = trees.of(TREES, NUMBERS)
    numbers = [table.number(feature, 0, missing_left) for feature in range(len(trees.layout.features))]

    def filled() -> list[Bools]:
        """The second node has no split."""
        sides = list[Bools]()
        for number in numbers:
            sides.append(np.ones(len(rows), bool))
            fill_sides(table, trees, rows, [number, NO_SPLIT, number], sides[-1])
        return sides

    one, other = both(filled)
    assert_equal(one, other)
    expected = right_of(table, trees.layout, trees.features, rows.places, numbers[0])
    expected[rows.counts[0] : rows.counts[:2].sum()] = True
    np.testing.assert_array_equal(one[0], expected)


PARAMETERS = [
    XgbParameters(minimum_child_weight=0.0),
    XgbParameters(minimum_child_weight=3.0, l1=0.5, l2=0.0),
    GbdtParameters(minimum_gain=0.1),
]


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("min_rows", [1, 10])
@pytest.mark.parametrize("columns", [2, 4])
def test_best_splits(both: Both, parameters: AnyTrees, min_rows: int, columns: int) -> None:
    own, rng = binned(9), np.random.default_rng(10)
    layout, space = own.layout, Space((own.layout,))
    y = np.concatenate([rng.integers(-999, 1000, (ROWS, columns - 1)), rng.integers(0, 1000, (ROWS, 1))], axis=1)
    node_of_row = rng.integers(0, 40, ROWS) % 37  # more nodes than are dealt with at once, some of few rows
    places = layout.starts + own.feature_bins.astype(np.int64)
    sums, counts = (np.zeros((37, layout.logical, k), np.int64) for k in (columns, 1))
    for row in range(ROWS):
        sums[node_of_row[row], places[row]] += y[row]
        counts[node_of_row[row], places[row]] += 1
    totals = np.array([y[node_of_row == node].sum(axis=0) for node in range(37)])
    exponents = rng.integers(0, 10, (37, columns))
    groups = merged(layout, whole(layout, 37), counts[:, :, 0][:, np.newaxis], min_rows)
    allowed = rng.random((37, len(layout.features))) < 0.8

    def found(**limits: Any) -> list[Ints | Floats | Any]:
        best: Best = best_splits(space, sums, totals, exponents, parameters, **limits)
        return [best.gains, best.bins, best.missing_left, best.left]

    some = both(found)
    assert_equal(*some)
    assert (some[0][1] >= 0).any()
    assert some[0][2].any()
    least = rng.random(37)
    assert_equal(*both(lambda: found(groups=groups, allowed=allowed, least=least)))


LEARNERS: list[AnyTrees] = [
    GbdtParameters(trees=4, depth=4),
    XgbParameters(trees=4, depth=4, l1=0.1, min_rows=1),
    XgbParameters(trees=3, depth=3, hide_nodes=True),
    LgbParameters(trees=12, leaves=8, learning_rate=0.5),
    ForestParameters(trees=4, depth=4, classes=3),
]


@pytest.mark.parametrize("parameters", LEARNERS, ids=lambda parameters: type(parameters).__name__)
def test_whole_models(both: Both, parameters: AnyTrees) -> None:
    matrix = mixed_matrix(11)
    score = np.nan_to_num(matrix[:, 0] * matrix[:, 1]) + matrix[:, 4]
    values = np.digitize(score, [0.0, 0.5][: max(parameters.classes, 2) - 1]).astype(float)
    columns = Columns(matrix, tuple(str(k) for k in range(matrix.shape[1])))

    one, other = both(lambda: fit(alone(), parameters, columns, [Target(values, seed=1)]))
    assert one.model.ensembles == other.model.ensembles
    assert one.model.part.splits == other.model.part.splits
    np.testing.assert_array_equal(one.scores[0], other.scores[0])


def test_values_are_put_where_they_belong() -> None:
    from unpooled.vertical.trees import kernels

    rng = np.random.default_rng(23)
    places = rng.random((7, 50)) < 0.3
    before, values = (rng.random((7, 50)) < 0.5) & ~places, rng.random(int(places.sum())) < 0.5
    found, expected = before.copy(), before.copy()
    kernels.spread(values.view(np.uint8), places.view(np.uint8), found.view(np.uint8))
    expected[places] = values
    np.testing.assert_array_equal(found, expected)
