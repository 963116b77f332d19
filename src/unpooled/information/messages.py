"""What parties tell each other about information values, besides products and lookups."""

from __future__ import annotations

from unpooled.arrays import Ints32, Ring
from unpooled.wire import message


@message(discloses="how many columns a party has", to="the active party")
class ColumnCount:
    columns: int


@message(
    discloses="with the active party's own shares, the information value of each of a party's columns, which have "
    "numbers in random order",
    to="the active party",
)
class InformationShares:
    values: Ring


@message(discloses="the information value of each of the receiver's columns", to="the owner of the columns")
class InformationValues:
    values: Ints32


@message(
    discloses="with the owner's own shares, the weight of evidence of each bin of its columns, and so, with the sizes "
    "of the bins, about how many positives each bin has",
    to="the owner of the columns",
)
class EvidenceShares:
    values: Ring
