"""What is learned: each party keeps its own part, as a JSON file that a person can read.

The active party's part has the trees: for each node who owns the column that it is split by, the number of the split
in that party's own list, the first of its two children (the second follows it), its values, which count in leaves, and
how much training rows weigh in it (`cover`), which files of older versions do not have. A passive party's part has only
its list of splits and how its values become bins.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, FiniteFloat, SerializerFunctionWrapHandler, field_serializer, model_validator

from unpooled.vertical.model_file import Saved
from unpooled.vertical.trees.binning import Binning
from unpooled.vertical.trees.grower.context import LEAF, FinishedTree
from unpooled.vertical.trees.parameters import AnyTrees, ForestParameters, outputs_of
from unpooled.vertical.trees.split_table import SplitTable


class Part(Saved):
    """What one party keeps: the model's name, how its values become bins, its splits and how often each was used.

    A split is the feature's place in the binning, the last bin on the left, and whether missing values go left. With
    `hide_nodes` the active party does not say which rows reach which split, and is told the sides of all.
    """

    format: Literal[2] = 2
    learner: Literal["trees"] = "trees"
    name: str = Field(pattern="^[0-9a-f]{32}$")
    party: str
    hide_nodes: bool = False
    binning: Binning
    splits: tuple[tuple[int, int, bool], ...]
    uses: tuple[int, ...]
    rows: tuple[int, ...]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        features = self.binning.layout.features
        if not len(self.splits) == len(self.uses) == len(self.rows):
            raise ValueError("splits: not as many as uses and rows")
        if any(not (0 <= f < len(features) and 0 <= place < features[f].values) for f, place, _ in self.splits):
            raise ValueError("splits: one is of a column or bin that is not there")
        if min((*self.uses, *self.rows), default=0) < 0:
            raise ValueError("uses and rows: must not be negative")
        return self

    @property
    def table(self) -> SplitTable:
        return SplitTable(list(self.splits), list(self.uses), list(self.rows))

    @property
    def columns(self) -> list[str]:
        """The columns' names in the order of the party's table."""
        return [feature.name for feature in sorted(self.binning.features, key=lambda feature: feature.column)]

    @property
    def importance(self) -> dict[str, dict[str, int]]:
        """For each column, by name, how many nodes it split and how many rows these had."""
        found = {feature.name: {"splits": 0, "rows": 0} for feature in self.binning.features}
        for (feature, _, _), uses, rows in zip(self.splits, self.uses, self.rows, strict=True):
            entry = found[self.binning.features[feature].name]
            entry["splits"] += uses
            entry["rows"] += rows
        return found


class Tree(Saved):
    """One tree, its nodes from the root on; a leaf's first child is -1. Without `cover` nothing can be explained."""

    first: tuple[int, ...]
    owner: tuple[int, ...]
    split: tuple[int, ...]
    values: tuple[tuple[FiniteFloat, ...], ...]
    cover: tuple[Annotated[FiniteFloat, Field(gt=0)], ...] = Field((), exclude_if=lambda cover: not cover)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        nodes = len(self.first)
        if not nodes == len(self.owner) == len(self.split) == len(self.values) or not nodes:
            raise ValueError("a tree's lists are not of the same length")
        if any(first != LEAF and not place < first < nodes - 1 for place, first in enumerate(self.first)):
            raise ValueError("a node's children must come after it")
        if len(self.cover) not in (0, nodes):
            raise ValueError("cover: not one for each node")
        return self


class Ensemble(Saved):
    """The trees of one model, where its scores begin, and how much the splits of each party's columns gained in all."""

    base: tuple[FiniteFloat, ...]
    trees: tuple[Tree, ...]
    gains: tuple[tuple[FiniteFloat, ...], ...]


class Model(Saved):
    """The active party's part: its own splits, the owners of columns, and one or several ensembles grown together."""

    format: Literal[2] = 2
    learner: Literal["trees"] = "trees"
    part: Part
    owners: tuple[str, ...]
    parameters: Annotated[AnyTrees, Field(discriminator="learner")]
    classes: tuple[str, ...]
    ensembles: Annotated[tuple[Ensemble, ...], Field(min_length=1)]

    @field_serializer("parameters", mode="wrap")
    def _as_before(self, parameters: AnyTrees, kept: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Models of earlier versions have no mean_bits."""
        found: dict[str, Any] = kept(parameters)
        return {name: value for name, value in found.items() if name != "mean_bits" or value}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.part.party not in self.owners:
            raise ValueError("owners: the active party is not among them")
        if len(set(self.owners)) < len(self.owners):
            raise ValueError("owners: one is there twice")
        if len(self.classes) != self.parameters.classes:
            raise ValueError("classes: not as many as the parameters say")
        mine, outputs = self.own_place, self.parameters.classes if self.parameters.classes > 2 else 1
        width = outputs if isinstance(self.parameters, ForestParameters) else 1
        for ensemble in self.ensembles:
            if len(ensemble.base) != outputs or len(ensemble.gains) != len(self.owners):
                raise ValueError("ensembles: outputs or gains are not as many as the parameters and owners say")
            if not ensemble.trees or len(ensemble.trees) % outputs_of(self.parameters):
                raise ValueError("ensembles: a round of trees is not complete")
        for tree in (tree for ensemble in self.ensembles for tree in ensemble.trees):
            if any(len(values) != width for values in tree.values):
                raise ValueError("a node does not have as many values as the parameters say")
            for first, owner, split in zip(tree.first, tree.owner, tree.split, strict=True):
                known = (
                    0 <= owner < len(self.owners) and split >= 0 and (owner != mine or split < len(self.part.splits))
                )
                if first != LEAF and not known:
                    raise ValueError("a node is split by a column of no owner")
        return self

    @property
    def own_place(self) -> int:
        return self.owners.index(self.part.party)


def part_of(name: bytes, party: str, binning: Binning, table: SplitTable, *, hide_nodes: bool) -> Part:
    return Part(
        name=name.hex(),
        party=party,
        hide_nodes=hide_nodes,
        binning=binning,
        splits=tuple(table.splits),
        uses=tuple(table.uses),
        rows=tuple(table.rows),
    )


def tree_of(tree: FinishedTree) -> Tree:
    """A grown tree as it is kept."""
    grown = tree.grown
    return Tree(
        first=tuple(grown.first.tolist()),
        owner=tuple(grown.owner.tolist()),
        split=tuple(grown.split.tolist()),
        values=tuple(map(tuple, tree.values.tolist())),
        cover=tuple(tree.cover.tolist()),
    )
