"""TLS 1.3 between two memory buffers, and the verdict by which each side accepts or refuses the other.

Sockets are handled elsewhere: by the doorway, which serves many callers with one thread, by the dialler, and by links.
Both sides show a certificate and check the other's, first OpenSSL (signature and dates), then `trust.check_peer` (name,
use, revocation). After the handshake the dialler, and then the acceptor, sends its verdict: the version of this
protocol, and a text that is empty if the peer is accepted and otherwise says why not.
"""

from __future__ import annotations

import ssl
import threading
from contextlib import suppress

from unpooled.control import spoken
from unpooled.errors import CertificateError, WireError
from unpooled.transport.trust import CERTIFICATE_FILE, KEY_FILE, Identity

VERSION = 1
RECORD_BYTES = 2**14
_MOST_UNSENT = 2**16
_NOT_YET_VALID, _EXPIRED = 9, 10  # OpenSSL's X509_V_ERR_CERT_NOT_YET_VALID and X509_V_ERR_CERT_HAS_EXPIRED
_ALERTS = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is not valid there, perhaps not yet; check both clocks",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it is not accepted",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is not made for this use",
    "TLSV1_ALERT_UNKNOWN_CA": "it is not signed by the authority that the peer trusts",
    "TLSV1_ALERT_DECRYPT_ERROR": "its key does not match",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "none was shown",
}


def context_of(identity: Identity, *, server: bool) -> ssl.SSLContext:
    """What a party shows and demands in a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # check_peer checks the name, and says which one it found
    context.verify_mode = ssl.CERT_REQUIRED
    if server:
        context.num_tickets = 0  # sessions are never resumed
    try:
        context.load_verify_locations(cadata=identity.authority_pem.decode())
        context.load_cert_chain(identity.folder / CERTIFICATE_FILE, identity.folder / KEY_FILE)
    except OSError:
        raise CertificateError(
            f"{identity.party}'s own key and certificate in {identity.folder} became unreadable"
        ) from None
    return context


def own_refusal(error: ssl.SSLError, party: str) -> str:
    """What is wrong with a certificate that this party refused; empty if the error is about something else."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        return "is missing" if error.reason == "PEER_DID_NOT_RETURN_A_CERTIFICATE" else ""
    known = {_NOT_YET_VALID: "is not valid yet", _EXPIRED: "has expired"}
    if error.verify_code in known:
        return known[error.verify_code]
    return f"is not signed by the authority that {party} trusts ({error.verify_message})"


def peers_refusal(error: ssl.SSLError) -> str:
    """What the peer says is wrong with this party's certificate; empty if it does not say."""
    return _ALERTS.get(error.reason or "", "")


class Secured:
    """One end of a TLS connection, without a socket; any thread may call its methods."""

    def __init__(self, context: ssl.SSLContext, *, server: bool) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server)
        self._lock = threading.Lock()  # OpenSSL's objects must not be used by two threads at once
        self._verdict = bytearray()

    def receive(self, data: bytes | memoryview) -> None:
        """Add bytes that came from the network."""
        with self._lock:
            self._incoming.write(data)

    def to_send(self) -> bytes:
        """The bytes to send to the network."""
        with self._lock:
            return self._outgoing.read()

    def shake_hands(self) -> bool:
        """Continue the handshake; returns whether it is done."""
        with self._lock:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                return False
            return True

    def certificate(self) -> bytes:
        """The certificate that the peer has proved to be its own, as PEM."""
        return ssl.DER_cert_to_PEM_cert(self._tls.getpeercert(binary_form=True) or b"").encode()

    def encrypt(self, data: bytes | bytearray | memoryview) -> bytes:
        """Encrypt data; returns the bytes to send to the network."""
        view = memoryview(data)
        with self._lock:
            while view:
                view = view[self._tls.write(view) :]
            return self._outgoing.read()

    def decrypt_into(self, buffer: memoryview) -> int:
        """Read as much as has arrived, maybe nothing; EOFError if the stream ends before the buffer is full."""
        done = 0
        with self._lock:
            if not self._incoming.pending and not self._tls.pending():
                return 0  # the same answer as OpenSSL's, faster
            try:
                while done < len(buffer):
                    got = self._tls.read(len(buffer) - done, buffer[done:])
                    if not got:
                        raise EOFError
                    done += int(got)
            except ssl.SSLZeroReturnError:
                raise EOFError from None
            except ssl.SSLWantReadError:
                if self._outgoing.pending > _MOST_UNSENT:
                    raise WireError("the peer keeps asking for new keys") from None
        return done

    def farewell(self) -> bytes:
        """The bytes that end the TLS stream."""
        with self._lock:
            with suppress(ssl.SSLError):  # it would wait for the peer's end, and this party does not
                self._tls.unwrap()
            return self._outgoing.read()

    def verdict(self, refusal: str = "") -> bytes:
        """The bytes that tell the peer that it is accepted, or why not."""
        text = spoken(refusal).encode()
        return self.encrypt(bytes([VERSION]) + len(text).to_bytes(2, "little") + text)

    def peers_verdict(self) -> str | None:
        """Why the peer refuses this party, empty if it accepts; None if its verdict has not arrived yet."""
        while (missing := self._missing()) > 0:
            piece = bytearray(missing)
            got = self.decrypt_into(memoryview(piece))
            if not got:
                return None
            self._verdict += piece[:got]
            if self._verdict[0] != VERSION:
                return f"it uses version {self._verdict[0]} of the link protocol, this party uses {VERSION}"
        return spoken(self._verdict[3:].decode(errors="replace"))

    def _missing(self) -> int:
        if len(self._verdict) < 3:
            return 3 - len(self._verdict)
        return 3 + int.from_bytes(self._verdict[1:3], "little") - len(self._verdict)
