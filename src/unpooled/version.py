"""The package's version, and that of the protocol, defined only here."""

__version__ = "0.1.0"

PROTOCOL_VERSION = 1
"""What all parties of a job must have in common, whatever version of the package each has: it is raised when a message,
the order of messages, a field of the plan or a result changes (docs/formats.md)."""

_BEYOND = 10**6
"""No version comes so far; a peer may send any number, also one too long to be shown."""


def must_upgrade(party: str, peer: str, theirs: int) -> str:
    """Why two parties with different protocol versions cannot work together, and which of them has to change that.

    >>> must_upgrade("bank", "telco", PROTOCOL_VERSION + 1)
    'bank has protocol version 1 and telco 2, so they cannot work together: bank must upgrade unpooled'
    """
    behind = party if theirs > PROTOCOL_VERSION else peer
    said = theirs if 0 <= theirs < _BEYOND else "an impossible one"
    versions = f"{party} has protocol version {PROTOCOL_VERSION} and {peer} {said}"
    return f"{versions}, so they cannot work together: {behind} must upgrade unpooled"
