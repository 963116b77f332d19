"""Parties that fit linear models together in threads of this process: what each has and received."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.fitting import FittedLinear, Target, fit, help_fit
from unpooled.vertical.linear.model import LinearModel, LinearPart
from unpooled.vertical.linear.parameters import LinearParameters
from unpooled.vertical.linear.predictor import help_predict, score
from unpooled.vertical.team import Team

ACTIVE, COORDINATOR = "bank", "coordinator"

TEAMS: dict[str, tuple[str, ...]] = {
    "two": ("telco", "bank"),
    "three": ("telco", "bank", "shop"),
    "five": ("shop", "telco", "bank", "gym", "club"),
    "the active without columns": ("telco", "bank", "shop"),
    "a passive one without columns": ("shop", "telco", "bank"),
}
"""Who takes part; the active party is always the bank."""

HELD: dict[str, dict[str, tuple[int, ...]]] = {
    "two": {"telco": (0, 1, 2, 5), "bank": (3, 4)},
    "three": {"telco": (0, 1), "bank": (2, 3), "shop": (4, 5)},
    "five": {"shop": (0,), "telco": (1, 2), "bank": (3,), "gym": (4,), "club": (5,)},
    "the active without columns": {"telco": (0, 1, 2, 3), "bank": (), "shop": (4, 5)},
    "a passive one without columns": {"shop": (), "telco": (0, 1, 2), "bank": (3, 4, 5)},
}
"""Who has which column of a scene's matrix."""

Tamper = Callable[[str, Any], Any]


@dataclass(frozen=True, eq=False)
class Scene:
    """Made-up columns, targets by number of classes (0 for numbers), and weights."""

    matrix: Floats
    truth: dict[int, Floats]
    weights: Floats

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"column no. {number}" for number in range(self.matrix.shape[1]))

    def columns(self, which: Sequence[int] | None = None) -> Columns:
        chosen = list(range(self.matrix.shape[1]) if which is None else which)
        return Columns(self.matrix[:, chosen], tuple(self.names[number] for number in chosen))

    def target(self, classes: int = 2, *, weighted: bool = False) -> Target:
        return Target(self.truth[classes], self.weights if weighted else None)


def scene(rows: int = 1200, seed: int = 0) -> Scene:
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 6))
    matrix[:, 1] = 0.6 * matrix[:, 0] + 0.8 * matrix[:, 1]
    matrix[:, 5] = rng.integers(0, 2, rows)
    number = matrix @ np.array([1.0, -0.5, 0.8, -0.7, 0.4, 0.6]) + rng.normal(size=rows)
    truth = {0: 7 + 3 * number, 2: (number > 0.3).astype(float), 3: np.digitize(number, [-0.9, 1.1]).astype(float)}
    return Scene(matrix, truth, rng.integers(0, 4, rows).astype(float))


@dataclass(eq=False)
class Run:
    """What came of it: everybody's part, the scores of the training rows, all messages as they came, and ledgers."""

    fits: list[FittedLinear] = field(default_factory=list)
    parts: dict[str, LinearPart] = field(default_factory=dict)
    scores: Any = None
    received: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    ledgers: dict[str, Record] = field(default_factory=dict)

    @property
    def model(self) -> LinearModel:
        return self.fits[-1].model

    @property
    def losses(self) -> tuple[float, ...]:
        return self.fits[-1].losses

    def weights(self) -> dict[str, Any]:
        """Everybody's weights and what the optimisers remember."""
        parts = {ACTIVE: self.model.part} | self.parts
        return {"intercept": self.model.intercept} | {party: (p.weights, p.pace) for party, p in parts.items()}

    def messages(self, party: str, *kinds: type) -> list[Any]:
        """What a party received of some kinds, in order."""
        return [message for _, message in self.received.get(party, []) if isinstance(message, kinds)]


def together(
    parameters: LinearParameters,
    team: str = "two",
    engine: str = "shares",
    *,
    data: Scene | None = None,
    target: Target | None = None,
    start: Run | None = None,
    fits: int = 1,
    tamper: Mapping[str, Tamper] | None = None,
    own: Mapping[str, Callable[[Team, Scene], Any]] | None = None,
    rules: Mapping[str, Any] | None = None,
    into: Run | None = None,
) -> Run:
    """Fit, several times if need be, and score the training rows; `tamper` changes what a party sends to whom.

    `own` is what a party does instead of its part; `into` keeps what there was if it fails.
    """
    data, owners, held = data or scene(), TEAMS[team], HELD[team]
    target = target or data.target(parameters.classes)
    run = into or Run()
    settings = Rules(**{"engine": engine, "key_bits": 512, "insecure": True} | dict(rules or {}))

    def begin(session: Session) -> Engine:
        _watch(session, run, (tamper or {}).get(session.party))
        run.engines[session.party] = open_engine(session, settings, owners, ACTIVE, COORDINATOR)
        return run.engines[session.party]

    def active(session: Session) -> None:
        members = Team(ACTIVE, owners, begin(session), "digest")
        columns = data.columns(held[ACTIVE])
        for _ in range(fits):
            run.fits.append(fit(members, parameters, columns, target, start=start.model if start else None))
        finish(members.products)
        run.scores = score(members, run.model, columns.matrix)

    def passive(session: Session) -> None:
        members, columns = Team(ACTIVE, owners, begin(session), "digest"), data.columns(held[session.party])
        for _ in range(fits):
            part = help_fit(members, parameters, columns, start.parts[session.party] if start else None)
        run.parts[session.party] = part
        finish(members.products)
        help_predict(members, part, columns.matrix)

    def instead(session: Session) -> None:
        (own or {})[session.party](Team(ACTIVE, owners, begin(session), "digest"), data)

    roles: dict[str, Callable[[Session], None]] = {o: active if o == ACTIVE else passive for o in owners}
    roles |= dict.fromkeys(own or {}, instead) | {COORDINATOR: lambda session: serve(begin(session))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        run.ledgers = simulate_roles(roles, timeout=240).ledgers
    return run


def _watch(session: Session, run: Run, tamper: Tamper | None) -> None:
    take, send = session.recv, session.send
    received = run.received.setdefault(session.party, [])

    def recv(peer: str, *kinds: Any, **limits: Any) -> Any:
        message = take(peer, *kinds, **limits)
        received.append((peer, message))
        return message

    session.recv = recv  # type: ignore[method-assign]
    if tamper:
        session.send = lambda peer, message, **how: send(peer, tamper(peer, message), **how)  # type: ignore[method-assign]


def _fixture(function: Callable[..., Any]) -> Any:
    return pytest.fixture(scope="session", name=function.__name__)(lambda: function)


_scene, _together = _fixture(scene), _fixture(together)


@pytest.fixture
def new_run() -> Run:
    return Run()
