"""Several models at once: each as if it were fitted alone, in as many messages as one takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.arrays import Floats
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.secure.product import finish
from unpooled.vertical.linear.fitting import (
    FittedLinear,
    LinearParameters,
    Target,
    fit,
    fit_many,
    help_fit,
    help_fit_many,
)
from unpooled.vertical.linear.messages import BeginLinear, NextEpoch, PartialScores, RowWeights, Score, TakingPart
from unpooled.vertical.linear.model import LinearPart
from unpooled.vertical.linear.predictor import help_predict, help_predict_many, score, score_many
from unpooled.vertical.team import Team, alone

Make = Callable[..., Any]

SMALL: dict[str, Any] = {"epochs": 2, "batch_rows": 300, "insecure_batch": True, "tolerance": 0}
FINAL: dict[str, Any] = {"reveal": "final", "epochs": 2, "batch_rows": 300}
KINDS: dict[str, dict[str, Any]] = {
    "two classes": {"classes": 2},
    "softmax": {"classes": 3},
    "one-versus-rest": {"classes": 3, "several": "one-versus-rest"},
    "a number": {"classes": 0},
}


@dataclass(eq=False)
class Many:
    """What came of several models: the active party's, everybody's parts, and the scores of the training rows."""

    run: Any = None
    fitted: list[FittedLinear] = field(default_factory=list)
    parts: dict[str, list[LinearPart]] = field(default_factory=dict)
    scores: list[Floats] = field(default_factory=list)

    def learned(self) -> list[Any]:
        """Model by model all that was learned."""
        found = []
        for place, each in enumerate(self.fitted):
            parts = [each.model.part, *(self.parts[party][place] for party in sorted(self.parts))]
            weights = [(part.party, part.weights, part.pace) for part in parts]
            found.append((weights, each.model.intercept, each.model.centre, each.model.scale, each.losses))
        return found


def at_once(
    together: Make,
    data: Any,
    parameters: LinearParameters,
    targets: Sequence[Target],
    team: str = "two",
    engine: str = "shares",
    *,
    one_by_one: bool = False,
    starts: Many | None = None,
    **others: Any,
) -> Many:
    """Fit and score, all at once or one after the other."""
    held, found = together.__globals__["HELD"][team], Many()

    def active(members: Team, _: Any) -> None:
        columns = data.columns(held["bank"])
        if one_by_one:
            found.fitted = [fit(members, parameters, columns, target) for target in targets]
        else:
            begin = [each.model for each in starts.fitted] if starts else ()
            found.fitted = fit_many(members, parameters, columns, targets, starts=begin)
        finish(members.products)
        models = [each.model for each in found.fitted]
        if one_by_one:
            found.scores = [score(members, model, columns.matrix) for model in models]
        else:
            found.scores = score_many(members, models, columns.matrix)

    def passive(members: Team, _: Any) -> None:
        party = members.session.party
        columns = data.columns(held[party])
        if one_by_one:
            parts = [help_fit(members, parameters, columns) for _ in targets]
        else:
            parts = help_fit_many(members, parameters, columns, len(targets), starts.parts[party] if starts else ())
        found.parts[party] = parts
        finish(members.products)
        if one_by_one:
            for part in parts:
                help_predict(members, part, columns.matrix)
        else:
            help_predict_many(members, parts, columns.matrix)

    own = {party: active if party == "bank" else passive for party in held}
    found.run = together(parameters, team, engine, data=data, own=own, **others)
    return found


def targets_of(data: Any, classes: int, *, weighted: bool) -> list[Target]:
    """Three that differ, the second one with weights of its own."""
    rng = np.random.default_rng(5)
    truth = data.truth[classes]
    turned = truth[::-1].copy()
    weights = [None, rng.integers(0, 4, len(truth)).astype(float), data.weights] if weighted else [None] * 3
    values = [truth, turned, np.where(rng.random(len(truth)) < 0.3, turned, truth)]
    return [Target(each, weight) for each, weight in zip(values, weights, strict=True)]


# the same models


@pytest.mark.parametrize(
    ("kind", "team", "weighted", "settings"),
    [
        *((kind, "two", True, {}) for kind in KINDS),
        ("two classes", "two", True, {"hide_bags": False}),
        ("softmax", "two", True, {"hide_bags": False, "show_weights": True}),
        ("a number", "three", True, {"hide_bags": False, "show_weights": True}),
        ("softmax", "three", True, {}),
        ("two classes", "three", True, {"hide_bags": False, "validation_fraction": 0.2}),
        ("two classes", "three", False, {"optimiser": "adam"}),
        ("softmax", "the active without columns", False, {"validation_fraction": 0.2}),
    ],
    ids=str,
)
def test_together_as_one_by_one(
    together: Make, scene: Make, kind: str, team: str, weighted: bool, settings: dict[str, Any]
) -> None:
    parameters, data = with_gradients(**KINDS[kind] | SMALL | settings), scene()
    targets = targets_of(data, parameters.classes, weighted=weighted)
    found = at_once(together, data, parameters, targets, team)
    expected = at_once(together, data, parameters, targets, team, "plain", one_by_one=True)
    assert found.learned() == expected.learned()
    assert len({str(each) for each in found.learned()}) == 3
    np.testing.assert_array_equal(found.scores, expected.scores)
    pooled = fit_many(alone(), parameters, data.columns(), targets)
    for each, ours, target in zip(pooled, found.scores, targets, strict=True):
        single = fit(alone(), parameters, data.columns(), target)
        assert (each.model.part.weights, each.losses) == (single.model.part.weights, single.losses)
        np.testing.assert_allclose(ours, score(alone(), each.model, data.matrix), atol=1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_so_it_is_under_encryption(together: Make, scene: Make, kind: str) -> None:
    settings = {"epochs": 1, "batch_rows": 30, "insecure_batch": True}
    parameters, data = with_gradients(**KINDS[kind] | settings), scene(60)
    targets = targets_of(data, parameters.classes, weighted=True)[:2]
    found = at_once(together, data, parameters, targets, engine="paillier")
    assert found.learned() == at_once(together, data, parameters, targets, engine="plain", one_by_one=True).learned()


@pytest.mark.parametrize(
    ("kind", "team"),
    [
        ("two classes", "two"),
        ("softmax", "three"),
        ("one-versus-rest", "a passive one without columns"),
        ("a number", "five"),
    ],
)
def test_where_nothing_is_shown_they_are_nearly_the_same(together: Make, scene: Make, kind: str, team: str) -> None:
    parameters, data = with_gradients(**KINDS[kind] | FINAL, hide_bags=False), scene()
    some = (np.arange(1200) % 3 > 0).astype(float)
    first, *others = targets_of(data, parameters.classes, weighted=False)
    targets = [first, *(replace(each, weights=some) for each in others)]
    found = at_once(together, data, parameters, targets, team)
    pooled = fit_many(alone(), parameters, data.columns(), targets)
    expected = [levelled(score(alone(), each.model, data.matrix), kind) for each in pooled]
    for ours, theirs in zip(found.scores, expected, strict=True):
        np.testing.assert_allclose(levelled(ours, kind), theirs, atol=3e-3)
    assert min(np.abs(expected[0] - other).max() for other in expected[1:]) > 0.1


def levelled(scores: Floats, kind: str) -> Floats:
    """Softmax does not see what is added to all scores of a row."""
    return scores - scores.mean(axis=1, keepdims=True) if kind == "softmax" else scores


def test_all_go_on_where_they_stopped(together: Make, scene: Make) -> None:
    data = scene()
    targets = targets_of(data, 2, weighted=True)
    short, whole = (with_gradients(**SMALL | {"epochs": epochs, "learning_rate": 0.03}) for epochs in (2, 4))
    first = at_once(together, data, short, targets)
    assert all(each.losses[1] < each.losses[0] for each in first.fitted)
    second = at_once(together, data, short, targets, starts=first)
    expected = at_once(together, data, whole, targets)
    assert [each[:-1] for each in second.learned()] == [each[:-1] for each in expected.learned()]


def test_each_stops_on_its_own(together: Make, scene: Make) -> None:
    """One target is noise, and its loss soon falls no more; another falls to the end."""
    data = scene()
    noise = Target(np.random.default_rng(0).integers(0, 2, 1200).astype(float))
    parameters = with_gradients(**SMALL | {"epochs": 12, "tolerance": 0.002}, patience=1)
    targets = [data.target(), noise, Target(1 - data.truth[2])]
    found = at_once(together, data, parameters, targets)
    assert found.learned() == at_once(together, data, parameters, targets, one_by_one=True).learned()
    ends = [len(each.losses) for each in found.fitted]
    assert ends[1] < ends[0] == ends[2]
    told = found.run.messages("telco", NextEpoch)
    assert [len(message.go_on) for message in told] == [3] * ends[1] + [2] * (ends[0] - ends[1])
    assert told[ends[1] - 1].go_on == (True, False, True)


# as many messages


def counted(found: Many) -> dict[str, Counter[tuple[str, str]]]:
    """How many messages of which kind each party sent to whom."""
    return {
        party: Counter((entry.peer, entry.kind) for entry in record.entries if entry.way == "sent")
        for party, record in found.run.ledgers.items()
    }


@pytest.mark.parametrize(
    ("engine", "team", "settings"),
    [
        ("shares", "two", {}),
        ("shares", "three", {"show_weights": True}),
        ("shares", "three", {"show_weights": True, "hide_bags": False}),
        ("shares", "three", FINAL | {"show_weights": True}),
        ("plain", "two", {}),
        ("paillier", "two", {}),
        ("paillier", "three", {"show_weights": True, "hide_bags": False}),
    ],
    ids=str,
)
def test_many_models_take_no_more_messages_than_one(
    together: Make, scene: Make, engine: str, team: str, settings: dict[str, Any]
) -> None:
    data = scene(60 if engine == "paillier" else 1200)
    parameters = with_gradients(**SMALL | {"batch_rows": len(data.matrix) // 2} | settings)
    weighted = Target(data.truth[2], np.where(data.weights > 0, 1.0, 0.0) + (np.arange(len(data.matrix)) == 5))
    one = at_once(together, data, parameters, [weighted], team, engine)
    three = at_once(together, data, parameters, [weighted] * 3, team, engine)
    assert counted(one) == counted(three)
    (score_message,) = three.run.messages("telco", Score)
    assert len(score_message.names) == 3


# rows that are left out


def bag(data: Any, seed: int, share: float = 0.8) -> Target:
    rows = len(data.matrix)
    return Target(data.truth[2], (np.random.default_rng(seed).random(rows) < share).astype(float))


def test_left_out_is_as_if_not_there(scene: Make) -> None:
    data, parameters = scene(), with_gradients(**SMALL, hide_bags=False, validation_fraction=0.1)
    target = data.target(weighted=True)
    inside = target.weights > 0
    found = fit(alone(), parameters, data.columns(), target)
    left = data.__class__(data.matrix[inside], {2: data.truth[2][inside]}, data.weights[inside])
    expected = fit(alone(), parameters, left.columns(), left.target(weighted=True))
    assert (found.model.part.weights, found.losses) == (expected.model.part.weights, expected.losses)
    hidden = fit(alone(), parameters.model_copy(update={"hide_bags": True}), data.columns(), target)
    assert hidden.model.part.weights != found.model.part.weights, "other batches"


@pytest.mark.parametrize("team", ["two", "three"])
def test_bags_of_other_sizes_go_in_step(together: Make, scene: Make, team: str) -> None:
    """Without weights but zeros, which several passive parties need not be shown."""
    data, parameters = scene(), with_gradients(**SMALL | {"batch_rows": 100}, hide_bags=False)
    targets = [bag(data, 1, 0.9), bag(data, 2, 0.3), bag(data, 3, 0.6)]
    found = at_once(together, data, parameters, targets, team)
    assert found.learned() == at_once(together, data, parameters, targets, team, "plain", one_by_one=True).learned()
    steps = [each.model.part.pace.steps for each in found.fitted]
    assert steps == [2 * int(target.weights.sum() // 100) for target in targets]
    (begin,), (bags,) = (found.run.messages("telco", kind) for kind in (BeginLinear, TakingPart))
    assert begin.weighted == (False,) * 3
    for bits, target in zip(bags.rows, targets, strict=True):
        assert np.array_equal(np.unpackbits(bits, count=1200), target.weights)


def test_who_is_told_what(together: Make, scene: Make) -> None:
    """Rows that take part only where they are left out, how often they count only where weights are shown."""
    data, expected = scene(), {}
    targets = [data.target(weighted=True), bag(data, 1)]
    for hide_bags in (True, False):
        for show_weights in (True, False):
            parameters = with_gradients(**SMALL, hide_bags=hide_bags, show_weights=show_weights)
            run = at_once(together, data, parameters, targets).run
            told = run.messages("telco", RowWeights)
            expected[hide_bags, show_weights] = [len(message.weights) for message in told]
            assert len(run.messages("telco", TakingPart)) == (not hide_bags)
    assert expected == {(True, True): [2], (True, False): [], (False, True): [1], (False, False): []}


def test_the_rows_that_are_left_make_the_batches(together: Make, scene: Make) -> None:
    data = scene(1300)
    few = Target(data.truth[2], (np.arange(1300) < 950).astype(float))
    with pytest.raises(RefusedError, match=r" 1000 .* 950"):
        at_once(together, data, with_gradients(epochs=1, hide_bags=False), [data.target(), few])
    assert at_once(together, data, with_gradients(epochs=1), [data.target(), few]).fitted[1].losses


# scores


def test_scores_of_several_models(together: Make, scene: Make) -> None:
    data = scene()
    models = [fit(alone(), with_gradients(classes=k, **SMALL), data.columns(), data.target(k)).model for k in (2, 3, 0)]
    found = score_many(alone(), models, data.matrix)
    assert [each.shape for each in found] == [(1200, 1), (1200, 3), (1200, 1)]
    for ours, model in zip(found, models, strict=True):
        np.testing.assert_array_equal(ours, score(alone(), model, data.matrix))
    run = at_once(together, data, with_gradients(**SMALL), targets_of(data, 2, weighted=False), "three").run
    assert [message.values.shape for message in run.messages("bank", PartialScores)] == [(1200, 3)] * 2


def test_models_that_do_not_score_together(scene: Make) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    one = fit(alone(), parameters, data.columns(), data.target()).model
    other = fit(alone(), parameters, data.columns([0, 1]), data.target()).model
    with pytest.raises(InputError, match=r"pooled.*columns"):
        score_many(alone(), [one, other], data.matrix)
    with pytest.raises(InputError, match="models: "):
        score_many(alone(), [], data.matrix)


# misuse


@pytest.mark.parametrize(("agreed", "wanted"), [(1, 2), (3, 4), (2, 1)])
def test_a_passive_party_fits_as_many_models_as_agreed(together: Make, scene: Make, agreed: int, wanted: int) -> None:
    data, parameters = scene(), with_gradients(**SMALL)

    def passive(team: Team, _: Any) -> None:
        help_fit_many(team, parameters, data.columns((0, 1, 2, 5)), agreed)

    def active(team: Team, _: Any) -> None:
        fit_many(team, parameters, data.columns((3, 4)), [data.target()] * wanted)

    with pytest.raises(RefusedError, match=rf"telco.* {agreed} .*bank.* {wanted}"):
        together(parameters, own={"telco": passive, "bank": active})


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (BeginLinear, lambda m: replace(m, names=(m.names[0],) * 2)),
        (TakingPart, lambda m: TakingPart(m.rows[:1])),
        (TakingPart, lambda m: TakingPart(tuple(r[1:] for r in m.rows))),
        (TakingPart, lambda m: TakingPart((m.rows[0], 0 * m.rows[1]))),
        (RowWeights, lambda m: RowWeights(m.weights[:1])),
        (RowWeights, lambda m: RowWeights(m.weights[::-1])),
        (NextEpoch, lambda m: replace(m, best=m.best[:1])),
        (NextEpoch, lambda m: replace(m, go_on=(*m.go_on, True))),
        (Score, lambda m: replace(m, names=m.names[::-1])),
    ],
)
def test_messages_that_cannot_be(together: Make, scene: Make, kind: type, change: Callable[[Any], Any]) -> None:
    def tamper(_: str, message: Any) -> Any:
        return change(message) if isinstance(message, kind) else message

    data, parameters = scene(), with_gradients(**SMALL, hide_bags=False, show_weights=True)
    targets = targets_of(data, 2, weighted=True)[1:]
    with pytest.raises(ProtocolError, match="bank"):
        at_once(together, data, parameters, targets, "two", "plain", tamper={"bank": tamper})


def test_as_many_starts_as_targets(scene: Make) -> None:
    data, parameters = scene(), with_gradients(**SMALL)
    with pytest.raises(InputError, match=r"start.* 1 .* 2"):
        fit_many(alone(), parameters, data.columns(), [data.target()] * 2, starts=[None])
    with pytest.raises(InputError, match="target: "):
        fit_many(alone(), parameters, data.columns(), [])


def test_questions_are_counted_for_all_models(together: Make, scene: Make) -> None:
    data = scene()
    answered = [
        at_once(together, data, with_gradients(**SMALL), [data.target()] * count).run.engines["telco"].answered
        for count in (1, 3)
    ]
    assert answered[1] == Counter({digest: 3 * asked for digest, asked in answered[0].items()})
    with pytest.raises(RefusedError, match=" 8 columns"):
        at_once(together, data, with_gradients(**SMALL), [data.target()] * 3, rules={"questions": 8})
