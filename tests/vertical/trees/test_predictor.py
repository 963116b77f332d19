"""New rows: the same as pooled and as a slow walk through the trees, in few messages; and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.control import Goodbye
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.session import Session
from unpooled.vertical.numbers import sigmoid, softmax
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees import messages, predictor
from unpooled.vertical.trees.ensemble import fit
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.predictor import help_predict, predict, predict_proba, scores

Make = Callable[..., Any]

LEARNERS = ("gbdt", "xgb", "lgb", "rf")


@dataclass(eq=False)
class Sorting:
    """What came of predicting: the scores, and the messages of it, as they were sent."""

    scores: list[Floats] = field(default_factory=list)
    sent: list[Any] = field(default_factory=list)

    def of(self, *kinds: type) -> list[Any]:
        return [message for message in self.sent if isinstance(message, kinds)]


def predicted(
    model: Model,
    parts: Mapping[str, Part],
    matrices: Mapping[str, Floats],
    *,
    tamper: Mapping[str, Callable[[Any], Any]] | None = None,
    ways: Callable[..., Any] = scores,
) -> Sorting:
    """Predict jointly with parts that were learned before."""
    found, owners = Sorting(), tuple(matrices)

    def begin(session: Session) -> Team:
        send, change = session.send, (tamper or {}).get(session.party, lambda message: message)

        def sent(peer: str, message: Any, **how: Any) -> None:
            message = change(message)
            if not isinstance(message, Goodbye):
                found.sent.append(message)
            send(peer, message, **how)

        team = Team("bank", owners, open_engine(session, Rules("plain"), owners, "bank", None))
        session.send = sent  # type: ignore[method-assign]
        return team

    def active(session: Session) -> None:
        found.scores = ways(begin(session), model, matrices["bank"])

    def passive(session: Session) -> None:
        help_predict(begin(session), parts[session.party], matrices[session.party])

    simulate_roles({owner: active if owner == "bank" else passive for owner in owners}, timeout=240)
    return found


def matrices_of(run: Any, rows: Floats) -> dict[str, Floats]:
    return {owner: rows[:, list(columns)] for owner, columns in run.team.items()}


def hiding(model: Model, parts: Mapping[str, Part]) -> tuple[Model, dict[str, Part]]:
    """As if it had been grown with hidden nodes."""
    parameters = model.parameters.model_copy(update={"hide_nodes": True})
    hidden = model.model_copy(update={"parameters": parameters})
    return hidden, {owner: part.model_copy(update={"hide_nodes": True}) for owner, part in parts.items()}


def many(rows: int, seed: int = 3) -> Floats:
    """Rows like those of a scene and beyond, with holes everywhere."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 9)) * 2
    matrix[:, 4:] = np.rint(matrix[:, 4:])
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    return matrix


def walked(run: Any, rows: Floats, ensemble: int = 0) -> list[list[float]]:
    """Row by row and node by node, from the files that each party keeps; sums of leaves, for a forest their means."""
    model = json.loads(run.model.model_dump_json())
    parts = {owner: json.loads(part.model_dump_json()) for owner, part in run.parts.items()} | {"bank": model["part"]}
    rf, outputs = model["parameters"]["learner"] == "rf", len(model["ensembles"][ensemble]["base"])
    found = []
    for row in rows:
        base = model["ensembles"][ensemble]["base"]
        total = [0.0] * outputs if rf else list(base)
        for number, tree in enumerate(model["ensembles"][ensemble]["trees"]):
            at = 0
            while tree["first"][at] != -1:
                owner = model["owners"][tree["owner"][at]]
                feature, place, missing_left = parts[owner]["splits"][tree["split"][at]]
                bins = parts[owner]["binning"]["features"][feature]
                value = row[run.team[owner][bins["column"]]]
                if np.isnan(value):
                    right = not missing_left
                else:
                    right = place < len(bins["edges"]) and value > bins["edges"][place]
                at = tree["first"][at] + right
            for k, value in enumerate(tree["values"][at]):
                total[k if rf else number % outputs] += value
        trees = len(model["ensembles"][ensemble]["trees"])
        found.append([start + value / trees for start, value in zip(base, total, strict=True)] if rf else total)
    return found


@pytest.mark.parametrize(
    ("learner", "classes", "hidden"),
    [
        (learner, classes, bool((i + j) % 2))
        for i, learner in enumerate(LEARNERS)
        for j, classes in enumerate((2, 3, 0))
    ],
)
def test_predictions_are_those_of_a_walk_through_the_trees(
    learner: str, classes: int, hidden: bool, scene: Make, parameters_for: Make, together: Make
) -> None:
    data = scene()
    targets = [Target(data.truth[classes], seed=1), Target(data.truth[classes], np.arange(160) % 3.0, seed=2)]
    parameters = parameters_for(learner, classes, hide_nodes=hidden)
    run = together(parameters, "the active in the middle", "plain", data=data, targets=targets)
    for place, own in enumerate(run.predictions):
        sums = np.array(walked(run, data.new, place))
        if learner != "rf" and classes:
            sums = softmax(sums) if classes > 2 else sigmoid(sums)
        np.testing.assert_array_equal(own, sums)


# many rows


@pytest.fixture(scope="module")
def large(scene: Make, parameters_for: Make, together: Make, as_pooled: Make, pooled_order: Make) -> Any:
    """50 trees of depth 6, grown jointly and pooled."""
    parameters = parameters_for("xgb", trees=50, depth=6, min_rows=2, lockstep=10)
    run = together(parameters, engine="plain", data=scene(rows=300), predicts=False)
    depths = [depth_of(tree) for tree in run.model.ensembles[0].trees]
    assert len(depths) == 50
    assert max(depths) == 6
    return run, as_pooled(run).model, pooled_order(run)


def depth_of(tree: Any) -> int:
    depths = [0] * len(tree.first)
    for place, first in enumerate(tree.first):
        if first != -1:
            depths[first] = depths[first + 1] = depths[place] + 1
    return max(depths)


def test_ten_thousand_rows_take_as_many_messages_as_a_hundred(large: Any) -> None:
    run, pooled, order = large
    rows = many(10_000)
    found = predicted(run.model, run.parts, matrices_of(run, rows))
    np.testing.assert_array_equal(found.scores[0], scores(alone(), pooled, rows[:, order])[0])
    few = predicted(run.model, run.parts, matrices_of(run, many(100)))
    assert len(found.sent) <= 2 + 2 * 6
    assert abs(len(found.sent) - len(few.sent)) <= 2, "a level more or less may be reached"
    assert len(found.of(messages.Reached)) == len(found.of(messages.Sides)) <= 6


@pytest.mark.parametrize("at_once", [1, 50 * 7, 50 * 32 + 49])
@pytest.mark.parametrize("hidden", [False, True])
def test_batches_change_nothing(large: Any, at_once: int, hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    run, pooled, order = large
    model, parts = hiding(run.model, run.parts) if hidden else (run.model, run.parts)
    rows = many(40)
    monkeypatch.setattr(predictor, "_MOST_AT_ONCE", at_once)
    found = predicted(model, parts, matrices_of(run, rows))
    np.testing.assert_array_equal(found.scores[0], scores(alone(), pooled, rows[:, order])[0])
    asked = found.of(messages.Needed if hidden else messages.Reached)
    assert not found.of(messages.Reached if hidden else messages.Needed)
    step = max(at_once // 50, 1)
    assert {(request.begin, request.count) for request in asked} == {
        (begin, min(step, 40 - begin)) for begin in range(0, 40, step)
    }


def test_each_split_is_asked_about_once_and_only_rows_that_reach_it(large: Any) -> None:
    """With hidden nodes all rows' sides come, and nothing is said of who reaches what."""
    run, _, _ = large
    rows = many(200)
    found = predicted(run.model, run.parts, matrices_of(run, rows))
    for request, answer in zip(found.of(messages.Reached), found.of(messages.Sides), strict=True):
        assert len(set(request.numbers.tolist())) == len(request.numbers)
        reached = int(np.unpackbits(request.reach, count=len(request.numbers) * request.count).sum())
        assert len(answer.sides) == (reached + 7) // 8
    secret = predicted(*hiding(run.model, run.parts), matrices_of(run, rows))
    np.testing.assert_array_equal(secret.scores[0], found.scores[0])
    kinds = (messages.Sort, messages.Needed, messages.AllSides, messages.Sorted)
    assert len(secret.of(*kinds)) == len(secret.sent)
    for request, answer in zip(secret.of(messages.Needed), secret.of(messages.AllSides), strict=True):
        assert len(answer.sides) == (len(request.numbers) * 200 + 7) // 8


@pytest.mark.parametrize("rows", [0, 1])
def test_one_row_or_none(large: Any, rows: int) -> None:
    run, pooled, order = large
    matrix = many(1)[:rows]
    found = predicted(run.model, run.parts, matrices_of(run, matrix))
    assert found.scores[0].shape == (rows, 1)
    np.testing.assert_array_equal(found.scores[0], scores(alone(), pooled, matrix[:, order])[0])


# classes and means


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_predicted_by_name(classes: int, scene: Make, parameters_for: Make) -> None:
    data, names = scene(), ("red", "green", "blue")[:classes]
    targets = [Target(data.truth[classes], seed=seed) for seed in (1, 2)]
    parameters = parameters_for("xgb", classes, trees=5, learning_rate=0.5)
    model = fit(alone(), parameters, data.columns(range(9)), targets, names).model
    each = scores(alone(), model, data.new)
    mean = (each[0] + each[1]) / 2
    chances = predict_proba(alone(), model, data.new)
    assert chances.shape == (40, classes)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(chances[:, -1], mean[:, -1])
    found = predict(alone(), model, data.new)
    assert found.tolist() == [names[place] for place in chances.argmax(axis=1)]
    assert len(set(found.tolist())) == classes


def test_numbers_are_predicted_as_the_mean_of_all_models(scene: Make, parameters_for: Make) -> None:
    data = scene()
    targets = [Target(data.truth[0], seed=seed) for seed in (1, 2, 3)]
    model = fit(alone(), parameters_for("rf", 0), data.columns(range(9)), targets).model
    one, two, three = scores(alone(), model, data.new)
    np.testing.assert_array_equal(predict(alone(), model, data.new), ((one + two + three) / 3)[:, 0])
    with pytest.raises(InputError, match="probabilities"):
        predict_proba(alone(), model, data.new)


def test_jointly_too(large: Any) -> None:
    run, pooled, order = large
    rows = many(60)
    for ways in (predict, predict_proba):
        found = predicted(run.model, run.parts, matrices_of(run, rows), ways=ways)
        np.testing.assert_array_equal(found.scores, ways(alone(), pooled, rows[:, order]))


# what does not fit


@pytest.fixture(scope="module")
def small(scene: Make, parameters_for: Make, together: Make) -> Any:
    return together(parameters_for("xgb"), engine="plain", data=scene(), predicts=False)


def test_parts_of_different_models_are_not_mixed(small: Any, scene: Make, parameters_for: Make, together: Make) -> None:
    other = together(parameters_for("xgb"), engine="plain", data=scene(), predicts=False)
    with pytest.raises(ProtocolError, match=r"bank.*telco"):
        predicted(small.model, other.parts, matrices_of(small, many(10)))


def test_rows_must_be_aligned(small: Any) -> None:
    matrices = matrices_of(small, many(10))
    matrices["telco"] = matrices["telco"][1:]
    with pytest.raises(ProtocolError, match=r"bank.* 10 .*telco.* 9"):
        predicted(small.model, small.parts, matrices)


def test_columns_must_be_those_of_training(small: Any) -> None:
    for party in ("bank", "telco"):
        matrices = matrices_of(small, many(10))
        matrices[party] = matrices[party][:, 1:]
        columns = matrices[party].shape[1]
        with pytest.raises(InputError, match=rf"{party}.* {columns} .* {columns + 1}"):
            predicted(small.model, small.parts, matrices)


def test_infinite_values_are_named_by_party_column_and_row(small: Any) -> None:
    for party, column in (("bank", 1), ("telco", 0)):
        matrices = matrices_of(small, many(10))
        matrices[party][6, 0] = -np.inf
        with pytest.raises(InputError, match=rf"{party}.*column no. {column}.*row 7"):
            predicted(small.model, small.parts, matrices)


def test_all_owners_of_columns_are_needed(small: Any) -> None:
    with pytest.raises(InputError, match="telco"):
        scores(alone("bank"), small.model, many(10)[:, list(small.team["bank"])])


def changing(kind: type, **fields: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def change(message: Any) -> Any:
        if not isinstance(message, kind):
            return message
        return replace(message, **{name: f(getattr(message, name)) for name, f in fields.items()})

    return change


REQUESTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "an unknown split": {"numbers": lambda numbers: numbers + 1000},
    "a negative split": {"numbers": lambda numbers: numbers - 1000},
    "no split": {"numbers": lambda numbers: numbers[:0]},
    "splits in a matrix": {"numbers": lambda numbers: numbers[np.newaxis]},
    "a split without a list": {"numbers": lambda numbers: np.array(numbers[0])},
    "a split twice": {"numbers": lambda numbers: np.concatenate([numbers[:1], numbers])},
    "rows beyond": {"begin": lambda begin: 1},
    "more rows": {"count": lambda count: count + 1},
    "rows before": {"begin": lambda begin: -1},
    "fewer than no rows": {"count": lambda count: -1},
    "a huge row": {"begin": lambda begin: 2**70},
}


@pytest.mark.parametrize("case", REQUESTS)
def test_requests_that_cannot_be_are_refused(small: Any, case: str) -> None:
    for kind in (messages.Reached, messages.Needed):
        hidden = kind is messages.Needed
        model, parts = hiding(small.model, small.parts) if hidden else (small.model, small.parts)
        tamper = {"bank": changing(kind, **REQUESTS[case])}
        with pytest.raises(ProtocolError, match=f"{kind.__name__} from bank"):
            predicted(model, parts, matrices_of(small, many(10)), tamper=tamper)


def test_a_model_is_used_as_it_was_grown(small: Any) -> None:
    """Whoever did not show which rows are in a node does not show it later, and the other way round."""
    model, parts = hiding(small.model, small.parts)
    for mixed in ((small.model, parts), (model, small.parts)):
        with pytest.raises(ProtocolError, match="bank"):
            predicted(*mixed, matrices_of(small, many(10)))


SIDES: dict[str, Callable[[Any], Any]] = {
    "too few": lambda bits: bits[:-1],
    "too many": lambda bits: np.append(bits, np.uint8(0)),
    "in a matrix": lambda bits: bits[np.newaxis],
}


@pytest.mark.parametrize("case", SIDES)
@pytest.mark.parametrize(
    ("who", "kind", "name"),
    [("bank", messages.Reached, "reach"), ("telco", messages.Sides, "sides"), ("telco", messages.AllSides, "sides")],
)
def test_sides_for_other_rows_are_refused(small: Any, who: str, kind: type, name: str, case: str) -> None:
    model, parts = small.model, small.parts
    if kind is messages.AllSides:
        model, parts = hiding(model, parts)
    tamper = {who: changing(kind, **{name: SIDES[case]})}
    with pytest.raises(ProtocolError, match=who):
        predicted(model, parts, matrices_of(small, many(20)), tamper=tamper)


# asked about before


def request(*numbers: int, begin: int = 0, count: int = 8, reach: int | None = 255) -> messages.Reached:
    bits = np.full(len(numbers), reach, np.uint8)
    return messages.Reached(begin, count, np.array(numbers, np.int32), bits)


def needed(*numbers: int, begin: int = 0, count: int = 8) -> messages.Needed:
    return messages.Needed(begin, count, np.array(numbers, np.int32))


REPEATED: dict[str, list[Any]] = {
    "the same again": [request(0, 1), request(1)],
    "one row again": [request(0, reach=0b1000), request(0, reach=0b1100)],
    "all rows again": [needed(0, 1), needed(1)],
    "a run before": [request(0, begin=8), request(0)],
    "a run that overlaps": [request(0), request(0, begin=7)],
    "a wider run": [needed(0), needed(1, count=9)],
    "no rows": [needed(0, count=0)],
    "a split that nobody reaches": [request(0, reach=0)],
}


@pytest.mark.parametrize("case", REPEATED)
def test_nothing_is_answered_twice(case: str) -> None:
    """Or one could go on asking for ever."""
    requests = REPEATED[case]
    run = predictor._Run()
    for each in requests[:-1]:
        run.asked(each, 24, 5, "bank")
    kind = type(requests[-1]).__name__
    with pytest.raises(ProtocolError, match=f"{kind} from bank"):
        run.asked(requests[-1], 24, 5, "bank")


def test_what_was_not_asked_about_is_answered() -> None:
    run = predictor._Run()
    for each in (request(0, reach=0b1), request(0, 1, reach=0b10), request(4, 3, begin=16), needed(2, begin=16)):
        reach = run.asked(each, 24, 5, "bank")
        assert reach.shape == (len(each.numbers), 1)


def test_a_partys_limit_in_bits_holds_for_predictions(small: Any) -> None:
    matrices, found = matrices_of(small, many(50)), []

    def limited(session: Session) -> None:
        team = Team("bank", tuple(matrices), Engine(session, Rules("plain"), tuple(matrices), "bank", None))
        team.products.most_bits_per_row = 1.0
        try:
            help_predict(team, small.parts["telco"], matrices["telco"])
        finally:
            found.append(team.products.bits[" predicted"])

    def active(session: Session) -> None:
        team = Team("bank", tuple(matrices), Engine(session, Rules("plain"), tuple(matrices), "bank", None))
        scores(team, small.model, matrices["bank"])

    with pytest.raises(RefusedError, match=r"telco.* 50 bits.* 50 rows"):
        simulate_roles({"telco": limited, "bank": active}, timeout=240)
    assert found[0] <= 50
