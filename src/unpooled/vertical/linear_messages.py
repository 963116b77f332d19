"""What passes when linear models are fitted and used, besides products. `docs/linear.md` explains what follows."""

from __future__ import annotations

from unpooled.codec import Floats, Ring
from unpooled.wire import message


@message(discloses="how many rows and columns a party has", to="the other owners of columns")
class Width:
    rows: int
    columns: int


@message(
    discloses="a random name for the model, whether rows have weights, and by how many powers of two the heaviest "
    "passes the mean",
    to="a passive party",
)
class BeginLinear:
    name: bytes
    weighted: bool
    heaviest: int


@message(discloses="how much each row counts", to="a passive party")
class RowWeights:
    weights: Floats


@message(discloses="whether the loss still falls, and whether it was never lower", to="a passive party")
class NextEpoch:
    go_on: bool
    best: bool


@message(discloses="nothing: random shares of gradients, of which the owners of the columns have the other shares")
class GradientShares:
    values: tuple[Ring, ...]


@message(discloses="a party's own weights, when training has ended", to="the owner of the columns")
class LastShare:
    values: Ring


@message(discloses="the random name of a model, and that new rows are to be scored by it", to="a passive party")
class Score:
    name: bytes
    rows: int


@message(
    discloses="the sum of the passive parties' scores of each row, together with what the others send",
    to="the active party",
)
class PartialScores:
    values: Ring
