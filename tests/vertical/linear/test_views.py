"""What each party receives while a model is fitted and used: no scores, no labels, nothing that goes along with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
from linear_settings import with_gradients

from unpooled.errors import ProtocolError
from unpooled.secure.engine import MaskSeed, Stop
from unpooled.secure.mod64 import from_bytes
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.paillier import key_holder
from unpooled.secure.product import Contribution, finish
from unpooled.secure.shares import dealer, opening
from unpooled.vertical.linear.descent import order_of
from unpooled.vertical.linear.fitting import fit, help_fit
from unpooled.vertical.linear.messages import (
    BeginLinear,
    GradientShares,
    LastShare,
    NextEpoch,
    PartialScores,
    Score,
    Width,
)
from unpooled.vertical.linear.predictor import _SCORES, help_predict, score
from unpooled.vertical.team import Team

Make = Callable[..., Any]

SMALL = {"epochs": 2, "batch_rows": 300, "insecure_batch": True}
ENGINES = {
    "shares": {opening.Hidden, dealer.Dealt, MaskSeed, Contribution},
    "paillier": {paillier.EncryptedRows, key_holder.SharedKey, key_holder.Decrypted, MaskSeed, Contribution},
}
"""What comes from the engines; tests of theirs look at it."""
DEVIATIONS = 7.0
"""Of a normal distribution: less than once in 10^11 times."""


def kinds(run: Any, party: str) -> set[type]:
    return {type(message) for _, message in run.received[party]}


def arrays(value: Any) -> Iterator[np.ndarray]:
    """All arrays in a message."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from arrays(part)
    elif is_dataclass(value):
        for each in fields(value):
            yield from arrays(getattr(value, each.name))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("team", ["two", "three"])
def test_only_declared_kinds_arrive(together: Make, scene: Make, team: str, engine: str) -> None:
    data = scene(40 if engine == "paillier" else 1200)
    settings = {"epochs": 1, "batch_rows": 40, "insecure_batch": True} if engine == "paillier" else SMALL
    run = together(with_gradients(**settings), team, engine, data=data)
    for party in run.parts:
        assert kinds(run, party) - ENGINES[engine] == {Width, BeginLinear, NextEpoch, Score}
    assert kinds(run, "bank") - ENGINES[engine] == {Width, PartialScores}
    assert kinds(run, "coordinator") <= {dealer.Deal, Stop, key_holder.Decrypt, key_holder.MaskedSums}


def likeness(run: Any, data: Any) -> float:
    """How much any number for each row that anybody received goes along with labels, scores or columns, at the most.

    In standard deviations of chance. Scores come at prediction, which is left out.
    """
    order, rows = order_of(len(data.matrix)), len(data.matrix)
    secrets = np.stack([data.truth[2][order], run.scores[order, 0], *data.matrix[order].T])
    found = []
    for _, message in (entry for received in run.received.values() for entry in received):
        for sent in arrays(message) if not isinstance(message, PartialScores) else ():
            numbers = from_bytes(sent, sent.shape[1:], "") if sent.dtype == np.uint8 and sent.ndim > 1 else sent
            if numbers.ndim == 2 and rows in numbers.shape:
                columns = (numbers.T if len(numbers) == rows else numbers).view(np.int64).astype(float)
                columns = columns[columns.std(axis=1) > 0]
                found.append(np.abs(np.corrcoef(columns, secrets)[: len(columns), len(columns) :]).max())
    assert len(found) >= 6
    return float(max(found) * rows**0.5)


@pytest.mark.parametrize("reveal", ["gradients", "final"])
@pytest.mark.parametrize("team", ["two", "three"])
def test_nothing_that_arrives_goes_along_with_labels_or_scores(
    together: Make, scene: Make, team: str, reveal: str
) -> None:
    data, parameters = scene(), with_gradients(epochs=2, batch_rows=1200, reveal=reveal)
    assert likeness(together(parameters, team, "shares", data=data), data) < DEVIATIONS
    assert likeness(together(parameters, team, "plain", data=data), data) > 2 * DEVIATIONS, "nothing is hidden"


def test_with_one_passive_party_partial_scores_are_its_scores(together: Make, scene: Make) -> None:
    data, run = scene(), together(with_gradients(**SMALL))
    (message,) = run.messages("bank", PartialScores)
    own = np.clip(data.matrix[:, [0, 1, 2, 5]], -4, 4) @ np.array(run.parts["telco"].weights)
    np.testing.assert_allclose(_SCORES.decode(message.values.view(np.int64)), own, atol=1e-2)


def test_with_several_only_their_sum_is_known(together: Make, scene: Make) -> None:
    data, run = scene(), together(with_gradients(**SMALL), "three")
    telco, shop = (message.values for message in run.messages("bank", PartialScores))
    weights = [np.array(run.parts[party].weights) for party in ("telco", "shop")]
    columns = np.clip(data.matrix, -4, 4)
    both = columns[:, [0, 1]] @ weights[0] + columns[:, [4, 5]] @ weights[1]
    np.testing.assert_allclose(_SCORES.decode((telco + shop).view(np.int64)), both, atol=1e-2)
    for values in (telco, shop):
        top = np.bincount((values[:, 0] >> np.uint64(60)).astype(int), minlength=16)
        assert (abs(top - 75) < DEVIATIONS * 75**0.5).all(), "each by itself is any number"


def test_numbers_that_cancel_out_are_never_used_twice(together: Make) -> None:
    """The same model twice, say: the difference of what one party sends must not be that of its scores."""
    parameters, seen = with_gradients(**SMALL), []

    def active(team: Team, data: Any) -> None:
        columns = data.columns((2, 3))
        model = fit(team, parameters, columns, data.target()).model
        seen.extend(score(team, model, columns.matrix) for _ in range(2))
        finish(team.products)

    def passive(which: tuple[int, ...]) -> Callable[[Team, Any], None]:
        def help_twice(team: Team, data: Any) -> None:
            part = help_fit(team, parameters, data.columns(which))
            for _ in range(2):
                help_predict(team, part, data.columns(which).matrix)

        return help_twice

    run = together(parameters, "three", own={"bank": active, "telco": passive((0, 1)), "shop": passive((4, 5))})
    np.testing.assert_array_equal(seen[0], seen[1])
    came = [message for sender, message in run.received["bank"] if sender == "telco"]
    first, second = (message.values for message in came if isinstance(message, PartialScores))
    assert not (first == second).any()


def test_the_loss_is_known_to_the_active_party_alone(together: Make) -> None:
    run = together(with_gradients(**SMALL), "three")
    sums = {party: len(run.messages(party, Contribution)) for party in ("telco", "bank", "shop")}
    steps, others = 2 * 4, 2
    assert sums == {"telco": steps * others, "bank": (steps + 2) * others, "shop": steps * others}


def test_final_shows_nothing_but_weights_at_the_end(together: Make) -> None:
    run = together(with_gradients(**SMALL, reveal="final"), "three")
    assert kinds(run, "telco") - ENGINES["shares"] == {Width, BeginLinear, GradientShares, LastShare, Score}
    assert kinds(run, "bank") - ENGINES["shares"] == {Width, GradientShares, LastShare, PartialScores}
    assert kinds(run, "shop") - ENGINES["shares"] == {Width, BeginLinear, LastShare, Score}
    for party in ("telco", "bank", "shop"):
        assert run.messages(party, Contribution) == []
        last = [type(message) for _, message in run.received[party] if not isinstance(message, Score | PartialScores)]
        assert last[-1] is LastShare
        assert last.count(LastShare) == 1


# misuse


def test_other_rows_are_noticed(together: Make) -> None:
    def fewer(_: str, message: Any) -> Any:
        return replace(message, rows=message.rows - 1) if isinstance(message, Width) else message

    with pytest.raises(ProtocolError, match=r" 1199 .* 1200"):
        together(with_gradients(**SMALL), tamper={"telco": fewer})


@pytest.mark.parametrize("columns", [-1, 10**6])
def test_widths_that_cannot_be(together: Make, columns: int) -> None:
    def wrong(_: str, message: Any) -> Any:
        return replace(message, columns=columns) if isinstance(message, Width) else message

    with pytest.raises(ProtocolError, match="Width from telco"):
        together(with_gradients(**SMALL), tamper={"telco": wrong})


def test_a_width_that_is_not_the_partys_ends_in_an_error(together: Make) -> None:
    def wrong(_: str, message: Any) -> Any:
        return replace(message, columns=message.columns + 1) if isinstance(message, Width) else message

    with pytest.raises(ProtocolError, match=r"other products|Hidden|numbers"):
        together(with_gradients(**SMALL), tamper={"telco": wrong})
