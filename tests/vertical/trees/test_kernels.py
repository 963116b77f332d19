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
from unpooled.vertical.trees.bundles import to_physical_bins
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.grower.min_rows import merged, whole
from unpooled.vertical.trees.grower.node_rows import (
    AskedRows,
    bin_counts,
    bin_sums,
    members,
    move_rows,
    right_totals,
)
from unpooled.vertical.trees.grower.splitting import Best, Space, best_splits
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
)
from unpooled.vertical.trees.split_table import NO_SPLIT, SplitTable, fill_sides, right_of

Both = Callable[[Callable[[], Any]], tuple[Any, Any]]
ROWS, NODES = 300, 5


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


def some_nodes(seed: int) -> Any:
    """The node of each row; some rows are outside."""
    return np.random.default_rng(seed).integers(-1, NODES, ROWS).astype(np.int32)


@pytest.mark.parametrize("nodes", [[3, 1, 4], [0], [7], [0, 1, 2, 3, 4]])
def test_members(both: Both, nodes: list[int]) -> None:
    assert_equal(*both(lambda: members(some_nodes(1), np.array(nodes, np.int32))))


def test_members_if_all_rows_are_outside(both: Both) -> None:
    assert_equal(*both(lambda: members(np.full(5, -1, np.int32), np.array([0], np.int32))))


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_bin_sums_and_counts(both: Both, columns: int) -> None:
    own, rng = binned(2), np.random.default_rng(3)
    rows, counts = members(some_nodes(4), np.array([2, 0], np.int32))
    asked = AskedRows(rows, np.arange(2, dtype=np.int32).repeat(counts))
    y = rng.integers(-(2**31), 2**31, (ROWS, columns))
    assert_equal(*both(lambda: bin_sums(own, asked, 2, y)))
    assert_equal(*both(lambda: [bin_counts(own, asked, 2)]))
    assert bin_counts(own, asked, 2)[:, : own.layout.sizes[0]].sum(axis=1).tolist() == counts.tolist()


def test_totals_on_the_right_and_moved_rows(both: Both) -> None:
    rng, node_of_row = np.random.default_rng(5), some_nodes(6)
    rows, counts = members(node_of_row, np.array([1, 3, 4], np.int32))
    sides, y = rng.random(len(rows)) < 0.3, rng.integers(-(2**31), 2**31, (ROWS, 2))
    assert_equal(*both(lambda: right_totals(y, rows, counts, sides)))

    def moved() -> list[Any]:
        after = node_of_row.copy()
        move_rows(after, rows, counts, sides, np.array([5, -1, 7], np.int32))
        return [after]

    assert_equal(*both(moved))


@pytest.mark.parametrize("missing_left", [False, True])
def test_sides(both: Both, missing_left: bool) -> None:
    own, table = binned(7), SplitTable()
    rows = np.random.default_rng(8).permutation(ROWS)[:100]
    numbers = [table.number(feature, 0, missing_left) for feature in range(len(own.layout.features))]

    def filled() -> list[Bools]:
        """A third of the rows in each of three nodes, of which the second has no split."""
        each, sides = np.array([len(rows) - 2 * (len(rows) // 3), *[len(rows) // 3] * 2]), list[Bools]()
        for number in numbers:
            sides.append(np.ones(len(rows), bool))
            fill_sides(table, own, rows, each, [number, NO_SPLIT, number], sides[-1])
        return sides

    one, other = both(filled)
    assert_equal(one, other)
    expected = right_of(table, own.layout, own.feature_bins, rows, numbers[0])
    expected[len(rows) - 2 * (len(rows) // 3) : len(rows) - len(rows) // 3] = True
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
