"""Look-alikes found by parties together are those found in the pooled columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.errors import InputError, RefusedError
from unpooled.ledger import Record
from unpooled.pu.federated.search import Columns, Found, NextBags, NoMoreBags, find, groups_of, help_find
from unpooled.pu.settings import AnyMethod, BaggingSettings, NaiveSettings, TwoStepSettings, VfpuSettings
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.learners import learner_of
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees import predictor
from unpooled.vertical.trees.model import Part
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, GbdtParameters, LgbParameters, XgbParameters

ROWS, SEED = 300, 5
NAMES = ("a", "b", "c", "d", "e")
TWO = {"telco": (0, 2, 4), "bank": (1, 3)}
THREE = {"telco": (0, 4), "bank": (1, 3), "gym": (2,)}
BASES: dict[str, AnyTrees] = {
    "gbdt": GbdtParameters(trees=2, depth=2),
    "xgb": XgbParameters(trees=2, depth=2),
    "lgb": LgbParameters(trees=3, depth=3, learning_rate=0.6, leaves=4),
    "rf": ForestParameters(trees=2, depth=2),
}
METHODS: dict[str, AnyMethod] = {
    "vfpu": VfpuSettings(iterations=2, bags=2, fraction=0.05),
    "vfpu with reliable negatives": VfpuSettings(iterations=2, bags=2, negatives="reliable"),
    "vfpu with weighted draws": VfpuSettings(iterations=2, bags=2, gamma=2.0),
    "bagging": BaggingSettings(bags=3),
    "naive": NaiveSettings(folds=2),
    "two-step, negatives first": TwoStepSettings(folds=2),
    "two-step, positives first": TwoStepSettings(folds=2, first="positives"),
}


def table() -> Floats:
    return np.random.default_rng(3).normal(size=(ROWS, len(NAMES)))


def known() -> np.ndarray:
    positive = table()[:, 0] + table()[:, 1] * table()[:, 2] > 0.7
    return positive & (np.random.default_rng(4).random(ROWS) < 0.5)


@dataclass(eq=False)
class Run:
    """What came of it: the bank's ranking, the others' parts, what they received."""

    found: Any = None
    parts: dict[str, Part] = field(default_factory=dict)
    received: dict[str, list[Any]] = field(default_factory=dict)
    scores: Floats | None = None
    ledgers: dict[str, Record] = field(default_factory=dict)


def together(
    base: AnyTrees,
    method: AnyMethod,
    owners: Mapping[str, tuple[int, ...]] | None = None,
    engine: str = "shares",
    agreed: AnyMethod | None = None,
    active: Callable[[Team], Any] | None = None,
    keep_going: Any = None,
    most_thresholds: int | None = None,
    weights: Floats | None = None,
) -> Run:
    """The bank looks for look-alikes with the others, who agreed to a method; then scores the same rows as if new."""
    owners, run = owners or TWO, Run()
    rules = Rules(
        engine, key_bits=512, insecure=True, questions=learner_of(base).questions(base, sum(groups_of(method)))
    )  # type: ignore[arg-type]

    def opened(session: Session) -> Engine:
        return open_engine(session, rules, tuple(owners), "bank", "coordinator")

    def columns(party: str) -> Columns:
        return Columns(table()[:, list(owners[party])], tuple(NAMES[place] for place in owners[party]))

    def bank(session: Session) -> None:
        team = Team("bank", tuple(owners), opened(session), "rows")
        if active is not None:
            active(team)
            return
        run.found = find(team, base, columns("bank"), known(), method, SEED, weights=weights, keep_going=keep_going)
        finish(team.products)
        run.scores = predictor.predict_proba(team, run.found.model, columns("bank").matrix)

    def helper(session: Session) -> None:
        team, take = Team("bank", tuple(owners), opened(session), "rows"), session.recv
        received = run.received.setdefault(session.party, [])

        def recv(peer: str, *kinds: Any, **limits: Any) -> Any:
            received.append(take(peer, *kinds, **limits))
            return received[-1]

        session.recv = recv  # type: ignore[method-assign]
        part = help_find(team, base, columns(session.party), agreed or method, most_thresholds)
        run.parts[session.party] = part
        finish(team.products)
        predictor.help_predict(team, part, columns(session.party).matrix)

    roles: dict[str, Any] = {owner: bank if owner == "bank" else helper for owner in owners}
    roles["coordinator"] = lambda session: serve(opened(session))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        run.ledgers = simulate_roles(roles, timeout=240).ledgers
    return run


def pooled(
    run: Run,
    base: AnyTrees,
    method: AnyMethod,
    owners: Mapping[str, tuple[int, ...]],
    weights: Floats | None = None,
) -> Found:
    """The same by one party that has all columns, in the order in which the owners present them."""
    order: list[int] = []
    for owner, columns in owners.items():
        part = run.parts.get(owner)
        order += columns if part is None else [NAMES.index(feature.name) for feature in part.binning.features]
    blocks = tuple(map(len, owners.values()))
    columns = Columns(table()[:, order], tuple(NAMES[p] for p in order), blocks)
    return find(alone(), base, columns, known(), method, SEED, weights=weights)


def assert_equal(run: Run, reference: Found) -> None:
    ranking = run.found.ranking
    np.testing.assert_array_equal(ranking.scores, reference.ranking.scores)
    np.testing.assert_array_equal(ranking.iterations, reference.ranking.iterations)
    np.testing.assert_array_equal(ranking.order, reference.ranking.order)
    assert len(np.unique(ranking.scores[~known()])) > 5


@pytest.mark.parametrize("hide_bags", [True, False], ids=["hidden bags", "shown bags"])
@pytest.mark.parametrize("learner", BASES)
def test_together_as_pooled_with_every_base(learner: str, hide_bags: bool) -> None:
    base = BASES[learner].model_copy(update={"hide_bags": hide_bags})
    run = together(base, METHODS["vfpu"])
    assert_equal(run, pooled(run, base, METHODS["vfpu"], TWO))
    assert len(run.found.ranking.promoted) > 20


@pytest.mark.parametrize("method", METHODS)
def test_together_as_pooled_by_every_method(method: str) -> None:
    run = together(BASES["gbdt"], METHODS[method])
    assert_equal(run, pooled(run, BASES["gbdt"], METHODS[method], TWO))


@pytest.mark.parametrize(
    ("learner", "method"), [("gbdt", "vfpu"), ("rf", "bagging"), ("xgb", "naive"), ("lgb", "two-step, negatives first")]
)
def test_together_as_pooled_with_weights_of_rows(learner: str, method: str) -> None:
    base, weights = BASES[learner], np.random.default_rng(9).uniform(0, 1, ROWS).round(2)
    weights[:20] = 0.0
    run = together(base, METHODS[method], weights=weights)
    reference = pooled(run, base, METHODS[method], TWO, weights)
    assert_equal(run, reference)
    unweighted, ones = (pooled(run, base, METHODS[method], TWO, of) for of in (None, np.ones(ROWS)))
    np.testing.assert_array_equal(unweighted.ranking.scores, ones.ranking.scores)
    assert not np.array_equal(unweighted.ranking.scores, reference.ranking.scores, equal_nan=True)


def test_weights_of_other_rows_are_refused() -> None:
    columns = Columns(table(), NAMES)
    for weights, text in ((np.ones(3), "3 of them for 300 rows"), (np.full(ROWS, -1.0), "none negative")):
        with pytest.raises(InputError, match=f"weights: .*{text}"):
            find(alone(), BASES["gbdt"], columns, known(), METHODS["bagging"], SEED, weights=weights)


@pytest.mark.parametrize("hide_bags", [True, False], ids=["hidden bags", "shown bags"])
def test_every_engine_finds_the_same(hide_bags: bool) -> None:
    base = XgbParameters(trees=1, depth=2, hide_bags=hide_bags, bundle=False)
    runs = [together(base, METHODS["vfpu"], {"telco": (0,), "bank": (1, 2)}, each) for each in ("plain", "paillier")]
    runs.append(together(base, METHODS["vfpu"], {"telco": (0,), "bank": (1, 2)}, "shares"))
    for run in runs:
        assert_equal(run, pooled(runs[0], base, METHODS["vfpu"], {"telco": (0,), "bank": (1, 2)}))


@pytest.mark.parametrize("options", [{}, {"hide_nodes": True}, {"hide_bags": False, "hide_nodes": True}], ids=str)
def test_three_parties(options: dict[str, bool]) -> None:
    base = BASES["gbdt"].model_copy(update=options)
    run = together(base, METHODS["vfpu"], THREE)
    assert_equal(run, pooled(run, base, METHODS["vfpu"], THREE))


def test_the_last_models_score_new_rows() -> None:
    base = BASES["gbdt"].model_copy(update={"hide_bags": False})
    run = together(base, METHODS["vfpu"])
    reference = pooled(run, base, METHODS["vfpu"], TWO)
    order = [NAMES.index(feature.name) for feature in run.parts["telco"].binning.features] + [1, 3]
    assert run.scores is not None
    np.testing.assert_array_equal(run.scores, predictor.predict_proba(alone(), reference.model, table()[:, order]))
    assert len(run.found.model.ensembles) == METHODS["vfpu"].bags  # type: ignore[union-attr]


def test_bags_are_binned_once_and_the_cap_on_thresholds_holds_for_all() -> None:
    run = together(BASES["gbdt"], METHODS["vfpu"], most_thresholds=6)
    lent = [record for record in run.ledgers["telco"].entries if record.kind.endswith("LentColumns")]
    assert len(lent) == 2
    assert sum(len(feature.edges) for feature in run.parts["telco"].binning.features) <= 6


def test_an_iteration_takes_as_many_messages_as_one_bag_would() -> None:
    one, many = (together(BASES["gbdt"], BaggingSettings(bags=bags)) for bags in (1, 4))
    assert len(many.received["telco"]) <= len(one.received["telco"]) + 2  # a tree may stop growing early


@pytest.mark.parametrize("agreed", [VfpuSettings(iterations=1, bags=2), VfpuSettings(iterations=2, bags=1)], ids=str)
def test_no_more_models_than_the_method_needs(agreed: AnyMethod) -> None:
    with pytest.raises(RefusedError, match=r"telco.*models"):
        together(BASES["gbdt"], METHODS["vfpu"], agreed=agreed)


def test_an_end_before_anything_is_learned_is_refused() -> None:
    def ends(team: Team) -> None:
        team.session.send("telco", NoMoreBags())

    with pytest.raises(RefusedError, match="bank"):
        together(BASES["gbdt"], METHODS["vfpu"], active=ends)


@pytest.mark.parametrize("count", [0, -1])
def test_a_group_without_models_is_refused(count: int) -> None:
    def asks(team: Team) -> None:
        team.session.send("telco", NextBags(count))

    with pytest.raises(RefusedError, match=r"telco.*models"):
        together(BASES["gbdt"], METHODS["vfpu"], active=asks)


def test_whoever_is_asked_may_stop_it() -> None:
    run = together(BASES["gbdt"], METHODS["vfpu"], keep_going=lambda ranking: False)
    assert run.found.ranking.iterations.max() == 1
    assert [type(message) for message in run.received["telco"]].count(NextBags) == 1


def test_the_count_of_models() -> None:
    assert [sum(groups_of(method)) for method in METHODS.values()] == [4, 9, 4, 3, 2, 4, 4]


def test_bad_input() -> None:
    columns = Columns(table(), NAMES)
    with pytest.raises(InputError, match=r"positives.* 2 .* 300"):
        find(alone(), BASES["gbdt"], columns, np.ones(2, bool), METHODS["vfpu"], SEED)
    with pytest.raises(InputError, match="positives"):
        find(alone(), BASES["gbdt"], columns, np.zeros(ROWS, bool), METHODS["vfpu"], SEED)
    with pytest.raises(InputError, match="positives"):
        find(alone(), BASES["gbdt"], columns, np.ones(ROWS, bool), METHODS["vfpu"], SEED)
    with pytest.raises(InputError, match="classes"):
        find(alone(), GbdtParameters(classes=3), columns, known(), METHODS["vfpu"], SEED)
