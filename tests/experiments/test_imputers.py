"""The experiment `imputers`: cells as they are hidden, its figures, and its page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from unpooled.complete.completers.completers import COMPLETERS
from unpooled.data import datasets
from unpooled.data.coding import learn_all
from unpooled.data.table import table_from_frame
from unpooled.errors import InputError, TrainingDiverged
from unpooled.experiments import cells as kept
from unpooled.experiments import dealing, figures, hidden_cells, imputers, page
from unpooled.experiments.cells import Done
from unpooled.experiments.experiment import Figures, Tier
from unpooled.experiments.hidden_cells import Hidden, hide, judged, kind_of, mask_of, mean_or_mode, trust_rank
from unpooled.experiments.imputers import IMPUTERS
from unpooled.experiments.imputers_claims import (
    DRAWS,
    GUESS,
    MEAN,
    MISSING,
    TRUTH,
    advice,
    arranged,
    best_of_sets,
    drawn,
    ranking,
    told_against,
)
from unpooled.experiments.imputers_page import ENSEMBLES, NETWORKS, PLAIN, over_sets

ROWS = 120


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dealing, "DOWNSTREAM", {**dealing.DOWNSTREAM, "n_estimators": 10})


def test_cells_are_hidden_at_random_in_a_block_or_in_whole_rows() -> None:
    rng = np.random.default_rng(1)
    assert mask_of("random", (1000, 10), rng).mean() == pytest.approx(0.2, abs=0.02)
    block = mask_of("block", (100, 9), rng)
    assert (block.any(axis=1).sum(), block.any(axis=0).sum(), block.sum()) == (70, 4, 280)
    rows = mask_of("rows", (100, 9), rng)
    assert (rows.all(axis=1).sum(), rows.sum()) == (70, 630)


def test_a_quarter_of_the_rows_is_for_testing_and_the_same_seed_hides_the_same_cells() -> None:
    hidden = hide("breast", ROWS, "random", 1)
    assert (hidden.truth.frame.height, hidden.test.frame.height) == (90, 30)
    assert not set(hidden.truth.frame["id"]) & set(hidden.test.frame["id"])
    assert hidden.mask.shape == (90, 30)
    assert {kind_of(column) for column in hidden.columns} == {"number"}
    again = hide("breast", ROWS, "random", 1)
    assert again.truth.frame.equals(hidden.truth.frame)
    assert (again.mask == hidden.mask).all()
    assert hide("breast", 0, "rows", 2).truth.frame.height == 427


def test_types_are_told_and_missing_cells_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 200
    frame = pl.DataFrame(
        {
            "id": range(count),
            "age": range(count),
            "education": ["basic.4y", "unknown"] * (count // 2),
            "default": ["no", "yes", "unknown", "no"] * (count // 4),
            "housing": ["yes"] * count,
            "loan": ["no"] * count,
            "contact": ["telephone", "cellular"] * (count // 2),
        }
    )
    made_up = datasets.Dataset("bank", frame, np.arange(count) % 2 == 0)
    monkeypatch.setattr(datasets, "load", lambda _: made_up)
    hidden_cells.table_of.cache_clear()
    hidden = hide("bank", 0, "rows", 1)
    hidden_cells.table_of.cache_clear()
    kinds = {column.name: kind_of(column) for column in hidden.columns}
    assert kinds == {"age": "number", "education": "ordered"} | dict.fromkeys(frame.columns[3:], "boolean")
    missing = hidden.truth.frame["default"].is_null().to_numpy()
    assert missing.any()
    assert not hidden.mask[missing, 2].any()


def made_up_truth() -> Hidden:
    """Four rows of which three cells of each column are hidden."""
    frame = pl.DataFrame(
        {"id": range(4), "size": [0.0, 1.0, 2.0, 10.0], "stage": ["a", "a", "b", "b"], "old": [True, False, True, True]}
    )
    table = table_from_frame(frame, "id", "clinic")
    mask = np.array([[False] * 3, [True] * 3, [True] * 3, [True] * 3])
    label = np.array([0.0, 1.0, 0.0, 1.0])
    return Hidden(table, mask, label, table, label, learn_all(table), 1)


def test_errors_and_distances_are_those_of_the_hidden_cells() -> None:
    hidden = made_up_truth()
    assert judged(hidden, hidden.truth) == {
        "rmse": 0.0,
        "rmse_scaled": 0.0,
        "ks": 0.0,
        "wasserstein": 0.0,
        "accuracy": 1.0,
        "tv": 0.0,
        "boolean": 1.0,
        "boolean_tv": 0.0,
        "category": 1.0,
        "category_tv": 0.0,
        "association": 0.0,
    }
    found = judged(hidden, mean_or_mode(hidden))
    error = np.sqrt((1.0 + 4.0 + 100.0) / 3.0)
    assert found["rmse"] == pytest.approx(error / np.std([0.0, 1.0, 2.0, 10.0]))
    assert found["rmse_scaled"] == pytest.approx(error / 10.0)
    assert (found["boolean"], found["category"], found["accuracy"]) == pytest.approx((2 / 3, 1 / 3, 1 / 2))
    assert found["tv"] == pytest.approx((1 / 3 + 2 / 3) / 2)
    assert found["association"] > 0


@pytest.mark.parametrize("completer", ["missing", "hot-deck", "iterative"])
def test_a_cell_has_figures_that_the_experiment_names(completer: str) -> None:
    cell = {"set": "breast", "rows": ROWS, "way": "block", "completer": completer, "seed": 1}
    found = IMPUTERS.compute(cell)
    more = {"missing": [MEAN, TRUTH], "hot-deck": [DRAWS], "iterative": []}
    assert list(found) == [GUESS, *more[completer]]
    for each in found.values():
        assert set(each) <= set(IMPUTERS.figures)
        assert np.isfinite(list(each.values())).all()
        assert 0.5 < each["auc"] <= 1.0
    if completer == "missing":
        assert "rmse" not in found[GUESS]
        assert found[MEAN]["rmse"] > 0.8
    else:
        assert found[GUESS]["rmse"] < 1.0
    assert ("rank" in found[GUESS]) == (completer == "hot-deck")
    again = IMPUTERS.compute(cell)
    same = [name for name in found[GUESS] if "cpu" not in name]
    assert [again[GUESS][name] for name in same] == [found[GUESS][name] for name in same]


def test_a_training_that_diverges_is_told_and_does_not_end_the_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverges(*_: object) -> None:
        raise TrainingDiverged("it diverged")

    monkeypatch.setattr(imputers, "fit", diverges)
    found = IMPUTERS.compute({"set": "breast", "rows": ROWS, "way": "rows", "completer": "hot-deck", "seed": 1})
    assert set(found[GUESS]) == {"diverged", "fit_cpu"}
    frame = frame_of({("breast", ROWS, "rows", "hot-deck", 1): found})
    assert "nothing was filled: hot-deck on breast, rows (random seed 1)." in IMPUTERS.section(frame)


def test_cells_of_a_tier_are_distinct_and_name_completers_that_there_are() -> None:
    for tier in Tier:
        cells = IMPUTERS.cells(tier, 11)
        assert len({IMPUTERS.key(cell) for cell in cells}) == len(cells)
        assert all(IMPUTERS.seconds(cell) > 0 for cell in cells)
        assert {cell["completer"] for cell in cells} == {*PLAIN, *NETWORKS, *ENSEMBLES}
    assert {cell["set"] for cell in IMPUTERS.cells(Tier.standard, 11)} == {"breast", "bank", "credit", "census"}
    settings = [imputers.settings_of(name) for name in (*PLAIN, *NETWORKS, *ENSEMBLES)]
    assert {one.completer for one in settings} <= {completer.name for completer in COMPLETERS}
    assert all(one.held_out == 0 for one in settings)


def test_a_set_that_is_missing_is_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> datasets.Dataset:
        raise InputError(f"{name} is missing")

    monkeypatch.setattr(datasets, "load", absent)
    hidden_cells.table_of.cache_clear()
    with pytest.raises(InputError, match="census is missing"):
        IMPUTERS.check(IMPUTERS.cells(Tier.quick, 1))


def guess(rmse: float, accuracy: float, ks: float, auc: float, **more: float) -> dict[str, float]:
    classes = {"accuracy": accuracy, "category": accuracy, "tv": ks, "category_tv": ks}
    return {"rmse_scaled": rmse / 10, "rmse": rmse, "ks": ks, "association": ks, "auc": auc, **classes, **more}


def some_cells() -> dict[tuple[Any, ...], Figures]:
    """Two sets, two draws: gain loses to iterative on bank only; the copula's draws have the least distance."""
    found: dict[tuple[Any, ...], Figures] = {}
    for name in ("breast", "bank"):
        for seed in (1, 2):
            for way in ("random", "block", "rows"):
                gain = 0.6 if name == "bank" else 0.3
                each: Mapping[str, Figures] = {
                    MISSING: {
                        GUESS: {"auc": 0.9},
                        MEAN: guess(1.0, 0.5, 0.6, 0.8),
                        TRUTH: {"auc": 0.95},
                    },
                    "iterative": {GUESS: guess(0.4 + 0.01 * seed, 0.7, 0.3, 0.9, fill_cpu=3.0 * seed)},
                    "copula": {GUESS: guess(0.7, 0.6, 0.2, 0.9, rank=0.5), DRAWS: guess(0.9, 0.55, 0.05, 0.91)},
                    "gain": {GUESS: guess(gain, 0.65, 0.4, 0.85)},
                }
                found |= {(name, 1000, way, completer, seed): one for completer, one in each.items()}
    return found


def frame_of(found: Mapping[tuple[Any, ...], Figures]) -> pl.DataFrame:
    return kept.frame_of(IMPUTERS, {key: Done(each, 60.0, "v", "m") for key, each in found.items()})


def test_completers_are_ranked_over_draws_that_all_have() -> None:
    frame = arranged(frame_of(some_cells()))
    part = frame.filter((pl.col("way") == "random") & (pl.col("method") == GUESS))
    assert [name for name, _ in ranking(part, "rmse")] == ["iterative", "gain", "copula", MEAN]
    assert ranking(part, "accuracy")[0] == ("iterative", pytest.approx(0.7))
    first = part.filter((pl.col("completer") != "gain") | (pl.col("seed") == 1))
    assert dict(ranking(first, "rmse"))["iterative"] == pytest.approx(0.41)
    draws = drawn(frame.filter(pl.col("way") == "rows"))
    assert ranking(draws, "ks")[0] == ("copula", pytest.approx(0.05))
    assert set(draws.filter(pl.col("completer") == "gain")["method"]) == {GUESS}


def test_sentences_say_who_is_best_and_who_loses() -> None:
    frame = arranged(frame_of(some_cells()))
    best = best_of_sets(frame, "random")
    assert best.startswith("Hidden by *random*, the smallest RMSE has `gain` (0.300) on breast and `iterative` (0.415)")
    assert "the greatest accuracy has `iterative` (0.700) on breast and `iterative` (0.700) on bank." in best
    told = told_against(frame, "block").splitlines()
    assert told[0] == "Hidden by *block*:"
    assert told[2] == (
        "- **copula**: RMSE better than `mean` on every set; worse than `iterative` on every set. "
        "accuracy better than `mean` on every set; worse than `iterative` on every set. "
        "AUC better than `missing`, `mean` and `iterative` on every set."
    )
    assert told[3].startswith(
        "- **gain**: RMSE better than `mean` on every set; better than `iterative` on breast, worse on bank. "
    )
    assert told[3].endswith("AUC worse than `missing` and `iterative` on every set; better than `mean` on every set.")
    assert told_against(frame.filter(pl.col("completer").is_in([MISSING, MEAN])), "block") == ""


def test_the_table_for_the_default_has_both_the_error_and_the_distance() -> None:
    text = advice(arranged(frame_of(some_cells())))
    assert "| number, random | `iterative` (0.415) | 0.700 | `copula` (0.050) | 0.050 |" in text
    assert "| category, rows | `iterative` (0.300) | 0.400 | `copula` (0.050) | 0.050 |" in text
    assert "ordered, " not in text
    assert "- block: KS 0.050, the least; total variation 0.050, the least; association 0.050, the least" in text


def test_a_mean_over_sets_needs_all_of_them() -> None:
    frame = arranged(frame_of(some_cells())).filter((pl.col("way") == "random") & (pl.col("method") == GUESS))
    found = over_sets(frame, "rmse", completer="gain")
    assert found is not None
    assert (found.mean, found.count) == (pytest.approx(0.45), 2)
    lacking = frame.filter((pl.col("completer") != "gain") | (pl.col("set") == "bank"))
    assert over_sets(lacking, "rmse", completer="gain") is None


def test_the_section_and_its_pictures_are_made_from_cells_alone(tmp_path: Path) -> None:
    cells = {key: Done(each, 60.0, "v", "m") for key, each in some_cells().items()}
    text = page.section(IMPUTERS, Tier.standard, cells, "results")
    assert "![RMSE of best guesses by completer](results/imputers-errors.svg)" in text
    assert "| iterative | 0.042 ± 0.001 | 0.415 ± 0.007 | 0.700 ± 0.000 |" in text
    assert "| truth | 0.950 ± 0.000 |  | 0.950 ± 0.000 |" in text
    assert "| iterative |  |  | 4.5 ± 2.1 |" in text
    assert "nan" not in text.lower()
    pictures = IMPUTERS.pictures(kept.frame_of(IMPUTERS, cells))
    assert list(pictures) == ["errors", "distances"]
    assert pictures["errors"].x_names == [MEAN, "iterative", "copula", "gain"]
    svg, _ = figures.save(pictures["distances"], tmp_path / "distances")
    assert all(f">{name}<" in svg.read_text() for name in ("breast", "bank", "gain"))


def test_trust_is_ranked_against_errors() -> None:
    hidden = hide("breast", ROWS, "random", 1)
    done = imputers.guessed(hidden, imputers.settings_of("hot-deck"))
    found = trust_rank(hidden, done)
    assert found is not None
    assert 0.0 < found < 1.0
