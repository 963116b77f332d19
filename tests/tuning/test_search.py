"""What a candidate is measured by is what its models say of rows that they were not learned from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from unpooled.errors import InputError, ProtocolError
from unpooled.pu.settings import AnyMethod, NaiveSettings, VfpuSettings
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules
from unpooled.session import Session
from unpooled.tuning.candidates import candidates_of
from unpooled.tuning.folds import LEFT_OUT, folded
from unpooled.tuning.labelled import labelled_folds
from unpooled.tuning.search import Chosen, Tried, help_tune, tune
from unpooled.tuning.settings import ListTuning, ModelTuning
from unpooled.tuning.unlabelled import bags_of, known_folds
from unpooled.vertical.inputs import Columns
from unpooled.vertical.resume import Fits
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees import ensemble
from unpooled.vertical.trees.parameters import GbdtParameters

BASE, ROWS = GbdtParameters(trees=3, depth=2), 120
X = np.random.default_rng(1).normal(size=(ROWS, 3))
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0.3).astype(float)
KNOWN = (Y == 1) & (np.arange(ROWS) % 3 == 0)


def columns() -> Columns:
    return Columns(X, ("a", "b", "c"))


def test_every_fold_is_judged_by_a_model_that_has_not_seen_it() -> None:
    tuning = ModelTuning(settings={"depth": [1, 2]}, folds=3, repeats=2)
    weights = np.where(np.arange(ROWS) % 10 == 0, 0.0, 1.0 + Y)
    folds = labelled_folds(Y, weights, ("no", "yes"), tuning, seed=7)
    candidates, fits = candidates_of(BASE, tuning), Fits(alone(), BASE, columns())
    tuned = tune(alone(), fits, candidates, folds, ("no", "yes"), "auc")
    assert [len(each.measures) for each in tuned.tried] == [6, 6]
    for candidate, tried in zip(candidates, tuned.tried, strict=True):
        for place, target in enumerate(folds.targets):
            fitted = ensemble.fit(alone(), candidate.parameters, columns(), [target])  # type: ignore[arg-type]
            left_out = (target.weights == 0) & (weights > 0)  # type: ignore[operator]
            found = roc_auc_score(Y[left_out], fitted.scores[0][left_out, 0], sample_weight=weights[left_out])
            assert tried.measures[place] == pytest.approx(found)
    assert tuned.chosen == 1 + int(np.argmax([np.mean(each.measures) for each in tuned.tried]))


def test_of_equal_candidates_the_first_is_chosen_and_less_may_be_better() -> None:
    tuning = ModelTuning(settings={"l2": [0.0, 1.0, 2.0]})
    measures = iter([(0.5, 0.75), (0.25, 1.0), (0.25, 0.75)] * 2)
    for measure, chosen in (("auc", 1), ("log_loss", 3)):
        fits = Fits(alone(), BASE, columns())
        folds = SimpleNamespace(targets=[Target(Y), Target(Y)], measured=lambda *_: next(measures))
        tuned = tune(alone(), fits, candidates_of(BASE, tuning), folds, (), measure)
        assert tuned.chosen == chosen
    tried = Tried(tuned.best, (0.25, 0.75))
    assert (tried.mean, tried.spread) == (0.5, 0.25)


def test_folds_have_each_class_evenly_and_no_row_that_weighs_nothing() -> None:
    values, usable = np.array([0.0] * 11 + [1.0] * 7), np.arange(18) != 3
    fold = folded(values, usable, 3, ("no", "yes"), np.random.default_rng(1))
    assert np.flatnonzero(fold == LEFT_OUT).tolist() == [3]
    for number, sizes in ((0, [3, 3, 4]), (1, [2, 2, 3])):
        assert sorted(np.bincount(fold[usable & (values == number)])) == sizes
    assert sorted(np.bincount(fold[usable])) == [5, 6, 6]
    with pytest.raises(InputError, match="folds: 7 rows to learn from labelled 'yes' are too few for 8 folds"):
        folded(values, usable, 8, ("no", "yes"), np.random.default_rng(1))


@pytest.mark.parametrize("method", [VfpuSettings(), NaiveSettings(balanced=False)], ids=lambda method: method.name)
def test_known_rows_that_are_held_out_have_no_part_in_a_bag(method: AnyMethod) -> None:
    tuning, fraction = ListTuning(settings={"depth": [1]}, folds=4, repeats=2), 0.2
    folds = known_folds(KNOWN, None, method, tuning, fraction, seed=3)
    assert len(folds.targets) == bags_of(method, tuning)
    held_out = [fold.judged & KNOWN for fold in folds.folds]
    assert np.sum(held_out, axis=0).tolist() == np.where(KNOWN, 2, 0).tolist(), "once in each repetition"
    for fold, out in zip(folds.folds, held_out, strict=True):
        for bag in fold.bags:
            assert not bag.weights[out].any()
            assert bag.positive.tolist() == (KNOWN & ~out).tolist()
    scores = [np.random.default_rng(place).random((ROWS, 1)).round(1) for place in range(len(folds.targets))]
    left = iter(scores)
    by_auc, by_recall = (folds.measured(measure, scores) for measure in ("auc", "recall"))
    for fold, auc, recall in zip(folds.folds, by_auc, by_recall, strict=True):
        outside = np.array([bag.outside for bag in fold.bags])
        total = sum(np.where(bag.outside, next(left)[:, 0], 0.0) for bag in fold.bags)
        rows = fold.judged & outside.any(axis=0)
        means = total / np.maximum(outside.sum(axis=0), 1)
        assert auc == pytest.approx(roc_auc_score(KNOWN[rows], means[rows]))
        others = np.sort(means[rows & ~KNOWN])[::-1]
        last = others[round(fraction * len(others)) - 1]
        out = means[rows & KNOWN]
        assert recall == pytest.approx(np.mean((out > last) + (out == last) / 2))


def test_a_choice_that_the_plan_does_not_have_is_refused() -> None:
    candidates = candidates_of(BASE, ModelTuning(settings={"depth": [1, 2]}))

    def role(session: Session) -> Any:
        team = Team("bank", ("bank", "telco"), Engine(session, Rules("plain"), ("bank", "telco"), "bank", None))
        if session.party == "bank":
            return session.send("telco", Chosen(3))
        return help_tune(team, SimpleNamespace(group=2), candidates, 5)  # type: ignore[arg-type]

    with pytest.raises(ProtocolError, match="invalid Chosen from bank: the plan has 2 candidates"):
        simulate_roles({"bank": role, "telco": role})
