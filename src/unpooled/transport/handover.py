"""One port for many runs: a party's service accepts every connection, and passes on those that are for a run.

Whoever dials a run of a service first says which one, in clear: `unpooled run `, 32 hexadecimal digits, a line feed.
Then TLS begins, between the two runs: the service sees neither keys nor messages. It passes the connection to the run's
process through a Unix socket which that process has inherited. The digits are an address, not a secret: the run checks
every caller's certificate as if it had accepted the connection itself.
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from unpooled.errors import InputError
from unpooled.transport.doorway import Unencrypted

_WORDS = b"unpooled run "
_PREFACE = re.compile(_WORDS + rb"([0-9a-f]{32})\n")
PREFACE_BYTES = len(_WORDS) + 33
_KEY = re.compile("[0-9a-f]{32}")


class PassedConnections(socket.socket):
    """Listens for connections that another process has accepted, and passes on through this Unix socket."""

    def accept(self) -> tuple[socket.socket, Any]:
        """The next connection; EOFError once the other process has gone."""
        data, descriptors, _, _ = socket.recv_fds(self, 1, 1)
        if not data:
            raise EOFError
        if not descriptors:  # the system drops a connection for which this process has no descriptor left
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        os.set_inheritable(descriptors[0], False)
        connection = socket.socket(fileno=descriptors[0])
        return connection, None


@dataclass(frozen=True)
class Through:
    """How a run of a service is reached: the listener for what the service passes on, and the key of the run."""

    listener: PassedConnections
    key: str

    @property
    def preface(self) -> bytes:
        """What this run says first where it dials another party's service."""
        return preface(self.key)


def inherited(descriptor: int | None, key: str | None) -> Through | None:
    """What a service has given the process of a run; None for a run that listens by itself."""
    if descriptor is None and key is None:
        return None
    if descriptor is None or key is None or not _KEY.fullmatch(key):
        raise InputError("--through and --run-key go together, and a key has 32 hexadecimal digits")
    try:
        listener = PassedConnections(fileno=descriptor)
    except OSError as error:
        raise InputError(f"--through: {descriptor} is not a socket of this process: {error.strerror}") from None
    listener.set_inheritable(False)
    return Through(listener, key)


def preface(key: str) -> bytes:
    """What a dialler says before TLS begins, to reach the run with this key."""
    return _WORDS + key.encode() + b"\n"


def pass_connection(to: socket.socket, connection: socket.socket) -> None:
    """Pass a connection to the process at the other end of a Unix socket; OSError if it is gone, or takes no more."""
    to.setblocking(False)
    socket.send_fds(to, [b"\0"], [connection.fileno()])


def passing_on(run_at: Callable[[str], socket.socket | None]) -> Unencrypted:
    """What a service's doorway does with callers of runs; `run_at` has the socket to a run's process, by its key.

    Callers of a run that is not there, or takes no more, are hung up on; they call again.
    """

    def heard(connection: socket.socket, said: bytes) -> int | None:
        if said[: len(_WORDS)] != _WORDS[: len(said)]:
            return None
        if len(said) < PREFACE_BYTES:
            return PREFACE_BYTES - len(said)
        if (match := _PREFACE.fullmatch(said)) is None:
            return None
        if to := run_at(match[1].decode()):
            with suppress(OSError):
                pass_connection(to, connection)
        return 0

    return heard
