"""Bins of few rows are merged as the rule says, the same for siblings, and what is shown of them adds up."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.arrays import Ints
from unpooled.vertical.trees.bundles import Bins, Feature, Layout, narrow, to_logical, to_physical_bins
from unpooled.vertical.trees.grower.min_rows import Groups, covered, merged, representatives, shown_bins, whole

Cut = tuple[list[list[int]], bool]
"""The groups of one feature's value bins, and whether the missing ones are joined to the last."""


@st.composite
def features(draw: st.DrawFn) -> Feature:
    values, missing = draw(st.integers(1, 7)), draw(st.booleans())
    return Feature(values, missing, draw(st.integers(0, values + missing - 1)))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    found = tuple(draw(st.lists(features(), min_size=1, max_size=6)))
    order = draw(st.permutations(range(len(found))))
    cuts = sorted(draw(st.sets(st.integers(1, len(found)), max_size=len(found))) | {len(found)})
    bundles = [tuple(order[begin:end]) for begin, end in zip([0, *cuts], cuts, strict=False)]
    layout = Layout(found, tuple(bundles))
    layout.check()
    return layout


seeds = st.integers(0, 2**32 - 1)
crowds = st.sampled_from([0.1, 0.5, 1.0, 3.0, 20.0])
smallest = st.integers(2, 12)


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    return settings(max_examples=60, deadline=None)(given(layouts(), seeds, crowds, smallest)(test))


def drawn(layout: Layout, seed: int, crowd: float) -> Ints:
    """Rows of three trees' grandchildren: trees × children × grandchildren × logical bins, some bins more popular."""
    rng = np.random.default_rng(seed)
    popular = rng.choice([0.0, 0.3, 1.0, 4.0], (3, 2, 2, layout.logical))
    return rng.poisson(crowd * popular)


def generations(layout: Layout, counts: Ints, k: int) -> list[tuple[Groups, Ints, Groups]]:
    """For roots, their children and their grandchildren: the parents' groups, the siblings' rows, the groups found."""
    found = []
    parents = whole(layout, len(counts))
    for rows in (counts.sum(axis=(1, 2))[:, np.newaxis], counts.sum(axis=2), counts.reshape(-1, 2, layout.logical)):
        times = len(rows) // len(parents.ends)
        above = Groups(parents.ends.repeat(times, axis=0), parents.missing_joined.repeat(times, axis=0))
        parents = merged(layout, above, rows, k)
        found.append((above, rows, parents))
    return found


def by_the_rule(feature: Feature, parent: Cut, siblings: list[list[int]], k: int) -> Cut:
    """One feature of one node, bin by bin."""

    def too_few(bins: list[int]) -> bool:
        return any(0 < sum(rows[place] for place in bins) < k for rows in siblings)

    groups: list[list[int]] = [[]]
    for group in parent[0]:
        groups[-1] = groups[-1] + group
        if not too_few(groups[-1]):
            groups.append([])
    if not groups[-1]:
        groups.pop()
    missing = [feature.values] if feature.missing else []
    joined = parent[1] or too_few(missing)
    while len(groups) > 1 and too_few(groups[-1] + (missing if joined else [])):
        last = groups.pop()
        groups[-1] = groups[-1] + last
    return groups, joined or (feature.missing and too_few(groups[0]) and len(groups) == 1)


def cut_of(layout: Layout, groups: Groups, node: int, number: int) -> Cut:
    """The groups of a feature as lists of its bins."""
    feature, start = layout.features[number], layout.starts[number]
    found: list[list[int]] = [[]]
    for place in range(feature.values):
        found[-1].append(place)
        if groups.ends[node, start + place]:
            found.append([])
    assert found.pop() == []
    return found, bool(groups.missing_joined[node, number])


def shown_groups(layout: Layout, groups: Groups, node: int) -> list[list[int]]:
    """All groups of a node as lists of logical bins, those of missing values included."""
    found = []
    for number, feature in enumerate(layout.features):
        cut, joined = cut_of(layout, groups, node, number)
        if feature.missing and joined:
            cut[-1].append(feature.values)
        elif feature.missing:
            cut.append([feature.values])
        found += [[int(layout.starts[number]) + place for place in group] for group in cut]
    return found


def assert_as_the_rule_says(layout: Layout, parents: Groups, rows: Ints, k: int, found: Groups) -> None:
    for node in range(len(rows)):
        for number, feature in enumerate(layout.features):
            start = layout.starts[number]
            siblings = rows[node, :, start : start + feature.size].tolist()
            expected = by_the_rule(feature, cut_of(layout, parents, node, number), siblings, k)
            assert cut_of(layout, found, node, number) == expected


@everywhere
def test_bins_are_merged_as_the_rule_says(layout: Layout, seed: int, crowd: float, k: int) -> None:
    for parents, rows, found in generations(layout, drawn(layout, seed, crowd), k):
        assert_as_the_rule_says(layout, parents, rows, k, found)


@pytest.mark.parametrize("k", [2, 10, 200, 300, 70_000, 10**12])
def test_any_number_of_rows_and_bins_will_do(k: int) -> None:
    values = (256, 2, 256, 31, 2, 1, 64)
    layout = Layout(
        tuple(Feature(size, place % 2 == 0, 0) for place, size in enumerate(values)), tuple((n,) for n in range(7))
    )
    rng = np.random.default_rng(k)
    rows = rng.integers(0, max(2, k // 3), (5, 2, layout.logical)) * (rng.random((5, 2, layout.logical)) < 0.7)
    parents = whole(layout, 5)
    assert_as_the_rule_says(layout, parents, rows, k, merged(layout, parents, rows, k))


@everywhere
def test_nobody_is_shown_a_few_rows_of_a_node(layout: Layout, seed: int, crowd: float, k: int) -> None:
    for _, rows, found in generations(layout, drawn(layout, seed, crowd), k):
        for node in range(len(rows)):
            for group in shown_groups(layout, found, node):
                everything = len(group) == layout.features[layout.owner[group[0]]].size
                seen = rows[node][:, group].sum(axis=1)
                assert everything or ((seen == 0) | (seen >= k)).all()


@everywhere
def test_groups_are_unions_of_their_parents_groups(layout: Layout, seed: int, crowd: float, k: int) -> None:
    for parents, rows, found in generations(layout, drawn(layout, seed, crowd), k):
        for node in range(len(rows)):
            larger = [set(group) for group in shown_groups(layout, found, node)]
            for group in shown_groups(layout, parents, node):
                assert any(set(group) <= other for other in larger)


@everywhere
def test_a_group_is_summed_up_at_its_usual_bin_or_its_first(layout: Layout, seed: int, crowd: float, k: int) -> None:
    usual = {int(start) + feature.usual for start, feature in zip(layout.starts, layout.features, strict=True)}
    for _, rows, found in generations(layout, drawn(layout, seed, crowd), k):
        places = representatives(layout, found)
        assert places.shape == (len(rows), layout.logical)
        for node in range(len(rows)):
            for group in shown_groups(layout, found, node):
                expected = min(set(group) & usual, default=group[0])
                assert places[node, group].tolist() == [expected] * len(group)


@everywhere
def test_sums_up_to_the_end_of_a_group_stay(layout: Layout, seed: int, crowd: float, k: int) -> None:
    for _, rows, found in generations(layout, drawn(layout, seed, crowd), k):
        shown = summed_at(representatives(layout, found), rows)
        for node, bin in np.argwhere(found.ends):
            number = layout.owner[bin]
            start, feature = layout.starts[number], layout.features[number]
            if bin < start + feature.values - 1:
                up_to = slice(start, bin + 1)
                assert (shown[node, :, up_to].sum(axis=1) == rows[node, :, up_to].sum(axis=1)).all()
            of_feature = slice(start, start + feature.size)
            assert (shown[node, :, of_feature].sum(axis=1) == rows[node, :, of_feature].sum(axis=1)).all()


def summed_at(places: Ints, rows: Ints) -> Ints:
    """Counts by node, sibling and logical bin, moved to the given places."""
    found = np.zeros(rows.shape, np.int64)
    for node, sibling, bin in np.ndindex(*rows.shape):
        found[node, sibling, places[node, bin]] += rows[node, sibling, bin]
    return found


@everywhere
def test_columns_show_the_same_bins_as_features(layout: Layout, seed: int, crowd: float, k: int) -> None:
    column_of = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
    first = np.cumsum([0, *layout.sizes])[column_of]
    physical = layout.physical
    for _, rows, found in generations(layout, drawn(layout, seed, crowd), k):
        shown = shown_bins(layout, found)
        assert shown.dtype == narrow(layout.sizes)
        assert shown.shape == (len(rows), layout.bins)
        assert (shown < np.array(layout.sizes)[column_of]).all()
        assert ((shown + first)[:, physical] == physical[representatives(layout, found)]).all()
        for bundle, begin in zip(layout.bundles, np.cumsum([0, *layout.sizes]), strict=False):
            if len(bundle) > 1:
                assert (shown[:, begin] == 0).all()


def some_rows(layout: Layout, rng: np.random.Generator, count: int) -> Bins:
    """Rows in which at most one feature of a bundle is away from its usual bin."""
    usual = np.array([feature.usual for feature in layout.features])
    found = np.tile(usual, (count, 1)).astype(np.uint16)
    for bundle in layout.bundles:
        chosen = rng.choice(bundle, count)
        sizes = np.array([feature.size for feature in layout.features])[chosen]
        found[np.arange(count), chosen] = rng.integers(0, sizes)
    return found


@everywhere
def test_a_histogram_of_shown_bins_is_the_whole_one_with_groups_summed_up(
    layout: Layout, seed: int, crowd: float, k: int
) -> None:
    rng = np.random.default_rng(seed)
    bins = some_rows(layout, rng, 1 + int(crowd * 10))
    side, gradient = rng.integers(0, 2, len(bins)), rng.integers(-9, 10, len(bins))

    def histogram(values: Ints) -> Ints:
        """By side and logical bin."""
        found = np.zeros((2, layout.logical), np.int64)
        for number, start in enumerate(layout.starts):
            np.add.at(found, (side, start + bins[:, number]), values)
        return found

    counts = histogram(np.ones(len(bins), np.int64))
    root = merged(layout, whole(layout, 1), counts.sum(axis=0)[np.newaxis, np.newaxis], k)
    pair = merged(layout, root, counts[np.newaxis], k)
    for of_root, groups, node in ((True, root, np.zeros(len(bins), np.int64)), (False, pair, side)):
        both = shown_bins(layout, groups).repeat(2, axis=0)
        columns, offset = to_physical_bins(layout, bins), np.cumsum([0, *layout.sizes])
        sums = np.zeros((2, layout.bins, 1), np.int64)
        for column in range(len(layout.sizes)):
            shown = both[node, offset[column] + columns[:, column]]
            np.add.at(sums[:, :, 0], (node, offset[column] + shown), gradient)
        totals = np.array([[gradient[node == which].sum()] for which in range(2)])
        whole_one = histogram(gradient)
        expected = np.stack([whole_one.sum(axis=0), np.zeros(layout.logical, np.int64)]) if of_root else whole_one
        moved = summed_at(representatives(layout, groups), expected[np.newaxis])[0]
        assert (to_logical(layout, sums, totals)[:, :, 0] == moved).all()


def test_one_sibling_with_few_rows_is_enough() -> None:
    layout = Layout((Feature(3, False, 0),), ((0,),))
    found = merged(layout, whole(layout, 1), np.array([[[9, 9, 9], [1, 0, 9]]]), 5)
    assert found.ends.tolist() == [[False, False, True]]


def test_empty_bins_stay_apart() -> None:
    layout = Layout((Feature(3, True, 0),), ((0,),))
    found = merged(layout, whole(layout, 1), np.array([[[0, 0, 9, 0]]]), 5)
    assert found.ends.tolist() == [[True, True, True, False]]
    assert found.missing_joined.tolist() == [[False]]


def test_few_missing_values_that_no_neighbour_helps_go_further_back() -> None:
    layout = Layout((Feature(4, True, 4),), ((0,),))
    found = merged(layout, whole(layout, 1), np.array([[[6, 7, 0, 0, 2]]]), 5)
    assert found.ends.tolist() == [[True, False, False, True, False]]
    assert found.missing_joined.tolist() == [[True]]
    assert representatives(layout, found).tolist() == [[0, 4, 4, 4, 4]]
    assert shown_bins(layout, found).tolist() == [[0, 4, 4, 4, 4]]


def test_few_values_are_not_set_against_many_missing_ones() -> None:
    layout = Layout((Feature(2, True, 2), Feature(2, True, 0)), ((0,), (1,)))
    found = merged(layout, whole(layout, 1), np.array([[[1, 1, 9, 5, 1, 5]]]), 5)
    assert found.ends.tolist() == [[False, True, False, False, True, False]]
    assert found.missing_joined.tolist() == [[True, False]]


def test_joined_missing_values_stay_joined() -> None:
    layout = Layout((Feature(2, True, 0),), ((0,),))
    above = merged(layout, whole(layout, 1), np.array([[[20, 20, 3]]]), 5)
    below = merged(layout, above, np.array([[[10, 10, 0], [10, 10, 0]]]), 5)
    assert below.missing_joined.tolist() == [[True]]


@pytest.mark.parametrize("k", [0, 1])
def test_without_a_smallest_number_nothing_changes(k: int) -> None:
    layout = Layout((Feature(3, True, 1), Feature(2, False, 0)), ((1, 0),))
    rows = np.random.default_rng(k).integers(0, 3, (4, 2, layout.logical))
    found = merged(layout, whole(layout, 4), rows, k)
    assert found.ends.tolist() == [[True, True, True, False, True, True]] * 4
    assert not found.missing_joined.any()
    assert representatives(layout, found).tolist() == [list(range(6))] * 4


def test_parents_are_left_as_they_were() -> None:
    layout = Layout((Feature(3, True, 1),), ((0,),))
    parents = whole(layout, 2)
    merged(layout, parents, np.ones((2, 2, 4), np.int64), 5)
    assert parents.ends.tolist() == [[True, True, True, False]] * 2
    assert not parents.missing_joined.any()


@pytest.mark.parametrize(("columns", "nodes"), [(0, 3), (2, 0), (0, 0)])
def test_no_columns_and_no_nodes(columns: int, nodes: int) -> None:
    layout = Layout((Feature(2, True, 0),) * columns, tuple((number,) for number in range(columns)))
    found = merged(layout, whole(layout, nodes), np.zeros((nodes, 2, layout.logical), np.int64), 5)
    assert found.ends.shape == (nodes, 3 * columns)
    assert found.missing_joined.shape == (nodes, columns)
    assert representatives(layout, found).shape == shown_bins(layout, found).shape == (nodes, 3 * columns)


# bundles


@pytest.mark.parametrize("levels", [(180, 190, 125, 101, 4), (20, 20, 3), (40, 12, 11, 9, 8, 1), (30, 30), (5, 4)])
@pytest.mark.parametrize("nobody", [0, 3, 50])
def test_what_a_bundle_leaves_is_of_enough_rows_or_none(levels: tuple[int, ...], nobody: int) -> None:
    """Levels of a category as columns of 0 and 1, and rows that have none of them."""
    k, total = 10, sum(levels) + nobody
    layout = Layout((Feature(2, False, 0),) * len(levels), (tuple(range(len(levels))),))
    counts = np.array([[[number for level in levels for number in (total - level, level)]]])
    groups = covered(layout, merged(layout, whole(layout, 1), counts, k), counts, k)
    shown = [level for place, level in enumerate(levels) if groups.ends[0, 2 * place]]
    assert all(level >= k for level in shown)
    rest = total - sum(shown)
    assert rest == 0 or rest >= min(k, total)
    without = [level for level in levels if level >= k]
    hidden = sorted(set(without) - set(shown))
    assert hidden == sorted(without)[: len(hidden)]
    if total - sum(without) == 0 or total - sum(without) >= k:
        assert sorted(shown) == sorted(without)


def test_a_bundle_covers_both_siblings_and_missing_values() -> None:
    layout = Layout((Feature(2, True, 0), Feature(3, False, 1)), ((0, 1),))
    counts = np.array([[[45, 12, 13, 15, 33, 22], [50, 20, 30, 40, 51, 9]]])  # bin 0: 8 and -, of 70 and 100 rows
    counts[0, 1] = [60, 20, 20, 25, 65, 10]
    groups = covered(layout, whole(layout, 1), counts, 10)
    assert groups.missing_joined.tolist() == [[True, False]]
    assert groups.ends.tolist() == [[False, True, False, True, True, True]]
