"""Tree learners for columns that several parties hold: fitting, at the active party and at the others.

`fit` at the active party and `help_fit` at each passive one go together. A party alone (`team.alone()`) fits to pooled
columns, and gets the same model to the last bit.

>>> import numpy as np
>>> from unpooled.vertical.team import alone
>>> from unpooled.vertical.trees.parameters import XgbParameters
>>> rng = np.random.default_rng(1)
>>> columns = rng.normal(size=(500, 3))
>>> target = Target((columns[:, 0] * columns[:, 1] > 0).astype(float))
>>> fitted = fit(alone(), XgbParameters(trees=10), Columns(columns, ("a", "b", "c")), [target])
>>> float(((fitted.scores[0][:, 0] > 0.5) == target.values).mean()) > 0.9
True
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from unpooled.arrays import Floats
from unpooled.checkpoint import Notebook
from unpooled.errors import InputError, ProtocolError
from unpooled.vertical.inputs import TARGETS, Columns
from unpooled.vertical.targets import Target, checked_weights, inputs_of
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.boosting import Booster, fit_boosting
from unpooled.vertical.trees.budget import groups_of
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.checkpoint import known_in, numbered_from, splits_from
from unpooled.vertical.trees.forest import Forest, fit_forest
from unpooled.vertical.trees.grower.active import grow
from unpooled.vertical.trees.grower.context import LEAF, Grow, GrowerContext
from unpooled.vertical.trees.grower.passive import lend
from unpooled.vertical.trees.grower.products import NAME_BYTES, layout_of
from unpooled.vertical.trees.grower.split_sides import take_due
from unpooled.vertical.trees.grower.splitting import Space
from unpooled.vertical.trees.model import Ensemble, Model, Part, part_of, tree_of
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, lent_bins_of
from unpooled.vertical.trees.prepared import Prepared, prepare
from unpooled.vertical.trees.turns import TakeTurns, in_turns

_EXACT = 2**53


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model, and for each target the probabilities or numbers of the training rows, rows × outputs.

    Rows that were cut out of the products (`hide_bags = false`) have not-a-number instead.
    """

    model: Model
    scores: tuple[Floats, ...]


def fit(
    team: Team,
    parameters: AnyTrees,
    columns: Columns,
    targets: Sequence[Target],
    classes: Sequence[str] = (),
    prepared: Prepared | None = None,
    notebook: Notebook | None = None,
) -> Fitted:
    """At the active party: fit one model to each target, all of them together.

    With several fits to the same columns all parties prepare these once, and hand that in at each. In a notebook all
    parties keep each group of trees; if there are some in it, which must be as many at all of them, the fit goes on
    after these.
    """
    rows, party = len(columns.matrix), team.active
    if classes and len(classes) != parameters.classes:
        raise InputError(f"target: it has {len(classes)} classes, and the parameters say {parameters.classes}")
    weighted = weighted_targets(parameters, targets, rows)
    prepared = prepared or prepare(team, parameters, columns)
    own, earlier, lent = prepared.own, prepared.earlier, lent_bins_of(parameters)
    space = Space(tuple(own.layout if owner == party else _layout_at(team, owner, rows, lent) for owner in team.owners))
    if not space.every.features:
        raise InputError("columns: no party has any, so there is nothing to learn from")
    name, groups = secrets.token_bytes(NAME_BYTES), groups_of(parameters, len(targets))
    known = known_in(notebook)
    earlier.begin(name.hex())
    for place, layout in enumerate(space.layouts):
        earlier.lent(place, layout)
    context = GrowerContext(team, parameters, space, own, name.hex(), groups, earlier, notebook=notebook, known=known)
    if notebook:
        last = notebook.read(len(notebook) - 1)
        context.table, context.numbered = splits_from(last), numbered_from(last)
    for owner in team.passive:
        team.session.send(owner, messages.Begin(name, rows, groups))
    if evidence := team.evidence:
        evidence.commit(team.session, team.passive, TARGETS, inputs_of(targets))
    fitted = fit_trees(partial(grow, context), len(space.every.features), parameters, weighted)
    context.catch_up()
    for owner in team.passive:
        team.session.send(owner, messages.Finished())
    for _, helper in context.helpers:
        take_due(context, helper)
    model = Model(
        part=part_of(name, party, prepared.binning, context.table, hide_nodes=parameters.hide_nodes),
        owners=team.owners,
        parameters=parameters,
        classes=tuple(classes) or tuple(map(str, range(parameters.classes))),
        ensembles=tuple(_ensemble(space, one) for one in fitted),
    )
    return Fitted(model, tuple(one.predictions() for one in fitted))


def weighted_targets(parameters: AnyTrees, targets: Sequence[Target], rows: int) -> list[tuple[Target, Floats]]:
    """Targets of so many rows with their weights, all checked."""
    if not targets:
        raise InputError("target: at least one is needed")
    if rows * (2**parameters.precision - 1) >= _EXACT:
        raise InputError(f"precision: sums over {rows} rows take more than 53 bits with it; take fewer bits")
    classes, balanced = parameters.classes, parameters.balanced
    return [(target, checked_weights(target, rows, classes, balanced=balanced)) for target in targets]


def fit_trees(
    grow: Grow,
    features: int,
    parameters: AnyTrees,
    targets: Sequence[tuple[Target, Floats]],
    take_turns: TakeTurns = in_turns,
) -> Sequence[Booster | Forest]:
    """Fit a model to each target, given with its checked weights, by trees on so many features."""
    if isinstance(parameters, ForestParameters):
        return fit_forest(grow, features, parameters, targets, take_turns)
    return fit_boosting(grow, features, parameters, targets, take_turns)


def help_fit(
    team: Team,
    parameters: AnyTrees,
    columns: Columns,
    models: int = 1,
    prepared: Prepared | None = None,
    notebook: Notebook | None = None,
) -> Part:
    """At a passive party: lend columns, in a random order and without names; what is kept is this party's part.

    `models` is how many the active party fits, and their trees are all that is answered.
    """
    prepared = prepared or prepare(team, parameters, columns)
    name, table = lend(team, parameters, prepared, models, notebook)
    return part_of(name, team.session.party, prepared.binning, table, hide_nodes=parameters.hide_nodes)


def _layout_at(team: Team, owner: str, rows: int, bins: int) -> Layout:
    """What a passive party tells of its columns."""
    lent = team.session.recv(owner, messages.LentColumns)
    if lent.rows != rows:
        raise ProtocolError(f"{owner} has {lent.rows} rows and {team.active} {rows}: align first")
    if evidence := team.evidence:
        evidence.take_commitment(team.session, owner)
    return layout_of(lent, owner, bins)


def _ensemble(space: Space, fitted: Booster | Forest) -> Ensemble:
    """The trees in the order of growing: round by round, in each class by class; gains are added up in that order."""
    trees = [tree for each in fitted.trees for tree in each]
    gains = [[0.0] * len(layout.features) for layout in space.layouts]
    for grown in (tree.grown for tree in trees):
        inner = grown.first != LEAF
        owners, features, _ = space.places_of(grown.best[inner])
        each = zip(owners.tolist(), features.tolist(), grown.gains[inner].tolist(), strict=True)
        for owner, feature, gain in each:
            gains[owner][feature] += gain
    return Ensemble(
        base=tuple(fitted.base.tolist()),
        trees=tuple(map(tree_of, trees)),
        gains=tuple(map(tuple, gains)),
    )
