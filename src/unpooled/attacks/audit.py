"""What each party of a job could infer about the others under a plan: all attacks on a simulated run of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unpooled.arrays import Bools, Floats, Ints
from unpooled.attacks import findings
from unpooled.attacks.bags import by_bags
from unpooled.attacks.few_known import FRIENDS, by_known, by_own_columns
from unpooled.attacks.findings import Attack, Finding
from unpooled.attacks.gradients import bags_shown, by_gradients, by_weights
from unpooled.attacks.id2graph import by_clusters
from unpooled.attacks.leaf_sizes import by_leaf_size
from unpooled.attacks.reconstruction import cells_known
from unpooled.attacks.simulation import View, views_of
from unpooled.attacks.stage import Stage, stage_of
from unpooled.attacks.two_runs import two_runs
from unpooled.errors import InputError
from unpooled.jobs.kinds import parameters_of
from unpooled.jobs.work import CheckedJob
from unpooled.run.progress import Watcher
from unpooled.vertical.linear.descent import ShownGradient
from unpooled.vertical.linear.messages import BeginLinear, Width


@dataclass(frozen=True)
class Audit:
    """All findings about a job, for one of its parties; `notes` say what was made up or left out."""

    kind: str
    party: str
    people: int
    sought: int
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


def audit(job: CheckedJob[Any], rows: int, seed: int, watcher: Watcher | None = None) -> Audit:
    """Simulate a job with at most so many rows of a party's table, cleaned, and attack it from every seat."""
    stage = stage_of(job, rows, seed)
    views = views_of(stage, watcher)
    found = [finding for view in views.values() for finding in findings_of(stage, view, seed)]
    tried = {finding.attack for finding in found}
    found += [
        findings.unseen(attack, view.role, view.party, stage.holder)
        for view in views.values()
        for attack in findings.ATTACKS
        if attack.name in tried and view.role != "passive" and view.party != stage.holder
    ]
    found += [_reconstructed(stage, view) for view in views.values() if view.trees.layout.features]
    found += _compared(stage, job.party)
    order = [attack.name for attack in findings.ATTACKS]
    found.sort(key=lambda finding: order.index(finding.attack))
    notes = (*stage.notes, *_always(stage))
    return Audit(job.plan.kind, job.party, stage.people, int(stage.secret.sum()), tuple(found), notes)


def findings_of(stage: Stage, view: View, seed: int) -> list[Finding]:
    """What a passive party can make of what it saw; nobody else is shown anything of learning."""
    if view.role != "passive":
        if view.record.entries:
            raise InputError(f"{view.party} has seen messages that no attack looks at")
        return []
    scored = linear_scores(stage, view) if any(view.record.of(BeginLinear)) else tree_scores(stage, view, seed)
    return [
        findings.ranked(attack, view.role, view.party, stage.holder, stage.sought, truth, scores, own)
        for attack, (truth, scores, own) in scored
    ]


Scored = list[tuple[Attack, tuple[Bools, Floats, Floats | None]]]
"""For an attack: who is sought, the scores, and those without any message; of the rows that are judged."""


def tree_scores(stage: Stage, view: View, seed: int) -> Scored:
    """What a passive party makes of trees."""
    truth = stage.secret[view.people]
    rows, groupings = len(truth), view.trees.groupings
    friends = known_to_attacker(truth, seed)
    others = np.ones(rows, bool)
    others[friends] = False
    own = by_own_columns(view.columns, friends)[others]
    known = truth[others], by_known(groupings, friends, rows)[others], own
    return [
        (findings.BAGS, (truth, by_bags(view.trees.bags, rows), None)),
        (findings.LEAF_SIZES, (truth, by_leaf_size(groupings, rows), None)),
        (findings.FEW_KNOWN, known),
        (findings.ID2GRAPH, (truth[others], by_clusters(groupings, friends, rows)[others], None)),
    ]


def linear_scores(stage: Stage, view: View) -> Scored:
    """What a passive party makes of linear models."""
    model = parameters_of(stage.plan).model  # type: ignore[attr-defined]
    columns, truth = np.clip(view.columns, -model.limit, model.limit)[view.learned], stage.secret[view.people]
    if any(told.rows != len(columns) for told in view.record.of(Width)):
        raise InputError(
            f"there is no attack on linear models in a job of the kind {stage.plan.kind}; see docs/linear.md"
        )
    truth, bags = truth[view.learned], bags_shown(view.record, len(columns))
    if gradients := list(view.record.of(ShownGradient)):
        logistic = model.classes > 0
        scores = by_gradients(columns, gradients, bags, logistic=logistic, output=stage.output)
    elif view.weights is not None:
        scores = by_weights(columns, view.weights.sum(axis=1))
    else:
        scores = np.zeros(len(columns))
    counted = by_bags(list(bags.values()), len(truth))
    return [(findings.BAGS, (truth, counted, None)), (findings.GRADIENTS, (truth, scores, None))]


def known_to_attacker(truth: Bools, seed: int) -> Ints:
    """Some of the sought people, whom an attacker happens to know."""
    sought = np.flatnonzero(truth)
    if len(sought) <= FRIENDS:
        raise InputError(f"only {len(sought)} people are sought, too few to tell how well an attack finds them")
    return np.random.default_rng([seed, FRIENDS]).choice(sought, FRIENDS, replace=False)


def _reconstructed(stage: Stage, view: View) -> Finding:
    """What the active party holds of a passive one's table, in all rows that take part."""
    rows = max((len(tree) for tree in view.trees.leaves), default=len(view.people))
    cells = cells_known(view.trees, rows)
    return findings.read_cells(findings.RECONSTRUCTION, "active", stage.plan.active, view.party, cells)


def _compared(stage: Stage, party: str) -> list[Finding]:
    """What others learn about whom the party that asks has added to its table between two runs."""
    plan = stage.plan
    found = two_runs(plan, party, parameters_of(plan).psi)  # type: ignore[attr-defined]
    return [
        findings.named_people(findings.TWO_RUNS, plan.parties[other].role, other, party, named, found.added)
        for other, named in found.named.items()
    ]


def _always(stage: Stage) -> list[str]:
    """What holds of every audit."""
    plan = stage.plan
    seekers = plan.with_role("seeker")
    told = [f"{plan.active} is told who the people of {seekers[0]} are: that is part of the job"] if seekers else []
    return [
        *told,
        "the engine is plain here, since engines hide nothing of what these attacks look at",
        "limits of policies that would end the run, other than maximum_thresholds, are not in force",
        "attackers follow the protocol; what others can do is in docs/privacy.md",
    ]
