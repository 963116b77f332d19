"""The package's version, and that of the protocol, defined only here."""

__version__ = "0.1.0"

PROTOCOL_VERSION = 1
"""What all parties of a job must have in common, whatever version of the package each has: it is raised when a message,
the order of messages, a field of the plan or a result changes (docs/formats.md)."""


def must_upgrade(party: str, peer: str, theirs: int) -> str:
    """Why two parties with different protocol versions cannot work together, and which of them has to change that.

    >>> must_upgrade("bank", "telco", PROTOCOL_VERSION + 1)
    'bank has protocol version 1 and telco 2, so they cannot work together: bank must upgrade unpooled'
    """
    behind = party if theirs > PROTOCOL_VERSION else peer
    versions = f"{party} has protocol version {PROTOCOL_VERSION} and {peer} {theirs}"
    return f"{versions}, so they cannot work together: {behind} must upgrade unpooled"
