"""All exceptions, as one tree.

::

    UnpooledError
    ├── InputError           a table, file or value is wrong: names party, file, column and row
    │   ├── ResumeError      what an interrupted run has kept does not serve: a new run is needed
    │   └── TrainingDiverged  the training of a generator did not converge: says what to change
    ├── PlanError            a plan or private file is wrong: names file and key
    │   └── PlanMismatch     the parties' plans differ: names the fields
    ├── RefusedError         this party's policy does not allow what is asked
    │   └── ResumeRefused    an interrupted run is to go on in a way that this party does not allow
    ├── CertificateError     a key or certificate is missing, wrong, expired or revoked
    ├── WireError            bytes that are not a message
    ├── LedgerError          a ledger is damaged or cannot be written
    ├── BookError            the book of a table is missing, damaged or older than it was: its owner must say why
    ├── WorkerLost           a worker process of this party ended before its work was done
    ├── TrackingError        a run could not be logged where its party wants it; the run itself is not affected
    ├── InternalError        what should not happen: the party's log has the details
    ├── JobFailed            a job failed at one or more parties: the original error comes first
    ├── ProtocolError        a peer sent a well-formed message that the protocol does not allow here
    └── PeerError            the conversation ended because of another party
        ├── PeerFailed       the peer reported that it failed
        ├── PeerLost         the connection broke, or was never established
        ├── PeerSilent       nothing arrived within the timeout
        └── Deadlock         parties wait for each other in a circle (memory transport only)

When a party fails, its peers are told. An error's text may name columns, rows or files, so peers are told the text
only of errors whose class is `shareable`; of all others they are told in a few words what kind of trouble it is
(`told`). No class name is shown to anybody: an error that unpooled does not raise on purpose is an internal error,
and the party's own log has the details.

`Interrupted` is not part of the tree: like KeyboardInterrupt, nothing that handles errors may catch it.
"""

from __future__ import annotations

import signal
from typing import Literal


class UnpooledError(Exception):
    """The base class of all errors that unpooled raises on purpose."""

    shareable = False
    resumable = True
    """Whether the run can be resumed once the cause is gone; otherwise a new run is needed."""


class InputError(UnpooledError):
    """A table, a file or a value in it is wrong."""


class ResumeError(InputError):
    """What an interrupted run has kept is missing, damaged, or of another plan, table or version."""

    resumable = False


class TrainingDiverged(InputError):
    """The training of a generator ended in numbers that are not finite or much too large."""


class PlanError(UnpooledError):
    """A plan or a private file is wrong."""

    resumable = False


class PlanMismatch(PlanError):
    """The parties' plans differ."""

    shareable = True


class RefusedError(UnpooledError):
    """This party's own policy does not allow what it was asked for."""

    shareable = True


class ResumeRefused(RefusedError):
    """An interrupted run would be resumed from too far back, or too often."""

    resumable = False


class CertificateError(UnpooledError):
    """A key or a certificate is missing, wrong, expired or revoked."""


class WireError(UnpooledError):
    """Bytes arrived that are not a message, or a value cannot be sent."""

    shareable = True


class LedgerError(UnpooledError):
    """A ledger is damaged, or cannot be written."""


class BookError(UnpooledError):
    """The book of a table is missing, damaged, or not the one that was last written."""


class WorkerLost(UnpooledError):
    """A worker process of this party ended before its work was done."""

    shareable = True


class TrackingError(UnpooledError):
    """A run could not be logged where its party wants that."""


class InternalError(UnpooledError):
    """An error that was not raised on purpose; the party's log has the details."""


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


class Interrupted(KeyboardInterrupt):
    """A signal ended this party's work."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted ({'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name})")
        self.code = 128 + number


INTERNAL = "internal error"
_WORDS: dict[type[BaseException], str] = {
    ResumeError: "what it kept of the run cannot be used to resume it",
    InputError: "its input was refused",
    PlanError: "its plan or private file was refused",
    CertificateError: "a key or certificate was refused",
    LedgerError: "its ledger cannot be read or written",
    BookError: "the book of its table was refused",
    JobFailed: "another party of its machine failed",
    OSError: "a file or connection of its machine cannot be used",
    TrackingError: "its run could not be logged",
    MemoryError: "it is out of memory",
}
"""What peers are told of errors whose text may hold data; the first class that fits counts."""


def told(error: BaseException) -> str:
    """What peers are told, after the party's name: neither data nor a class name.

    >>> told(InputError("bank.csv, column 'income', row 17: not a number"))
    'stopped: its input was refused (see its own message)'
    >>> told(ZeroDivisionError("17 / 0")), told(KeyboardInterrupt())
    ('stopped: internal error (see its own log)', 'was interrupted')
    """
    if isinstance(error, KeyboardInterrupt):
        return "was interrupted"
    if isinstance(error, UnpooledError) and error.shareable:
        return f"failed: {error}"
    words = next((words for kind, words in _WORDS.items() if isinstance(error, kind)), None)
    return f"stopped: {words} (see its own message)" if words else f"stopped: {INTERNAL} (see its own log)"


def described(error: BaseException) -> str:
    """An error as the party itself reads it; the log has the details of an internal one.

    >>> described(FileNotFoundError(2, "No such file or directory", "bank.csv")), described(ZeroDivisionError("17 / 0"))
    ('bank.csv: No such file or directory', 'internal error')
    """
    if isinstance(error, UnpooledError | Interrupted):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError):
        named = f"{error.filename}: " if error.filename is not None else ""
        return f"{named}{error.strerror or error or INTERNAL}"
    return "out of memory" if isinstance(error, MemoryError) else INTERNAL


def resumable(error: BaseException) -> bool:
    """Whether a run that ended with this error can be resumed, once the cause is gone."""
    return error.resumable if isinstance(error, UnpooledError) else True


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
