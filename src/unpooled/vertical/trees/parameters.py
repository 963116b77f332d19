"""What each tree learner can be told. Defaults are those of the VFPU paper (50 trees, depth 6, learning rate 0.1).

A gain is the loss that a split saves: ½ (G_L² / (H_L + l2) + G_R² / (H_R + l2) - G² / (H + l2)), where G is the sum of
the gradients of a node's rows and H that of their second derivatives (`xgb`, `lgb`) or of their weights (`gbdt`, `rf`),
and l1 is taken off |G| first.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from unpooled.secure.shares import packing
from unpooled.vertical.learner import LearnerParameters

Fraction = Annotated[float, Field(gt=0, le=1)]

_WORD_BITS, _SIGN_BITS, _FEWEST_BITS = 64, 1, 12
_GROUPS_AT_ONCE = 5


class TreeParameters(LearnerParameters):
    """What all four have in common."""

    trees: int = Field(50, description="how many trees (for several classes and boosting: for each class)", ge=1)
    depth: int = Field(6, description="the most splits between a root and a leaf", ge=1, le=30)
    bins: int = Field(32, description="the most bins that a column's values are sorted into", ge=2, le=256)
    lent_bins: int | None = Field(
        None,
        description="the same for columns of passive parties, where it is fewer: a column with n bins can reveal n - 1 "
        "thresholds",
        ge=2,
        le=256,
    )
    minimum_gain: float = Field(0.0, description="a split must save more loss than this", ge=0)
    minimum_child_weight: float = Field(
        1.0, description="the smallest sum of weights (gbdt, rf) or second derivatives (xgb, lgb) on each side", ge=0
    )
    l1: float = Field(0.0, description="taken off the absolute sum of gradients", ge=0)
    l2: float = Field(0.0, description="added to the sum of second derivatives or weights", ge=0)
    balanced: bool = Field(False, description="weigh rows so that all classes weigh the same")
    min_rows: int = Field(
        10,
        description="neighbouring bins are merged until each node has this many rows in a bin, or none; with "
        "hide_nodes, until all rows together have. No leaf has fewer",
        ge=1,
    )
    hide_nodes: bool = Field(
        False,
        description="do not show the passive parties the rows of a node; min_rows is then about all rows, not about "
        "those of a node",
    )
    hide_bags: bool = Field(
        True, description="let rows that take no part in a tree come along with weight zero, so that nobody sees which"
    )
    bundle: bool = Field(True, description="let mutually exclusive columns share bins; shows which do")
    precision: int = Field(
        16,
        description="bits of each row's gradient; with hide_nodes splits are found with fewer, see mean_bits",
        ge=8,
        le=31,
    )
    mean_bits: int = Field(
        0,
        description="with hide_nodes: gradients are rounded until those of all rows add up to about 2^mean_bits times "
        "the number of rows at most; with fewer bits less is sent",
        ge=-8,
        le=8,
    )
    lockstep: int = Field(
        10,
        description="the most trees that grow together and share each round trip; where nodes and bags are hidden they "
        "grow in up to five groups that take turns, each of at most a third as many",
        ge=1,
    )


class BoostingParameters(TreeParameters):
    """Trees one after the other, each for what those before it leave."""

    learning_rate: float = Field(0.1, description="how much of each tree's prediction counts", gt=0, le=1)
    row_fraction: Fraction = Field(1.0, description="the fraction of rows drawn for each tree")
    column_fraction: Fraction = Field(1.0, description="the fraction of columns drawn for each tree")
    patience: int | None = Field(
        None,
        description="stop when the validation rows have not got better for so many rounds; without it, never",
        ge=1,
    )
    validation_fraction: float = Field(
        0.1, description="the fraction of rows set aside if there is patience", gt=0, lt=1
    )


class GbdtParameters(BoostingParameters):
    """Splits by first derivatives, one Newton step in each leaf."""

    learner: Literal["gbdt"] = Field("gbdt", description="gradient boosting, first order")


class XgbParameters(BoostingParameters):
    """Splits by first and second derivatives, level by level."""

    learner: Literal["xgb"] = Field("xgb", description="gradient boosting, second order, level by level")
    l2: float = Field(1.0, description="added to the sum of second derivatives", ge=0)


class LgbParameters(BoostingParameters):
    """Splits by first and second derivatives, where it gains most; rows with small gradients are sampled."""

    learner: Literal["lgb"] = Field("lgb", description="gradient boosting, second order, leaf by leaf")
    leaves: int = Field(31, description="the most leaves of a tree", ge=2)
    minimum_child_weight: float = Field(0.001, description="the smallest sum of second derivatives on each side", ge=0)
    top_fraction: float = Field(0.2, description="the fraction of rows, by gradient, that is always kept", gt=0, le=1)
    other_fraction: float = Field(
        0.1, description="the fraction of rows drawn from the others, which count for all of those", ge=0, le=1
    )


class ForestParameters(TreeParameters):
    """Trees beside each other, each on its own draw of rows, a draw of columns at each node."""

    learner: Literal["rf"] = Field("rf", description="random forest, by gini impurity or variance")
    bootstrap: bool = Field(True, description="draw rows with replacement; if not, row_fraction of them without")
    row_fraction: Fraction = Field(0.632, description="the fraction of rows drawn for each tree, without bootstrap")
    column_fraction: Fraction | None = Field(
        None,
        description="the fraction of columns drawn at each node; by default their square root, for regression a third",
    )


AnyBoosting = GbdtParameters | XgbParameters | LgbParameters
AnyTrees = AnyBoosting | ForestParameters


def lent_bins_of(parameters: AnyTrees) -> int:
    """The most bins of a passive party's column."""
    return min(parameters.bins, parameters.lent_bins or parameters.bins)


def outputs_of(parameters: AnyTrees) -> int:
    """How many trees one round has: one, or for boosting with several classes one for each."""
    return 1 if isinstance(parameters, ForestParameters) or parameters.classes <= 2 else parameters.classes


def sums_of(parameters: AnyTrees) -> int:
    """How many numbers are summed up for each bin: gradients (for a forest of several classes one each) and weight."""
    several = isinstance(parameters, ForestParameters) and parameters.classes > 2
    return parameters.classes + 1 if several else 2


def largest_sum(parameters: AnyTrees, rows: int) -> int:
    """The largest absolute sum of gradients, or of weights, over any of so many rows.

    With hidden nodes every node costs a word for each row, so the words are short, and gradients count the more the
    fewer rows have one.
    """
    bound: int = rows * (2**parameters.precision - 1)
    if not parameters.hide_nodes:
        return bound
    bits: int = rows.bit_length() + packing.row_bits_more + _SIGN_BITS + parameters.mean_bits
    bits = max(bits, _FEWEST_BITS)
    per_word = max(1, min(sums_of(parameters), _WORD_BITS // bits))
    bits = 8 * -(-per_word * bits // 8) // per_word  # whole bytes
    return min((1 << (bits - 1)) - 1, bound)


def groups_at_once(parameters: AnyTrees) -> int:
    """The most groups of trees that take turns.

    Where nodes are shown a step is short and has little to send; where bags are, passive parties send in each step.
    """
    return _GROUPS_AT_ONCE if parameters.hide_nodes and parameters.hide_bags else 1


def largest_group(parameters: AnyTrees) -> int:
    """The most trees of a group, which grow together."""
    return parameters.lockstep if groups_at_once(parameters) == 1 else max(parameters.lockstep // 3, 1)


def group_size(parameters: AnyTrees, models: int) -> int:
    """How many trees grow together; the last group has the rest.

    Where groups take turns there are as many as there may be at once, since each waits for what its own trees send.
    """
    most, at_once = largest_group(parameters), groups_at_once(parameters)
    if at_once == 1 or in_rounds(parameters):
        return most
    trees = models * parameters.trees if isinstance(parameters, ForestParameters) else models
    return min(most, -(-trees // at_once))


def in_rounds(parameters: AnyTrees) -> bool:
    """Whether all models go on together: several classes need all trees of a round, and patience its losses."""
    return not isinstance(parameters, ForestParameters) and (
        outputs_of(parameters) > 1 or parameters.patience is not None
    )


def reuses_gradients(parameters: AnyTrees) -> bool:
    """Whether all trees of a model have the same gradients, which then keep their name."""
    return isinstance(parameters, ForestParameters) and not parameters.bootstrap and not parameters.hide_bags


def questions_of(parameters: AnyTrees, models: int = 1) -> int:
    """The most columns that so many models ask about the same rows; see `secure.engine.Rules`."""
    by_level = int(2 ** (parameters.depth - 1))
    nodes = min(by_level, parameters.leaves - 1) if isinstance(parameters, LgbParameters) else by_level
    return models * parameters.trees * outputs_of(parameters) * nodes * sums_of(parameters)
