"""The half of a train job that is about trees: what is said, what is worth knowing, and learning itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from unpooled.jobs.labels import Labels, drawn_for_test
from unpooled.jobs.learned import Learned, Lent
from unpooled.jobs.outline import Exchange
from unpooled.jobs.plan import Plan
from unpooled.jobs.product_outline import commitments_outline, products_outline
from unpooled.secure.engine import limit_bits
from unpooled.secure.product import finish
from unpooled.vertical.inputs import Columns
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees import ensemble as trees
from unpooled.vertical.trees import messages, predictor
from unpooled.vertical.trees.budget import bits_needed, groups_of
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters

_SEEDS = 2**63
_OF_KNOWN_NODES: tuple[type, type, type] = (messages.Level, messages.Open, messages.Opened)
_OF_HIDDEN_NODES: tuple[type, type, type] = (messages.HiddenLevel, messages.OpenForAll, messages.OpenedForAll)


def outline(plan: Plan, model: AnyTrees) -> list[Exchange]:
    """What is said after the alignment; how often depends on the rows, and on how the trees grow."""
    active, groups = plan.active, _groups_of(model)
    brief = groups and 150 * groups
    said = products_outline(plan, hidden_nodes=model.hide_nodes) + commitments_outline(plan, linear=False)
    looked, asked, opened = _OF_HIDDEN_NODES if model.hide_nodes else _OF_KNOWN_NODES
    for party in plan.with_role("passive"):
        said += [Exchange(party, active, messages.LentColumns, 1), Exchange(active, party, messages.Begin, 1, 100)]
        said.append(Exchange(active, party, messages.Trees, groups, brief))
        if not model.hide_bags:
            said.append(Exchange(active, party, messages.Bags, groups))
        said.append(Exchange(active, party, looked))
        if model.min_rows > 1 and not model.hide_nodes:
            said.append(Exchange(party, active, messages.Merged))
        said += [Exchange(active, party, asked), Exchange(party, active, opened)]
        said.append(Exchange(active, party, messages.Grown, groups, brief))
        said.append(Exchange(active, party, messages.Finished, 1, 50))
        if not model.hide_bags:
            said += sorting_outline(active, party, model.hide_nodes)
    return said


def sorting_outline(active: str, party: str, hidden: bool) -> list[Exchange]:
    """What is said with a passive party when rows are sorted by grown trees."""
    there, back = (messages.Needed, messages.AllSides) if hidden else (messages.Reached, messages.Sides)
    return [
        Exchange(active, party, messages.Sort, 1, 100),
        Exchange(active, party, there),
        Exchange(party, active, back),
        Exchange(active, party, messages.Sorted, 1, 50),
    ]


def notes_of(model: AnyTrees) -> list[str]:
    """Where min_rows does not protect as one might think, and who has seen which rows take part."""
    notes = []
    if model.hide_nodes:
        notes.append(
            "min_rows has no force, since with hide_nodes a passive party does not see which rows a node has: "
            "sums may be over a single row."
        )
    elif model.min_rows == 1:
        notes.append("min_rows is 1, so sums may be over a single row.")
    else:
        if model.hide_bags:
            notes.append(
                "min_rows counts all rows of a node, also those of weight zero: test rows, rows without a label, and "
                "rows not drawn for a tree. Fewer rows may count in a sum that is shown."
            )
        if not model.bundle:
            notes.append(
                "min_rows has less force without bundle: whoever guesses that columns are the levels of one category "
                "can subtract those that are shown from the node, and may be left with few rows."
            )
    if not model.hide_bags:
        notes.append(
            "With hide_bags = false the passive parties have seen which rows take part in each tree, and so which were "
            "set aside as a test or have no label."
        )
    return notes


def learn(team: Team, parameters: AnyTrees, columns: Columns, labels: Labels, test_share: float) -> Learned:
    """At the active party: grow trees; test rows come along with weight zero."""
    session = team.session
    test = drawn_for_test(labels, test_share, session.rng)
    seed = int(session.rng.integers(_SEEDS))
    target = Target(labels.values, np.where(labels.known & ~test, labels.weights, 0.0), seed)
    with session.scope("fit"):
        fitted = trees.fit(team, parameters, columns, [target], labels.names)
        finish(team.products)
    found = fitted.scores[0]
    if not parameters.hide_bags:  # rows of weight zero were left out, and have no scores yet
        with session.scope("score"):
            found = predictor.scores(team, fitted.model, columns.matrix)[0]
    return Learned(fitted.model, found, test, own_importance(fitted.model.part) | _grown(fitted.model))


def lend(team: Team, parameters: AnyTrees, columns: Columns, maximum_thresholds: int | None) -> Lent:
    """At a passive party: lend columns."""
    session = team.session
    with session.scope("fit"):
        binning, rows = trees.lent_binning(session, parameters, columns, maximum_thresholds), len(columns.matrix)
        needed = bits_needed(team.products.rules, parameters, binning.layout, rows, models=1)
        before = team.products.bits[team.digest]  # a run that is resumed begins anew, and what it had asked counts
        limit_bits(team.products, team.digest, rows, before + needed)
        part = trees.help_fit(team, parameters, columns, binning=binning)
        finish(team.products)
    if not parameters.hide_bags:
        with session.scope("score"):
            predictor.help_predict(team, part, columns.matrix, same_rows=True)
    return Lent(part, own_importance(part))


def _groups_of(model: AnyTrees) -> int | None:
    """How many groups of trees grow one after the other; None where that shows only as they do."""
    stops = not isinstance(model, ForestParameters) and model.patience is not None
    return None if stops else groups_of(model, 1)


def own_importance(part: Part) -> dict[str, Any]:
    """What each owner says of its own columns; those that were split most come first."""
    importance = [{"name": name, **counts} for name, counts in part.importance.items()]
    return {
        "columns": len(part.binning.features),
        "importance": sorted(importance, key=lambda column: (-column["rows"], column["name"])),
        "thresholds": len({(feature, place) for feature, place, _ in part.splits}),
    }


def _grown(model: Model) -> dict[str, Any]:
    """What the active party says of the trees."""
    ensemble = model.ensembles[0]
    own = zip(model.part.binning.features, ensemble.gains[model.own_place], strict=True)
    gains = [{"name": feature.name, "gain": gain} for feature, gain in own]
    return {
        "trees": len(ensemble.trees),
        "gain_by_party": {owner: sum(gains) for owner, gains in zip(model.owners, ensemble.gains, strict=True)},
        "own_gains": sorted(gains, key=lambda column: (-column["gain"], column["name"])),
    }
