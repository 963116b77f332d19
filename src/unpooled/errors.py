"""All exceptions, as one tree.

::

    UnpooledError
    ├── InputError           a table, file or value is wrong: names party, file, column and row
    ├── PlanError            a plan or private file is wrong: names file and key
    │   └── PlanMismatch     the parties' plans differ: names the fields
    ├── RefusedError         this party's policy does not allow what is asked
    ├── CertificateError     a key or certificate is missing, wrong, expired or revoked
    ├── WireError            bytes that are not a message
    ├── LedgerError          a ledger is damaged or cannot be written
    ├── WorkerLost           a worker process of this party ended before its work was done
    ├── JobFailed            a job failed at one or more parties: the original error comes first
    ├── ProtocolError        a peer sent a well-formed message that the protocol does not allow here
    └── PeerError            the conversation ended because of another party
        ├── PeerFailed       the peer reported that it failed
        ├── PeerLost         the connection broke, or was never established
        ├── PeerSilent       nothing arrived within the timeout
        └── Deadlock         parties wait for each other in a circle (memory transport only)

When a party fails, its peers are told. An error's text may name columns, rows or files, so peers are told the text
only of errors whose class is `shareable`; of all others they are told the class.
"""

from __future__ import annotations

from typing import Literal


class UnpooledError(Exception):
    """The base class of all errors that unpooled raises on purpose."""

    shareable = False


class InputError(UnpooledError):
    """A table, a file or a value in it is wrong."""


class PlanError(UnpooledError):
    """A plan or a private file is wrong."""


class PlanMismatch(PlanError):
    """The parties' plans differ."""

    shareable = True


class RefusedError(UnpooledError):
    """This party's own policy does not allow what it was asked for."""

    shareable = True


class CertificateError(UnpooledError):
    """A key or a certificate is missing, wrong, expired or revoked."""


class WireError(UnpooledError):
    """Bytes arrived that are not a message, or a value cannot be sent."""

    shareable = True


class LedgerError(UnpooledError):
    """A ledger is damaged, or cannot be written."""


class WorkerLost(UnpooledError):
    """A worker process of this party ended before its work was done."""

    shareable = True


class JobFailed(UnpooledError):
    """A job that was run for all its parties failed at one or more of them."""


class ProtocolError(UnpooledError):
    """A well-formed message arrived that the protocol does not allow here."""

    shareable = True


class PeerError(UnpooledError):
    """The conversation ended because of another party; `origin` is the party that failed first."""

    shareable = True

    def __init__(self, text: str, origin: str) -> None:
        super().__init__(text)
        self.origin = origin


class PeerFailed(PeerError):
    """A peer reported that it failed."""


class PeerLost(PeerError):
    """The connection to a peer broke, or was never established."""


class PeerSilent(PeerError):
    """A peer is connected, but the expected message did not arrive within the timeout."""


class Deadlock(PeerError):
    """Parties wait for each other in a circle."""


def origin_of(error: BaseException, party: str) -> str:
    """The party that caused an error at `party`."""
    return error.origin if isinstance(error, PeerError) else party


def cause_of(error: BaseException) -> Literal["own", "seen", "heard"]:
    """Whether an error is the party's own, seen at another party, or only heard of from another."""
    if not isinstance(error, PeerError):
        return "own"
    return "heard" if isinstance(error, PeerFailed) else "seen"


CAUSES = ("own", "seen", "heard")
"""In the order in which errors of several parties are shown."""
