"""With hidden nodes: every bin has at least `min_rows` rows, and a curious active party finds out no more than bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unpooled.arrays import Floats, Ints
from unpooled.attacks.opened_sides import OpenedSides
from unpooled.secure.plain import PlainMatrix
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.binning import MISSING, Binning, apply_bins, binned, fit_bins
from unpooled.vertical.trees.grower import histogram
from unpooled.wire import encode

Make = Callable[..., Any]

FEW = st.sampled_from([-2.0, -1.0, 0.0, 1.0, 1.5, 3.0, 7.0, math.nan])
COLUMN = st.lists(st.floats(-50, 50) | FEW, min_size=40, max_size=40)


def fitted(matrix: Floats, min_rows: int, **others: Any) -> Binning:
    names = [f"c{place}" for place in range(matrix.shape[1])]
    return fit_bins(matrix, names, **{"bins": 8, "party": "clinic", "min_rows": min_rows} | others)


# Bins


@settings(deadline=None, max_examples=100)
@given(columns=st.lists(COLUMN, min_size=1, max_size=4), k=st.integers(1, 25), most=st.none() | st.integers(0, 12))
def test_no_bin_has_few_rows(columns: list[list[float]], k: int, most: int | None) -> None:
    matrix = np.array(columns).T
    binning = fitted(matrix, k, most_thresholds=most)
    training = binned(binning, matrix, "clinic")
    for feature, bins in zip(binning.features, training.feature_bins.T, strict=True):
        counts = np.bincount(bins, minlength=feature.feature.size)
        assert not ((counts > 0) & (counts < k)).any()
        assert feature.usual == counts.argmax()
        gone = int(np.isnan(matrix[:, feature.column]).sum())
        assert (feature.missing is True) <= (gone >= k)
        assert bool(feature.missing) == (gone > 0)
    for size, column in zip(binning.layout.sizes, training.columns.T, strict=True):
        counts = np.bincount(column, minlength=size)
        assert not ((counts > 0) & (counts < k)).any(), "also what the features of a bundle leave over"


@settings(deadline=None, max_examples=50)
@given(columns=st.lists(COLUMN, min_size=1, max_size=3), k=st.integers(2, 25))
def test_bins_are_merged_and_nothing_else(columns: list[list[float]], k: int) -> None:
    matrix = np.array(columns).T
    fine, coarse = fitted(matrix, 1, bundle=False), fitted(matrix, k, bundle=False)
    for one, other in zip(fine.features, coarse.features, strict=True):
        assert set(other.edges) <= set(one.edges)
        counts = np.bincount(one.bins_of(matrix[:, one.column]), minlength=one.feature.size)
        if counts.min() >= k:
            assert one == other


def test_missing_values_that_are_few_are_in_the_usual_bin_also_later() -> None:
    values = np.array([1.0] * 20 + [2.0] * 30 + [3.0] * 3 + [math.nan] * 4)[:, np.newaxis]
    (feature,) = fitted(values, 5).features
    assert (feature.edges, feature.missing, feature.usual) == ((1.5,), "usual", 1)
    later = apply_bins(fitted(values, 5), np.array([[0.0], [9.0], [math.nan]]), "clinic")
    assert later[:, 0].tolist() == [0, 1, 1]
    assert Binning.model_validate_json(fitted(values, 5).model_dump_json()) == fitted(values, 5)
    (own,) = fitted(values, 4).features
    assert (own.missing, own.feature.size) == (True, 3)
    none = fitted(values[:50], 5)
    assert apply_bins(none, np.array([[math.nan]]), "clinic")[0, 0] == MISSING


def test_values_that_are_few_join_the_missing_ones() -> None:
    values = np.array([1.0] * 2 + [2.0] * 2 + [math.nan] * 40)[:, np.newaxis]
    (feature,) = fitted(values, 5).features
    assert (feature.edges, feature.missing, feature.feature.size) == ((), "usual", 1)
    assert not apply_bins(fitted(values, 5), values, "clinic").any()


def test_what_the_levels_of_a_category_leave_over_has_enough_rows() -> None:
    """A level of 3 rows would be known by what the others are not; then the smallest of these is not shown either."""
    levels = np.repeat(np.arange(5), [40, 30, 20, 12, 3])
    matrix = (levels[:, np.newaxis] == np.arange(5)).astype(float)
    binning = fitted(matrix, 5)
    assert binning.bundles == ((0, 1, 2, 3, 4),)
    assert [feature.feature.size for feature in binning.features] == [2, 2, 2, 1, 1]
    assert sorted(np.bincount(binned(binning, matrix, "clinic").columns[:, 0]).tolist()) == [15, 20, 30, 40]
    assert [feature.feature.size for feature in fitted(matrix[:-3], 5).features] == [2, 2, 2, 2, 1]


# A curious active party


@dataclass(frozen=True, eq=False)
class Read:
    """The true bins of a passive party's features, and what was read: by cell the bin, or -1; what sides left open."""

    bins: Ints
    from_sums: Ints
    rows_possible: Ints

    @property
    def smallest(self) -> int:
        """How many rows share the bin of a cell that was read, at the least."""
        rows, features = np.nonzero(self.from_sums >= 0)
        assert (self.from_sums[rows, features] == self.bins[rows, features]).all(), "what it reads is so"
        alike = [
            int((self.bins[:, feature] == self.bins[row, feature]).sum())
            for row, feature in zip(rows, features, strict=True)
        ]
        return min(alike)


def attack(
    together: Make,
    parameters: Any,
    data: Any,
    monkeypatch: pytest.MonkeyPatch,
    team: str = "two",
    lender: str = "telco",
) -> Read:
    """The bank knows the gradient and the node of each row. A sum that weighs as much as one row is that row's."""
    seen, begin = list[tuple[Any, Any, Ints]](), histogram.begin

    def watched(engine: Any, batch: Any) -> Any:
        results = begin(engine, batch)

        def noted() -> Any:
            found = results()
            seen.extend((call, inputs, sums) for (call, inputs), sums in zip(batch, found, strict=True))
            return found

        return noted

    monkeypatch.setattr(histogram, "begin", watched)
    run = together(parameters, team, engine="plain", data=data, predicts=False)
    monkeypatch.setattr(histogram, "begin", begin)
    part, rows = run.parts[lender], len(data.matrix)
    layout = part.binning.layout
    bins = apply_bins(part.binning, data.matrix[:, list(run.team[lender])], lender)
    sides = OpenedSides(layout, rows)
    answers = run.sent(lender, messages.SplitSidesForAll)
    for asked, told in zip(run.messages(lender, messages.SplitRequestForAll), answers, strict=True):
        right = np.unpackbits(told.sides, count=rows * len(asked.features)).view(bool).reshape(-1, rows)
        for split in zip(asked.features, asked.places, asked.missing_left, right, strict=True):
            sides.open(int(split[0]), int(split[1]), bool(split[2]), slice(None), split[3])
    read = np.full(bins.shape, -1)
    for call, inputs, sums in seen:
        if call.terms[0][0] == lender:
            unit = int(inputs.y[:, -1].max())
            for node, place in np.argwhere(sums[..., -1] == unit):
                inside = np.flatnonzero((inputs.nodes == node) & (inputs.y == sums[node, place]).all(axis=1))
                (logical,) = np.flatnonzero(layout.physical == place)
                if len(inside) == 1:
                    read[inside[0], layout.owner[logical]] = layout.place[logical]
    return Read(bins, read, sides.possible(bins))


@pytest.mark.parametrize("learner", ["gbdt", "rf"])
def test_all_that_a_curious_active_party_reads_is_shared_by_enough_rows(
    learner: str, scene: Make, parameters_for: Make, together: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums over few rows of a node tell in which bin a row is; but many rows are in that bin."""
    k, data = 15, scene(rows=300, missing=0.03)
    wide = {"trees": 12, "depth": 6, "bundle": False, "hide_nodes": True, "column_fraction": 1.0}
    if learner == "rf":
        wide |= {"bootstrap": False, "row_fraction": 1.0}
    protected = attack(together, parameters_for(learner, 0, min_rows=k, **wide), data, monkeypatch)
    assert (protected.from_sums >= 0).sum() > 15, "the attack works, or the test shows nothing"
    assert protected.smallest >= k
    assert protected.rows_possible.min() >= k
    bare = attack(together, parameters_for(learner, 0, min_rows=1, **wide), data, monkeypatch)
    assert bare.smallest < k / 2
    assert bare.rows_possible.min() < k / 2


@pytest.mark.parametrize("learner", ["gbdt", "lgb"])
def test_values_within_a_bin_make_no_difference_to_what_is_sent(
    learner: str, scene: Make, parameters_for: Make, together: Make
) -> None:
    """Rows of the same bin exchange their values: bins of enough rows stay the same, finer ones do not."""
    k, data = 20, scene(rows=300, missing=0.03)
    hidden = parameters_for(learner, 2, min_rows=k, depth=4, trees=4, hide_nodes=True)
    first = together(hidden, data=data, engine="plain", predicts=False, seeds={"telco": 3, "bank": 4})
    rng, matrix = np.random.default_rng(9), data.matrix.copy()
    lent = list(first.team["telco"])
    bins = apply_bins(first.parts["telco"].binning, matrix[:, lent], "telco")
    for number, feature in enumerate(first.parts["telco"].binning.features):
        for each in np.unique(bins[:, number]):
            rows = np.flatnonzero(bins[:, number] == each)
            matrix[rows, lent[feature.column]] = rng.permutation(matrix[rows, lent[feature.column]])
    assert (matrix != data.matrix).any(axis=0).sum() >= 3, "values were exchanged, or the test shows nothing"

    def sent(run: Any) -> list[bytes]:
        """All that telco tells, and all that it puts into products."""
        multiplied = [matrix.tobytes() for plain in run.sent("telco", PlainMatrix) for matrix in plain.values]
        told = run.sent("telco", messages.LentColumns, messages.SplitSidesForAll)
        return [encode(message).joined() for message in told] + multiplied

    def again(settings: Any) -> tuple[list[bytes], list[bytes]]:
        seeds = {"telco": 3, "bank": 4}
        both = [
            together(settings, data=one, engine="plain", predicts=False, seeds=seeds)
            for one in (data, replace(data, matrix=matrix))
        ]
        return sent(both[0]), sent(both[1])

    one, other = again(hidden)
    assert one == other
    fine, changed = again(hidden.model_copy(update={"min_rows": 1}))
    assert fine != changed
