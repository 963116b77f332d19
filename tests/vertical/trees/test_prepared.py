"""Several fits to columns that were prepared once: nothing changes but what is sent again and waited for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

from unpooled.errors import ProtocolError
from unpooled.ledger import Entry
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.secure.shares.opening import Hidden
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.ensemble import Fitted, fit, help_fit
from unpooled.vertical.trees.grower.context import LEAF
from unpooled.vertical.trees.model import Part
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, GbdtParameters, LgbParameters
from unpooled.vertical.trees.prepared import Earlier, prepare
from unpooled.wire import kind_of

ROWS, OWNERS = 200, ("telco", "bank", "gym")
COLUMNS = {"telco": (0, 1), "bank": (2, 3), "gym": (4, 5)}
HIDDEN = GbdtParameters(trees=4, depth=3, hide_nodes=True, lent_bins=6, min_rows=5)
REQUEST, ANSWER = kind_of(messages.SplitRequestForAll), kind_of(messages.SplitSidesForAll)


class Fits(NamedTuple):
    """What came of them at the bank, what the telco and the gym keep of each, and what the bank sent and received."""

    fitted: list[Fitted]
    parts: list[tuple[Part, Part]]
    entries: list[Entry]


def matrix() -> np.ndarray:
    return np.random.default_rng(1).normal(size=(ROWS, 6))


def target(seed: int) -> Target:
    noise = np.random.default_rng(seed).normal(size=ROWS)
    return Target((matrix()[:, 0] * matrix()[:, 2] + matrix()[:, 4] + noise > 0).astype(float), seed=seed)


def fits(
    parameters: AnyTrees,
    engine: Any = "shares",
    *,
    models: int = 1,
    once: bool = True,
    lie: Callable[[messages.SplitSidesForAll], messages.SplitSidesForAll] = lambda told: told,
) -> Fits:
    """The bank fits three times, the third time with other labels.

    The telco tells `lie` of the sides in the second fit. Columns are prepared `once`, or for each fit.
    """

    def opened(session: Session) -> Engine:
        rules = Rules(engine, key_bits=512, insecure=True, questions=100_000)
        return open_engine(session, rules, OWNERS, "bank", "coordinator")

    def bank(session: Session) -> list[Fitted]:
        team, columns = Team("bank", OWNERS, opened(session), "rows"), of("bank")
        kept, found = prepare(team, parameters, columns), list[Fitted]()
        for seed in (1, 1, 2):
            targets = [target(seed + 10 * model) for model in range(models)]
            found.append(fit(team, parameters, columns, targets, prepared=kept if once else None))
        finish(team.products)
        return found

    def passive(session: Session) -> list[Part]:
        team, columns = Team("bank", OWNERS, opened(session), "rows"), of(session.party)
        session.rng = np.random.default_rng(1)
        kept, send, found = prepare(team, parameters, columns), session.send, list[Part]()

        def lying(peer: str, message: Any, **how: Any) -> None:
            send(peer, lie(message) if isinstance(message, messages.SplitSidesForAll) else message, **how)

        for number in range(3):
            session.rng = np.random.default_rng(1)  # the same order of columns, also if they are prepared again
            session.send = lying if number == 1 and session.party == "telco" else send  # type: ignore[method-assign]
            found.append(help_fit(team, parameters, columns, models, kept if once else None))
        finish(team.products)
        return found

    def coordinator(session: Session) -> None:
        serve(opened(session))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        roles = {"telco": passive, "gym": passive, "bank": bank, "coordinator": coordinator}
        outcome = simulate_roles(roles, timeout=240)
    parts = zip(outcome.results["telco"], outcome.results["gym"], strict=True)
    return Fits(outcome.results["bank"], [*parts], list(outcome.ledgers["bank"].entries))


def splits(fitted: Fitted, telco: Part, gym: Part) -> list[list[object]]:
    """By tree how each node is split, for splits may have other numbers."""
    found: list[list[object]] = []
    for tree in (tree for ensemble in fitted.model.ensembles for tree in ensemble.trees):
        tables = [part.splits for part in (telco, fitted.model.part, gym)]
        inner = zip(tree.first, tree.owner, tree.split, strict=True)
        found.append([tables[owner][split] for first, owner, split in inner if first != LEAF])
    return found


def apart_from_numbers(fitted: Fitted) -> list[tuple[object, ...]]:
    trees = [tree for ensemble in fitted.model.ensembles for tree in ensemble.trees]
    return [(tree.first, tree.owner, tree.values, tree.cover) for tree in trees]


def of(party: str) -> Columns:
    return Columns(matrix()[:, list(COLUMNS[party])], tuple(f"column {number}" for number in COLUMNS[party]))


def by_fit(entries: list[Entry], peer: str) -> list[list[Entry]]:
    """What the bank sent a passive party and received from it, fit by fit."""
    found: list[list[Entry]] = []
    for entry in entries:
        if entry.peer == peer:
            if entry.kind == kind_of(messages.LentColumns):
                found.append([])
            if found:
                found[-1].append(entry)
    return found


def waits(of_fit: list[Entry]) -> list[bool]:
    """For each request for sides whether the bank has waited for the answer before it said anything else."""
    return [after.kind == ANSWER for entry, after in pairwise(of_fit) if entry.kind == REQUEST]


LGB = LgbParameters(trees=3, depth=3, leaves=5, hide_nodes=True, lent_bins=6, min_rows=5)
RF = ForestParameters(trees=7, depth=3, hide_nodes=True, lent_bins=6, min_rows=5)
BAGS_SHOWN, NODES_SHOWN = (HIDDEN.model_copy(update={name: False, "trees": 2}) for name in ("hide_bags", "hide_nodes"))


@pytest.mark.parametrize(
    ("parameters", "engine"),
    [
        (HIDDEN, "shares"),
        (HIDDEN, "plain"),
        (HIDDEN, "paillier"),
        (LGB, "plain"),
        (RF, "shares"),
        (BAGS_SHOWN, "shares"),
        (NODES_SHOWN, "shares"),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.learner} {each.hide_bags:d}{each.hide_nodes:d}",
)
def test_models_are_the_same(parameters: AnyTrees, engine: str) -> None:
    models = 1 if engine == "paillier" else 7
    found, again = (fits(parameters, engine, models=models, once=once) for once in (True, False))
    for one, other, parts, others in zip(found.fitted, again.fitted, found.parts, again.parts, strict=True):
        assert apart_from_numbers(one) == apart_from_numbers(other)
        assert splits(one, *parts) == splits(other, *others)
        for mine, theirs in zip(one.scores, other.scores, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    assert any(tree.first[0] != LEAF for tree in found.fitted[2].model.ensembles[0].trees)


def test_hidden_bins_are_sent_once() -> None:
    def sent(once: bool) -> list[int]:
        each = by_fit(fits(HIDDEN, models=3, once=once).entries, "gym")
        hidden = [[e for e in of_fit if e.way == "received" and e.kind == kind_of(Hidden)] for of_fit in each]
        return list(map(len, hidden))

    assert sent(once=True) == [1, 0, 0]
    assert sent(once=False) == [1, 1, 1]


def test_nobody_waits_for_sides_that_are_known() -> None:
    many = HIDDEN.model_copy(update={"trees": 10})
    entries, of_third = fits(many).entries, list[bool]()
    for peer in ("telco", "gym"):
        first, second, third = map(waits, by_fit(entries, peer))
        assert all(first)
        assert len(second) == len(first) > 1, "it asks all the same, for the passive party's part of the model"
        assert not any(second)
        of_third += third
    assert set(of_third) == {True, False}, "with other labels some splits are new"
    anew = [waits(of_fit) for of_fit in by_fit(fits(HIDDEN, once=False).entries, "telco")]
    assert all(map(all, anew))


@pytest.mark.parametrize(
    "lie",
    [
        lambda told: messages.SplitSidesForAll(told.numbers, told.sides ^ np.uint8(16)),
        lambda told: messages.SplitSidesForAll(np.zeros_like(told.numbers), told.sides),
    ],
    ids=["sides", "numbers"],
)
def test_other_answers_than_before_are_refused(lie: Any) -> None:
    with pytest.raises(ProtocolError, match=r"invalid SplitSidesForAll from telco: other sides or numbers"):
        fits(HIDDEN, "plain", models=5, lie=lie)


def test_sides_belong_to_the_columns_that_were_lent() -> None:
    earlier, sides = Earlier(), np.ones(3, bool)
    one, other = (Layout((Feature(values, False, 0),), ((0,),)) for values in (3, 4))
    earlier.lent(0, one)
    earlier.lent(1, one)
    earlier.sides = {(0, 0, 1, False): sides, (1, 0, 1, False): sides}
    earlier.lent(0, one)
    assert len(earlier.sides) == 2
    earlier.lent(0, other)
    assert list(earlier.sides) == [(1, 0, 1, False)]


def test_bins_keep_the_name_of_the_first_fit() -> None:
    earlier = Earlier()
    earlier.begin("first")
    earlier.begin("second")
    assert earlier.name == "first"
