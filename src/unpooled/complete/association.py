"""How strongly the active party's columns go with the passive parties', computed without showing anybody's cells.

`spearman` gives rank correlations: every party turns its columns into ranks, and products of ranks are shown to the
active party. `contingency` gives counts: passive columns are sorted into bins, the active party's into classes, and
the active party is shown how many rows have each pair. Steps have the same numbers in both roles:

1. the active party says over how many rows and columns it asks; a passive party refuses if the rows are too few
2. each passive party says how many columns it has, without names, and what the result needs of each
3. the product is computed and shown to the active party

>>> centred_ranks(np.array([[3.0], [1.0], [1.0], [np.nan]]))[:, 0].tolist()
[2, -1, -1, 0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Floats, Ints, Ints32
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.calls import LARGEST, Call, Dense, Inputs, OneHot
from unpooled.secure.engine import Rules, limit_bits
from unpooled.secure.product import answer_bits, product
from unpooled.vertical.team import Team
from unpooled.wire import message

LEAST_ROWS, ROWS_PER_COLUMN = 100, 10
CLASSES = "classes and bins"
MOST_COLUMNS = 2**16


@message(
    discloses="over how many rows, and for how many columns of numbers, associations are asked for",
    to="a passive party",
)
class AssociationRequest:
    rows: int
    columns: int


@message(
    discloses="how many columns a party has, in random order and without names, and how the ranks of each are tied",
    to="the active party",
)
class RankNorms:
    """For each column the sum of its squared ranks."""

    norms: Floats


@message(
    discloses="how many columns a party has, in random order and without names, and how many bins each has",
    to="the active party",
)
class BinCounts:
    bins: Ints32


@dataclass(frozen=True, eq=False)
class Contingency:
    """By passive column a table of counts, its bins × all classes of the active party's columns, one after another."""

    tables: tuple[Ints, ...]
    classes: tuple[int, ...]

    def of(self, column: int) -> list[Ints]:
        """The tables of one of the active party's columns."""
        begin = sum(self.classes[:column])
        return [table[:, begin : begin + self.classes[column]] for table in self.tables]


def spearman(team: Team, matrix: Floats) -> Floats:
    """At the active party: rank correlations, passive columns × its own; 0 where a column has a single value."""
    ranks = centred_ranks(matrix)
    rows, width = ranks.shape
    _ask(team, rows, width)  # 1
    norms = {owner: _checked(owner, team.session.recv(owner, RankNorms).norms, rows) for owner in team.passive}  # 2
    calls = [_rank_call(team, owner, rows, len(theirs), width) for owner, theirs in norms.items() if len(theirs)]
    shown = product(team.products, [(call, Inputs(y=_limbs(ranks))) for call in calls]) if calls else []  # 3
    own = squared_sums(ranks)
    found = [
        correlations(_joined(sums, rows), theirs, own)
        for sums, theirs in zip([one for one in shown if one is not None], filter(len, norms.values()), strict=True)
    ]
    return np.concatenate([np.empty((0, width)), *found])


def help_spearman(team: Team, matrix: Floats, rng: np.random.Generator | None = None, most: int = MOST_COLUMNS) -> None:
    """At a passive party: its ranks take part, in a random order of its columns, drawn by `rng` or its session's.

    `most` is for how many columns may be asked.
    """
    session = team.session
    ranks = centred_ranks(matrix)[:, (rng or session.rng).permutation(matrix.shape[1])]
    rows, width = ranks.shape
    asked = _asked(team, rows, most)  # 1
    session.send(team.active, RankNorms(squared_sums(ranks)))  # 2
    if width:
        call = _rank_call(team, session.party, rows, width, asked)
        allow_bits(team, rows, answer_bits(team.products.rules, call))
        product(team.products, [(call, Inputs(x=_limbs(ranks)))])  # 3


def contingency(team: Team, classes: Ints, counts: tuple[int, ...]) -> Contingency:
    """At the active party: `classes` has for each row and column one of so many classes, counted from 0."""
    y = np.concatenate(
        [(column[:, np.newaxis] == np.arange(count)) for column, count in zip(classes.T, counts, strict=True)], axis=1
    ).astype(np.int64)
    _ask(team, *y.shape)  # 1
    bins = {owner: _checked_bins(owner, team.session.recv(owner, BinCounts).bins) for owner in team.passive}  # 2
    calls = [_bins_call(team, owner, len(y), theirs, y.shape[1]) for owner, theirs in bins.items() if theirs]
    nodes = np.zeros(len(y), np.int32)
    shown = product(team.products, [(call, Inputs(y=y, nodes=nodes)) for call in calls]) if calls else []  # 3
    tables: list[Ints] = []
    for sums, theirs in zip([one for one in shown if one is not None], filter(None, bins.values()), strict=True):
        tables += np.split(sums[0], np.cumsum(theirs)[:-1])
    return Contingency(tuple(tables), counts)


def help_contingency(
    team: Team,
    bins: Ints,
    counts: tuple[int, ...],
    rng: np.random.Generator | None = None,
    most: int = MOST_COLUMNS,
) -> None:
    """At a passive party: the bins of its columns take part, in a random order of the columns, drawn likewise.

    `most` is for how many classes of all columns may be asked.
    """
    session, order = team.session, (rng or team.session.rng).permutation(len(counts))
    asked = _asked(team, len(bins), most, CLASSES)  # 1
    sizes = tuple(counts[place] for place in order)
    session.send(team.active, BinCounts(np.array(sizes, np.int32)))  # 2
    if sizes:
        call = _bins_call(team, session.party, len(bins), sizes, asked)
        allow_bits(team, len(bins), answer_bits(team.products.rules, call))
        x, nodes = bins[:, order].astype(np.int32), np.zeros(len(bins), np.int32)
        product(team.products, [(call, Inputs(x=x, nodes=nodes))])  # 3


def allow_bits(team: Team, rows: int, bits: int) -> None:
    """Let a passive party answer so many bits more in associations, or fewer if its own limit says so."""
    engine, name = team.products, _name_of(team)
    limit_bits(engine, name, rows, engine.bits[name] + bits)


def most_answer_bits(rules: Rules, rows: int, sizes: Sequence[int], most: int, *, counts: bool) -> int:
    """The most bits that a passive party answers in associations, once, with so many rows and bins of its columns.

    The active party has `most` columns, or classes of all columns.
    """
    team, asked = Team("active", ("active", "passive")), min(rows // ROWS_PER_COLUMN, most)
    if rows < LEAST_ROWS or not sizes:
        return 0
    if counts:
        return answer_bits(rules, _bins_call(team, "passive", rows, tuple(sizes), asked))
    return answer_bits(rules, _rank_call(team, "passive", rows, len(sizes), asked))


def centred_ranks(matrix: Floats) -> Ints:
    """Twice each cell's rank in its column minus the mean; equal cells have their mean rank, missing ones 0."""
    ranks = np.zeros(matrix.shape, np.int64)
    for column, found in zip(matrix.T, ranks.T, strict=True):
        present = ~np.isnan(column)
        _, places, counts = np.unique(column[present], return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        found[present] = (2 * last - counts - present.sum())[places]
    return ranks


def squared_sums(ranks: Ints) -> Floats:
    """The sum of squares of each column, exact before it is rounded once."""
    rows = len(ranks)
    return (
        np.array(
            [float(_joined(limbs.T @ limbs, rows)[0, 0]) for limbs in map(_limbs, np.hsplit(ranks, ranks.shape[1]))]
        )
        if ranks.shape[1]
        else np.empty(0)
    )


def correlations(sums: NDArray[Any], left: Floats, right: Floats) -> Floats:
    """Sums of products over the roots of the norms; 0 where a norm is."""
    scale = np.sqrt(left)[:, np.newaxis] * np.sqrt(right)
    found: Floats = np.divide(sums.astype(float), scale, out=np.zeros(scale.shape), where=scale > 0)
    return np.clip(found, -1.0, 1.0)


def _name_of(team: Team) -> str:
    """Under what questions are counted: apart from those of learners about the same rows."""
    return f"{team.digest} association"


def _shift(rows: int) -> int:
    """By how many bits ranks are cut in two, so that no sum of products passes 63 bits; 0 where they need not be."""
    return 0 if rows * rows**2 <= LARGEST else (rows.bit_length() + 1) // 2


def _limbs(ranks: Ints) -> Ints:
    """All columns, or where their products would be too large their upper parts and then all their lower ones."""
    if not (shift := _shift(len(ranks))):
        return ranks
    upper = ranks >> shift
    return np.concatenate([upper, ranks - (upper << shift)], axis=1)


def _joined(sums: Ints, rows: int) -> NDArray[Any]:
    """The products of ranks from those of their parts, as Python's whole numbers."""
    if not (shift := _shift(rows)):
        return sums.astype(object)
    left, right = sums.shape[0] // 2, sums.shape[1] // 2
    parts = sums.astype(object).reshape(2, left, 2, right)
    found: NDArray[Any] = (parts[0, :, 0] << 2 * shift) + ((parts[0, :, 1] + parts[1, :, 0]) << shift) + parts[1, :, 1]
    return found


def _rank_call(team: Team, owner: str, rows: int, theirs: int, mine: int) -> Call:
    shift = _shift(rows)
    parts, bound = (2, 1 << shift) if shift else (1, rows)
    return Call(
        terms=((owner, team.active),),
        receiver=team.active,
        rows=rows,
        left=Dense(parts * theirs, bound),
        columns=parts * mine,
        bound=bound,
        digest=_name_of(team),
    )


def _bins_call(team: Team, owner: str, rows: int, sizes: tuple[int, ...], columns: int) -> Call:
    return Call(
        terms=((owner, team.active),),
        receiver=team.active,
        rows=rows,
        left=OneHot(sizes),
        columns=columns,
        bound=1,
        digest=_name_of(team),
    )


def _ask(team: Team, rows: int, columns: int) -> None:
    for owner in team.passive:
        team.session.send(owner, AssociationRequest(rows, columns))


def _asked(team: Team, rows: int, most: int, what: str = "columns") -> int:
    """How many columns are asked for; refused if sums over so few rows would tell about single ones."""
    asked, me = team.session.recv(team.active, AssociationRequest), team.session.party
    if asked.rows != rows or not 0 <= asked.columns <= most:
        raise ProtocolError(
            f"invalid AssociationRequest from {team.active}: other rows than {me} has, or more than {most} {what}"
        )
    check_rows(me, rows, asked.columns, what)
    return asked.columns


def check_rows(party: str, rows: int, columns: int, what: str = "columns") -> None:
    """Refuse associations over too few rows for so many columns, or for so many classes of all columns."""
    least = max(LEAST_ROWS, ROWS_PER_COLUMN * columns)
    if rows < least:
        raise RefusedError(
            f"{party} computes associations over at least {least} common rows ({LEAST_ROWS}, and {ROWS_PER_COLUMN} for "
            f"each of {columns} {what}); there are {rows}"
        )


def _checked(owner: str, norms: Floats, rows: int) -> Floats:
    if norms.ndim != 1 or len(norms) > MOST_COLUMNS or not all(0 <= norm <= float(rows) ** 3 for norm in norms):
        raise ProtocolError(f"invalid RankNorms from {owner}: a number is out of range")
    return norms


def _checked_bins(owner: str, bins: Ints32) -> tuple[int, ...]:
    if bins.ndim != 1 or (bins < 1).any() or int(bins.sum(dtype=np.int64)) > MOST_COLUMNS:
        raise ProtocolError(f"invalid BinCounts from {owner}: a number is out of range")
    return tuple(bins.tolist())
