"""What passes when look-alikes are found, besides what the learners say."""

from __future__ import annotations

from unpooled.wire import message


@message(discloses="how far this party's checkpoint goes", to="the active party")
class StandsAt:
    """Groups of models that are whole, and groups of trees of the next one."""

    groups: int
    trees: int


@message(discloses="how far all parties' checkpoints go", to="a passive party")
class GoOnFrom:
    groups: int
    trees: int


@message(discloses="that models are learned from another group of bags, and how many", to="a passive party")
class NextBags:
    count: int


@message(discloses="nothing: no more bags come", to="a passive party")
class NoMoreBags:
    pass
