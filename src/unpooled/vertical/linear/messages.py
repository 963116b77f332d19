"""What passes when linear models are fitted and used, besides products. `docs/linear.md` explains what follows."""

from __future__ import annotations

from unpooled.arrays import Bytes, Floats, Ints32, Ring
from unpooled.wire import message


@message(discloses="how many rows and columns a party has", to="the other owners of columns")
class Width:
    rows: int
    columns: int


@message(
    discloses="for each model a random name, whether rows have weights, and by how many powers of two the heaviest "
    "passes the mean",
    to="a passive party",
)
class BeginLinear:
    names: tuple[bytes, ...]
    weighted: tuple[bool, ...]
    heaviest: tuple[int, ...]


@message(discloses="which rows take part in each model", to="a passive party")
class TakingPart:
    """For each model a bit for each row; the others are left out of its products altogether."""

    rows: tuple[Bytes, ...]


@message(discloses="for each model that has weights how much each row counts", to="a passive party")
class RowWeights:
    weights: tuple[Floats, ...]


@message(
    discloses="for each model whether its loss still falls, and whether it was never lower",
    to="a passive party",
)
class NextEpoch:
    """Of the models that were still fitted, in their order."""

    go_on: tuple[bool, ...]
    best: tuple[bool, ...]


@message(discloses="nothing: random shares of gradients, of which the owners of the columns have the other shares")
class GradientShares:
    values: tuple[Ring, ...]


@message(discloses="a party's own weights, when training has ended", to="the owner of the columns")
class LastShare:
    """For each model the weights' other share."""

    values: tuple[Ring, ...]


@message(discloses="the random names of models, and that new rows are to be scored by them", to="a passive party")
class Score:
    names: tuple[bytes, ...]
    rows: int


@message(
    discloses="for each model the sum of the passive parties' scores of each row, together with what the others send",
    to="the active party",
)
class PartialScores:
    """Rows × the outputs of all models."""

    values: Ring


@message(
    discloses="for which class each of these rows is explained, by number; of a number, by how much scores move it",
    to="a passive party",
)
class ExplainedOutputs:
    """The output of each row, and for each model by how much a step of the score moves a number, 1 for classes."""

    outputs: Ints32
    scales: Floats


@message(
    discloses="how much all columns of a party add to the scores of the explained rows, and to that of the mean row",
    to="the active party",
)
class PartyContributions:
    totals: Floats
    means: Floats
