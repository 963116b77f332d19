"""How fast messages pass between two processes, compared with a bare TLS socket in the same run.

Ours includes everything that a protocol pays for: encoding, both ledgers, TLS, two threads, decoding. The bare socket
moves the same bytes under the same mutual TLS and does nothing else. The two take turns, so that both see the same
machine; each bar is the median of the turns' ratios.

Round trips take turns one by one, as in a protocol: one, and then something else. In a tight loop of only round trips
the bare socket gains much more from warm caches and from its two processes sharing a core than our threads do; that
ratio is reported too, as `tight_loop_roundtrip_vs_tls`, without a bar. CPU seconds are of both processes, of ours and
of the bare socket's.
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
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from unpooled.jobs.check.job import Echo, Probe
from unpooled.ledger import Ledger
from unpooled.session import Session
from unpooled.transport.certificates import make_trial
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.trust import load_identity

SMALL, LARGE = 1_000, 10_000_000
SINGLE_PINGS = 3_000
LOOPS, PINGS_IN_A_LOOP = 10, 300
LOAD_ROUNDS, LOADS = 20, 5
PINGS = SINGLE_PINGS + LOOPS * PINGS_IN_A_LOOP
THROUGHPUT_BAR, ROUNDTRIP_BAR = 0.5, 8.0


class Client(NamedTuple):
    """What a client does: a number of small round trips, or one round of large messages."""

    pings: Callable[[int], None]
    loads: Callable[[], None]


class Seconds(NamedTuple):
    """What one round took."""

    tls: float
    ours: float


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
            for _ in range(PINGS):
                receive(connection, buffer[:SMALL])
                connection.sendall(buffer[:SMALL])
            for _ in range(LOAD_ROUNDS):
                for _ in range(LOADS):
                    receive(connection, buffer)
                connection.sendall(b"!")
            cpu_seconds.value = time.process_time()


def tls_client(certs: Path, port: int) -> Client:
    plain = connected(port)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection = tls_context(certs / "telco", server=False).wrap_socket(plain, server_hostname="bank")
    small, large, answer = bytes(SMALL), bytes(LARGE), memoryview(bytearray(SMALL))

    def pings(count: int) -> None:
        for _ in range(count):
            connection.sendall(small)
            receive(connection, answer)

    def loads() -> None:
        for _ in range(LOADS):
            connection.sendall(large)
        receive(connection, answer[:1])

    return Client(pings, loads)


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
    transport = NetworkTransport(load_identity(certs / party, party), Mailbox(party, (peer,), ledger), addresses, 60)
    session = Session(transport, ledger, seed=0, timeout=60)
    session.open()
    return session


def our_server(certs: Path, port: int, cpu_seconds: Any) -> None:
    session = open_session(certs, "bank", "telco", Addresses(f"127.0.0.1:{port}", {}))
    answer = Probe(np.zeros(SMALL, np.uint8))
    for _ in range(PINGS):
        session.recv("telco", Probe)
        session.send("telco", answer)
    for _ in range(LOAD_ROUNDS):
        for _ in range(LOADS):
            session.recv("telco", Probe)
        session.send("telco", Echo(LARGE))
    cpu_seconds.value = time.process_time()
    session.finish()


def our_client(session: Session) -> Client:
    small, large = Probe(np.zeros(SMALL, np.uint8)), Probe(np.zeros(LARGE, np.uint8))

    def pings(count: int) -> None:
        for _ in range(count):
            session.send("bank", small)
            session.recv("bank", Probe)

    def loads() -> None:
        for _ in range(LOADS):
            session.send("bank", large)
        session.recv("bank", Echo)

    return Client(pings, loads)


# the measurement


def in_turns(first: Callable[[], None], second: Callable[[], None], rounds: int, cpu: list[float]) -> list[Seconds]:
    """What each round took, without the first, which warms up; the CPU seconds of both are added to `cpu`."""
    taken = []
    for _ in range(rounds):
        marks = [(time.perf_counter(), time.process_time())]
        for act in (first, second):
            act()
            marks.append((time.perf_counter(), time.process_time()))
        taken.append(Seconds(marks[1][0] - marks[0][0], marks[2][0] - marks[1][0]))
        cpu[0] += marks[1][1] - marks[0][1]
        cpu[1] += marks[2][1] - marks[1][1]
    return taken[1:]


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
        ours = our_client(session)
        cpu = [0.0, 0.0]
        with console.status("measuring"):
            singles = in_turns(partial(tls.pings, 1), partial(ours.pings, 1), SINGLE_PINGS, cpu)
            loops = in_turns(partial(tls.pings, PINGS_IN_A_LOOP), partial(ours.pings, PINGS_IN_A_LOOP), LOOPS, cpu)
            loads = in_turns(tls.loads, ours.loads, LOAD_ROUNDS, cpu)
        session.finish()
        for server in servers:
            server.join()
        cpu = [seconds + server.value for seconds, server in zip(cpu, server_cpu, strict=True)]
    report(singles, loops, loads, cpu)


def report(singles: list[Seconds], loops: list[Seconds], loads: list[Seconds], cpu: list[float]) -> None:
    def median(values: Iterable[float]) -> float:
        return round(statistics.median(values), 3)

    throughput = median(seconds.tls / seconds.ours for seconds in loads)
    roundtrip = median(seconds.ours / seconds.tls for seconds in singles)
    megabytes = LOADS * LARGE / 1e6
    figures = {
        "benchmark": "transport",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "tls_roundtrip_ms": median(1000 * seconds.tls for seconds in singles),
        "our_roundtrip_ms": median(1000 * seconds.ours for seconds in singles),
        "tight_loop_roundtrip_vs_tls": median(seconds.ours / seconds.tls for seconds in loops),
        "tls_megabytes_per_second": median(megabytes / seconds.tls for seconds in loads),
        "our_megabytes_per_second": median(megabytes / seconds.ours for seconds in loads),
        "tls_cpu_seconds": round(cpu[0], 2),
        "our_cpu_seconds": round(cpu[1], 2),
    }
    bars = [
        {
            "name": "throughput_vs_tls",
            "value": throughput,
            "bar": THROUGHPUT_BAR,
            "holds": throughput >= THROUGHPUT_BAR,
        },
        {"name": "roundtrip_vs_tls", "value": roundtrip, "bar": ROUNDTRIP_BAR, "holds": roundtrip <= ROUNDTRIP_BAR},
    ]
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
