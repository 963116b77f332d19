"""The four tree learners as jobs see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np

from unpooled.checkpoint import Notebook
from unpooled.secure.engine import Rules
from unpooled.secure.outline import Exchange, Setup, commitments_outline, products_outline
from unpooled.vertical.explained import Explain
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import Audit, Audited, Explaining, Fitted, Learner, Limits
from unpooled.vertical.targets import Target
from unpooled.vertical.team import Team
from unpooled.vertical.trees import ensemble, explaining, messages, predictor
from unpooled.vertical.trees.audit.check import ColumnsCheck, GradientsCheck, pages_needed
from unpooled.vertical.trees.budget import bits_needed, groups_of, leaves_of, sorting_bits, table_bits, tree_bits
from unpooled.vertical.trees.bundles import Feature, Layout
from unpooled.vertical.trees.model import Model, Part
from unpooled.vertical.trees.node_choice import said_before
from unpooled.vertical.trees.parameters import (
    AnyTrees,
    ForestParameters,
    GbdtParameters,
    LgbParameters,
    XgbParameters,
    groups_at_once,
    largest_group,
    lent_bins_of,
    questions_of,
)
from unpooled.vertical.trees.prepared import Prepared, prepare

_UNTIL_DEALT_AHEAD = 8
_SIZES = {"trees", "depth", "leaves", "learning_rate", "patience", "validation_fraction"}
_SPLITS = {"minimum_gain", "minimum_child_weight", "l1", "l2"}
_DRAWS = {"balanced", "bootstrap", "row_fraction", "column_fraction", "top_fraction", "other_fraction"}


def outline(setup: Setup, parameters: AnyTrees) -> list[Exchange]:
    """What is sent after the alignment; how often depends on the rows, and on how the trees grow."""
    active, hidden = setup.active, parameters.hide_nodes
    stops_early = not isinstance(parameters, ForestParameters) and parameters.patience is not None
    groups = None if stops_early else groups_of(parameters, 1)
    brief = groups and 150 * groups
    sent = products_outline(setup, hidden_nodes=hidden) + commitments_outline(setup, all_owners=False)
    level = messages.HiddenLevel if hidden else messages.Level
    asked = messages.SplitRequestForAll if hidden else messages.SplitRequest
    answered = messages.SplitSidesForAll if hidden else messages.SplitSides
    for party in setup.passive:
        sent += [Exchange(party, active, messages.LentColumns, 1), Exchange(active, party, messages.Begin, 1, 100)]
        sent.append(Exchange(active, party, messages.Trees, groups, brief))
        if not parameters.hide_bags:
            sent.append(Exchange(active, party, messages.Bags, groups))
        sent.append(Exchange(active, party, level))
        if parameters.min_rows > 1 and not hidden:
            sent.append(Exchange(party, active, messages.Merged))
        sent += [Exchange(active, party, asked), Exchange(party, active, answered)]
        sent.append(Exchange(active, party, messages.Grown, groups, brief))
        sent.append(Exchange(active, party, messages.Finished, 1, 50))
        if not scores_in_fit(parameters):
            sent += _sorting(active, party, hidden=hidden)
    return sent


def score_outline(setup: Setup) -> list[Exchange]:
    """What is sent when rows are sorted by grown trees, of either kind."""
    return [one for party in setup.passive for one in _sorting_either_way(setup, party)]


def explain_outline(setup: Setup, parameters: AnyTrees | None) -> list[Exchange]:
    """What is sent so that columns' owners learn what these add."""
    sent = []
    for party in setup.passive:
        sent += [Exchange(setup.active, party, Explain, 1), Exchange(party, setup.active, messages.SplitColumns, 1)]
        if parameters is None:
            sent += _sorting_either_way(setup, party)
        else:
            begin, *asked, end = _sorting(setup.active, party, hidden=parameters.hide_nodes)
            sent += [begin, *(replace(one, only_if="if these rows reach splits of its columns") for one in asked), end]
        sent.append(Exchange(setup.active, party, messages.ColumnContributions, 1))
    return sent


def _sorting_either_way(setup: Setup, party: str) -> list[Exchange]:
    begin, *shown, end = _sorting(setup.active, party, hidden=False)
    hidden = _sorting(setup.active, party, hidden=True)[1:-1]
    return [
        begin,
        *(replace(one, only_if="that hide no nodes") for one in shown),
        *(replace(one, only_if="that hide nodes") for one in hidden),
        end,
    ]


def notes(parameters: AnyTrees, _test_fraction: float) -> list[str]:
    """How min_rows protects, and where not as one might think, and who has seen which rows take part."""
    found = []
    if parameters.min_rows == 1:
        found.append("min_rows is 1, so sums may be over a single row, and a bin may have a single row.")
    elif parameters.hide_nodes:
        found.append(
            f"With hide_nodes a passive party does not see which rows a node has, so min_rows is about whole columns: "
            f"every bin has at least {parameters.min_rows} of all rows. A sum may be over a single row of a node, and "
            f"tell in which bin that row is, but nothing finer."
        )
    elif parameters.hide_bags:
        found.append(
            "min_rows counts all rows of a node, also those of weight zero: test rows, rows without a label, and rows "
            "not drawn for a tree. Fewer rows may count in a sum that is shown."
        )
    if parameters.min_rows > 1 and not parameters.bundle:
        found.append(
            "min_rows has less force without bundle: a party that guesses that columns are the levels of one category "
            "can subtract those that are shown from all, and may be left with few rows."
        )
    if not parameters.hide_bags:
        found.append(
            "With hide_bags = false the passive parties have seen which rows take part in each tree, and so which were "
            "set aside as a test or have no label."
        )
    return found


def fit(
    team: Team,
    parameters: AnyTrees,
    prepared: Prepared,
    targets: Sequence[Target],
    classes: Sequence[str],
    notebook: Notebook | None,
) -> Fitted:
    fitted = ensemble.fit(team, parameters, prepared.columns, targets, classes, prepared, notebook)
    scores = fitted.scores if scores_in_fit(parameters) else None
    return Fitted(fitted.model, scores, _summary(fitted.model))


def lend(team: Team, parameters: AnyTrees, prepared: Prepared, models: int, notebook: Notebook | None) -> Part:
    return ensemble.help_fit(team, parameters, prepared.columns, models, prepared, notebook)


def scores_in_fit(parameters: AnyTrees) -> bool:
    """Rows that were left out of the products have no scores when the trees have grown."""
    return parameters.hide_bags


def importance(part: Part) -> dict[str, Any]:
    """What a party tells of its own columns; those that were split most come first."""
    found = [{"name": name, **counts} for name, counts in part.importance.items()]
    return {
        "columns": len(part.binning.features),
        "importance": sorted(found, key=lambda column: (-column["rows"], column["name"])),
        "thresholds": len(_thresholds([part])),
    }


def revealed(prepared: Prepared, parts: Sequence[Part]) -> dict[str, int]:
    """How many thresholds were opened; whether a value is missing is none."""
    layout = prepared.binning.layout
    return {
        "thresholds": len(_thresholds(parts)),
        "all_thresholds": int((layout.values - 1).sum()),
        "table_bits": table_bits(layout, len(prepared.columns.matrix)),
    }


def limits(rules: Rules, parameters: AnyTrees, prepared: Prepared, groups: Sequence[int]) -> Limits:
    """What trees ask of a passive party; a page is kept of each group, while others that take turns may be as far."""
    layout, rows = prepared.binning.layout, len(prepared.columns.matrix)
    most = largest_group(parameters) * groups_at_once(parameters)
    sorting = sorting_bits(parameters, layout, rows, max(groups))
    between_pages = {
        "answered": most * questions_of(parameters) // parameters.trees,
        "bits": most * tree_bits(rules, parameters, layout, rows) + sorting,
        "opened": most * (leaves_of(parameters, rows) - 1),
    }
    return Limits(_bits(rules, parameters, layout, rows, groups), between_pages)


def table_limits(rules: Rules, parameters: AnyTrees, columns: Columns, groups: Sequence[int]) -> tuple[int, int]:
    """The same by a whole table, with as many bins as its columns, or some of their rows, can have."""
    features, rows = [], len(columns.matrix)
    for column in columns.matrix.T:
        missing = np.isnan(column)
        values = len(np.unique(column[~missing]))
        features.append(Feature(max(min(values, lent_bins_of(parameters)), 1), bool(missing.any()), 0))
    layout = Layout(tuple(features), tuple((number,) for number in range(len(features))))
    return _bits(rules, parameters, layout, rows, groups), table_bits(layout, rows)


def rounds(parameters: AnyTrees, models: int, engine: str) -> tuple[str, int]:
    """As many trees as a forest grows together, and with shares as many as come before numbers are dealt ahead."""
    together = largest_group(parameters) if isinstance(parameters, ForestParameters) else 1
    return "trees", ceil(max(together, _UNTIL_DEALT_AHEAD if engine == "shares" else 1) / models)


def full_rows(parameters: AnyTrees) -> int:
    """Three times what the leaves need at least, since they are not all alike; or enough for bins of hidden nodes."""
    leaves = 1 << parameters.depth
    if isinstance(parameters, LgbParameters):
        leaves = min(leaves, parameters.leaves)
    return parameters.min_rows * max(3 * leaves, 2 * parameters.bins if parameters.hide_nodes else 0)


def _thresholds(parts: Sequence[Part]) -> set[tuple[int, int]]:
    """The different thresholds of parts with the same bins."""
    return {
        (feature, place)
        for part in parts
        for feature, place, _ in part.splits
        if place < len(part.binning.features[feature].edges)
    }


def _bits(rules: Rules, parameters: AnyTrees, layout: Layout, rows: int, groups: Sequence[int]) -> int:
    return sum(bits_needed(rules, parameters, layout, rows, models) for models in groups)


def _check(parameters: AnyTrees, audited: Audited) -> GradientsCheck | ColumnsCheck:
    return (GradientsCheck if audited.opener == audited.setup.active else ColumnsCheck)(parameters, audited)


def _sorting(active: str, party: str, *, hidden: bool) -> list[Exchange]:
    """What is sent between the active party and a passive one when rows are sorted."""
    there, back = (messages.Needed, messages.AllSides) if hidden else (messages.Reached, messages.Sides)
    return [
        Exchange(active, party, messages.Sort, 1, 100),
        Exchange(active, party, there),
        Exchange(party, active, back),
        Exchange(active, party, messages.Sorted, 1, 50),
    ]


_TITLES = {
    "gbdt": "Gradient boosting (gbdt)",
    "xgb": "Gradient boosting of second order (xgb)",
    "lgb": "Gradient boosting of second order, leaf by leaf (lgb)",
    "rf": "A random forest (rf)",
}


def _summary(model: Model) -> dict[str, Any]:
    """What the active party's result tells of the trees of the first model."""
    first = model.ensembles[0]
    own = zip(model.part.binning.features, first.gains[model.own_place], strict=True)
    gains = [{"name": feature.name, "gain": gain} for feature, gain in own]
    return {
        "trees": len(first.trees),
        "gain_by_party": {owner: sum(gains) for owner, gains in zip(model.owners, first.gains, strict=True)},
        "own_gains": sorted(gains, key=lambda column: (-column["gain"], column["name"])),
    }


def without_last(kept: Model | Part, count: int) -> Model | Part:
    """Splits stay: a passive party does not know in which model they are."""
    return kept if isinstance(kept, Part) else kept.model_copy(update={"ensembles": kept.ensembles[:-count]})


def _margin(parameters: AnyTrees) -> str:
    if not parameters.classes:
        return "predicted number"
    return "probability" if isinstance(parameters, ForestParameters) else "log-odds"


TREES = Learner(
    name="trees",
    models="trees",
    parameters=(GbdtParameters, XgbParameters, LgbParameters, ForestParameters),
    model=Model,
    part=Part,
    outline=outline,
    score_outline=score_outline,
    fit=fit,
    lend=lend,
    scores_in_fit=scores_in_fit,
    score=lambda team, model, columns: predictor.scores(team, model, columns.matrix),
    help_score=lambda team, part, columns, same: predictor.help_predict(team, part, columns.matrix, same_rows=same),
    title=lambda parameters: _TITLES[parameters.learner],
    importance=importance,
    without_last=without_last,
    needs_columns=True,
    questions=questions_of,
    prepare=prepare,
    limits=limits,
    table_limits=table_limits,
    revealed=revealed,
    notes=notes,
    said_before=said_before,
    rounds=rounds,
    full_rows=full_rows,
    for_bags=GbdtParameters(depth=3),  # deep trees would learn small bags by heart
    # few bins, since every split is opened for all rows; few bits, since few rows of a bag have a gradient
    for_secret_labels={"hide_nodes": True, "lent_bins": 9, "mean_bits": -4},
    tunable=frozenset(_SIZES | _SPLITS | _DRAWS),
    audit=Audit(pages_needed, _check),
    explaining=Explaining(
        outline=explain_outline,
        contributions=lambda team, model, columns, *which: explaining.contributions(
            team, model, columns.matrix, *which
        ),
        help_contributions=lambda team, part, columns, most: explaining.help_contributions(
            team, part, columns.matrix, most
        ),
        margin=_margin,
        lacks=explaining.lacks,
    ),
)
