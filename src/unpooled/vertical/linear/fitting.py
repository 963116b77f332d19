"""Linear models for columns that several parties hold: fitting, at the active party and at the others.

`fit` at the active party and `help_fit` at each passive one go together; `linear_scoring` uses what they leave. No
party's scores are ever in clear while a model is fitted. A party alone (`team.alone()`) fits to pooled columns.
`fit_many` and `help_fit_many` fit a model to each of several targets: the same models in as few messages as for one.

>>> from unpooled.vertical.linear.predictor import predict
>>> from unpooled.vertical.team import alone
>>> rng = np.random.default_rng(1)
>>> matrix = rng.normal(size=(2000, 3))
>>> target = Target((matrix[:, 0] > matrix[:, 1]).astype(float))
>>> fitted = fit(alone(), LinearParameters(), Columns(matrix, ("a", "b", "c")), target, ("no", "yes"))
>>> predict(alone(), fitted.model, np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]])).tolist()
['yes', 'no']
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError, ProtocolError, RefusedError
from unpooled.secure.evidence import Arrays, digest_of
from unpooled.session import ITEM_BYTES
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear.descent import descend, order_of, parts_of
from unpooled.vertical.linear.hidden_weights import descend_unseen
from unpooled.vertical.linear.messages import BeginLinear, RowWeights, TakingPart, Width
from unpooled.vertical.linear.model import LinearModel, LinearPart, Pace
from unpooled.vertical.linear.parameters import LinearParameters, check_engine, outputs_of
from unpooled.vertical.linear.residuals import COLUMNS, MOST_COLUMNS, constants, encoded_columns
from unpooled.vertical.linear.row_weights import MOST_POWERS, Weighing, weighing_of
from unpooled.vertical.linear.state import Side, State, begin_at
from unpooled.vertical.numbers import mean_of
from unpooled.vertical.targets import Target, checked_weights, inputs_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees.audit_trail import COLUMNS as COLUMNS_KEPT
from unpooled.vertical.trees.audit_trail import TARGETS, evidence_of

__all__ = ["Columns", "FittedLinear", "LinearParameters", "Target", "fit", "fit_many", "help_fit", "help_fit_many"]

_NAME_BYTES = 16


@dataclass(frozen=True, eq=False)
class FittedLinear:
    """A model, and the loss after each epoch; where weights were revealed at the end alone, no loss is known."""

    model: LinearModel
    losses: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What one model is fitted to: which rows, how they count, and at the active party what holds the target."""

    name: bytes
    taking_part: Bools
    weighing: Weighing
    state: State
    constant: Floats | None = None
    centre: float = 0.0
    scale: float = 1.0


def fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    target: Target,
    classes: Sequence[str] = (),
    start: LinearModel | None = None,
    notebook: Notebook | None = None,
) -> FittedLinear:
    """At the active party: fit a model; `classes` are the classes' names, `start` is a model to begin with."""
    (fitted,) = fit_many(team, parameters, columns, [target], classes, [start], notebook)
    return fitted


def fit_many(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    targets: Sequence[Target],
    classes: Sequence[str] = (),
    starts: Sequence[LinearModel | None] = (),
    notebook: Notebook | None = None,
) -> list[FittedLinear]:
    """At the active party: fit a model to each target, all in step, and each as if it were fitted alone.

    In a notebook every party keeps pages to go on from after an interruption (`checkpoint`).
    """
    party, rows = team.active, len(columns.matrix)
    names, starts = tuple(classes) or tuple(map(str, range(parameters.classes))), starts or [None] * len(targets)
    if len(names) != parameters.classes:
        raise InputError(f"classes: {len(names)} names for {parameters.classes} classes")
    if not targets:
        raise InputError("target: there is none to fit to")
    if len(starts) != len(targets):
        raise InputError(f"start: {len(starts)} models to begin with, and {len(targets)} targets")
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    each = zip(targets, starts, strict=True)
    lessons = [lesson_of(team, parameters, columns, target, start) for target, start in each]
    if team.passive:
        weighted = any(lesson.weighing.weighted for lesson in lessons)
        check_engine(parameters, team.products.rules.engine, len(team.passive), weighted=weighted)
    widths = _widths(team, rows, len(columns.names) + 1)
    one = np.full((rows, 1), COLUMNS.encode(np.ones(1), "one")[0])
    sides = sides_of(team, party, parameters, np.concatenate([encoded, one], axis=1), lessons, widths)
    for owner in team.passive:
        _tell(team, parameters, owner, lessons)
    _exchange_commitments(team, {COLUMNS_KEPT: {"columns": encoded}, TARGETS: inputs_of(targets)})
    _descend(sides, notebook)
    fitted = []
    for side, lesson in zip(sides, lessons, strict=True):
        model = LinearModel(
            part=_part(side, columns.names),
            owners=team.owners,
            parameters=parameters,
            classes=names,
            intercept=side.state.weights[-1].tolist(),
            centre=lesson.centre,
            scale=lesson.scale,
        )
        fitted.append(FittedLinear(model, tuple(side.losses)))
    return fitted


def help_fit(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    start: LinearPart | None = None,
    notebook: Notebook | None = None,
) -> LinearPart:
    """At a passive party: take part, and keep this party's own weights."""
    (part,) = help_fit_many(team, parameters, columns, 1, [start], notebook)
    return part


def help_fit_many(
    team: Team,
    parameters: LinearParameters,
    columns: Columns,
    models: int,
    starts: Sequence[LinearPart | None] = (),
    notebook: Notebook | None = None,
) -> list[LinearPart]:
    """At a passive party: take part in the fit of so many models, and keep this party's own weights of each."""
    party = team.session.party
    starts = starts or [None] * models
    if models < 1 or len(starts) != models:
        raise InputError(f"start: {len(starts)} models to begin with, and {models} to fit")
    encoded = encoded_columns(columns.matrix, columns.names, parameters.limit, party)
    states = [_start(start, columns.names, parameters, party, None) for start in starts]
    widths = _widths(team, len(encoded), len(columns.names))
    lessons = _told(team, parameters, len(encoded), states)
    sides = sides_of(team, party, parameters, encoded, lessons, widths)
    _exchange_commitments(team, {COLUMNS_KEPT: {"columns": encoded}})
    _descend(sides, notebook)
    return [_part(side, columns.names) for side in sides]


def _descend(sides: Sequence[Side], notebook: Notebook | None) -> None:
    if sides[0].parameters.reveal == "final" and sides[0].team.passive:
        descend_unseen(sides)
    else:
        descend(sides, notebook)


def lesson_of(
    team: Team, parameters: LinearParameters, columns: Columns, target: Target, start: LinearModel | None
) -> Lesson:
    """What the active party makes of a target; rows of weight zero come along, or are left out."""
    weights = checked_weights(target, len(columns.matrix), parameters.classes, balanced=parameters.balanced)
    taking_part = np.ones(len(weights), bool) if parameters.hide_bags else weights > 0
    weights = weights[taking_part]
    weighing = weighing_of(weights, shown=parameters.show_weights or not team.passive)
    known = np.where(weights > 0, target.values[taking_part], 0.0)
    centre, scale = (0.0, 1.0) if parameters.classes else _standard(known, weights)
    if start:
        centre, scale = start.centre, start.scale
    constant = constants(parameters, np.where(weights > 0, (known - centre) / scale, 0.0))
    intercept = start.intercept if start else (0.0,) * outputs_of(parameters)
    state = _start(start.part if start else None, columns.names, parameters, team.active, intercept)
    return Lesson(secrets.token_bytes(_NAME_BYTES), taking_part, weighing, state, constant, centre, scale)


def _tell(team: Team, parameters: LinearParameters, owner: str, lessons: Sequence[Lesson]) -> None:
    """What a passive party has to know of all models."""
    weighings = [lesson.weighing for lesson in lessons]
    begin = BeginLinear(
        names=tuple(lesson.name for lesson in lessons),
        weighted=tuple(weighing.weighted for weighing in weighings),
        heaviest=tuple(weighing.heaviest for weighing in weighings),
    )
    team.session.send(owner, begin)
    if not parameters.hide_bags:
        team.session.send(owner, TakingPart(tuple(np.packbits(lesson.taking_part) for lesson in lessons)))
    shown = tuple(weighing.known for weighing in weighings if weighing.shown and weighing.known is not None)
    if shown:
        team.session.send(owner, RowWeights(shown))


def _told(team: Team, parameters: LinearParameters, rows: int, states: Sequence[State]) -> list[Lesson]:
    """What a passive party hears of all models, of which there are so many as it has agreed to."""
    session, active = team.session, team.active
    begin = session.recv(active, BeginLinear)
    check_engine(parameters, team.products.rules.engine, len(team.passive), weighted=any(begin.weighted))
    if len(begin.names) != len(states):
        raise RefusedError(
            f"{session.party} takes part in the fit of {len(states)} models, and {active} wants {len(begin.names)}"
        )
    if (
        not len(begin.names) == len(set(begin.names)) == len(begin.weighted) == len(begin.heaviest)
        or any(len(name) != _NAME_BYTES for name in begin.names)
        or not all(0 <= heaviest <= MOST_POWERS for heaviest in begin.heaviest)
    ):
        raise ProtocolError(f"{active} sent a BeginLinear that cannot be")
    bags = [np.ones(rows, bool)] * len(states) if parameters.hide_bags else _bags(team, rows, len(states))
    count = sum(begin.weighted) if parameters.show_weights else 0
    most = count * (8 * rows + ITEM_BYTES)
    shown = session.recv(active, RowWeights, at_most=most).weights if count else ()
    if len(shown) != count:
        raise ProtocolError(f"{active} sent RowWeights that cannot be")
    lessons, left = [], iter(shown)
    for name, bag, weighted, heaviest, state in zip(
        begin.names, bags, begin.weighted, begin.heaviest, states, strict=True
    ):
        known = next(left) if weighted and parameters.show_weights else None
        if known is not None and (
            known.shape != (np.count_nonzero(bag),) or not ((known >= 0) & (known <= 2.0**heaviest)).all()
        ):
            raise ProtocolError(f"{active} sent RowWeights that cannot be")
        weighing = Weighing(weighted, known is not None, heaviest, known)
        lessons.append(Lesson(name, bag, weighing, state))
    return lessons


def _bags(team: Team, rows: int, models: int) -> list[Bools]:
    """Which rows take part in each model, as a passive party is told."""
    told = team.session.recv(team.active, TakingPart, at_most=models * (rows // 8 + ITEM_BYTES)).rows
    if len(told) != models or any(bits.shape != ((rows + 7) // 8,) for bits in told):
        raise ProtocolError(f"{team.active} sent TakingPart for other rows or models than there are")
    bags = [np.unpackbits(bits, count=rows).view(bool) for bits in told]
    if not all(bag.any() for bag in bags):
        raise ProtocolError(f"{team.active} sent TakingPart for a model without rows")
    return bags


def _exchange_commitments(team: Team, inputs: Mapping[str, Arrays]) -> None:
    """Bind what this party computes on, and take what the others bind theirs with: two of the active party's."""
    if not (evidence := evidence_of(team)):
        return
    session = team.session
    others = [owner for owner in team.owners if owner != session.party]
    for what, arrays in inputs.items():
        evidence.commit(session, others, what, arrays)
    for owner in others:
        for _ in range(1 + (owner == team.active)):
            evidence.take_commitment(session, owner)


def sides_of(
    team: Team,
    party: str,
    parameters: LinearParameters,
    columns: Ints,
    lessons: Sequence[Lesson],
    widths: dict[str, int],
) -> list[Side]:
    """One party's sides, the rows of each in the order of its batches; models of the same rows share the columns."""
    taken, sides = dict[bytes, Ints](), []
    for number, lesson in enumerate(lessons):
        rows, bag = np.flatnonzero(lesson.taking_part), lesson.taking_part.tobytes()
        order = order_of(len(rows))
        if bag not in taken:
            taken[bag] = columns[rows[order]]
        own, weighing, constant = taken[bag], lesson.weighing.in_order(order), lesson.constant
        multiplied = own
        if weighing.known is not None:
            multiplied = weighing.columns.encode(COLUMNS.decode(own) * weighing.known[:, np.newaxis], "columns")
        cut, judged = parts_of(parameters, len(rows), widths)
        side = Side(
            team=team,
            parameters=parameters,
            party=party,
            name=lesson.name.hex(),
            columns=own,
            multiplied=multiplied,
            weighing=weighing,
            widths=widths,
            cut=cut,
            judged=judged,
            state=lesson.state,
            constant=None if constant is None else constant[order],
            rows=_name_of_rows(team, parameters, len(rows)) if lesson.taking_part.all() else "",
            about=_about(team, number, lesson, widths),
        )
        sides.append(side)
    return sides


def _about(team: Team, number: int, lesson: Lesson, widths: Mapping[str, int]) -> dict[str, Any]:
    """What all parties know of a model; rows, and weights that all know, as digests, and kept besides."""
    if not (evidence := evidence_of(team)):
        return {}
    weighing, taking_part = lesson.weighing, np.packbits(lesson.taking_part)
    shown = weighing.known if weighing.shown and weighing.known is not None else np.empty(0)
    evidence.keep_page(page_name(evidence.fit, number), taking_part=taking_part, weights=shown)
    return {
        "fit": evidence.fit,
        "model": number,
        "widths": dict(widths),
        "weighing": (weighing.weighted, weighing.shown, weighing.heaviest),
        "rows": digest_of(taking_part),
        "weights": digest_of(shown),
    }


def page_name(fit: int, model: int) -> str:
    """Under what a party keeps which rows take part in a model, and weights that all know."""
    return f"model-{fit}-{model}"


def _name_of_rows(team: Team, parameters: LinearParameters, rows: int) -> str:
    """All rows of a job as its fits have them; the coordinator, who sees the name, cannot tell the digest by it."""
    digest = hashlib.sha256(f"rows {team.digest} {rows} {parameters.limit}".encode()).hexdigest()
    return f"rows {digest[: 2 * _NAME_BYTES]}"  # which is the name of no model


def _part(side: Side, names: tuple[str, ...]) -> LinearPart:
    """What a party keeps: its weights, and how the descent could go on."""
    state, parameters = side.state, side.parameters
    pace = Pace(
        optimiser=parameters.optimiser,
        steps=state.steps,
        velocity=state.velocity.tolist(),
        squares=state.squares.tolist(),
    )
    return LinearPart(
        name=side.name,
        party=side.party,
        columns=names,
        outputs=outputs_of(parameters),
        limit=parameters.limit,
        weights=state.weights[side.penalised].tolist(),
        pace=None if parameters.reveal == "final" else pace,
    )


def _start(
    part: LinearPart | None,
    names: tuple[str, ...],
    parameters: LinearParameters,
    party: str,
    intercept: Sequence[float] | None,
) -> State:
    """Where the descent begins: at zero, or where another one ended, with what its optimiser remembers.

    Only the active party has an intercept.
    """
    outputs = outputs_of(parameters)
    if part is not None and (part.columns, part.outputs) != (names, outputs):
        raise InputError(f"{party}: the model to begin with has other columns or classes")
    weights = np.array(part.weights if part else np.zeros((len(names), outputs))).reshape(len(names), outputs)
    if intercept is not None:
        weights = np.concatenate([weights, np.array([intercept])])
    state = begin_at(weights)
    pace = part.pace if part else None
    if pace is None or pace.optimiser != parameters.optimiser:
        return state
    velocity, squares = np.array(pace.velocity), np.array(pace.squares)
    if weights.size and not velocity.shape == squares.shape == weights.shape:
        raise InputError(f"{party}: the model to begin with remembers steps of other columns or classes")
    return State(weights, velocity.reshape(weights.shape), squares.reshape(weights.shape), pace.steps)


def _standard(values: Floats, weights: Floats) -> tuple[float, float]:
    """The mean of a target that is a number, and its standard deviation."""
    centre = mean_of(values, weights)
    return centre, sqrt(mean_of((values - centre) ** 2, weights)) or 1.0


def _widths(team: Team, rows: int, columns: int) -> dict[str, int]:
    """How many columns each owner has, the intercept counted; the rows must be the same."""
    if not team.passive:
        return {team.active: columns}
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
            raise ProtocolError(f"{owner} sent a Width that cannot be")
        before = team.products.prepared.setdefault(("width", owner, team.digest), told.columns)
        if told.columns != before:
            raise ProtocolError(f"{owner} has {told.columns} columns and had {before} in the job's first fit")
        widths[owner] = told.columns
    return widths
