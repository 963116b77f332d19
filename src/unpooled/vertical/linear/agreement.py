"""What parties tell one another before a descent: columns, models, rows that take part, row weights, commitments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from unpooled.arrays import Bools, Floats, unpacked
from unpooled.errors import ProtocolError, RefusedError
from unpooled.secure.evidence import Arrays
from unpooled.session import ITEM_BYTES
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.fit_input import NAME_BYTES, FitInput
from unpooled.vertical.linear.messages import BeginLinear, RowWeights, TakingPart, Width
from unpooled.vertical.linear.parameters import LinearParameters, check_engine
from unpooled.vertical.linear.residuals import MOST_COLUMNS
from unpooled.vertical.linear.row_weights import MOST_POWERS, RowWeighting
from unpooled.vertical.linear.state import Iterate
from unpooled.vertical.team import Team


def widths_apart(columns: Columns) -> dict[str, int]:
    """Of pooled columns how many each block has, the intercept counted: batches are cut as if they were apart."""
    widths = list(columns.blocks) or [len(columns.names)]
    widths[-1 if columns.active is None else columns.active] += 1
    return {f"block {place + 1}": width for place, width in enumerate(widths)}


def exchange_widths(team: Team, rows: int, columns: int) -> dict[str, int]:
    """How many columns each owner has, the intercept counted; the number of rows must be the same."""
    session, me = team.session, team.session.party
    widths = {me: columns}
    others = [owner for owner in team.owners if owner != me]
    for owner in others:
        session.send(owner, Width(rows, columns))
    for owner in others:
        told = session.recv(owner, Width)
        if told.rows != rows:
            raise ProtocolError(f"{owner} has {told.rows} rows and {me} {rows}: align first")
        if not 0 <= told.columns <= MOST_COLUMNS + 1:
            raise ProtocolError(f"invalid Width from {owner}: {told.columns} columns")
        before = team.products.widths.setdefault((owner, team.digest), told.columns)
        if told.columns != before:
            raise ProtocolError(f"{owner} has {told.columns} columns and had {before} in the job's first fit")
        widths[owner] = told.columns
    return widths


def tell_inputs(team: Team, parameters: LinearParameters, inputs: Sequence[FitInput]) -> None:
    """At the active party: tell the passive parties what they have to know of all models."""
    weightings = [each.weighting for each in inputs]
    shown = tuple(weighting.known for weighting in weightings if weighting.shown and weighting.known is not None)
    begin = BeginLinear(
        names=tuple(each.name for each in inputs),
        weighted=tuple(weighting.weighted for weighting in weightings),
        heaviest=tuple(weighting.heaviest for weighting in weightings),
    )
    for owner in team.passive:
        team.session.send(owner, begin)
        if not parameters.hide_bags:
            team.session.send(owner, TakingPart(tuple(np.packbits(each.taking_part) for each in inputs)))
        if shown:
            team.session.send(owner, RowWeights(shown))


def receive_inputs(team: Team, parameters: LinearParameters, rows: int, iterates: Sequence[Iterate]) -> list[FitInput]:
    """At a passive party: what it is told of all models, of which there must be as many as it agreed to."""
    me, active = team.session.party, team.active
    begin = team.session.recv(active, BeginLinear)
    if len(begin.names) != len(iterates):
        raise RefusedError(
            f"{me} takes part in the fit of {len(iterates)} models, and {active} wants {len(begin.names)}"
        )
    check_begin(begin, active)
    check_engine(parameters, team.products.rules.engine, len(team.passive), weighted=any(begin.weighted))
    bags = [np.ones(rows, bool)] * len(iterates) if parameters.hide_bags else _bags(team, rows, len(iterates))
    known = _row_weights(team, begin, bags) if parameters.show_weights else [None] * len(bags)
    weightings = map(RowWeighting, begin.weighted, [each is not None for each in known], begin.heaviest, known)
    return list(map(FitInput, begin.names, bags, weightings, iterates))


def check_begin(begin: BeginLinear, active: str) -> None:
    """Refuse impossible names or weights."""
    if not len(begin.names) == len(set(begin.names)) == len(begin.weighted) == len(begin.heaviest):
        raise ProtocolError(f"invalid BeginLinear from {active}: names repeat, or the lists differ in length")
    if any(len(name) != NAME_BYTES for name in begin.names):
        raise ProtocolError(f"invalid BeginLinear from {active}: a model's name is not {NAME_BYTES} bytes long")
    if not all(0 <= heaviest <= MOST_POWERS for heaviest in begin.heaviest):
        raise ProtocolError(f"invalid BeginLinear from {active}: a heaviest weight is not 2^0 to 2^{MOST_POWERS}")


def _bags(team: Team, rows: int, models: int) -> list[Bools]:
    """Which rows take part in each model."""
    told = team.session.recv(team.active, TakingPart, at_most=models * (rows // 8 + ITEM_BYTES)).rows
    bags = [unpacked(bits, rows, "TakingPart", team.active) for bits in told]
    if len(bags) != models or not all(bag.any() for bag in bags):
        raise ProtocolError(f"invalid TakingPart from {team.active}: a model has no rows")
    return bags


def _row_weights(team: Team, begin: BeginLinear, bags: Sequence[Bools]) -> list[Floats | None]:
    """The weights of the rows of each model, None where they all count the same."""
    active, count = team.active, sum(begin.weighted)
    if not count:
        return [None] * len(bags)
    told = team.session.recv(active, RowWeights, at_most=count * (8 * len(bags[0]) + ITEM_BYTES)).weights
    if len(told) != count:
        raise ProtocolError(f"invalid RowWeights from {active}: weights of {len(told)} models, and {count} have some")
    rest = iter(told)
    known = [next(rest) if weighted else None for weighted in begin.weighted]
    for weights, bag, heaviest in zip(known, bags, begin.heaviest, strict=True):
        if weights is not None and (
            weights.shape != (np.count_nonzero(bag),) or not ((weights >= 0) & (weights <= 2.0**heaviest)).all()
        ):
            raise ProtocolError(f"invalid RowWeights from {active}: not a weight of 0 to 2^{heaviest} for each row")
    return known


def exchange_commitments(team: Team, inputs: Mapping[str, Arrays]) -> None:
    """Bind what this party computes on, and take what the others bind theirs with: two of the active party's."""
    if not (evidence := team.evidence):
        return
    session = team.session
    others = [owner for owner in team.owners if owner != session.party]
    for what, arrays in inputs.items():
        evidence.commit(session, others, what, arrays)
    for owner in others:
        for _ in range(1 + (owner == team.active)):
            evidence.take_commitment(session, owner)
