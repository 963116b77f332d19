"""What linear models are fitted to: rows, how they count, targets, and the weights to begin with."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.errors import InputError
from unpooled.secure.evidence import digest_of
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.descent import order_of, parts_of
from unpooled.vertical.linear.model import LinearModel, LinearPart
from unpooled.vertical.linear.parameters import LinearParameters, outputs_of
from unpooled.vertical.linear.residuals import COLUMNS, constants
from unpooled.vertical.linear.row_weights import RowWeighting, weighting_of
from unpooled.vertical.linear.state import FitState, Iterate, begin_at
from unpooled.vertical.numbers import mean_of
from unpooled.vertical.targets import Target, checked_weights
from unpooled.vertical.team import Team

NAME_BYTES = 16


@dataclass(frozen=True, eq=False)
class FitInput:
    """What one model is fitted to; only the active party has `constant`, which holds the target.

    A number is centre + scale × score.
    """

    name: bytes
    taking_part: Bools
    weighting: RowWeighting
    iterate: Iterate
    constant: Floats | None = None
    centre: float = 0.0
    scale: float = 1.0


def input_of(
    team: Team, parameters: LinearParameters, columns: Columns, target: Target, start: LinearModel | None
) -> FitInput:
    """At the active party: what a target is fitted by; rows of weight zero come along, or are left out."""
    weights = checked_weights(target, len(columns.matrix), parameters.classes, balanced=parameters.balanced)
    taking_part = np.ones(len(weights), bool) if parameters.hide_bags else weights > 0
    weights = weights[taking_part]
    weighting = weighting_of(weights, shown=parameters.show_weights or not team.passive)
    known = np.where(weights > 0, target.values[taking_part], 0.0)
    centre, scale = (start.centre, start.scale) if start else (0.0, 1.0)
    if not start and not parameters.classes:
        centre = mean_of(known, weights)
        scale = sqrt(mean_of((known - centre) ** 2, weights)) or 1.0
    constant = constants(parameters, np.where(weights > 0, (known - centre) / scale, 0.0))
    intercept = start.intercept if start else (0.0,) * outputs_of(parameters)
    iterate = start_of(start.part if start else None, columns.names, parameters, team.active, intercept)
    return FitInput(secrets.token_bytes(NAME_BYTES), taking_part, weighting, iterate, constant, centre, scale)


def start_of(
    part: LinearPart | None,
    names: tuple[str, ...],
    parameters: LinearParameters,
    party: str,
    intercept: Sequence[float] | None = None,
) -> Iterate:
    """Where the descent begins: at zero, or where another one ended, with what its optimiser remembers.

    Only the active party has an intercept.
    """
    outputs = outputs_of(parameters)
    if part is not None and (part.columns, part.outputs) != (names, outputs):
        raise InputError(f"{party}: the model to begin with has other columns or classes")
    weights = np.array(part.weights if part else np.zeros((len(names), outputs))).reshape(len(names), outputs)
    if intercept is not None:
        weights = np.concatenate([weights, np.array([intercept])])
    pace = part.pace if part else None
    if pace is None or pace.optimiser != parameters.optimiser:
        return begin_at(weights)
    velocity, squares = np.array(pace.velocity), np.array(pace.squares)
    if weights.size and not velocity.shape == squares.shape == weights.shape:
        raise InputError(f"{party}: the model to begin with remembers steps of other columns or classes")
    return Iterate(weights, velocity.reshape(weights.shape), squares.reshape(weights.shape), pace.steps)


def states_of(
    team: Team,
    party: str,
    parameters: LinearParameters,
    columns: Ints,
    inputs: Sequence[FitInput],
    widths: dict[str, int],
) -> list[FitState]:
    """One party's states, the rows of each in the order of its batches; models of the same rows share the columns."""
    taken, states = dict[bytes, Ints](), []
    for number, given in enumerate(inputs):
        rows, bag = np.flatnonzero(given.taking_part), given.taking_part.tobytes()
        order = order_of(len(rows))
        if bag not in taken:
            taken[bag] = columns[rows[order]]
        multiplied, weighting = taken[bag], given.weighting.in_order(order)
        if weighting.known is not None:
            decoded = COLUMNS.decode(multiplied) * weighting.known[:, np.newaxis]
            multiplied = weighting.columns.encode(decoded, "columns")
        cut, judged = parts_of(parameters, len(rows), widths)
        state = FitState(
            team=team,
            parameters=parameters,
            party=party,
            name=given.name.hex(),
            columns=taken[bag],
            multiplied=multiplied,
            weighting=weighting,
            widths=widths,
            cut=cut,
            judged=judged,
            iterate=given.iterate,
            constant=None if given.constant is None else given.constant[order],
            rows=_name_of_rows(team, parameters, len(rows)) if given.taking_part.all() else "",
            about=_about(team, number, given, widths),
        )
        states.append(state)
    return states


def _about(team: Team, number: int, given: FitInput, widths: Mapping[str, int]) -> dict[str, Any]:
    """What all parties know of a model; rows, and weights that all know, as digests, and kept besides."""
    if not (evidence := team.evidence):
        return {}
    weighting, taking_part = given.weighting, np.packbits(given.taking_part)
    shown = weighting.known if weighting.shown and weighting.known is not None else np.empty(0)
    evidence.keep_page(page_name(evidence.fit, number), taking_part=taking_part, weights=shown)
    return {
        "fit": evidence.fit,
        "model": number,
        "widths": dict(widths),
        "weighing": (weighting.weighted, weighting.shown, weighting.heaviest),
        "rows": digest_of(taking_part),
        "weights": digest_of(shown),
    }


def page_name(fit: int, model: int) -> str:
    """Under what a party keeps which rows take part in a model, and weights that all know."""
    return f"model-{fit}-{model}"


def _name_of_rows(team: Team, parameters: LinearParameters, rows: int) -> str:
    """All rows of a job as its fits have them; the coordinator, who sees the name, cannot tell the digest by it."""
    digest = hashlib.sha256(f"rows {team.digest} {rows} {parameters.limit}".encode()).hexdigest()
    return f"rows {digest[: 2 * NAME_BYTES]}"  # which is the name of no model
