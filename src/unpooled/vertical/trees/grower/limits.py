"""What a passive party refuses while trees grow: more than trees of the plan ask of it, whatever it is told.

An active party that deviates can choose what it asks, not how often: the root of a tree is looked at once, a node is
split once, and a tree has no more nodes than the plan and the rows allow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Bools, Ints
from unpooled.errors import ProtocolError, RefusedError
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.budget import leaves_of, looks_of
from unpooled.vertical.trees.grower.node_rows import Families, Standing
from unpooled.vertical.trees.parameters import AnyTrees, LgbParameters, serve_again, sums_of

_LONGEST_NAME = 120


def check_trees(team: Team, parameters: AnyTrees, trees: messages.Trees, model: bytes) -> None:
    """Refuse a group of trees that no honest party would grow: what is kept for a group must come to an end."""
    names, once = trees.names, len(set(trees.names)) == len(trees.names) or serve_again(parameters)
    if not 1 <= len(names) <= parameters.lockstep:
        raise ProtocolError(
            f"invalid Trees from {team.active}: {len(names)} trees in a group, where 1 to {parameters.lockstep} grow"
        )
    known = all(name.startswith(f"{model.hex()} ") and len(name) <= _LONGEST_NAME for name in names)
    if not known or not once or not all(name.isprintable() for name in names):
        raise ProtocolError(f"invalid Trees from {team.active}: repeated names, or names of another model")
    if trees.sums != sums_of(parameters):
        raise ProtocolError(
            f"invalid Trees from {team.active}: {trees.sums} sums, where the learner needs {sums_of(parameters)}"
        )


def check_growth(team: Team, parameters: AnyTrees, standing: Standing, families: Families) -> None:
    """Refuse to look at more of a tree than the plan has: each look is a question about every row of a node.

    The root is looked at once, nodes as deep as the plan's trees never, and all in all as many as such a tree has.
    """
    if (families.siblings == 1) != (not standing.depths):
        raise ProtocolError(f"invalid Level from {team.active}: the root is looked at first, and once")
    depths = [standing.depths.get(parent, -1) + 1 for parent in families.parents.tolist()]
    standing.looked += len(families)
    if max(depths) >= parameters.depth or standing.looked > sum(looks_of(parameters, len(standing.where))):
        raise RefusedError(
            f"{team.session.party} shows no more nodes than trees of the plan have, and {team.active} asks for more"
        )
    for depth, first in zip(depths, families.firsts.tolist(), strict=True):
        standing.depths.update(dict.fromkeys(range(first, first + families.siblings), depth))
    if families.siblings == 2:
        count_split(team, parameters, standing, families.parents.tolist())


def count_split(team: Team, parameters: AnyTrees, standing: Standing, nodes: Iterable[int]) -> None:
    """Refuse to see more nodes split than a tree of the plan has."""
    standing.split.update(nodes)
    if len(standing.split) >= leaves_of(parameters, len(standing.where)):
        raise RefusedError(
            f"{team.session.party} opens no more splits than trees of the plan have, and {team.active} asks for more"
        )


def check_counts(team: Team, min_rows: int, right: Bools, counts: Ints, kind: str) -> None:
    """Refuse splits that leave too few rows on a side, whoever has the column."""
    if not counts.all():
        raise ProtocolError(f"invalid {kind} from {team.active}: a node that has no rows")
    to_the_right = np.add.reduceat(right, np.cumsum([0, *counts[:-1]]), dtype=np.int64)
    if min(int(to_the_right.min()), int((counts - to_the_right).min())) < min_rows:
        does = "opens" if kind == "SplitRequest" else "follows"
        raise RefusedError(f"{team.session.party} {does} no split that leaves fewer than {min_rows} rows on a side")


@dataclass
class HiddenGrowth:
    """How far a group of trees is whose nodes this party does not know.

    By tree, how many nodes were looked at in each step; how many nodes were shown and can be split now, how many splits
    were opened in all, and whether any were since the last step.
    """

    looks: dict[int, list[int]] = field(default_factory=dict)
    shown: int = 0
    opened: int = 0
    answered: bool = False

    def look(self, team: Team, parameters: AnyTrees, level: Sequence[tuple[int, int, int]]) -> None:
        """Refuse to look at more nodes than trees of the plan can have in this step; given tree, nodes and rows."""
        shown = 0
        for tree, nodes, rows in level:
            before, most = self.looks.setdefault(tree, []), looks_of(parameters, rows)
            if len(before) == len(most) or not 0 < nodes <= min(most[len(before)], 2 * before[-1] if before else 1):
                raise ProtocolError(
                    f"invalid HiddenLevel from {team.active}: more nodes of a tree than the plan has, or none"
                )
            shown += 2 * nodes if before else 1
            before.append(nodes)
        waiting = self.shown if isinstance(parameters, LgbParameters) else 0  # leaves whose turn may come yet
        self.shown, self.answered = shown + waiting, False

    def open(self, team: Team, parameters: AnyTrees, splits: int, rows: int) -> None:
        """Refuse more splits than there are nodes to split: in a step all that were shown, or leaf by leaf one a tree.

        In all there are no more than the trees have.
        """
        if isinstance(parameters, LgbParameters):
            most = min(self.shown, len(self.looks))
        else:
            most = 0 if self.answered else self.shown
        most = min(most, len(self.looks) * (leaves_of(parameters, rows) - 1) - self.opened)
        if splits > most:
            raise RefusedError(
                f"{team.session.party} opens at most {most} splits now, one for each node that was shown and not yet "
                f"split, and {team.active} asks for {splits}"
            )
        self.shown, self.opened, self.answered = self.shown - splits, self.opened + splits, True
