"""How a passive party describes its columns to the seeker, without knowing who is on the list.

1. before the search each passive party that describes columns tells the active party how many bins it counts in
2. after it, the active party tells how many people are listed, and how many others the seeker does not know
3. the product of the bins with two columns of 0 and 1, for the listed and the others, is shown to the passive party
4. that party leaves out small groups, rounds, and tells the seeker (`in_common.InCommon`)

Counts go to the party whose columns they are about: it alone can make sure that nothing is told of few of its people.
Shown to the seeker or the active party they would be exact, about columns of another party. The active party limits how
many counts it answers, however often the run is resumed, since many would tell who is on the list.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from unpooled.arrays import Ints
from unpooled.data.table import Table
from unpooled.errors import ProtocolError, RefusedError
from unpooled.jobs.lookalike.described_bins import MOST_BINS, BinnedColumn, binned, lines_from
from unpooled.jobs.lookalike.in_common import InCommon, Line, check_described
from unpooled.secure.calls import Call, Inputs, OneHot
from unpooled.secure.engine import ANSWERED_FRACTION
from unpooled.secure.outline import Exchange, Setup, products_outline
from unpooled.secure.product import product
from unpooled.vertical.resume import Checkpoint
from unpooled.vertical.team import Team
from unpooled.wire import message

_MOST_COUNTS = 100
"""For each party; a hidden matrix takes eight bytes for each of these in every row."""
_ANSWERS = 4
"""How many times the same counts are answered in a run that is resumed."""
_GROUPS = 2


@message(
    discloses="how many columns it describes, in how many bins",
    to="the active party",
)
class DescribedBins:
    sizes: tuple[int, ...]


@message(
    discloses="how many are listed, how many others the seeker does not know; with the sum that follows, both by bin",
    to="a passive party that describes columns",
)
class ListSizes:
    listed: int
    others: int


@dataclass(frozen=True, eq=False)
class OwnBins:
    """A passive party's columns in bins; one bin of all rows where there is nothing to tell."""

    columns: list[BinnedColumn]
    rows: int

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(column.size for column in self.columns) or (1,)

    @property
    def matrix(self) -> NDArray[np.uint16]:
        """Rows × columns."""
        matrix = np.zeros((self.rows, len(self.sizes)), np.uint16)
        for place, column in enumerate(self.columns):
            matrix[:, place] = column.bins
        return matrix


def outline(setup: Setup, seeker: str, describing: Sequence[str]) -> tuple[list[Exchange], list[Exchange]]:
    """What is sent before the search and after it, if these passive parties describe columns."""
    if not describing:
        return [], []
    counting = replace(setup, owners=(*describing, setup.active))
    return [Exchange(party, setup.active, DescribedBins, 1) for party in describing], [
        *(Exchange(setup.active, party, ListSizes, 1, 60) for party in describing),
        *products_outline(counting, hidden_nodes=True, shown_to_passive=True),
        *(Exchange(party, seeker, InCommon, 1) for party in describing),
    ]


def most_counts(rows: int) -> int:
    """How many bins a party counts in at the most."""
    return min(int(ANSWERED_FRACTION * rows), _MOST_COUNTS)


def take_bins(team: Team, describing: Sequence[str], rows: int) -> dict[str, tuple[int, ...]]:
    """At the active party, before the search (1): refuse to answer more than it will."""
    most, own = most_counts(rows), team.products.most_answered
    taken = {}
    for party in describing:
        sizes = team.session.recv(party, DescribedBins).sizes
        if not sizes or not all(1 <= size <= MOST_BINS for size in sizes):
            raise ProtocolError(f"invalid DescribedBins from {party}: a column has 1 to {MOST_BINS} bins")
        for limit, why in ((most, f"its list among {rows} rows"), (own, "its list (policy.maximum_questions)")):
            if limit is not None and sum(sizes) > limit:
                raise RefusedError(
                    f"{team.active} answers at most {limit} counts about {why}, and {party} would ask for {sum(sizes)}"
                )
        taken[party] = sizes
    return taken


def announce_bins(team: Team, table: Table, columns: Sequence[str], fewest: int) -> OwnBins:
    """At a passive party, before the search (1): as many bins as the active party may answer."""
    check_described(columns, table.kinds, table.party, table.origin)
    rows = table.frame.height
    own = OwnBins(binned(table, columns, fewest, most_counts(rows)), rows)
    team.session.send(team.active, DescribedBins(own.sizes))
    return own


def tell_counts(
    team: Team, bins: Mapping[str, tuple[int, ...]], rows: int, listed: Ints, others: Ints, checkpoint: Checkpoint
) -> None:
    """At the active party, after the search (2, 3): have the people of both groups counted, and see nothing of it."""
    if not bins:
        return
    groups = np.zeros((rows, _GROUPS), np.int64)
    groups[listed, 0] = 1
    groups[others, 1] = 1
    for party in bins:
        team.session.send(party, ListSizes(len(listed), len(others)))
    inputs = Inputs(y=groups, nodes=np.zeros(rows, np.int32))
    calls = [(_call(team, party, sizes, rows), inputs) for party, sizes in bins.items()]
    engine, rules = team.products, team.products.rules
    engine.rules = replace(rules, questions=_ANSWERS * max(map(sum, bins.values())))
    try:
        with team.session.scope("describe"), checkpoint.counting(team, {}):
            product(engine, calls)
    finally:
        engine.rules = rules


def lines_of(team: Team, own: OwnBins, fewest: int) -> list[Line]:
    """At a passive party, after the search (2, 3, 4): what its columns say."""
    party, active, session = team.session.party, team.active, team.session
    sizes = session.recv(active, ListSizes)
    if min(sizes.listed, sizes.others) < 0 or sizes.listed + sizes.others > own.rows:
        raise ProtocolError(f"invalid ListSizes from {active}: there are {own.rows} rows in common")
    with session.scope("describe"):
        (shown,) = product(team.products, [(_call(team, party, own.sizes, own.rows), Inputs(x=own.matrix))])
    if shown is None:
        raise ProtocolError(f"{party} was not shown the counts of its own bins")
    counts = shown[0]
    _check(own, counts, sizes, active)
    return lines_from(party, own.columns, counts, fewest) if own.columns else []


def _call(team: Team, party: str, sizes: tuple[int, ...], rows: int) -> Call:
    """Nodes are hidden, though there is but one, so that the active party is not shown how many rows a bin has."""
    return Call(
        ((party, team.active),),
        party,
        rows,
        OneHot(sizes, nodes=1, hidden=True),
        _GROUPS,
        1,
        digest=f"{team.digest} listed {party}",
    )


def _check(own: OwnBins, counts: Ints, sizes: ListSizes, active: str) -> None:
    """Refuse counts that are not of groups of so many people."""
    groups, start = np.array([sizes.listed, sizes.others]), 0
    for bins, size in zip(own.matrix.T, own.sizes, strict=True):
        part, start = counts[start : start + size], start + size
        people = np.bincount(bins, minlength=size)
        if int(part.min()) < 0 or (part.sum(axis=1) > people).any() or (part.sum(axis=0) != groups).any():
            raise ProtocolError(f"invalid counts from {active}: they are not those of two groups of people")
