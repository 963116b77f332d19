"""A party's columns as several fits use them: binned once, with what earlier fits to the same bins have shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from unpooled.arrays import Bools
from unpooled.vertical.inputs import Columns
from unpooled.vertical.team import Team
from unpooled.vertical.trees.binning import Binned, Binning, binned, fit_bins
from unpooled.vertical.trees.bundles import Layout
from unpooled.vertical.trees.parameters import AnyTrees, lent_bins_of

SplitKey = tuple[int, int, int, bool]
"""What tells splits apart: the owner's place, the feature, the last bin on the left, whether missing values go left."""


@dataclass(eq=False)
class Earlier:
    """What stays from one fit to the next.

    `name` is that of the first model: hidden bins keep the name under which they were first multiplied, so that they
    are sent once. At the active party, `sides` are those of all rows by splits that passive parties have opened, and
    `layouts` are the columns that these belong to.
    """

    name: str = ""
    sides: dict[SplitKey, Bools] = field(default_factory=dict)
    layouts: dict[int, Layout] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        """A fit begins, of models with this name."""
        self.name = self.name or name

    def lent(self, owner: int, layout: Layout) -> None:
        """An owner lends these columns; what is known of others is dropped."""
        if self.layouts.setdefault(owner, layout) != layout:
            self.layouts[owner] = layout
            self.sides = {key: sides for key, sides in self.sides.items() if key[0] != owner}


@dataclass(frozen=True, eq=False)
class Prepared:
    """A party's columns, how their values become bins, and the bins of their rows."""

    columns: Columns
    binning: Binning
    own: Binned
    earlier: Earlier = field(default_factory=Earlier)


def prepare(team: Team, parameters: AnyTrees, columns: Columns, most_thresholds: int | None = None) -> Prepared:
    """Bin a party's columns; a passive party puts them in an order that only it knows.

    Where nodes are hidden nobody can merge their bins, so every bin has `min_rows` of all rows from the start.
    `most_thresholds` is the most different ones that a passive party reveals, on all its columns together.
    """
    lends = bool(team.passive) and team.session.party != team.active
    party = team.session.party if lends else team.active
    binning = fit_bins(
        columns.matrix,
        columns.names,
        bins=_most_bins(parameters, columns, lends=lends),
        order=team.session.rng.permutation(len(columns.names)) if lends else None,
        bundle=parameters.bundle,
        blocks=columns.blocks,
        most_thresholds=most_thresholds,
        min_rows=parameters.min_rows if parameters.hide_nodes else 1,
        party=party,
    )
    return Prepared(columns, binning, binned(binning, columns.matrix, party, columns.folder))


def _most_bins(parameters: AnyTrees, columns: Columns, *, lends: bool) -> list[int]:
    """The most bins of each column: those that are lent, also in a pooled run, may have fewer."""
    lent, own = lent_bins_of(parameters), parameters.bins
    if lends or columns.active is None:
        return [lent if lends else own] * len(columns.names)
    return [own if block == columns.active else lent for block, size in enumerate(columns.blocks) for _ in range(size)]
