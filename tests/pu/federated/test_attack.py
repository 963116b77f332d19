"""What a curious passive party makes of the bags: with all rows in all of them, nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Bools, Floats, unpacked
from unpooled.evaluate.metrics import auc
from unpooled.pu.federated.search import Columns, find, groups_of, help_find
from unpooled.pu.settings import VfpuSettings
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.learners import learner_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees.messages import Bags
from unpooled.vertical.trees.parameters import GbdtParameters

ROWS, OWNERS = 1_500, ("telco", "bank")
METHOD = VfpuSettings(iterations=2, bags=4)


def people() -> tuple[Floats, Bools, Floats]:
    """The bank's columns, who is known as positive, and the telco's columns, which say nothing."""
    rng = np.random.default_rng(11)
    matrix = rng.normal(size=(ROWS, 4))
    known = (matrix[:, 0] + matrix[:, 1] > 1) & (rng.random(ROWS) < 0.4)
    return matrix, known, rng.normal(size=(ROWS, 2))


def seen_by_the_telco(*, hide_bags: bool) -> tuple[list[Bools], int]:
    """The rows that took part in each tree, as far as the telco was told, and how many trees it saw grow."""
    base = GbdtParameters(trees=2, depth=3, hide_bags=hide_bags)
    matrix, known, noise = people()
    received: list[Any] = []

    def opened(session: Session) -> Engine:
        questions = learner_of(base).questions(base, sum(groups_of(METHOD)))
        return open_engine(session, Rules("plain", questions=questions), OWNERS, "bank", "coordinator")

    def bank(session: Session) -> None:
        team = Team("bank", OWNERS, opened(session), "rows")
        find(team, base, Columns(matrix, ("a", "b", "c", "d")), known, METHOD, seed=1)
        finish(team.products)

    def telco(session: Session) -> None:
        team, take = Team("bank", OWNERS, opened(session), "rows"), session.recv

        def recv(peer: str, *kinds: Any, **limits: Any) -> Any:
            received.append(take(peer, *kinds, **limits))
            return received[-1]

        session.recv = recv  # type: ignore[method-assign]
        help_find(team, base, Columns(noise, ("e", "f")), METHOD)
        finish(team.products)

    simulate_roles({"telco": telco, "bank": bank, "coordinator": lambda session: serve(opened(session))}, timeout=240)
    trees = sum(len(message.names) for message in received if type(message).__name__ == "Trees")
    told = [bits for message in received if isinstance(message, Bags) for bits in message.taking_part]
    return [unpacked(bits, ROWS, "sides", "bank") for bits in told] or [np.ones(ROWS, bool)] * trees, trees


@pytest.fixture(scope="module", params=[False, True], ids=["shown bags", "hidden bags"])
def attack(request: pytest.FixtureRequest) -> tuple[bool, list[Bools], int]:
    return request.param, *seen_by_the_telco(hide_bags=request.param)


def test_whoever_is_in_most_bags_is_known(attack: tuple[bool, list[Bools], int]) -> None:
    hidden, bags, trees = attack
    assert len(bags) == trees == 2 * 2 * 4
    how_often = np.sum(bags, axis=0).astype(float)
    found = auc(people()[1].astype(float), how_often)
    if hidden:
        assert found <= 0.52
    else:
        assert found >= 0.9


def test_three_bags_are_enough_if_they_are_shown(attack: tuple[bool, list[Bools], int]) -> None:
    """In the first iteration only known rows are in every bag, but for few others."""
    hidden, bags, _ = attack
    in_all = np.logical_and.reduce(bags[:3])
    known = people()[1]
    if hidden:
        assert in_all.all()
    else:
        assert in_all[known].all()
        assert in_all[~known].mean() < 0.02
