"""How fast messages pass between two processes, beside a bare TLS socket between two processes in the same run.

Ours is all that a protocol pays for: encoding, both ledgers, chunks, gRPC, decoding. The bare socket moves the same
bytes under the same mutual TLS and does nothing else. The two take turns, round by round, so that both see the same
machine; a bar is the median of the rounds' ratios. CPU seconds are of both processes.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from unpooled.jobs.check import Echo, Probe
from unpooled.ledger import Ledger
from unpooled.session import Session
from unpooled.transport.certificates import make_trial
from unpooled.transport.grpc import Addresses, GrpcTransport
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.trust import load_identity

SMALL, LARGE = 1_000, 10_000_000
ROUNDS, PINGS, LOADS = 30, 200, 5
THROUGHPUT_BAR, ROUNDTRIP_BAR = 0.5, 8.0


class Seconds(NamedTuple):
    """What one round took: all its small round trips, and all its large messages."""

    pings: float
    loads: float


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


# a bare TLS socket


def tls_context(folder: Path, *, server: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.load_cert_chain(folder / "certificate.pem", folder / "key.pem")
    context.load_verify_locations(folder / "authority.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def receive(connection: ssl.SSLSocket, buffer: memoryview) -> None:
    got = 0
    while got < len(buffer):
        got += connection.recv_into(buffer[got:])


def tls_server(certs: Path, port: int, cpu_seconds: Any) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        plain, _ = listener.accept()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with tls_context(certs / "bank", server=True).wrap_socket(plain, server_side=True) as connection:
            buffer = memoryview(bytearray(LARGE))
            for _ in range(ROUNDS):
                for _ in range(PINGS):
                    receive(connection, buffer[:SMALL])
                    connection.sendall(buffer[:SMALL])
                for _ in range(LOADS):
                    receive(connection, buffer)
                connection.sendall(b"!")
            cpu_seconds.value = time.process_time()


def tls_client(certs: Path, port: int) -> Callable[[], Seconds]:
    """Connect; the function returned does one round."""
    plain = connected(port)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = tls_context(certs / "telco", server=False).wrap_socket(plain, server_hostname="bank")
    small, large, answer = bytes(SMALL), bytes(LARGE), memoryview(bytearray(SMALL))

    def one_round() -> Seconds:
        start = time.perf_counter()
        for _ in range(PINGS):
            connection.sendall(small)
            receive(connection, answer)
        middle = time.perf_counter()
        for _ in range(LOADS):
            connection.sendall(large)
        receive(connection, answer[:1])
        return Seconds(middle - start, time.perf_counter() - middle)

    return one_round


def connected(port: int) -> socket.socket:
    deadline = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


# ours


def open_session(certs: Path, party: str, peer: str, addresses: Addresses) -> Session:
    ledger = Ledger(certs / f"{party}.jsonl", party, "benchmark")
    transport = GrpcTransport(load_identity(certs / party, party), Mailbox(party, (peer,), ledger), addresses, 60)
    session = Session(transport, ledger, seed=0, timeout=60)
    session.open()
    return session


def our_server(certs: Path, port: int, cpu_seconds: Any) -> None:
    session = open_session(certs, "bank", "telco", Addresses(f"127.0.0.1:{port}", {}))
    answer = Probe(np.zeros(SMALL, np.uint8))
    for _ in range(ROUNDS):
        for _ in range(PINGS):
            session.recv("telco", Probe)
            session.send("telco", answer)
        for _ in range(LOADS):
            session.recv("telco", Probe)
        session.send("telco", Echo(LARGE))
    cpu_seconds.value = time.process_time()
    session.finish()


def our_client(session: Session) -> Seconds:
    small, large = Probe(np.zeros(SMALL, np.uint8)), Probe(np.zeros(LARGE, np.uint8))
    start = time.perf_counter()
    for _ in range(PINGS):
        session.send("bank", small)
        session.recv("bank", Probe)
    middle = time.perf_counter()
    for _ in range(LOADS):
        session.send("bank", large)
    session.recv("bank", Echo)
    return Seconds(middle - start, time.perf_counter() - middle)


def main() -> None:
    console = Console(stderr=True)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        certs = Path(folder) / "certs"
        make_trial(certs, ["bank", "telco"])
        ports = free_port(), free_port()
        server_cpu = context.Value("d", 0.0), context.Value("d", 0.0)
        servers = [
            context.Process(target=target, args=(certs, port, seconds), daemon=True)
            for target, port, seconds in zip((tls_server, our_server), ports, server_cpu, strict=True)
        ]
        for server in servers:
            server.start()
        tls = tls_client(certs, ports[0])
        session = open_session(certs, "telco", "bank", Addresses(None, {"bank": f"127.0.0.1:{ports[1]}"}))
        rounds: list[tuple[Seconds, Seconds]] = []
        cpu = {"tls": 0.0, "ours": 0.0}
        with console.status("measuring"):
            for number in range(ROUNDS):
                start = time.process_time()
                bare = tls()
                middle = time.process_time()
                ours = our_client(session)
                cpu["tls"] += middle - start
                cpu["ours"] += time.process_time() - middle
                if number:  # the first round warms up
                    rounds.append((bare, ours))
        session.finish()
        for server in servers:
            server.join()
        cpu["tls"] += server_cpu[0].value
        cpu["ours"] += server_cpu[1].value
    report(rounds, cpu)


def report(rounds: list[tuple[Seconds, Seconds]], cpu: dict[str, float]) -> None:
    def median(values: list[float]) -> float:
        return round(statistics.median(values), 4)

    throughput = median([bare.loads / ours.loads for bare, ours in rounds])
    roundtrip = median([ours.pings / bare.pings for bare, ours in rounds])
    megabytes = LOADS * LARGE / 1e6
    print(
        json.dumps(
            {
                "benchmark": "transport",
                "cores": os.cpu_count(),
                "python": sys.version.split()[0],
                "tls_roundtrip_ms": median([1000 * bare.pings / PINGS for bare, _ in rounds]),
                "our_roundtrip_ms": median([1000 * ours.pings / PINGS for _, ours in rounds]),
                "tls_megabytes_per_second": median([megabytes / bare.loads for bare, _ in rounds]),
                "our_megabytes_per_second": median([megabytes / ours.loads for _, ours in rounds]),
                "tls_cpu_seconds": round(cpu["tls"], 2),
                "our_cpu_seconds": round(cpu["ours"], 2),
                "bars": [
                    {
                        "name": "throughput_vs_tls",
                        "value": throughput,
                        "bar": THROUGHPUT_BAR,
                        "holds": throughput >= THROUGHPUT_BAR,
                    },
                    {
                        "name": "roundtrip_vs_tls",
                        "value": roundtrip,
                        "bar": ROUNDTRIP_BAR,
                        "holds": roundtrip <= ROUNDTRIP_BAR,
                    },
                ],
            }
        )
    )


if __name__ == "__main__":
    main()
