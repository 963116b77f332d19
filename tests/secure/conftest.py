"""Parties that multiply in threads of this process: what each was shown and received, and what it should have been."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.secure import product as products
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.product import announce, begin, finish, serve
from unpooled.session import Session
from unpooled.transport.mailbox import ROOM_BYTES

DRIVER, COORDINATOR = "bank", "coordinator"
PARTIES = ("telco", "bank")
THIRD = "shop"
NO_LIMIT = 10**9

Problem = tuple[Call, Mapping[str, Inputs]]
"""A call, and what each party holds for it."""
Batches = Sequence[Sequence[Problem]]
Tamper = Callable[[Any], Any]


@dataclass
class Run:
    """What came of it: everybody's results as they came, what they received, the engines and, at the end, ledgers."""

    shown: dict[str, list[list[Any]]] = field(default_factory=dict)
    received: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    engines: dict[str, Engine] = field(default_factory=dict)
    ledgers: dict[str, Record] = field(default_factory=dict)

    def results(self, party: str) -> list[Any]:
        """A party's results of all batches, one after the other."""
        return [result for batch in self.shown[party] for result in batch]

    def rounds(self, party: str) -> int:
        """How many batches a party came through."""
        return len(self.shown.get(party, []))

    def sent(self, party: str, kind: str = "", scope: str = "product") -> int:
        """How many bytes a party sent in a scope, of one kind of message or all."""
        entries = (e for e in self.ledgers[party].entries if e.way == "sent" and e.scope.startswith(scope))
        return sum(entry.bytes for entry in entries if entry.kind.endswith(kind))


def rules_for(engine: str, **others: Any) -> Rules:
    """Keys too short to be safe: what they compute is the same."""
    return Rules(**{"engine": engine, "key_bits": 512, "insecure": True, "questions": NO_LIMIT} | others)


@pytest.fixture(scope="session", params=sorted(products._ENGINES))
def rules(request: pytest.FixtureRequest) -> Rules:
    """Every engine there is."""
    return rules_for(request.param)


@pytest.fixture(scope="session", params=sorted(set(products._ENGINES) - {"plain"}))
def protecting(request: pytest.FixtureRequest) -> Rules:
    """Every engine that protects."""
    return rules_for(request.param)


@pytest.fixture(scope="session", name="rules_for")
def _rules_for() -> Callable[..., Rules]:
    return rules_for


def roles_of(
    run: Run,
    rules: Rules,
    batches: Batches,
    parties: Sequence[str] = PARTIES,
    *,
    differing: Mapping[str, Batches] | None = None,
    own_rules: Mapping[str, Rules] | None = None,
    announced: Sequence[Sequence[Call]] = (),
    own_calls: bool = False,
    tamper: Mapping[str, Tamper] | None = None,
    begun: int = 1,
) -> dict[str, Callable[[Session], None]]:
    """What each party does; `differing` and `own_rules` are those of a party alone, `tamper` changes what it sends.

    With `own_calls` a party other than the driver hears of no calls but those in which it takes part. The driver begins
    so many batches before it waits for the first of them.
    """

    def opened(session: Session) -> Engine:
        _watch(session, run.received.setdefault(session.party, []), (tamper or {}).get(session.party))
        engine = open_engine(session, (own_rules or {}).get(session.party, rules), parties, DRIVER, COORDINATOR)
        run.engines[session.party] = engine
        return engine

    def holder(session: Session) -> None:
        engine = opened(session)
        shown = run.shown.setdefault(session.party, [])

        def hears_of(call: Call) -> bool:
            return not own_calls or session.party == DRIVER or session.party in call.participants

        if announced:
            coming = [[call for call in batch if hears_of(call)] for batch in announced]
            announce(engine, [calls for calls in coming if calls])
        waiting: deque[Callable[[], Any]] = deque()
        for batch in (differing or {}).get(session.party, batches):
            mine = [(call, held[session.party]) for call, held in batch if hears_of(call)]
            if mine or not own_calls:
                waiting.append(begin(engine, mine))
            if len(waiting) == (begun if session.party == DRIVER else 1):
                shown.append(waiting.popleft()())
        shown.extend(results() for results in waiting)
        finish(engine)

    def coordinator(session: Session) -> None:
        serve(opened(session))

    return {**dict.fromkeys(parties, holder), COORDINATOR: coordinator}


def _watch(session: Session, received: list[tuple[str, Any]], tamper: Tamper | None) -> None:
    take, send = session.recv, session.send

    def recv(peer: str, *kinds: Any, **limits: Any) -> Any:
        message = take(peer, *kinds, **limits)
        received.append((peer, message))
        return message

    session.recv = recv  # type: ignore[method-assign]
    if tamper:
        session.send = lambda peer, message, **how: send(peer, tamper(message), **how)  # type: ignore[method-assign]


@pytest.fixture(scope="session", name="roles_of")
def _roles_of() -> Callable[..., Any]:
    return roles_of


@pytest.fixture(scope="session")
def new_run() -> Callable[[], Run]:
    return Run


@pytest.fixture(scope="session")
def multiply() -> Callable[..., Run]:
    """Run batches of problems at all parties; `into` keeps what there was if it fails."""

    def multiply(
        rules: Rules,
        batches: Batches,
        parties: Sequence[str] = PARTIES,
        *,
        room: int = ROOM_BYTES,
        into: Run | None = None,
        **others: Any,
    ) -> Run:
        run = into or Run()
        roles = roles_of(run, rules, batches, parties, **others)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
            run.ledgers = simulate_roles(roles, timeout=60, room=room).ledgers
        return run

    return multiply


@pytest.fixture(scope="session")
def made() -> Callable[..., Problem]:
    """Random inputs for a call: of all sizes up to the bounds, or (`extreme`) the bounds themselves."""

    def made(call: Call, seed: int = 0, *, extreme: bool = False) -> Problem:
        rng = np.random.default_rng(seed)

        def numbers(shape: tuple[int, ...], bound: int) -> np.ndarray:
            if extreme:
                return rng.choice(np.array([-bound, bound], np.int64), shape)
            return rng.integers(-bound, bound, shape, np.int64, endpoint=True)

        nodes = None
        if not isinstance(call.left, Dense):
            nodes = rng.integers(-1, call.left.nodes, call.rows).astype(np.int32)
        held = {}
        for party in (*PARTIES, THIRD):
            x = y = None
            if any(left == party for left, _ in call.terms):
                if isinstance(call.left, Dense):
                    x = numbers((call.rows, call.left.width), call.left.bound)
                else:
                    x = np.empty((call.rows, len(call.left.sizes)), np.int64)
                    for column, size in enumerate(call.left.sizes):
                        x[:, column] = rng.integers(0, size, call.rows)
            if any(right == party for _, right in call.terms):
                y = numbers((call.rows, call.columns), call.bound)
            knows = y is not None or (not isinstance(call.left, Dense) and not call.left.hidden)
            added = [numbers(call.shape, bound) for adder, bound in call.added if adder == party]
            held[party] = Inputs(x, y, nodes if knows else None, added[0] if added else None)
        return call, held

    return made


@pytest.fixture(scope="session")
def expected() -> Callable[[Problem], np.ndarray]:
    """The product, with Python's own integers and nothing of the package."""

    def expected(problem: Problem) -> np.ndarray:
        call, held = problem
        total = np.zeros(call.shape, object)
        for left, right in call.terms:
            x, y, nodes = held[left].x, held[right].y.astype(object), held[right].nodes
            for row in range(call.rows):
                if isinstance(call.left, Dense):
                    total += np.outer(x[row].astype(object), y[row])
                elif nodes[row] >= 0:
                    first = 0
                    for column, size in enumerate(call.left.sizes):
                        total[nodes[row], first + x[row, column]] += y[row]
                        first += size
        for adder, _ in call.added:
            total += held[adder].added.astype(object)
        return total

    return expected
