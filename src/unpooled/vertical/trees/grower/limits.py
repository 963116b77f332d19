"""What a passive party refuses while trees grow: more than trees of the plan ask of it, whatever it is told.

An active party that deviates can choose what it asks, not how often: the histogram of a tree's root is shown once, a
node is split once, and a tree has no more nodes than the plan and the rows allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unpooled.arrays import Bools, Ints, Ints32
from unpooled.errors import ProtocolError, RefusedError
from unpooled.vertical.team import Team
from unpooled.vertical.trees import messages
from unpooled.vertical.trees.budget import leaves_of, nodes_asked
from unpooled.vertical.trees.grower.node_bins import NodeBins
from unpooled.vertical.trees.grower.node_rows import Families
from unpooled.vertical.trees.parameters import AnyTrees, LgbParameters, largest_group, reuses_gradients, sums_of

_LONGEST_NAME = 120


def check_trees(team: Team, parameters: AnyTrees, group: messages.Trees, model: bytes) -> None:
    """Refuse a group of trees that no honest party would grow: what is kept for a group must come to an end."""
    names, wrong = group.names, f"invalid Trees from {team.active}"
    if not 1 <= len(names) <= largest_group(parameters):
        raise ProtocolError(f"{wrong}: {len(names)} trees in a group, where 1 to {largest_group(parameters)} grow")
    known = all(name.startswith(f"{model.hex()} ") and len(name) <= _LONGEST_NAME for name in names)
    once = len(set(names)) == len(names) or reuses_gradients(parameters)
    if not known or not once or not all(name.isprintable() for name in names):
        raise ProtocolError(f"{wrong}: repeated names, or names of another model")
    if group.sums != sums_of(parameters):
        raise ProtocolError(f"{wrong}: {group.sums} sums, where the learner needs {sums_of(parameters)}")


@dataclass(eq=False)
class Growth:
    """How far a group of trees is at a passive party that knows their nodes, trees × nodes.

    `depth` is 1 for a root, and 0 for nodes whose histograms were not asked for; `opened` are those whose split this
    party has opened, `split` all that it knows to be split. `asked` counts the histograms that each tree was asked for.
    """

    depth: Ints32
    opened: Bools
    split: Bools
    asked: Ints

    @classmethod
    def of(cls, trees: int, nodes: int) -> Growth:
        shape = trees, nodes
        return cls(np.zeros(shape, np.int32), np.zeros(shape, bool), np.zeros(shape, bool), np.zeros(trees, np.int64))


def most_nodes(parameters: AnyTrees, rows: int) -> int:
    """More nodes than a tree of so many rows has."""
    return 2 * leaves_of(parameters, rows) + 2


def check_growth(team: Team, parameters: AnyTrees, growth: Growth, sizes: Ints, families: Families) -> None:
    """Refuse more histograms of trees of so many rows than the plan has: each is a question about every row of a node.

    The root's is shown once, those of nodes as deep as the plan's trees never, and in all as many as such a tree has.
    """
    trees, roots = families.trees, families.siblings == 1
    if (growth.asked[trees] > 0).any() if roots else not growth.asked[trees].all():
        raise ProtocolError(f"invalid Level from {team.active}: the root comes first, and once")
    depths = np.ones(len(trees), np.int32) if roots else growth.depth[trees, families.parents] + np.int32(1)
    growth.asked += np.bincount(trees, minlength=len(growth.asked))
    most = {rows: sum(nodes_asked(parameters, rows)) for rows in set(sizes[trees].tolist())}
    too_many = any(growth.asked[tree] > most[int(sizes[tree])] for tree in set(trees.tolist()))
    if depths.max() > parameters.depth or too_many:
        raise RefusedError(
            f"{team.session.party} shows no more nodes than trees of the plan have, and {team.active} asks for more"
        )
    for sibling in range(families.siblings):
        growth.depth[trees, families.firsts + sibling] = depths
    if not roots:
        count_splits_known(team, parameters, growth, sizes, trees, families.parents)


def count_splits_known(
    team: Team, parameters: AnyTrees, growth: Growth, sizes: Ints, trees: Ints32, nodes: Ints32
) -> None:
    """Refuse to see more nodes split than trees of the plan have."""
    growth.split[trees, nodes] = True
    me, asker = team.session.party, team.active
    for tree in set(trees.tolist()):
        if np.count_nonzero(growth.split[tree]) >= leaves_of(parameters, int(sizes[tree])):
            raise RefusedError(f"{me} opens no more splits than trees of the plan have, and {asker} asks for more")


def check_open(
    growth: Growth, bins: NodeBins, request: messages.SplitRequest, missing_left: Bools, sender: str
) -> None:
    """Refuse splits of nodes of which nothing was shown, or that go through a group of bins."""
    trees, nodes, features, places = request.trees, request.nodes, request.features, request.places
    wrong = f"invalid SplitRequest from {sender}"
    known = (nodes >= 0) & (nodes < growth.depth.shape[1])
    if not (known & (growth.depth[trees, nodes * known] > 0)).all():
        raise ProtocolError(f"{wrong}: a node that it was shown nothing of")
    if growth.opened[trees, nodes].any() or len(set(zip(trees.tolist(), nodes.tolist(), strict=True))) < len(nodes):
        raise ProtocolError(f"{wrong}: a node that was opened before")
    if bins.min_rows > 1:
        if not bins.ends.has(trees, nodes):
            raise ProtocolError(f"{wrong}: a node whose turn has passed")
        groups, layout, every = bins.groups(trees, nodes), bins.layout, np.arange(len(nodes))
        parts_missing = missing_left | (places == layout.values[features] - 1)
        ends, joined = groups.ends[every, layout.starts[features] + places], groups.missing_joined[every, features]
        if not (ends & ~(joined & parts_missing)).all():
            raise ProtocolError(f"{wrong}: a split within bins that were shown as one")
    growth.opened[trees, nodes] = True


def check_counts(team: Team, min_rows: int, right: Bools, counts: Ints, kind: str) -> None:
    """Refuse splits that leave too few rows on a side."""
    if not counts.all():
        raise ProtocolError(f"invalid {kind} from {team.active}: a node that has no rows")
    to_the_right = np.add.reduceat(right, counts.cumsum() - counts, dtype=np.int64)
    if min(int(to_the_right.min()), int((counts - to_the_right).min())) < min_rows:
        does = "opens" if kind == "SplitRequest" else "follows"
        raise RefusedError(f"{team.session.party} {does} no split that leaves fewer than {min_rows} rows on a side")


@dataclass
class HiddenGrowth:
    """How far a group of trees is whose nodes this party does not know.

    By tree, how many histograms were asked for in each step; how many nodes were shown and can be split now, how many
    splits were opened in all, and whether any were since the last step.
    """

    asked: dict[int, list[int]] = field(default_factory=dict)
    shown: int = 0
    opened: int = 0
    answered: bool = False

    def show(self, team: Team, parameters: AnyTrees, level: Sequence[tuple[int, int, int]]) -> None:
        """Refuse more nodes than trees of the plan can have in this step; given tree, nodes and rows."""
        shown = 0
        for tree, nodes, rows in level:
            before, most = self.asked.setdefault(tree, []), nodes_asked(parameters, rows)
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
            most = min(self.shown, len(self.asked))
        else:
            most = 0 if self.answered else self.shown
        most = min(most, len(self.asked) * (leaves_of(parameters, rows) - 1) - self.opened)
        if splits > most:
            raise RefusedError(
                f"{team.session.party} opens at most {most} splits now, one for each node that was shown and not yet "
                f"split, and {team.active} asks for {splits}"
            )
        self.shown, self.opened, self.answered = self.shown - splits, self.opened + splits, True
