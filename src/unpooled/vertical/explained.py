"""What columns add to what a model says of a few rows: what every learner that can tell that has in common.

A model's margin is what it says of a row before that becomes a probability: log-odds, or the number itself. Of a forest
it is a probability, since its trees say these. A base, the same for all rows, and what all columns add make it up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unpooled.arrays import Floats, Ints
from unpooled.errors import ProtocolError, RefusedError
from unpooled.vertical.team import Team
from unpooled.wire import message

MOST_ROWS = 1000
"""How many rows can be explained at once."""


@message(discloses="which of the common rows have the highest scores, and are explained", to="a passive party")
class Explain:
    """In the order of the common rows."""

    rows: Ints


@dataclass(frozen=True, eq=False)
class Contributions:
    """At the active party, for each explained row: `base`, what each of its own columns adds, rows × columns, what each
    other party's columns add together (`others`), and the margin, which these make up but for rounding."""

    base: Floats
    own: Floats
    others: Mapping[str, Floats]
    margins: Floats


def tell_rows(team: Team, rows: Ints) -> None:
    """At the active party: say which rows are explained."""
    for owner in team.passive:
        team.session.send(owner, Explain(rows))


def rows_told(team: Team, rows: int, most: int) -> Ints:
    """At a passive party: which of so many rows are explained; refused if there are more than the plan says."""
    told = team.session.recv(team.active, Explain).rows
    there = told.ndim == 1 and told.size and told.min() >= 0 and told.max() < rows
    if not there or (told[1:] <= told[:-1]).any():
        raise ProtocolError(f"invalid Explain from {team.active}: rows that are not there, or not in order")
    if len(told) > most:
        raise RefusedError(f"{team.session.party} takes part in explaining {most} rows, and {team.active} names more")
    return told
