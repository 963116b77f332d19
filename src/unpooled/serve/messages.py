"""What services tell each other."""

from __future__ import annotations

from unpooled.wire import message


@message(discloses="how many letters this party's service has received, and how many follow", to="the receiver")
class ExchangeHello:
    """Begins one side's part of an exchange: `received` is the last letter it has, `letters` of its own follow."""

    version: int
    received: int
    letters: int


@message(discloses="how many letters this party's service has received", to="the receiver")
class LettersTaken:
    """Ends an exchange: the last letter that the caller has now."""

    received: int
