"""Parties that learn together with scikit-learn's manners learn what they would learn in one place."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from unpooled.arrays import Floats
from unpooled.estimators.apart import Apart
from unpooled.estimators.lookalike import LookalikeFinder
from unpooled.estimators.settings import LEARNERS
from unpooled.estimators.vertical import VerticalClassifier, VerticalRegressor
from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.private import Private
from unpooled.ledger import Record

ROWS = 120
FEW: dict[str, Any] = {"trees": 3, "depth": 2, "random_state": 1}
CHECKED: dict[str, Any] = {**FEW, "split": 2, "learning_rate": 0.8}
TREES = tuple(name for name in LEARNERS if name != "linear")
SPLIT = {"telco": [0, 2], "bank": [1, 3]}
NOT_PASSED = {
    "check_sample_weight_equivalence_on_dense_data": "columns are made ready and binned by rows, whatever these weigh",
}
"""scikit-learn's checks that cannot pass, and why; those of array interfaces other than numpy's are skipped."""


def matrix() -> Floats:
    found = np.random.default_rng(3).normal(size=(ROWS, 4))
    found[::9, 2] = np.nan
    return found


def truth() -> Floats:
    return matrix()[:, 0] + matrix()[:, 1] * matrix()[:, 3]


def frames() -> dict[str, Any]:
    """A table with categories and dates at the one party, and with booleans at the other."""
    rng, numbers = np.random.default_rng(4), matrix()
    telco = pl.DataFrame({"calls": numbers[:, 0], "tariff": rng.choice(["basic", "plus", "family"], ROWS)})
    days = pd.to_datetime(rng.integers(0, 9000, ROWS), unit="D")
    bank = pd.DataFrame({"balance": numbers[:, 1], "joined": days, "member": numbers[:, 2] > 0, "calls": numbers[:, 3]})
    bank.loc[::7, "balance"] = None
    return {"telco": telco.with_columns(pl.col("tariff").replace("family", None)), "bank": bank}


def labels() -> Any:
    return np.select([truth() > 0.8, truth() < -0.5], ["high", "low"], "middle")


@pytest.mark.parametrize(
    "estimator",
    [VerticalClassifier(**CHECKED), VerticalRegressor(**CHECKED), LookalikeFinder("bagging", bags=2, **CHECKED)],
    ids=lambda each: type(each).__name__,
)
def test_scikit_learns_checks_pass_but_for_those_named(estimator: Any) -> None:
    expected = {} if isinstance(estimator, LookalikeFinder) else NOT_PASSED
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail=None, on_skip=None)
    assert {each["check_name"]: each["exception"] for each in results if each["status"] == "failed"} == {}
    assert {each["check_name"] for each in results if each["status"] == "xfail"} == set(expected)
    assert {each["check_name"] for each in results if each["status"] == "skipped"} <= {"check_array_api_input"}


@pytest.mark.parametrize("learner", TREES)
@pytest.mark.parametrize("made", [VerticalClassifier, VerticalRegressor], ids=lambda made: made.__name__)
def test_trees_are_those_of_pooled_columns_to_the_last_bit(made: Any, learner: str) -> None:
    y = labels() if made is VerticalClassifier else truth()
    together, pooled = (made(learner=learner, engine=engine, **FEW).fit(frames(), y) for engine in ("plain", "pooled"))
    new = Apart(frames())[ROWS // 2 :]
    new.frames["telco"] = new.frames["telco"].with_columns(pl.lit("unheard of").alias("tariff"))
    for rows in (frames(), new):
        answer = "predict_proba" if made is VerticalClassifier else "predict"
        np.testing.assert_array_equal(getattr(together, answer)(rows), getattr(pooled, answer)(rows))
    assert len(np.unique(together.predict(frames()))) > 1
    assert {name: told.rows() for name, told in together.importances_.items()} == {
        name: told.rows() for name, told in pooled.importances_.items()
    }


@pytest.mark.parametrize("hidden", [False, True])
def test_every_engine_learns_the_same_trees(hidden: bool) -> None:
    y = truth() > 0
    settings = {**FEW, "trees": 1, "split": {"telco": [0], "bank": [1, 3]}, "hide_nodes": hidden, "lent_bins": 4}
    made = [
        VerticalClassifier(engine=engine, key_bits=512, **settings).fit(matrix(), y)  # type: ignore[arg-type]
        for engine in ("pooled", "plain", "shares", "paillier")
    ]
    for each in made[1:]:
        np.testing.assert_array_equal(each.predict_proba(matrix()), made[0].predict_proba(matrix()))
    assert [set(each.ledgers_) for each in made] == [set(), {*settings["split"]}, *[{*SPLIT, "coordinator"}] * 2]


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_linear_models_are_nearly_those_of_pooled_columns(classes: int) -> None:
    y = {0: truth(), 2: truth() > 0, 3: labels()}[classes]
    made: Any = VerticalClassifier if classes else VerticalRegressor
    found = [
        made(learner="linear", epochs=20, split=SPLIT, engine=engine, random_state=1).fit(matrix(), y)
        for engine in ("plain", "shares", "pooled")
    ]
    answers = [each.predict_proba(matrix()) if classes else each.predict(matrix()) for each in found]
    for each in answers[:2]:
        np.testing.assert_allclose(each, answers[2], atol=2e-3)  # as tests of linear models have it
    assert found[0].score(matrix(), y) > 0.3
    assert set(found[0].importances_["telco"].columns) == {"name", "weight"}


def test_one_table_that_is_dealt_is_as_tables_apart() -> None:
    tables = frames()
    one = pd.DataFrame(tables["telco"].to_dict(as_series=False)).join(tables["bank"].rename(columns={"calls": "more"}))
    split = {"telco": ["calls", "tariff"], "bank": ["balance", "joined", "member", "more"]}
    apart = VerticalClassifier(**FEW).fit(tables, labels())
    dealt = VerticalClassifier(split=split, **FEW).fit(one, labels())
    np.testing.assert_array_equal(apart.predict_proba(tables), dealt.predict_proba(one))
    assert apart.feature_names_in_.tolist()[:3] == ["telco.calls", "telco.tariff", "bank.balance"]
    assert dealt.feature_names_in_.tolist()[:3] == ["calls", "tariff", "balance"]
    assert (apart.parties_, apart.active_, apart.classes_.tolist()) == (
        ("telco", "bank"),
        "bank",
        ["high", "low", "middle"],
    )


def test_tables_apart_are_cross_validated_and_searched() -> None:
    rows, y, folds = Apart(frames()), labels(), KFold(2)
    estimator = VerticalClassifier(**FEW)
    by_hand = [
        clone(estimator).fit(rows[train], y[train]).score(rows[test], y[test]) for train, test in folds.split(rows)
    ]
    assert cross_val_score(estimator, rows, y, cv=folds).tolist() == by_hand
    grid = {"learner": ["gbdt", "rf"], "trees": np.arange(1, 3)}
    search = GridSearchCV(estimator, grid, cv=folds).fit(rows, y)
    assert search.best_estimator_.get_params()["trees"] in (1, 2)
    assert search.predict(rows[:5]).tolist() == search.best_estimator_.predict(frames()).tolist()[:5]


def test_in_a_pipeline() -> None:
    y = truth() > 0
    made = make_pipeline(StandardScaler(), VerticalClassifier(split=3, active="party-1", **FEW)).fit(matrix(), y)
    assert made.score(matrix(), y) > 0.7
    assert made[-1].n_features_in_ == 4
    assert made[-1].active_ == "party-1"


def test_what_was_sent_is_what_a_job_sends_to_learn() -> None:
    telco, bank = (pl.DataFrame(matrix()[:, places], [f"c{place}" for place in places]) for places in SPLIT.values())
    made = VerticalClassifier(engine="shares", **FEW).fit({"telco": telco, "bank": bank}, truth() > 0)
    ids, bank = pl.Series("id", range(ROWS)), bank.with_columns(target=pl.Series(truth() > 0))
    members = {
        "telco": Member("passive", telco.with_columns(ids)),
        "bank": Member("active", bank.with_columns(ids), private=Private(target="target")),
        "coordinator": Member("coordinator"),
    }
    learner = {name: value for name, value in FEW.items() if name != "random_state"}
    job = simulate("train", members, model=learner, test_fraction=0.0)
    for party, ledger in made.ledgers_.items():
        sent, by_job = (_sent(one) for one in (ledger, job.ledgers[party]))
        assert sent.items() <= by_job.items()
        assert {kind for kind, _ in by_job.keys() - sent.keys()} <= {
            "HowFar",
            "Commitment",
            "CheckpointAt",
            "ResumeFrom",
        }
        assert made.bytes_sent_[party] > sum(sent.values())


def _sent(ledger: Record) -> dict[tuple[str, str], int]:
    """By message type and scope the bytes that a party sent to learn."""
    found: dict[tuple[str, str], int] = {}
    for entry in ledger.entries:
        if entry.way == "sent" and entry.scope.startswith("fit"):
            key = entry.kind, entry.scope
            found[key] = found.get(key, 0) + entry.bytes
    return found


@pytest.mark.parametrize(
    "split",
    [{"telco": [0, 1], "gym": [2, 3], "bank": []}, {"telco": [4], "bank": [0, 1]}],
    ids=["labels alone", "empty"],
)
def test_a_party_may_have_labels_alone_or_a_column_without_values(split: dict[str, list[int]]) -> None:
    y, columns = truth() > 0, np.column_stack([matrix(), np.full(ROWS, np.nan)])
    together, pooled = (
        VerticalClassifier(engine=engine, split=split, **FEW).fit(columns, y) for engine in ("plain", "pooled")
    )
    np.testing.assert_array_equal(together.predict_proba(columns), pooled.predict_proba(columns))
    assert [party for party, told in together.importances_.items() if told.is_empty()] in (["bank"], ["telco"])


def test_rows_without_weight_take_no_part() -> None:
    y, spoilt = truth(), truth()
    spoilt[:30] = 100.0
    weights = np.where(np.arange(ROWS) < 30, 0.0, 1.0)
    found = [VerticalRegressor(split=SPLIT, **FEW).fit(matrix(), each, weights) for each in (y, spoilt)]
    np.testing.assert_array_equal(found[0].predict(matrix()), found[1].predict(matrix()))


def test_how_columns_are_made_ready_can_be_said() -> None:
    tables = frames()
    made = VerticalClassifier(prepare={"missing": "keep"}, types={"member": "category"}, **FEW).fit(tables, labels())
    assert made.preparations_["bank"].numbers["balance"].missing_becomes is None
    assert list(made.preparations_["bank"].categories) == ["member"]
    assert set(made.predict(tables)) <= set(made.classes_)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"learner": "forest"}, "learner: 'forest' is none; there are: gbdt, xgb, lgb, rf, linear"),
        ({"learner": "linear", "trees": 3}, "trees: the learner 'linear' has no such setting"),
        ({"trees": 0}, "trees: must be greater than or equal to 1"),
        ({"engine": "magic"}, "engine: 'magic' is none; there are: plain, shares, paillier, pooled"),
        ({"active": "shop"}, "active: 'shop' is none of the parties telco, bank"),
        ({"prepare": {"missing": "drop"}}, "prepare.missing: 'drop' would leave out rows at one party alone"),
        ({"prepare": {"mising": "keep"}}, "prepare.mising: unknown key"),
        ({"types": {"height": "number"}}, "types: no party holds a column 'height'"),
        ({"prepare": {"limits": {"height": (0, 3)}}}, r"prepare\.limits: no party holds a column 'height'"),
        ({"prepare": {"limits": {"x1": (-1, 1)}}}, "bank: data frame: impossible values .* column 'x1': rows"),
        ({"split": {"telco": [], "bank": [0, 1]}}, "telco has no column to lend"),
        ({"learner": "linear", "engine": "paillier"}, "paillier has none"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        VerticalClassifier(**{"split": SPLIT, **settings}).fit(matrix(), truth() > 0)


@pytest.mark.parametrize("engine", ["plain", "pooled"])
def test_wrong_rows_and_labels_are_named(engine: Any) -> None:
    y = truth()
    for labels_given, text in (
        (np.where(np.arange(ROWS) < 2, np.nan, y), "y: rows 1 and 2: the label is NaN"),
        (y[:-1], "X has 120 rows, and y has 119 labels"),
    ):
        with pytest.raises(ValueError, match=text):
            VerticalRegressor(split=SPLIT, engine=engine, **FEW).fit(matrix(), labels_given)
    classifier = VerticalClassifier(engine=engine, **FEW)
    with pytest.raises(ValueError, match=r"y: row 3: the label is NaN, infinity or missing"):
        classifier.fit(frames(), [None if place == 2 else "yes" for place in range(ROWS)])
    with pytest.raises(ValueError, match="y has one class only, 'yes'"):
        classifier.fit(frames(), ["yes"] * ROWS)
    spoilt = frames()["telco"].with_columns(pl.col("calls").replace(frames()["telco"]["calls"][1], float("inf")))
    with pytest.raises(ValueError, match=r"telco: .*impossible values.*: column 'calls': row 2"):
        classifier.fit({**frames(), "telco": spoilt}, labels())
    fitted = classifier.fit(frames(), labels())
    with pytest.raises(ValueError, match="telco: data frame: column 'tariff': the column was there in training"):
        fitted.predict({**frames(), "telco": frames()["telco"].drop("tariff")})
    with pytest.raises(ValueError, match="bank held columns in training"):
        fitted.predict({"telco": frames()["telco"], "shop": frames()["telco"]})


def test_unknown_keywords_are_refused_as_by_any_function() -> None:
    with pytest.raises(TypeError, match=r"VerticalClassifier\(\) has no parameter 'tres'"):
        VerticalClassifier(tres=3)


def test_without_scikit_learn_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("unpooled.estimators")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'unpooled\[sklearn\]'"):
        importlib.import_module("unpooled.estimators.vertical")


def test_whoever_watches_is_told_how_far_it_is() -> None:
    told: list[tuple[str, int, int]] = []
    made = VerticalClassifier(split=SPLIT, watch=lambda *how_far: told.append(how_far), **FEW)
    made.fit(matrix(), truth() > 0)
    assert [(done, total) for _, done, total in told] == [(0, 3), (1, 3), (2, 3)]


def test_all_settings_are_parameters_by_their_names() -> None:
    parameters = LookalikeFinder("naive", learner="lgb", folds=3, leaves=4).get_params()
    assert {"method": "naive", "learner": "lgb", "folds": 3, "leaves": 4, "trees": None}.items() <= parameters.items()
    assert repr(VerticalRegressor(depth=2, split=3)) == "VerticalRegressor(depth=2, split=3)"
