"""Parties on machines of their own: gRPC over mutual TLS, one bidirectional stream per pair.

Either side may dial. A party's identity is that of its certificate, never what a message says. gRPC for Python verifies
the authority's signature and the dates on both sides, but knows no revocation and shows the dialler nothing of the
acceptor's certificate. So the acceptor checks the dialler's certificate again, with the revocation list, and proves to
the dialler, by signing its nonce, that it holds the key of a certificate that was not revoked either.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own words are for developers of gRPC; ours are below
if tuple(map(int, version("grpcio").split(".")[:2])) < (1, 86):  # not tried with later ones
    # Without its event engine a message wakes fewer threads on its way and a round trip takes about a third less.
    os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")
import grpc

from unpooled.control import spoken
from unpooled.errors import CertificateError, PeerLost, PeerSilent, PlanError, UnpooledError
from unpooled.transport.door import Door
from unpooled.transport.link import CHUNK_BYTES, Link
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.trust import (
    Identity,
    check_peer,
    check_proof,
    explain_refusal,
    prove,
)
from unpooled.wire import Frame

log = logging.getLogger("unpooled.transport")

_SERVICE, _METHOD = "unpooled.Link", "Exchange"
_NONCE, _CERTIFICATE, _PROOF = "unpooled-nonce-bin", "unpooled-certificate-bin", "unpooled-proof-bin"
_GRACE_SECONDS = 2.0
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Addresses:
    """Where this party listens (None: it only dials) and whom it dials where; everybody else dials this party."""

    listen: str | None
    dial: Mapping[str, str]


class GrpcTransport:
    """One party's links over the network; `open` makes them."""

    networked = True

    def __init__(self, identity: Identity, mailbox: Mailbox, addresses: Addresses, timeout: float) -> None:
        self.mailbox = mailbox
        self._addresses = addresses
        self._identity = identity
        self._timeout = timeout
        self._links = {peer: Link(peer, mailbox, timeout) for peer in mailbox.peers}
        self._linked: set[str] = set()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._channels: list[grpc.Channel] = []
        self._server: grpc.Server | None = None
        self._door = Door(mailbox.party)

    def open(self) -> None:
        """Link up with every peer, whoever starts first; raises if that takes longer than the timeout."""
        deadline = time.monotonic() + self._timeout
        if self._addresses.listen:
            self._listen(self._addresses.listen, {peer for peer in self._links if peer not in self._addresses.dial})
        for peer, address in self._addresses.dial.items():
            self._dial(peer, address, deadline)
        while missing := self._missing():
            self.mailbox.check("waited for {} to connect", ", ".join(missing))
            self._door.report()
            if time.monotonic() > deadline:
                waited = f"{self.mailbox.party} waited {self._timeout:g} s for {', '.join(missing)} to connect"
                raise PeerLost(waited + self._door.hint(), missing[0])

    def _missing(self) -> list[str]:
        """Who is not linked yet; if anybody is missing, after a moment's wait for that to change."""
        with self._changed:
            if len(self._linked) < len(self._links):
                self._changed.wait(_LOOK_SECONDS)
            return [peer for peer in self._links if peer not in self._linked]

    def send(self, peer: str, frame: Frame) -> None:
        self._links[peer].send(frame)

    def can_send(self, peer: str) -> bool:
        return self._links[peer].can_send()

    def close(self) -> None:
        """End every stream after what was sent, and leave nothing running."""
        until = time.monotonic() + _GRACE_SECONDS
        for link in self._links.values():
            link.end()
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        self.mailbox.close()
        for channel in self._channels:
            channel.close()
        if self._server:
            self._server.stop(max(0.1, until - time.monotonic())).wait()

    def _options(self) -> list[tuple[str, Any]]:
        pulse = int(1000 * max(1.0, min(20.0, self._timeout / 3)))
        return [
            ("grpc.keepalive_time_ms", pulse),
            ("grpc.keepalive_timeout_ms", pulse),
            ("grpc.http2.ping_timeout_ms", pulse),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.max_receive_message_length", CHUNK_BYTES + 1),
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.so_reuseport", 0),
        ]

    # the accepting side

    def _listen(self, address: str, expected: set[str]) -> None:
        identity = self._identity
        pair = [(identity.key_pem, identity.certificate_pem)]
        configuration = grpc.ssl_server_certificate_configuration(pair, identity.authority_pem)

        def keep_certificate() -> grpc.ServerCertificateConfiguration:
            self._door.knock()
            return configuration

        credentials = grpc.dynamic_ssl_server_credentials(configuration, keep_certificate, True)

        def exchange(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            return self._accept(expected, requests, context)

        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(exchange)
        threads: Any = _DaemonThreads()  # of an executor, grpc only ever calls `submit`
        self._server = grpc.server(threads, options=self._options(), maximum_concurrent_rpcs=len(expected) + 4)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),))
        try:
            self._server.add_secure_port(address, credentials)
        except RuntimeError:
            raise PlanError(f"{identity.party} cannot listen on {address}: is it in use?") from None
        self._server.start()
        log.info("%s listens on %s", identity.party, address)

    def _accept(self, expected: set[str], requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        try:
            peer = self._check_dialler(expected, context)
        except UnpooledError as error:
            self._door.refuse(str(error))
            context.abort(grpc.StatusCode.PERMISSION_DENIED, str(error))
        proof = prove(self._identity, _binary(context.invocation_metadata(), _NONCE), peer)
        context.send_initial_metadata(((_CERTIFICATE, self._identity.certificate_pem), (_PROOF, proof)))
        self._start(peer, requests, dialled=False)
        yield from self._links[peer].outgoing()

    def _check_dialler(self, expected: set[str], context: grpc.ServicerContext) -> str:
        shown: Any = context.auth_context().get("x509_pem_cert", [b""])
        peer = check_peer(self._identity, next(iter(shown)))
        if peer not in expected:
            raise CertificateError(f"{peer} is not a party that {self.mailbox.party} waits for in this plan")
        with self._changed:
            if peer in self._linked:
                raise CertificateError(f"{peer} is connected already")
            self._linked.add(peer)
            self._changed.notify_all()
        self._door.welcome()
        return peer

    # the dialling side

    def _dial(self, peer: str, address: str, deadline: float) -> None:
        identity = self._identity
        credentials = grpc.ssl_channel_credentials(identity.authority_pem, identity.key_pem, identity.certificate_pem)
        options = [*self._options(), ("grpc.ssl_target_name_override", peer), ("grpc.default_authority", peer)]
        channel = grpc.secure_channel(address, credentials, options=options)
        self._channels.append(channel)
        self._await_ready(channel, peer, address, deadline)
        nonce = secrets.token_bytes(32)
        exchange: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(f"/{_SERVICE}/{_METHOD}")
        call = exchange(self._links[peer].outgoing(), metadata=((_NONCE, nonce),))
        shown = self._answer(call, peer, deadline)
        certificate, proof = _binary(shown, _CERTIFICATE), _binary(shown, _PROOF)
        if not certificate:
            raise _refused(peer, call)
        check_proof(identity, certificate, proof, nonce, peer)
        with self._changed:
            self._linked.add(peer)
        self._start(peer, call, dialled=True)

    def _answer(self, call: Any, peer: str, deadline: float) -> Any:
        """What the acceptor says of itself; gRPC would wait for that for ever."""
        answer = _DaemonThreads().submit(call.initial_metadata)
        while True:
            try:
                return answer.result(_LOOK_SECONDS)
            except grpc.RpcError as error:
                raise _refused(peer, error) from None
            except TimeoutError:
                self.mailbox.check("was connecting with {}", peer)
                if time.monotonic() > deadline:
                    call.cancel()
                    raise PeerSilent(
                        f"{peer} accepted the connection of {self.mailbox.party}, but does not answer", peer
                    ) from None

    def _await_ready(self, channel: grpc.Channel, peer: str, address: str, deadline: float) -> None:
        ready = grpc.channel_ready_future(channel)
        host, _, port = address.rpartition(":")
        told = ""
        while True:
            try:
                ready.result(timeout=_LOOK_SECONDS)
                return
            except grpc.FutureTimeoutError:
                refusal = explain_refusal(self._identity, host.strip("[]"), int(port), peer, _LOOK_SECONDS)
            self.mailbox.check("was connecting with {}", peer)
            if refusal.final:
                raise CertificateError(f"{self.mailbox.party} cannot connect with {peer}: {refusal.text}")
            if time.monotonic() > deadline:
                raise PeerLost(f"{peer} at {address} could not be reached: {refusal.text}", peer)
            if refusal.text != told:
                log.info("%s waits for %s: %s", self.mailbox.party, peer, refusal.text)
                told = refusal.text

    # both

    def _start(self, peer: str, chunks: Iterable[bytes], *, dialled: bool) -> None:
        log.info("%s is connected with %s", self.mailbox.party, peer)
        name = f"unpooled-from-{peer}"
        thread = threading.Thread(target=self._read, args=(peer, chunks, dialled), name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _read(self, peer: str, chunks: Iterable[bytes], dialled: bool) -> None:
        link = self._links[peer]
        try:
            link.incoming(chunks)
        except (grpc.RpcError, UnpooledError):
            pass  # what follows says it: the stream is over
        except Exception as error:  # a stream that the server cancels ends with a bare Exception
            log.debug("the stream from %s ended: %r", peer, error)
        if link.heard or dialled:
            self.mailbox.lose(peer, "the connection was lost")
        else:
            hint = f"does it accept {self.mailbox.party}'s certificate?"
            self.mailbox.lose(peer, f"the connection was lost before its first message; {hint}")


class _DaemonThreads(Executor):
    """A daemon thread for each call: a stream that waits must not keep an interrupted process from ending."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


def _binary(metadata: Iterable[tuple[str, str | bytes]], key: str) -> bytes:
    value = dict(metadata).get(key, b"")
    return value if isinstance(value, bytes) else b""


def _refused(peer: str, call: Any) -> UnpooledError:
    details = spoken(call.details() or str(call.code()))
    if call.code() == grpc.StatusCode.PERMISSION_DENIED:
        return CertificateError(f"{peer} refused the connection: {details}")
    return PeerLost(f"{peer}: the connection was lost while connecting: {details}", peer)
