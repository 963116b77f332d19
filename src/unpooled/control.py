"""Control messages: those about the conversation itself."""

from __future__ import annotations

from unpooled.wire import kind_of, message

_LONGEST = 500


def spoken(text: str) -> str:
    """A peer's text, safe to show: one printable line of bounded length."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST])


@message(
    discloses="this party's protocol version, the names of the plan's fields and a digest of each value",
    to="every other party",
)
class PlanOffer:
    protocol: int
    names: tuple[str, ...]
    digests: tuple[bytes, ...]


@message(
    discloses="that a party failed, and its error: the text if that holds no data, otherwise what kind of error it is",
    to="every other party",
)
class Abort:
    origin: str
    reason: str


@message(discloses="nothing: the sender has done its part")
class Goodbye:
    pass


@message(discloses="whom this party has long been waiting for", to="every other party")
class Waiting:
    whom: str


@message(discloses="that this party is at work on something long", to="every other party")
class Working:
    pass


KINDS = frozenset(map(kind_of, (PlanOffer, Abort, Goodbye, Waiting, Working)))
"""The control messages, which every job has."""
