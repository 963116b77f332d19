"""Parties that grow trees together in threads of this process: what each has and received; and the same, pooled."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from unpooled.arrays import Floats
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, limit_bits, open_engine
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team, alone
from unpooled.vertical.trees import ensemble as fitting
from unpooled.vertical.trees.budget import bits_needed
from unpooled.vertical.trees.ensemble import Fitted, fit, help_fit
from unpooled.vertical.trees.grower.context import LEAF, GrownTree, TreeSpec
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    questions_of,
)
from unpooled.vertical.trees.predictor import help_predict, scores
from unpooled.vertical.trees.prepared import prepare
from unpooled.wire import Header, encode, read_header

ACTIVE, COORDINATOR = "bank", "coordinator"

LEARNERS: dict[str, type[AnyTrees]] = {
    "gbdt": GbdtParameters,
    "xgb": XgbParameters,
    "lgb": LgbParameters,
    "rf": ForestParameters,
}

TEAMS: dict[str, dict[str, tuple[int, ...]]] = {
    "two": {"telco": (0, 3, 5, 6, 7, 8), "bank": (1, 2, 4)},
    "the active first": {"bank": (1, 4), "telco": (0, 3, 5, 6, 7, 8), "shop": (2,)},
    "the active in the middle": {"telco": (3, 0), "bank": (1, 2), "shop": (4, 8, 7, 6, 5)},
    "the active last": {"telco": (3, 0, 5), "shop": (4, 8, 7, 6), "bank": (1, 2)},
    "five": {"telco": (0, 5), "shop": (1,), "bank": (2, 6), "gym": (3, 7), "club": (4, 8)},
    "the active without columns": {"telco": (0, 3, 5, 6, 7, 8), "bank": (), "shop": (1, 2, 4)},
    "a passive one without columns": {"telco": (0, 1, 2, 3, 4), "shop": (), "bank": (5, 6, 7, 8)},
}
"""Who has which column of a scene's matrix; the active party is always the bank."""

Tamper = Callable[[str, Any], Any]


@dataclass(frozen=True, eq=False)
class Scene:
    """Made-up columns and targets: numbers, one of few values, levels of a category; and other rows to predict."""

    matrix: Floats
    new: Floats
    truth: dict[int, Floats]
    """By number of classes, 0 for numbers."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"column no. {number}" for number in range(self.matrix.shape[1]))

    def columns(self, which: Sequence[int]) -> Columns:
        return Columns(self.matrix[:, list(which)], tuple(self.names[number] for number in which))


def scene(rows: int = 160, seed: int = 0, missing: float = 0.08, new: int = 40) -> Scene:
    """Columns 5 to 8 exclude each other, also by missing values; column 1 has those only among the new rows."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows + new, 9))
    matrix[:, 4] = rng.integers(0, 4, rows + new)
    matrix[:, 5:] = rng.integers(0, 5, rows + new)[:, np.newaxis] == np.arange(4)
    clean = matrix.copy()
    holes = rng.random(matrix.shape) < missing
    holes[:rows, 1] = False
    holes[:rows, 5:] = (rng.random((rows, 4)) < 5 * missing) & (clean[:rows, 5:] == 1)
    matrix[holes] = np.nan
    noise = 0.4 * rng.normal(size=rows + new)
    number = 2 * clean[:, 0] + clean[:, 1] * clean[:, 3] + clean[:, 2] + clean[:, 4] / 2 + clean[:, 6] - 1 + noise
    truth = {0: number, 2: (number > 0.3).astype(float), 3: np.digitize(number, [-0.8, 1.2]).astype(float)}
    matrix[rows:, :5] *= 3  # beyond what was seen in training
    return Scene(matrix[:rows], matrix[rows:], {classes: values[:rows] for classes, values in truth.items()})


def parameters_for(learner: str, classes: int = 2, **others: Any) -> AnyTrees:
    """Small and quick, unless said otherwise."""
    small: dict[str, Any] = {"classes": classes, "trees": 2, "depth": 3, "min_rows": 6}
    if learner == "lgb":
        small |= {"trees": 3, "learning_rate": 0.6, "leaves": 5, "depth": 4}  # rows are sampled for the last tree
    return LEARNERS[learner](**small | others)


@dataclass(eq=False)
class Run:
    """What a run began with and what came of it."""

    scene: Any = None
    team: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    parameters: Any = None
    targets: Sequence[Target] = ()
    parts: dict[str, Part] = field(default_factory=dict)
    received: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    frames: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Who sent it to whom, and its bytes."""
    engines: dict[str, Engine] = field(default_factory=dict)
    ledgers: dict[str, Record] = field(default_factory=dict)
    bits: dict[str, tuple[int, int]] = field(default_factory=dict)
    """How many each passive party has answered in training, and how many were needed at the most."""
    fits: list[Fitted] = field(default_factory=list)
    predictions: list[Floats] = field(default_factory=list)
    again: list[Floats] = field(default_factory=list)
    """Predictions for the training rows."""

    @property
    def fitted(self) -> Fitted:
        return self.fits[0]

    @property
    def model(self) -> Model:
        return self.fitted.model

    def messages(self, party: str, *kinds: type) -> list[Any]:
        """What a party received of some kinds, in order."""
        return [message for _, message in self.received.get(party, []) if isinstance(message, kinds)]

    def sent(self, sender: str, *kinds: type) -> list[Any]:
        """What a party sent of some kinds."""
        everybodys = [entry for received in self.received.values() for entry in received]
        return [message for by, message in everybodys if by == sender and isinstance(message, kinds)]


def together(
    parameters: AnyTrees,
    team: str | Mapping[str, tuple[int, ...]] = "two",
    engine: str = "shares",
    *,
    data: Scene | None = None,
    targets: Sequence[Target] | None = None,
    seeds: Mapping[str, int] | None = None,
    tamper: Mapping[str, Tamper] | None = None,
    rules: Mapping[str, Any] | None = None,
    most_thresholds: int | None = None,
    own: Mapping[str, Callable[[Any, Scene], Any]] | None = None,
    predicts: bool = True,
    into: Run | None = None,
) -> Run:
    """Fit, then predict the scene's new rows and the training rows; `tamper` changes what a party sends to whom.

    `own` is what a party does instead of its part, given its team and scene; `into` keeps what there was if it fails.
    """
    data, owners = data or scene(), TEAMS[team] if isinstance(team, str) else team
    targets = [Target(data.truth[parameters.classes], seed=1)] if targets is None else targets
    run = into or Run()
    run.scene, run.team, run.parameters, run.targets = data, owners, parameters, targets
    settings: dict[str, Any] = {"engine": engine, "key_bits": 512, "insecure": True}
    limits = Rules(**settings | {"questions": questions_of(parameters, len(targets))} | dict(rules or {}))

    def begin(session: Session) -> Engine:
        _watch(session, run, (tamper or {}).get(session.party))
        run.engines[session.party] = open_engine(session, limits, tuple(owners), ACTIVE, COORDINATOR)
        return run.engines[session.party]

    def active(session: Session) -> None:
        members = Team(ACTIVE, tuple(owners), begin(session), "digest")
        run.fits.append(fit(members, parameters, data.columns(owners[ACTIVE]), targets))
        finish(members.products)
        if predicts:
            run.predictions = scores(members, run.model, data.new[:, list(owners[ACTIVE])])
            run.again = scores(members, run.model, data.matrix[:, list(owners[ACTIVE])])

    def passive(session: Session) -> None:
        members, mine = Team(ACTIVE, tuple(owners), begin(session), "digest"), list(owners[session.party])
        columns, count, products = data.columns(mine), len(targets), members.products
        prepared = prepare(members, parameters, columns, most_thresholds)
        needed = bits_needed(products.rules, parameters, prepared.own.layout, len(columns.matrix), count)
        limit_bits(products, "digest", len(columns.matrix), needed)
        part = help_fit(members, parameters, columns, count, prepared)
        run.parts[session.party] = part
        run.bits[session.party] = products.bits["digest"], needed
        finish(members.products)
        if predicts:
            help_predict(members, part, data.new[:, mine])
            help_predict(members, part, data.matrix[:, mine])

    def coordinator(session: Session) -> None:
        serve(begin(session))

    def instead(session: Session) -> None:
        (own or {})[session.party](Team(ACTIVE, tuple(owners), begin(session), "digest"), data)

    roles = {owner: active if owner == ACTIVE else passive for owner in owners} | {COORDINATOR: coordinator}
    roles |= dict.fromkeys(own or {}, instead)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOKY_MAX_CPU_COUNT", "1")  # so little is not worth worker processes
        run.ledgers = simulate_roles(roles, seeds=seeds, timeout=240).ledgers
    return run


class _Recorded:
    """A transport and its mailbox: it hands out what a party received in a run, and drops what is sent."""

    networked = False

    def __init__(self, run: Run, party: str, tamper: Tamper) -> None:
        self.mailbox, self.party = self, party
        self.peers = tuple(owner for owner in (*run.team, COORDINATOR) if owner != party)
        self._received, self._tamper, self._tampered = list(run.received[party]), tamper, False

    def check(self, *doing: str) -> None:
        """Nobody fails here."""

    def send(self, peer: str, frame: Any, *, more: bool = False) -> None:
        """Nobody listens."""

    def flush(self) -> None:
        """Nothing is held back."""

    def take(self, peer: str, awaited: str, timeout: float, judge: Callable[..., None]) -> Header:
        assert not self._tampered, "the changed message was accepted"
        place = next(place for place, (sender, _) in enumerate(self._received) if sender == peer)
        _, message = self._received.pop(place)
        changed = self._tamper(peer, message)
        self._tampered = changed is not message
        frame = encode(changed, "").joined()
        judge(read_header(frame), len(frame))
        return read_header(frame)


def replay(run: Run, party: str, tamper: Tamper) -> None:
    """One party's part in the training of a finished run again, with what it received there, until `tamper` changes it.

    What is changed must be refused before anything else is received. The engine must be `plain`: others draw numbers.
    """
    nothing: Any = SimpleNamespace(record=lambda *_: None)
    transport: Any = _Recorded(run, party, tamper)
    session = Session(transport, nothing, seed=0, timeout=240)
    engine = open_engine(session, run.engines[party].rules, tuple(run.team), ACTIVE, COORDINATOR)
    members, columns = Team(ACTIVE, tuple(run.team), engine, "digest"), run.scene.columns(run.team[party])
    name = bytes.fromhex(run.model.part.name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting.secrets, "token_bytes", lambda size: (2 * name)[:size])
        if party == ACTIVE:
            fit(members, run.parameters, columns, run.targets)
        else:
            help_fit(members, run.parameters, columns, models=len(run.targets))


def refuses(run: Run, party: str, cases: Mapping[str, Tamper], error: type[Exception], names: str) -> None:
    """A party refuses each of these changes, with an error of this class that names what this expression matches."""
    for case, tamper in cases.items():
        print(case)  # the last one that is shown is the one that failed
        with pytest.raises(error, match=names):
            replay(run, party, tamper)


def _watch(session: Session, run: Run, tamper: Tamper | None) -> None:
    take, send, carry = session.recv, session.send, session._transport.send
    received = run.received.setdefault(session.party, [])

    def recv(peer: str, *kinds: Any, **limits: Any) -> Any:
        message = take(peer, *kinds, **limits)
        received.append((peer, message))
        return message

    def carried(peer: str, frame: Any, **how: Any) -> None:
        run.frames.append((session.party, peer, frame.joined()))
        carry(peer, frame, **how)

    session.recv = recv  # type: ignore[method-assign]
    session._transport.send = carried  # type: ignore[method-assign]
    if tamper:
        session.send = lambda peer, message, **how: send(peer, tamper(peer, message), **how)  # type: ignore[method-assign]


def pooled_order(run: Run) -> list[int]:
    """The columns as the owners present them, one owner after the other."""
    order: list[int] = []
    for owner, columns in run.team.items():
        if owner == ACTIVE:
            order += columns
        else:
            order += [run.scene.names.index(feature.name) for feature in run.parts[owner].binning.features]
    return order


def grown(model: Model, parts: Mapping[str, Part]) -> list[Any]:
    """All that a model says, with columns by name and without the numbers that each party gives its splits."""
    found: list[Any] = []
    for ensemble in model.ensembles:
        by_name = {}
        for owner, gains in zip(model.owners, ensemble.gains, strict=True):
            part = model.part if owner == model.part.party else parts[owner]
            by_name |= {f.name: gain for f, gain in zip(part.binning.features, gains, strict=True)}
        found.append((ensemble.base, by_name))
        for tree in ensemble.trees:
            nodes: list[Any] = []
            each = zip(tree.first, tree.owner, tree.split, tree.values, tree.cover, strict=True)
            for first, owner_place, split, values, cover in each:
                how = None
                if first != -1:
                    owner = model.owners[owner_place]
                    part = model.part if owner == model.part.party else parts[owner]
                    feature, place, missing_left = part.splits[split]
                    bins = part.binning.features[feature]
                    how = bins.name, (*bins.edges, None)[place], missing_left
                nodes.append((first, how, values, cover))
            found.append(nodes)
    return found


def as_pooled(run: Run) -> Fitted:
    """Fit to the pooled columns, and find everything equal to the last bit."""
    order = pooled_order(run)
    blocks = tuple(len(columns) for columns in run.team.values())
    pooled = fit(
        alone(),
        run.parameters,
        replace(run.scene.columns(order), blocks=blocks, active=list(run.team).index(ACTIVE)),
        run.targets,
    )
    for own, reference in zip(run.fitted.scores, pooled.scores, strict=True):
        np.testing.assert_array_equal(own, reference)
    assert grown(run.model, run.parts) == grown(pooled.model, {})
    importance = {
        name: counts
        for part in (run.model.part, *run.parts.values())
        for name, counts in part.importance.items()
        if not (run.parameters.hide_nodes and part.party != ACTIVE)  # it cannot count rows that it does not see
    }
    assert importance == {name: pooled.model.part.importance[name] for name in importance}
    if run.predictions:
        for own, reference in zip(run.predictions, scores(alone(), pooled.model, run.scene.new[:, order]), strict=True):
            np.testing.assert_array_equal(own, reference)
            assert np.isfinite(own).all()
        _assert_as_trained(run)
    return pooled


def _assert_as_trained(run: Run) -> None:
    """Rows that came along in training are predicted as they were scored there."""
    for own, trained, target in zip(run.again, run.fitted.scores, run.targets, strict=True):
        assert np.isfinite(own).all()
        came_along = np.ones(len(trained), bool)
        if not run.parameters.hide_bags and target.weights is not None:
            came_along = target.weights > 0
            assert np.isnan(trained[~came_along]).all()
        if run.parameters.hide_bags or not isinstance(run.parameters, ForestParameters):
            np.testing.assert_array_equal(own[came_along], trained[came_along])


def splits_of(model: Model, tree: int = 0) -> list[tuple[int, tuple[int, int, bool] | None]]:
    """For each node its first child and its split."""
    grown, part = model.ensembles[0].trees[tree], model.part
    each = zip(grown.first, grown.split, strict=True)
    return [(first, None if first == -1 else part.splits[split]) for first, split in each]


def digest_without_extensions(file: str) -> str:
    """What `digest` in a file of tests says in a process where numpy uses none of the processor's extensions."""
    program = (
        "import runpy, sys; names = runpy.run_path(sys.argv[1]); "
        "import numpy as np; "
        "print(names['digest'](), *np.show_config(mode='dicts').get('SIMD Extensions', {}).get('found', []))"
    )
    found = np.show_config(mode="dicts").get("SIMD Extensions", {}).get("found", [])
    environment = os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(found)}
    call = [sys.executable, "-c", program, file]
    words = subprocess.run(call, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert len(words) == 1, "nothing found: the extensions were indeed off"
    return words[0]


def _fixture(function: Callable[..., Any]) -> Any:
    return pytest.fixture(scope="session", name=function.__name__)(lambda: function)


_scene, _parameters_for, _together = _fixture(scene), _fixture(parameters_for), _fixture(together)
_pooled_order, _grown, _as_pooled = _fixture(pooled_order), _fixture(grown), _fixture(as_pooled)
_refuses = _fixture(refuses)
_splits_of, _digest_without_extensions = _fixture(splits_of), _fixture(digest_without_extensions)


@pytest.fixture
def new_run() -> Run:
    return Run()


@dataclass(frozen=True)
class NodeSeen:
    """A node of a grown tree."""

    first: int
    depth: int
    rows: int
    gain: float
    totals: Any


@dataclass(frozen=True, eq=False)
class TreeSeen:
    """A grown tree, node by node; `where` is the leaf of each row."""

    nodes: list[NodeSeen]
    where: Any


def _seen(tree: GrownTree) -> TreeSeen:
    depths, rows = [0] * len(tree.first), np.bincount(tree.where[tree.where >= 0], minlength=len(tree.first)).tolist()
    for node, first in enumerate(tree.first.tolist()):
        if first != LEAF:
            depths[first] = depths[first + 1] = depths[node] + 1
    for node, first in reversed(list(enumerate(tree.first.tolist()))):
        if first != LEAF:
            rows[node] = rows[first] + rows[first + 1]
    each = zip(tree.first.tolist(), depths, rows, tree.gains.tolist(), tree.totals, strict=True)
    return TreeSeen([NodeSeen(*node) for node in each], tree.where)


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TreeSpec, TreeSeen]]:
    """What was grown, in the order of growing."""
    found: list[tuple[TreeSpec, TreeSeen]] = []
    grow = fitting.grow

    def watched(context: Any, specs: Any, number: int) -> Any:
        grown = yield from grow(context, specs, number)
        found.extend(zip(specs, map(_seen, grown), strict=True))
        return grown

    monkeypatch.setattr(fitting, "grow", watched)
    return found
