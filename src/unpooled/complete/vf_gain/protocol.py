"""Activations of passive parties for the active party: one gradient goes to them, one set of activations comes back.

A generator that has seen nothing of a row yet answers the same for every row, so the gradient of its loss is the
centred cells themselves. Their principal components are multiplied by a passive party's features, over the common rows,
and only the product is shown to that party. Steps have the same numbers in both roles:

1. the active party says of how many rows and columns the gradient is; a passive party refuses if that is not right
2. each passive party says how many features it has
3. the product is shown to the passive party, which ends its network by it
4. each passive party sends activations of all its rows, clipped and with noise

A passive party keeps the activations before it sends them: a run that is resumed sends the same ones again, since new
noise on the same activations would tell more. It then says that it has no features, and no product is computed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unpooled.arrays import Floats, Ints32
from unpooled.checkpoint import Notebook
from unpooled.complete.vf_gain.bottom import (
    RADIUS,
    STEPS_OF_NOISE,
    features_of,
    limited,
    noisy,
    output_of,
    standardised,
)
from unpooled.complete.vf_gain.privacy import noise_for
from unpooled.complete.vf_gain.settings import MOST_EPSILON, VfGainSettings
from unpooled.errors import ProtocolError, RefusedError, ResumeRefused
from unpooled.secure.calls import Call, Dense, Inputs
from unpooled.secure.engine import ANSWERED_FRACTION
from unpooled.secure.fixedpoint import FixedPoint
from unpooled.secure.product import product
from unpooled.session import ITEM_BYTES
from unpooled.vertical.team import Team
from unpooled.wire import message

FEATURES = FixedPoint(fraction_bits=12, largest=8.0)
GRADIENTS = FixedPoint(fraction_bits=16, largest=8.0)
LEAST_ROWS = 100
_LARGEST = 20 * STEPS_OF_NOISE


@message(discloses="over how many rows a gradient is taken, and how many columns it has", to="a passive party")
class GradientComes:
    rows: int
    columns: int


@message(
    discloses="how many features a passive party's network has; 0 if it has kept activations of the interrupted run",
    to="the active party",
)
class FeatureCount:
    features: int


@message(
    discloses="a few numbers for each row, made of the sender's columns, clipped and with noise: what they tell of a "
    "row is limited by ε and δ of the plan",
    to="the active party",
)
class Activations:
    """Rows × units, in whole steps."""

    values: Ints32


@dataclass(frozen=True, eq=False)
class Lent:
    """What a passive party sent, what that is without noise, and the standard deviation of the noise."""

    activations: Floats
    points: Floats
    noise: float


def gradient_of(cells: Floats, most: int) -> Floats:
    """The largest principal components of centred cells, rows × at most so many; in all of variance 1.

    Cells that do not differ have one component, which is 0.
    """
    centred = standardised(cells)
    spread = np.sqrt((centred**2).sum(axis=1).mean())
    if not spread:
        return np.zeros((len(cells), 1))
    _, sizes, turned = np.linalg.svd(centred, full_matrices=False)
    used = min(most, int((sizes > 1e-6 * np.sqrt(len(cells))).sum()))
    scaled: Floats = centred @ turned[:used].T / spread
    return np.clip(scaled, -GRADIENTS.largest, GRADIENTS.largest)


def gather_activations(team: Team, settings: VfGainSettings, cells: Floats, rows: int) -> Floats:
    """At the active party: activations of all rows, the common ones first, rows × units of all passive parties.

    `cells` has its own columns of the common rows as numbers, missing ones as not-a-number.
    """
    session, gradient = team.session, gradient_of(cells, settings.directions)
    common, columns = gradient.shape
    encoded = GRADIENTS.encode(gradient, "gradient")
    for party in team.passive:
        session.send(party, GradientComes(common, columns))  # 1
    widths = {party: _checked_features(party, session.recv(party, FeatureCount), common) for party in team.passive}  # 2
    calls = [_call(team, party, common, width, columns) for party, width in widths.items() if width]
    if calls:
        product(team.products, [(call, Inputs(y=encoded)) for call in calls])  # 3
    found = []
    for party in team.passive:
        most = 4 * rows * settings.units + ITEM_BYTES
        values = session.recv(party, Activations, at_most=most).values  # 4
        if values.shape != (rows, settings.units) or np.abs(values.astype(np.int64)).max(initial=0) > _LARGEST:
            raise ProtocolError(f"invalid Activations from {party}: other rows or units than agreed, or too large")
        found.append(values.astype(np.float64) / STEPS_OF_NOISE)
    return np.hstack(found)


def lend_activations(
    team: Team,
    settings: VfGainSettings,
    columns: Floats,
    common: int,
    rng: np.random.Generator,
    *,
    maximum_epsilon: float = MOST_EPSILON,
    kept: Notebook | None = None,
) -> Lent:
    """At a passive party: activations of its rows, of which the first so many are common, leave once.

    `maximum_epsilon` is its own limit. `kept` is where it keeps what it sends, for a run that is resumed. What is kept
    is on the disk before it is counted in the table's book, if there is one, and counted before it leaves.
    """
    session, me = team.session, team.session.party
    check_lending(me, settings, columns.shape[1], common, maximum_epsilon)
    told = session.recv(team.active, GradientComes)  # 1
    if told.rows != common or not 1 <= told.columns <= settings.directions:
        raise ProtocolError(f"invalid GradientComes from {team.active}: other rows than {me} has, or too many columns")
    radius = RADIUS * np.sqrt(settings.units)
    noise = noise_for(settings.epsilon, settings.delta, radius, settings.units)
    again = kept is not None and len(kept) > 0
    if kept is not None and again:
        page = kept.read(0)
        points, values = page["points"].astype(float), page["values"].astype(float)
        if values.shape != (len(columns), settings.units):
            raise ResumeRefused(f"{me} has kept activations of other rows: begin a new run")
        session.send(team.active, FeatureCount(0))  # 2
    else:
        judged = standardised(columns)
        features = features_of(judged, settings.hidden, int(ANSWERED_FRACTION * common), rng)
        session.send(team.active, FeatureCount(features.shape[1]))  # 2
        gradient = _shown(team, features[:common], told.columns)  # 3
        output = output_of(features, gradient, common, settings.units)
        points = limited(output, judged, radius, noise, settings.column_limit)
        values = np.clip(noisy(points, noise), -_LARGEST, _LARGEST)
        if kept is not None:
            kept.write(points=points, values=values.astype(np.int32))
    if team.products.spending:
        team.products.spending.show_activations(settings.epsilon, again=again)
    session.send(team.active, Activations(values.astype(np.int32)))  # 4
    return Lent(values / STEPS_OF_NOISE, points, noise.spread)


def check_lending(party: str, settings: VfGainSettings, columns: int, common: int, maximum_epsilon: float) -> None:
    """Refuse what a passive party would not lend."""
    check_epsilon(party, settings, maximum_epsilon)
    if settings.units >= columns:
        raise RefusedError(
            f"{party} sends fewer activations than it has columns, and the plan has {settings.units} units for "
            f"{columns} columns: set fewer units"
        )
    check_common_rows(party, common)


def check_epsilon(party: str, settings: VfGainSettings, most: float) -> None:
    """Refuse activations that may tell more than a passive party's own limit."""
    if settings.epsilon > most:
        raise RefusedError(
            f"{party} lets activations tell at most epsilon = {most:g} (policy.maximum_epsilon), and the plan has "
            f"{settings.epsilon:g}: lower it"
        )


def check_common_rows(party: str, common: int) -> None:
    """Refuse a gradient over so few rows that it would tell about single ones."""
    if common < LEAST_ROWS:
        raise RefusedError(
            f"{party} takes part in a gradient over at least {LEAST_ROWS} common rows; there are {common}"
        )


def _shown(team: Team, features: Floats, columns: int) -> Floats:
    """At a passive party: the mean gradient, features × columns, over the common rows."""
    common, width = features.shape
    if not width:  # its columns do not differ, and the active party asks for no product
        return np.zeros((0, columns))
    call = _call(team, team.session.party, common, width, columns)
    (sums,) = product(team.products, [(call, Inputs(x=FEATURES.encode(features, "features")))])
    assert sums is not None
    gradient: Floats = sums / 2.0 ** (FEATURES.fraction_bits + GRADIENTS.fraction_bits) / common
    return gradient


def _call(team: Team, party: str, rows: int, features: int, columns: int) -> Call:
    """Features times the gradient, shown to the passive party that holds the features."""
    return Call(
        terms=((party, team.active),),
        receiver=party,
        rows=rows,
        left=Dense(features, FEATURES.bound),
        columns=columns,
        bound=GRADIENTS.bound,
        digest=f"{team.digest} gradient {party}",
    )


def _checked_features(party: str, told: FeatureCount, common: int) -> int:
    if not 0 <= told.features <= int(ANSWERED_FRACTION * common):
        raise ProtocolError(f"invalid FeatureCount from {party}: more than a tenth of the {common} common rows")
    return told.features
