"""A party's key and certificate, read again when a file has changed: a renewal or revocation needs no restart."""

from __future__ import annotations

import ssl
import threading
from pathlib import Path

from unpooled.transport.tls import context_of
from unpooled.transport.trust import AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE, REVOKED_FILE, Identity, load_identity

_FILES = (KEY_FILE, CERTIFICATE_FILE, AUTHORITY_FILE, REVOKED_FILE)


class Credentials:
    """What a party shows and checks; CertificateError as long as its files are not in order. Any thread may use it."""

    def __init__(self, folder: Path, party: str) -> None:
        self._folder = folder
        self._party = party
        self._lock = threading.Lock()
        self._read: tuple[object, Identity, ssl.SSLContext] | None = None

    def identity(self) -> Identity:
        return self._current()[1]

    def server_context(self) -> ssl.SSLContext:
        """What the party shows and demands where it is called."""
        return self._current()[2]

    def _current(self) -> tuple[object, Identity, ssl.SSLContext]:
        with self._lock:
            state = [_state(self._folder / name) for name in _FILES]
            if self._read is None or self._read[0] != state:
                self._read = None
                identity = load_identity(self._folder, self._party)
                self._read = state, identity, context_of(identity, server=True)
            return self._read


def _state(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except OSError:  # reading it says what is wrong
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
