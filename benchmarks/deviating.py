"""An active party that makes up its gradients: how much of a passive party's table it reads in the trees of a plan.

The telco is honest, with the limits that every party has. The bank sends messages that the telco accepts, but powers of
two instead of gradients, a different one for each row: a sum over a bin then says which of these rows are in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from unpooled.arrays import Bools, Ints, Ring, unpacked
from unpooled.errors import RefusedError
from unpooled.run.simulate import simulate_roles
from unpooled.secure.calls import Call, Inputs
from unpooled.secure.engine import Engine, Rules, limit_bits, open_engine
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.paillier.layout import Layout as Slots
from unpooled.secure.product import finish, product, serve
from unpooled.secure.shares import engine as shares
from unpooled.secure.shares import opening
from unpooled.secure.shares.supply import slots_of
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.budget import bits_needed, groups_of, nodes_asked
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.ensemble import help_fit
from unpooled.vertical.trees.grower.node_rows import members
from unpooled.vertical.trees.grower.products import layout_of, tree_call
from unpooled.vertical.trees.parameters import AnyTrees, questions_of, sums_of
from unpooled.vertical.trees.prepared import prepare

OWNERS, NAME = ("telco", "bank"), bytes(16)


@dataclass(eq=False)
class Attack:
    """What the bank has read: a bin for each row and column of the telco's, -1 where it knows none."""

    parameters: AnyTrees
    engine: str
    rows: int
    read: Ints
    words: Any = None
    total: Any = None
    truth: Ints | None = None
    needed: int = 0
    answered: int = 0
    refused: str = ""

    @property
    def cells(self) -> float:
        """The share of the telco's cells that the bank knows, and rightly."""
        if self.truth is None:
            raise ValueError("the telco has not begun")
        return float((self.read == self.truth).mean())

    @property
    def wrong(self) -> int:
        """How many cells the bank believes to know and does not."""
        return int(((self.read >= 0) & (self.read != self.truth)).sum())


def attack(
    engine: Any,
    parameters: AnyTrees,
    rows: int,
    columns: int = 6,
    *,
    most_bits_per_row: float | None = None,
    **rules: Any,
) -> Attack:
    """Grow the plan's trees with made-up gradients; at the end, or when it is refused, what was read."""
    matrix = np.random.default_rng(1).normal(size=(rows, columns))
    found = Attack(parameters, engine, rows, np.full((rows, columns), -1))
    settings = Rules(engine, questions=questions_of(parameters), **rules)

    def opened(session: Session, most: float | None = None) -> Engine:
        return open_engine(session, settings, OWNERS, "bank", "coordinator", None, most)

    def telco(session: Session) -> None:
        team = Team("bank", OWNERS, opened(session, most_bits_per_row), "rows")
        lent = Columns(matrix, tuple(f"column {place}" for place in range(columns)))
        prepared = prepare(team, parameters, lent)
        found.truth = prepared.own.columns.astype(np.int64)
        found.needed = bits_needed(team.products.rules, parameters, prepared.own.layout, rows, 1)
        limit_bits(team.products, "rows", rows, found.needed)
        try:
            help_fit(team, parameters, lent, prepared=prepared)
            finish(team.products)
        finally:
            found.answered = team.products.bits["rows"]

    def bank(session: Session) -> None:
        _deviate(found, Team("bank", OWNERS, opened(session), "rows"))

    roles = {"telco": telco, "bank": bank, "coordinator": lambda session: serve(opened(session))}
    try:
        with _made_up(found):
            simulate_roles(roles, timeout=600)
    except RefusedError as error:
        found.refused = str(error)
    return found


@contextmanager
def _made_up(found: Attack) -> Iterator[None]:
    """Only the bank packs gradients and reads sums, so that its words and its results are all that is replaced."""

    def made_up(*_: Any) -> Any:
        return found.words

    def keep(engine: Engine, call: Call, total: Any) -> Ints:  # noqa: ARG001
        found.total = total
        return np.zeros(call.shape, np.int64)

    with (
        mock.patch.object(opening, "pack", made_up),
        mock.patch.object(shares, "read", keep),
        mock.patch.object(paillier, "row_words", made_up),
        mock.patch.object(paillier, "read", keep),
    ):
        yield


def _deviate(found: Attack, team: Team) -> None:
    session, parameters = team.session, found.parameters
    layout = layout_of(session.recv("telco", messages.LentColumns), "telco", parameters.bins)
    session.send("telco", messages.Begin(NAME, found.rows, groups_of(parameters, 1)))
    for number in range(parameters.trees):
        trees = messages.Trees(number + 1, (f"{NAME.hex()} tree {number}",), sums_of(parameters))
        session.send("telco", trees)
        if parameters.hide_nodes:
            _hidden(found, team, layout, trees)
        elif found.engine == "paillier":
            _root_encrypted(found, team, layout, trees)
        else:
            _in_the_open(found, team, layout, trees)
        session.send("telco", messages.Grown(trees.group, trees.names))
    session.send("telco", messages.Finished())
    finish(team.products)


def _unread(found: Attack, among: Ints) -> Ints:
    """Rows that are still to be read come first."""
    return among[np.argsort((found.read[among] >= 0).all(axis=1), kind="stable")]


def _in_the_open(found: Attack, team: Team, layout: Layout, trees: messages.Trees) -> None:
    """Nodes are halved, as if by a column of the bank's own; of every node looked at as many rows are read as a word
    has bits."""
    parameters, where, rows = found.parameters, np.zeros(found.rows, np.int32), found.rows
    nodes, following = [-1], 0
    while nodes:
        root = nodes == [-1]
        firsts = np.array([0] if root else [following + 2 * place for place in range(len(nodes))], np.int32)
        asked, sides = np.zeros(len(nodes), np.int32), np.empty(0, bool)
        if not root:
            inside, counts = members(where, np.array(nodes, np.int32))
            sides = np.ones(len(inside), bool)
            for part in np.split(np.arange(len(inside)), np.cumsum(counts)[:-1]):
                order = part[np.argsort((found.read[inside[part]] >= 0).all(axis=1), kind="stable")]
                sides[order[: 2 * (len(part) // 2) : 2]] = False  # every second one, those to be read first
            where[inside] = np.repeat(firsts, counts) + sides
        level = messages.Level(asked, np.array(nodes, np.int32), firsts, asked, np.packbits(sides))  # all of tree 0
        team.session.send("telco", level)
        call = tree_call(
            team, "telco", layout, parameters, trees, 0, (rows, len(nodes)), bins=NAME.hex(), part=not root
        )
        _read(found, team, layout, call, where, firsts, part=not root)
        following = 1 if root else following + 2 * len(nodes)
        deeper = len(nodes) * (1 if root else 2) <= 2 ** (parameters.depth - 2)
        children = [0] if root else [int(first) + side for first in firsts for side in (0, 1)]
        large = [child for child in children if int((where == child).sum()) >= 3 * parameters.min_rows]
        nodes = large if deeper else []


def _read(found: Attack, team: Team, layout: Layout, call: Call, where: Any, asked: Any, *, part: bool) -> None:
    """One product; of each node asked about as many rows are read as a word has bits."""
    rows, counts = members(where, asked)
    of_rows = np.repeat(np.arange(len(asked), dtype=np.int32), counts)
    places = np.arange(len(rows)) if part else rows
    nodes = np.full(call.rows, -1, np.int32)
    nodes[places] = of_rows
    found.words = np.zeros((call.rows, 1), np.uint64)
    chosen: list[tuple[int, Ints]] = []
    for node in range(len(asked)):
        mine = np.flatnonzero(of_rows == node)
        first = mine[np.argsort((found.read[rows[mine]] >= 0).all(axis=1), kind="stable")][: _word_bits(call)]
        found.words[places[first], 0] = np.uint64(1) << np.arange(len(first), dtype=np.uint64)
        chosen.append((node, rows[first]))
    zeros = np.zeros((call.rows, call.columns), np.int64)
    product(team.products, [(call, Inputs(y=zeros, nodes=nodes))])
    single = _single(found, team, layout, len(asked))
    for node, read in chosen:
        _decode(found, layout, found.total[node, :, 0], read, single[node])


def _word_bits(call: Call) -> int:
    return 8 * slots_of(call).word_bytes


def _single(found: Attack, team: Team, layout: Layout, nodes: int) -> Bools:
    """Which bins of each node are shown by themselves, not merged with others."""
    if found.parameters.hide_nodes or found.parameters.min_rows == 1:
        return np.ones((nodes, layout.logical), bool)
    merged = team.session.recv("telco", messages.Merged)
    ends = unpacked(merged.ends, nodes * layout.logical, "sides", "telco").reshape(nodes, -1)
    before = np.concatenate([np.ones((nodes, 1), bool), ends[:, :-1]], axis=1)
    before[:, layout.starts] = True
    return ends & before


def _decode(found: Attack, layout: Layout, sums: Ring, rows: Ints, single: Bools) -> None:
    """Bit i of a bin's sum says whether the i-th row is in it."""
    bits = (sums[:, np.newaxis] >> np.arange(len(rows), dtype=np.uint64)) & np.uint64(1)
    for column, (start, size) in enumerate(zip(layout.first_bins.tolist(), layout.sizes, strict=True)):
        bins = bits[start : start + size].argmax(axis=0)
        known = single[start + bins]
        found.read[rows[known], column] = bins[known]


def _hidden(found: Attack, team: Team, layout: Layout, trees: messages.Trees) -> None:
    """The telco does not see nodes: any rows can be in any of them, and all that is asked about is read."""
    for count in nodes_asked(found.parameters, found.rows):
        team.session.send(
            "telco", messages.HiddenLevel(trees.group, np.zeros(1, np.int32), np.array([count], np.int32))
        )
        call = tree_call(team, "telco", layout, found.parameters, trees, 0, (found.rows, count), bins=NAME.hex())
        bits = _word_bits(call)
        rows = _unread(found, np.arange(found.rows))[: bits * count]
        where = np.full(found.rows, -1, np.int32)
        where[rows] = np.arange(len(rows)) // bits
        _read(found, team, layout, call, where, np.arange(count, dtype=np.int32), part=False)


def _root_encrypted(found: Attack, team: Team, layout: Layout, trees: messages.Trees) -> None:
    """Under encryption gradients stay the same in a tree: the root is looked at, and its slots' bits are read."""
    nodes = np.array([-1], np.int32)
    team.session.send("telco", messages.Level(nodes + 1, nodes, nodes + 1, nodes + 1, np.empty(0, np.uint8)))
    call = tree_call(team, "telco", layout, found.parameters, trees, 0, (found.rows, 1), bins=NAME.hex())
    slots: Slots = paillier._layout(team.products.rules, call)
    apart, count = slots.bits * slots.deep, slots.bits * slots.beside
    rows = _unread(found, np.arange(found.rows))[:count]
    found.words = [0] * found.rows
    for place, row in enumerate(rows.tolist()):
        found.words[row] = 1 << (place // slots.bits * apart + place % slots.bits)
    zeros = np.zeros((found.rows, call.columns), np.int64)
    product(team.products, [(call, Inputs(y=zeros, nodes=np.zeros(found.rows, np.int32)))])
    [single] = _single(found, team, layout, 1)
    for column, (start, size) in enumerate(zip(layout.first_bins.tolist(), layout.sizes, strict=True)):
        for place, row in enumerate(rows.tolist()):
            at = place // slots.bits * apart + place % slots.bits
            bins = [
                bin_
                for bin_ in range(size)
                if int(found.total[(start + bin_) // slots.deep]) >> (at + slots.bits * ((start + bin_) % slots.deep))
                & 1
            ]
            if len(bins) == 1 and single[start + bins[0]]:
                found.read[row, column] = bins[0]
