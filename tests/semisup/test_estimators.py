"""The scikit-learn estimators: that they are such, and what they make of labels, tables and files.

Every network takes seconds to compile: scikit-learn's checks are for one estimator, which shares its base with all, and
known positives alone are for three, unless ALL_CHECKS=1.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

from unpooled.arrays import Floats, Ints
from unpooled.errors import InputError
from unpooled.networks.training import Progress
from unpooled.semisup.estimators import ESTIMATORS, FixMatchClassifier, SupervisedNetworkClassifier
from unpooled.semisup.settings import METHODS

FEW: dict[str, Any] = {"steps": 40, "batch_rows": 16, "random_state": 1}
SMALL = {"hidden": (32,), "weak_noise": 0.05}


def made(name: str, **more: Any) -> Any:
    ratio = {"unlabelled_ratio": 2} if name != "supervised" else {}
    return ESTIMATORS[name](**{**FEW, "settings": {**SMALL, **ratio}, **more})


def made_up(rows: int = 200, labelled: int = 20, seed: int = 0) -> tuple[Floats, Ints, Ints]:
    """Two columns whose sum decides the class, and labels of some rows."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 2))
    truth = (matrix.sum(axis=1) > 0).astype(np.int64)
    return matrix, np.where(np.arange(rows) < labelled, truth, -1), truth


def exceptions(estimator: Any) -> dict[str, str]:
    """Checks that cannot pass, and why."""
    return {
        "check_classifiers_classes": "-1 is no class but stands for unlabelled rows, so predictions are 0 and 1",
    }


ALL_CHECKS = os.environ.get("ALL_CHECKS")
CHECKED = ESTIMATORS if ALL_CHECKS else ("supervised",)


@parametrize_with_checks([made(name, learning_rate=0.01) for name in CHECKED], expected_failed_checks=exceptions)
def test_scikit_learns_checks_pass_but_for_those_named(estimator: Any, check: Any) -> None:
    check(estimator)
    assert estimator.get_params()["steps"] is not None


# Each method learns from labels or from known positives, and with ALL_CHECKS=1 from both.
FEEDINGS = [("supervised", "prior"), ("fixmatch", "prior"), ("supervised", "negatives"), ("adamatch", "negatives")]
if ALL_CHECKS:
    FEEDINGS += [(name, "prior") for name in ESTIMATORS if (name, "prior") not in FEEDINGS]


@pytest.mark.parametrize("name", ESTIMATORS if ALL_CHECKS else sorted({*ESTIMATORS} - {name for name, _ in FEEDINGS}))
def test_every_method_learns_a_line(name: str) -> None:
    matrix, y, truth = made_up()
    found = made(name, steps=120, learning_rate=0.01).fit(matrix, y)
    chances = found.predict_proba(matrix)
    assert chances.shape == (200, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert (found.predict(matrix) == truth).mean() > 0.85
    assert found.classes_.tolist() == [0, 1]


@pytest.mark.parametrize(("name", "feeding"), FEEDINGS)
def test_known_positives_alone_are_enough(name: str, feeding: Any) -> None:
    matrix, _, truth = made_up(300)
    y = np.where((truth == 1) & (np.arange(300) % 3 == 0), 1, -1)
    found = made(name, steps=80, feeding=feeding, prior=0.4, learning_rate=0.01).fit(matrix, y)
    scores = found.predict_proba(matrix)[:, 1]
    first = np.argsort(-scores[y == -1])[:50]
    assert truth[y == -1][first].mean() > 0.85
    assert found.prior_ == 0.4


def test_the_prior_is_estimated_from_known_positives() -> None:
    rng = np.random.default_rng(2)
    positive = rng.random(600) < 0.3
    matrix = rng.normal(size=(600, 2)) + 4 * positive[:, np.newaxis]
    y = np.where(positive & (rng.random(600) < 0.5), 1, -1)
    found = made("supervised").fit(matrix, y)
    assert found.prior_ == pytest.approx(positive[y == -1].mean(), abs=0.08)
    with pytest.raises(ValueError, match="set `prior`"):
        made("supervised").fit(matrix, np.where(np.arange(600) < 2, 1, -1))


def test_the_same_seed_gives_the_same_scores_and_another_others() -> None:
    matrix, y, _ = made_up()
    one, again, other = (made("fixmatch", random_state=seed).fit(matrix, y).predict_proba(matrix) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert not np.allclose(one, other)


@pytest.mark.parametrize("name", ["supervised", "fixmatch"])
def test_what_was_saved_scores_alike(name: str, tmp_path: Path) -> None:
    matrix, y, _ = made_up()
    found = made(name).fit(matrix, y)
    found.save(tmp_path / "network.npz")
    loaded = type(found).load(tmp_path / "network.npz")
    np.testing.assert_array_equal(found.predict_proba(matrix), loaded.predict_proba(matrix))
    assert loaded.predict(matrix).tolist() == found.predict(matrix).tolist()
    assert loaded.steps == found.steps
    assert (tmp_path / "network.npz").stat().st_mode & 0o077 == 0


def test_damaged_and_foreign_files_are_refused(tmp_path: Path) -> None:
    matrix, y, _ = made_up()
    path = tmp_path / "network.npz"
    made("supervised").fit(matrix, y).save(path)
    with pytest.raises(InputError, match="method 'supervised'"):
        FixMatchClassifier.load(path)
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays["header"].tobytes())
    for change in ({"settings": {**header["settings"], "hidden": [16]}}, {"classes": [1]}, {"format": 2}):
        text = np.frombuffer(json.dumps({**header, **change}).encode(), np.uint8)
        np.savez(tmp_path / "changed.npz", **{**arrays, "header": text})
        with pytest.raises(InputError, match="no fitted network"):
            SupervisedNetworkClassifier.load(tmp_path / "changed.npz")
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(InputError, match="no fitted network"):
        SupervisedNetworkClassifier.load(path)
    with pytest.raises(InputError, match="cannot be read"):
        SupervisedNetworkClassifier.load(tmp_path / "absent.npz")


def test_texts_and_booleans_of_data_frames_are_categories(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    word, flag = rng.choice(["low", "middle", "high"], 300), rng.random(300) < 0.5
    truth = (word == "high").astype(int)
    y = np.where(np.arange(300) < 60, truth, -1)
    columns = {"number": rng.normal(size=300), "word": word, "flag": flag}
    answers = []
    for frame in (pl.DataFrame(columns), pd.DataFrame(columns)):
        found = made("fixmatch", steps=80, learning_rate=0.01).fit(frame, y)
        assert (found.predict(frame) == truth).mean() > 0.95
        answers.append(found.predict_proba(frame))
    np.testing.assert_array_equal(*answers)
    found.save(tmp_path / "network.npz")
    np.testing.assert_array_equal(FixMatchClassifier.load(tmp_path / "network.npz").predict_proba(frame), answers[1])
    strange = pl.DataFrame({"number": [0.0, 1.0], "word": ["unheard of", None], "flag": [True, False]})
    assert np.isfinite(found.predict_proba(strange)).all()
    with pytest.raises(ValueError, match=r"feature names|word"):
        found.predict_proba(strange.drop("word"))
    with pytest.raises(ValueError, match="another type"):
        found.predict_proba(strange.with_columns(word=pl.lit(1.0)))


def test_numbered_columns_are_categories() -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 6, 300)
    matrix = np.stack([rng.normal(size=300), codes], axis=1)
    truth = codes % 2
    y = np.where(np.arange(300) < 60, truth, -1)
    found = made("supervised", categories=[1], steps=80, learning_rate=0.01).fit(matrix, y)
    assert (found.predict(matrix) == truth).mean() > 0.95
    with pytest.raises(ValueError, match="no column 2"):
        made("supervised", categories=[2]).fit(matrix, y)


WRONG = {
    "one class": (np.zeros(200), "class"),
    "nothing labelled": (np.full(200, -1), "0 class"),
    "negatives alone": (np.where(np.arange(200) < 9, 0, -1), "1 class"),
    "three classes": (np.arange(200) % 3, "binary"),
    "too few": (np.array([1.0]), "inconsistent|sample"),
}


@pytest.mark.parametrize("what", WRONG)
def test_labels_that_say_too_little_are_refused(what: str) -> None:
    y, message = WRONG[what]
    with pytest.raises(ValueError, match=message):
        made("fixmatch").fit(made_up()[0], y)


def test_missing_numbers_are_refused() -> None:
    matrix, y, _ = made_up()
    matrix[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        made("fixmatch").fit(matrix, y)
    frame = pl.DataFrame({"number": [1.0, None, 2.0], "word": ["a", "b", "a"]})
    with pytest.raises(ValueError, match=r"'number' contains NaN"):
        made("fixmatch").fit(frame, [0, 1, -1])


BAD: list[dict[str, Any]] = [
    {"steps": 0},
    {"settings": {"tau": 0.5}},
    {"preset": "paper"},
    {"prior": 1.5},
    {"feeding": "both"},
    {"feeding": "negatives", "negative_fraction": 0.0},
]


@pytest.mark.parametrize("changes", BAD, ids=str)
def test_impossible_settings_are_refused(changes: dict[str, Any]) -> None:
    matrix, y, _ = made_up()
    with pytest.raises(ValueError, match=r"settings|preset|prior|feeding|negative_fraction"):
        made("fixmatch", **{"prior": 0.5, **changes}).fit(matrix, np.where(y == 1, 1, -1))


def test_a_training_that_gets_no_better_stops_early() -> None:
    matrix, y, truth = made_up(400, 200)
    y = np.where(y >= 0, np.random.default_rng(1).permutation(truth), y)  # nothing can be learned from these
    seen: list[Progress] = []
    made("supervised", steps=4000, validation_fraction=0.3, patience=2, watch=seen.append).fit(matrix, y)
    assert 2 < len(seen) < 100
    assert (seen[0].epochs, seen[-1].epoch) == (100, len(seen))
    with pytest.raises(ValueError, match="too few labelled rows"):
        made("supervised", validation_fraction=0.1).fit(*made_up(100, 4)[:2])


def test_a_search_over_settings_works() -> None:
    matrix, y, _ = made_up()
    labelled = y >= 0
    search = GridSearchCV(made("supervised"), {"learning_rate": [0.001, 0.01]}, cv=2).fit(matrix[labelled], y[labelled])
    assert search.best_params_["learning_rate"] in (0.001, 0.01)


@pytest.mark.parametrize("name", ["pseudo-label", "mixmatch", "fixmatch"])
def test_unlabelled_rows_are_learned_from(name: str) -> None:
    """How much they help is for the benchmark to say."""
    matrix, y, _ = made_up()
    labelled = y >= 0
    settings = {"settings": {**SMALL, "warm_up": 0.0} | ({} if name == "mixmatch" else {"threshold": 0.5})}
    alone, together = (
        made(name, **settings).fit(*given).predict_proba(matrix)
        for given in ((matrix[labelled], y[labelled]), (matrix, y))
    )
    assert np.abs(alone - together).max() > 0.01


def test_all_methods_are_there() -> None:
    assert len(METHODS) == 6
    assert set(ESTIMATORS) == {"supervised", *(str(kind.model_fields["method"].default) for kind in METHODS)}
    assert clone(made("comatch")).get_params() == made("comatch").get_params()
