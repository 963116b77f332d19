"""What passes when look-alikes are found, besides what the learners say."""

from __future__ import annotations

from unpooled.wire import message


@message(discloses="that models are learned from another group of bags, and how many", to="a passive party")
class NextBags:
    count: int


@message(discloses="nothing: no more bags come", to="a passive party")
class NoMoreBags:
    pass
