"""The experiment `completion`: data as it is dealt, its cells, and the answers to the paper's claims."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from unpooled.data import datasets
from unpooled.errors import InputError
from unpooled.experiments import cells as kept
from unpooled.experiments import completion, dealing
from unpooled.experiments.completion import COMPLETION
from unpooled.experiments.completion_claims import claims, compare
from unpooled.experiments.experiment import Tier

DOCS = Path(__file__).parents[2] / "docs"
ROWS = 240


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Instead of a public data set one of two numbers and two categories."""
    rng = np.random.default_rng(1)
    one, two = rng.normal(size=(2, ROWS))
    frame = pl.DataFrame(
        {
            "id": range(ROWS),
            "age": one,
            "lab": one + 0.3 * rng.normal(size=ROWS),
            "stage": np.where(two > 0, "late", "early"),
            "drug": np.where(two + 0.3 * rng.normal(size=ROWS) > 0, "x", "y"),
            "constant": 1,
        }
    )
    label = one + two + rng.normal(size=ROWS) > 0
    monkeypatch.setattr(datasets, "load", lambda name: datasets.Dataset(name, frame, label))
    dealing.columns_of.cache_clear()
    yield
    dealing.columns_of.cache_clear()


@pytest.mark.usefixtures("made_up")
def test_what_b_lacks_is_hidden_and_nothing_else() -> None:
    dealt = dealing.deal("census", 1, 0.5)
    assert (dealt.rows, dealt.aligned, len(dealt.test)) == (180, 90, 60)
    assert sorted([*dealt.own, *dealt.other]) == [0, 1, 2, 3]
    lacking = dealt.left_missing
    assert np.isnan(lacking[90:][:, dealt.other]).all()
    lacking[90:, dealt.other] = dealt.matrix[90:, dealt.other]
    assert (lacking == dealt.matrix).all()
    assert all(not variable.known[90:].any() and variable.known[:90].all() for variable in dealt.missing())
    names = [dealt.variables[place].name for place in range(4)]
    assert (dealt.table.frame[names[0]].to_numpy() == dealt.matrix[:, 0]).all()
    assert (dealing.deal("census", 1, 0.5).matrix == dealt.matrix).all()
    assert dealing.deal("census", 1, 0.5, rows=100).rows == 75


@pytest.mark.usefixtures("made_up")
def test_selected_rows_are_the_same_rows_with_other_ones_aligned() -> None:
    random, selected = (dealing.deal("census", 1, 0.2, sample=sample) for sample in ("random", "selected"))
    assert sorted(map(tuple, random.matrix)) == sorted(map(tuple, selected.matrix))
    assert (random.test == selected.test).all()

    def apart(dealt: dealing.Dealt) -> float:
        columns = dealt.matrix[:, dealt.own]
        shift = columns[: dealt.aligned].mean(axis=0) - columns[dealt.aligned :].mean(axis=0)
        return float(np.abs(shift / columns.std(axis=0)).max())

    assert apart(selected) > 2 * apart(random)


@pytest.mark.usefixtures("made_up")
def test_quality_is_of_hidden_cells_that_are_filled() -> None:
    dealt = dealing.deal("census", 1, 0.5)
    truth = dealt.truth.copy()
    perfect = dealing.quality(dealt, truth)
    assert perfect["filled"] == 1
    assert {perfect.get("accuracy", 1.0), perfect.get("r2", 1.0)} == {1.0}
    assert perfect.get("rmse", 0.0) == 0
    wrong = truth.copy()
    wrong[: dealt.aligned] = np.nan
    assert dealing.quality(dealt, wrong) == perfect
    wrong[dealt.aligned :: 2] = np.nan
    assert dealing.quality(dealt, wrong)["filled"] == pytest.approx(0.5, abs=0.01)


@pytest.mark.usefixtures("made_up")
def test_every_part_of_a_cell_gives_figures_that_the_experiment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "BASE", completion.BASE.model_copy(update={"trees": 6, "learning_rate": 0.6}))
    monkeypatch.setattr(dealing, "DOWNSTREAM", {**dealing.DOWNSTREAM, "n_estimators": 5})
    tried = {}
    for cell in COMPLETION.cells(Tier.quick, 1):
        if (cell["aligned"], cell["sample"]) == (0.5, "random") or cell["part"] in ("measures", "self-training"):
            small = dict(cell) | {"rows": 0, "aligned": 0.3, "rounds": min(int(cell["rounds"]), 2)}
            tried[cell["part"], cell["confidence"], cell["rounds"]] = completion.compute(small)
    assert {part for part, _, _ in tried} == {"baselines", "completers", "prediction", "measures", "self-training"}
    for figures in tried.values():
        for values in figures.values():
            assert set(values) <= set(COMPLETION.figures)
            assert np.isfinite(list(values.values())).all()
    assert list(tried["baselines", "", 0]) == ["aligned only", "A only", "left missing", "truth"]
    once, more = tried["self-training", "paper", 1], tried["self-training", "paper", 10]
    assert once["promoted cells"]["filled"] < more["promoted cells"]["filled"] < more["all cells"]["filled"] == 1


def test_cells_of_a_tier_are_distinct_and_all_have_an_estimate() -> None:
    for tier in Tier:
        cells = COMPLETION.cells(tier, 11)
        assert len({COMPLETION.key(cell) for cell in cells}) == len(cells)
        assert all(COMPLETION.seconds(cell) > 0 for cell in cells)
    everything = COMPLETION.cells(Tier.seed, 11)
    assert {cell["aligned"] for cell in everything} == {0.02, 0.1, 0.3, 0.5, 0.7, 0.9}
    assert {cell["set"] for cell in everything} == {"bank", "credit", "census"}
    assert {cell["seed"] for cell in everything} == {11, 12, 13, 14, 15}
    assert len({(cell["alpha"], cell["k"]) for cell in everything if cell["alpha"]}) == 9


def test_without_lightgbm_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(InputError, match=r"pip install 'unpooled\[experiments\]'"):
        dealing.classify(np.zeros((2, 1)), np.array([0.0, 1.0]), np.zeros((1, 1)))


def test_pairs_are_compared_by_set_and_seed() -> None:
    one = pl.DataFrame({"set": ["a", "a", "b"], "seed": [1, 2, 1], "rmse": [0.5, 0.6, 0.7]})
    other = pl.DataFrame({"set": ["b", "a", "a"], "seed": [1, 2, 1], "rmse": [0.9, 0.8, 0.71]})
    (found,) = compare(one, other, ("rmse",))
    assert found.differences == pytest.approx([-0.21, -0.2, -0.2])
    assert (found.sign, found.better) == (-1, 1)
    assert compare(one, other.clear(), ("rmse",)) == []


def committed(tier: Tier) -> kept.Cells:
    return kept.read(COMPLETION, kept.path_of(COMPLETION, tier, DOCS / "results"))


def test_an_answer_without_cells_is_not_given() -> None:
    cells = {key: replace(done, figures={}) for key, done in committed(Tier.standard).items()}
    text = claims(kept.frame_of(COMPLETION, cells))
    assert text.count("Not measured yet.") == 4
