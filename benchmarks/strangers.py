"""What strangers can do to a party during a job: 20,000 connections of each kind, and the job continues.

A `train` job on example data, every party in its own process, connected by TLS. Once the active party is learning,
another process opens connections to its address, of one kind in each run:

- `close`: connects and hangs up
- `reset`: the same, with a reset instead of an orderly close
- `garbage`: a few hundred random bytes
- `http`: a request for a web page
- `half`: the beginning of a TLS handshake, then silence
- `idle`: nothing at all

Silent connections stay open until the party hangs up on them. The flood shares the machine's cores with the parties, so
it is paced: spread evenly over three fifths of the time that learning takes without it, at a lower priority. Its own
CPU seconds are reported apart from those of the parties. `job_slowdown` is the learning time under the flood, from its
first connection to the end of the job, over that of an undisturbed run just before; the worst kind counts. A kind is
survived if all its connections were made while the job ran, and the job ended with the same result at every party.
"""

from __future__ import annotations

import json
import os
import random
import resource
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from unpooled.data import example
from unpooled.errors import UnpooledError
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.files import load_plan
from unpooled.jobs.plan import Plan
from unpooled.run.spawn import books_in, spawn

CONNECTIONS = 20_000
ROWS, TREES = 4_000, 450
SHARE_OF_THE_JOB, NICE = 0.6, 5
MOST_OPEN = 4_000
SLOWDOWN_BAR = 1.5
VICTIM = "bank"


# the strangers, in a process of their own


def close(caller: socket.socket) -> bool:
    caller.close()
    return False


def reset(caller: socket.socket) -> bool:
    caller.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    caller.close()
    return False


def garbage(caller: socket.socket) -> bool:
    caller.send(random.randbytes(300))
    return True


def http(caller: socket.socket) -> bool:
    caller.send(b"GET / HTTP/1.1\r\nHost: bank\r\nUser-Agent: stranger\r\n\r\n")
    return True


def half(caller: socket.socket) -> bool:
    caller.send(HELLO)
    return True


def idle(caller: socket.socket) -> bool:  # noqa: ARG001
    return True


KINDS: dict[str, Callable[[socket.socket], bool]] = {
    kind.__name__: kind for kind in (close, reset, garbage, http, half, idle)
}
"""What a stranger does with its connection, and whether it stays."""


def hello() -> bytes:
    context, outgoing = ssl.create_default_context(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=VICTIM).do_handshake()
    return outgoing.read()


HELLO = hello()


def flood(kind: str, host: str, port: int, count: int, seconds: float) -> dict[str, Any]:
    """Open so many connections in so many seconds, evenly; how many came about until nobody listened any more."""
    os.nice(NICE)
    opened: deque[socket.socket] = deque()
    made, began = 0, time.monotonic()
    while made < count:
        if time.monotonic() - began < seconds * made / count:
            time.sleep(0.001)
            continue
        try:
            caller = socket.create_connection((host, port), timeout=5)
        except ConnectionRefusedError:
            break
        except OSError:
            continue
        made += 1
        try:
            stays = KINDS[kind](caller)
        except OSError:  # it was hung up on already
            stays = True
        if stays:
            opened.append(caller)
            if len(opened) > MOST_OPEN:
                opened.popleft().close()
    taken = time.monotonic() - began
    for caller in opened:
        caller.close()
    return {"made": made, "seconds": taken, "cpu_seconds": time.process_time()}


# the job


class Run(NamedTuple):
    """What came of a job: how long it learned, the parties' CPU seconds, its result, and the flood's own account."""

    seconds: float
    cpu_seconds: float
    result: Any
    flood: Mapping[str, Any]


def run(folder: Path, kind: str = "", seconds: float = 0.0) -> Run:
    """Run the job, and while it learns let strangers of a kind call for some time."""
    job = example_job("train")
    plan = job.plan.model_copy(update={"parameters": {"model": {"classes": 0, "trees": TREES}}})
    account: dict[str, Any] = {}
    learning = threading.Event()
    began = [0.0]

    def call() -> None:
        ledger = folder / VICTIM / "ledger.jsonl"
        while not (ledger.exists() and '"scope": "fit' in ledger.read_text()):
            time.sleep(0.02)
        began[0] = time.monotonic()
        learning.set()
        if kind:
            host, _, port = address_of(load_plan(folder / "plan.toml")).rpartition(":")
            words = [sys.executable, __file__, kind, host, port, str(CONNECTIONS), str(seconds)]
            account.update(json.loads(subprocess.run(words, capture_output=True, check=True, text=True).stdout))

    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        result: Any = spawn(plan, job.privates, folder, books=books_in(folder))
    except UnpooledError as error:
        result = str(error)
    ended = time.monotonic()
    if learning.is_set():
        calling.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime - account.get("cpu_seconds", 0.0)
    return Run(ended - began[0], cpu, comparable(result), account)


def address_of(plan: Plan) -> str:
    address = plan.parties[VICTIM].address
    assert address is not None, "spawn gives every party an address"
    return address


def comparable(result: Any) -> Any:
    """A result without the digest of the rows, which is salted anew in every run."""
    if isinstance(result, Mapping):
        return {key: comparable(value) for key, value in result.items() if key != "digest"}
    return result


def main() -> None:
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as name, console.status("running") as status:
        folder = Path(name)
        os.chdir(folder)
        example.write(folder, rows=ROWS)
        calm, runs = {}, {}
        for kind in KINDS:
            status.update(f"before {kind}")
            calm[kind] = run(folder / f"before-{kind}")
            status.update(kind)
            runs[kind] = run(folder / kind, kind, SHARE_OF_THE_JOB * calm[kind].seconds)
    print(json.dumps(report(calm, runs)))


def report(calm: Mapping[str, Run], runs: Mapping[str, Run]) -> dict[str, Any]:
    slowdown = {kind: round(run.seconds / calm[kind].seconds, 3) for kind, run in runs.items()}
    survived = {
        kind: int(run.result == calm[kind].result and run.flood.get("made") == CONNECTIONS)
        for kind, run in runs.items()
    }
    worst = max(slowdown.values())
    bars = [
        {"name": f"strangers_survived_{kind}", "value": value, "bar": 1, "holds": value == 1}
        for kind, value in survived.items()
    ]
    bars.append({"name": "job_slowdown", "value": worst, "bar": SLOWDOWN_BAR, "holds": worst <= SLOWDOWN_BAR})
    return {
        "benchmark": "strangers",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "connections": {kind: run.flood.get("made", 0) for kind, run in runs.items()},
        "connections_per_second": {
            kind: round(run.flood["made"] / run.flood["seconds"]) for kind, run in runs.items() if run.flood
        },
        "pace": f"evenly over {SHARE_OF_THE_JOB:g} of the undisturbed learning time, in a process with nice {NICE}",
        "same_result": {kind: run.result == calm[kind].result for kind, run in runs.items()},
        "undisturbed_seconds": {kind: round(run.seconds, 2) for kind, run in calm.items()},
        "seconds": {kind: round(run.seconds, 2) for kind, run in runs.items()},
        "slowdown": slowdown,
        "undisturbed_cpu_seconds": {kind: round(run.cpu_seconds, 2) for kind, run in calm.items()},
        "parties_cpu_seconds": {kind: round(run.cpu_seconds, 2) for kind, run in runs.items()},
        "strangers_cpu_seconds": {kind: round(run.flood.get("cpu_seconds", 0.0), 2) for kind, run in runs.items()},
        "bars": bars,
    }


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(flood(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))))
    else:
        main()
