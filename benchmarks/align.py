"""How long two parties take to find their common ids, compared with the bare arithmetic, and how much memory.

Each party is its own process, connected by mutual TLS, and reads its table as `unpooled join` would. Time runs from the
moment both are connected until the asker has its matches. It includes starting worker processes, which every run does
again. The matches of every run are compared with those of plain sets.

With `aided` there are three processes: two owners, and the coordinator, which compares. Time runs from the moment all
are connected until the last of them is done; that includes the comparison of the rows' digests.

The floor is a lower limit for blind RSA: a signature of every id of both sides, divided evenly among all cores, at the
rate of a bare loop of signatures on one core, before and after the run. As in a real run, signatures are made with
`gmpy2.powmod_sec`, whose time does not reveal the key, with all cores busy. Reported in addition: the same with
`powmod`, which is faster and reveals the key's bits to others on the same machine, with all cores and with one.

Memory is that of a party with its worker processes: the sum of all resident pages, from before it reads its table until
it is done; pages that processes share count for each. It is read from /proc, so this runs on Linux only. `aided` starts
no workers, so that a party's memory is its process's own high-water mark.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import secrets
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import gmpy2
import numpy as np
import polars as pl
from gmpy2 import mpz
from numpy.typing import NDArray
from rich.console import Console

from transport import free_port
from unpooled.align.opening import Limits
from unpooled.align.rows import POSITIVE, Aligned, Method, Places, Psi, find_common, help_find_common, help_label, label
from unpooled.align.rsa import make_key
from unpooled.data.prepare import PrepareSettings, clean
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.ledger import Ledger
from unpooled.session import Session
from unpooled.transport.certificates import make_trial
from unpooled.transport.mailbox import Mailbox
from unpooled.transport.network import Addresses, NetworkTransport
from unpooled.transport.trust import load_identity
from unpooled.workers import cores

ASKER, ANSWERER, COORDINATOR = "bank", "shop", "coordinator"
KEY_BITS = 2048
IDS, MANY_IDS = 50_000, 1_000_000
QUICK_IDS, QUICK_MANY_IDS = 2_000, 20_000
AIDED_IDS, ECDH_IDS, MOST_IDS = 1_000_000, 20_000, 10_000_000
QUICK_AIDED_IDS, QUICK_ECDH_IDS, QUICK_MOST_IDS = 20_000, 2_000, 100_000
AIDED_RUNS = 3
FLOOR_ROUNDS, SIGNATURES_IN_A_ROUND = 8, 400
ECDH_RUNS = 2  # before blind RSA, and as many after it, since a machine's speed drifts
FLOOR_BAR, ECDH_BAR, MEMORY_BAR = 0.75, 6.0, 1.5
AIDED_BAR, MOST_MEMORY_BAR = 3.0, 2.0
GLANCE_SECONDS = 0.1
START_SECONDS, TIMEOUT = 300.0, 60.0

Ids = NDArray[np.int64]


class Part(NamedTuple):
    """What a party reports: how long its role took, the CPU time of its processes, and which rows it found."""

    seconds: float
    own_cpu: float
    workers_cpu: float
    machine_cpu: float
    found: NDArray[np.int64] | None


class Run(NamedTuple):
    """One alignment: the asker's time, the CPU time of both parties, of their workers alone and of all that had nothing
    to do with it, and each party's memory if it was watched."""

    seconds: float
    cpu: float
    workers_cpu: float
    others_cpu: float
    peak_gb: dict[str, float]
    high_water_gb: dict[str, float]


# the floor


Rates = dict[str, list[float]]


def rates_on_all_cores() -> Rates:
    """Signatures a second on each core while all of them sign."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(cores()) as pool:
        pool.map(signing_rates, [1] * cores(), 1)  # until every process is there
        measured = pool.map(signing_rates, [FLOOR_ROUNDS] * cores(), 1)
    return {name: [rate for rates in measured for rate in rates[name]] for name in measured[0]}


def signing_rates(rounds: int) -> Rates:
    """Signatures a second in this process, by the bare arithmetic of the Chinese remainder theorem."""
    key = make_key(KEY_BITS)
    p, q, d_p, d_q, q_inverse = map(mpz, (key.p, key.q, key.d_p, key.d_q, key.q_inverse))

    def rate(power: Callable[[mpz, mpz, mpz], mpz]) -> float:
        values = [mpz(secrets.randbelow(key.n)) for _ in range(SIGNATURES_IN_A_ROUND)]
        start = time.perf_counter()
        for value in values:
            from_p, from_q = power(value % p, d_p, p), power(value % q, d_q, q)
            from_q + (from_p - from_q) * q_inverse % p * q
        return len(values) / (time.perf_counter() - start)

    in_turns = [(rate(gmpy2.powmod), rate(gmpy2.powmod_sec)) for _ in range(rounds)]
    return {"powmod": [one for one, _ in in_turns], "powmod_sec": [other for _, other in in_turns]}


# a party


def take_part(party: str, psi: Psi, folder: Path, ports: Mapping[str, int], linked: Any, outcome: Connection) -> None:
    """A party's process, from its table to its matches."""
    table = None
    if party != COORDINATOR:
        settings = TableSettings(path=folder / f"{party}.csv", id=("id",))
        table, _ = clean(load(settings, party), PrepareSettings())
    session = open_session(folder, party, ports)
    linked.wait(START_SECONDS)
    start, cpu_start, machine_start = time.perf_counter(), time.process_time(), machine_cpu()
    found = align(session, psi, table)
    seconds, own_cpu, in_all = time.perf_counter() - start, time.process_time() - cpu_start, machine_cpu()
    outcome.send(Part(seconds, own_cpu, workers_cpu(), in_all - machine_start, found))
    session.finish()
    for worker in multiprocessing.active_children():  # they are idle, and this process would wait until they leave
        worker.terminate()


def open_session(folder: Path, party: str, ports: Mapping[str, int]) -> Session:
    """A party's session; each party listens, and dials those before it."""
    addresses, parties = {name: f"127.0.0.1:{port}" for name, port in ports.items()}, list(ports)
    before = parties[: parties.index(party)]
    ledger = Ledger(folder / f"{party}.jsonl", party, "benchmark")
    mailbox = Mailbox(party, tuple(name for name in parties if name != party), ledger)
    where = Addresses(addresses[party], {name: addresses[name] for name in before})
    transport = NetworkTransport(load_identity(folder / party, party), mailbox, where, START_SECONDS)
    session = Session(transport, ledger, seed=0, timeout=TIMEOUT)
    session.open()
    session.agreed()
    return session


def align(session: Session, psi: Psi, table: Table | None) -> NDArray[np.int64] | None:
    """A party's role; the asker gets its rows that the other has, with `aided` both owners do."""
    method, limits, party = Method(psi, KEY_BITS), Limits(), session.party
    if psi == "aided":
        places = Places(ASKER, (ANSWERER,), None, COORDINATOR)
        if table is None:
            help_find_common(session, places, method, limits)
            return None
        return find_common(session, places, table, method, limits).rows
    assert table is not None
    places = Places(ASKER, seeker=ANSWERER)
    if party != ASKER:
        help_label(session, places, table, method, limits)
        return None
    everything = Aligned(np.arange(table.frame.height), digest="")
    return np.flatnonzero(label(session, places, table, everything, method, limits) == POSITIVE)


# what processes use


def machine_cpu() -> float:
    """The CPU seconds that this machine has spent on anything, and those that its host withheld."""
    user, nice, system, _idle, _wait, interrupts, soft, stolen = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, interrupts, soft, stolen))) / os.sysconf("SC_CLK_TCK")


def workers_cpu() -> float:
    """The CPU seconds of the processes that this one has started, and of those that they have."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ticks = sum(sum(map(int, stat(pid)[11:15])) for pid in tree(os.getpid()) if pid != os.getpid())
    return ended.ru_utime + ended.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def stat(pid: int | str) -> list[str]:
    """What the system says of a process, from its state on; zeros for one that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ["0"] * 50


def tree(root: int) -> list[int]:
    """A process and all that descend from it."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        children.setdefault(int(stat(folder.name)[1]), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def resident(pid: int) -> tuple[int, int]:
    """How many bytes of a process are in memory, and how many were at most; nothing of one that has ended."""
    fields = {}
    with suppress(OSError):
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    now, most = (1024 * int(fields.get(name, "0 kB").split()[0]) for name in ("VmRSS", "VmHWM"))
    return now, most


class Peaks:
    """The largest memory seen of some processes with all that descend from them, in bytes."""

    def __init__(self, roots: Mapping[str, int]) -> None:
        self.roots = roots
        self.at_once = dict.fromkeys(roots, 0)
        self._most: dict[str, dict[int, int]] = {name: {} for name in roots}

    @property
    def high_water(self) -> dict[str, int]:
        """Each process at its own largest, added up: an upper bound, which no moment between two glances escapes."""
        return {name: sum(most.values()) for name, most in self._most.items()}

    def glance(self) -> None:
        for name, root in self.roots.items():
            total = 0
            for pid in tree(root):
                now, most = resident(pid)
                total += now
                self._most[name][pid] = max(most, self._most[name].get(pid, 0))
            self.at_once[name] = max(self.at_once[name], total)


@contextmanager
def watching(peaks: Peaks) -> Iterator[None]:
    """Glance again and again while the block runs."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(GLANCE_SECONDS):
            peaks.glance()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# a run


def made_up_ids(count: int) -> dict[str, Ids]:
    """Each party's ids, of 7 to 12 digits; half of them are in common."""
    rng = np.random.default_rng(count)
    digits = rng.integers(7, 13, 2 * count)
    numbers = np.unique(rng.integers(10 ** (digits - 1), 10**digits))
    chosen = rng.permutation(numbers)[: count + count // 2]
    if len(chosen) < count + count // 2:
        raise ValueError("too many ids were drawn twice")
    return {ASKER: rng.permutation(chosen[:count]), ANSWERER: rng.permutation(chosen[-count:])}


def run(psi: Psi, count: int, *, watch_memory: bool = False) -> Run:
    """Align once, each party in a fresh process, and compare what the asker found with plain sets."""
    ids = made_up_ids(count)
    context = multiprocessing.get_context("spawn")
    ports = {party: free_port() for party in (*ids, *([COORDINATOR] if psi == "aided" else []))}
    linked = context.Barrier(len(ports))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_trial(folder, list(ports))
        processes, outcomes = {}, {}
        for party, column in ids.items():
            pl.DataFrame({"id": column}).write_csv(folder / f"{party}.csv")
        for party in ports:
            outcomes[party], theirs = context.Pipe(duplex=False)
            processes[party] = context.Process(target=take_part, args=(party, psi, folder, ports, linked, theirs))
            processes[party].start()
            theirs.close()  # so that a party that fails ends the wait for its outcome
        peaks = Peaks({party: process.pid or 0 for party, process in processes.items()} if watch_memory else {})
        with watching(peaks):
            parts: dict[str, Part] = {party: outcome.recv() for party, outcome in outcomes.items()}
        for process in processes.values():
            process.join()
    check(ids, {party: part.found for party, part in parts.items() if part.found is not None})
    of_workers = sum(part.workers_cpu for part in parts.values())
    in_all = of_workers + sum(part.own_cpu for part in parts.values())
    return Run(
        max(part.seconds for part in parts.values()) if psi == "aided" else parts[ASKER].seconds,
        in_all,
        of_workers,
        parts[ASKER].machine_cpu - in_all,
        {party: size / 1e9 for party, size in peaks.at_once.items()},
        {party: size / 1e9 for party, size in peaks.high_water.items()},
    )


def check(ids: Mapping[str, Ids], found: Mapping[str, NDArray[np.int64]]) -> None:
    """Refuse to report the time of a wrong result."""
    common = np.intersect1d(ids[ASKER], ids[ANSWERER], assume_unique=True)
    if ASKER not in found or any(
        not np.array_equal(np.sort(ids[party][rows]), common) for party, rows in found.items()
    ):
        raise SystemExit("the ids found are not those that plain sets have in common")


# the measurement


def compare(count: int, say: Callable[[str], None]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Blind RSA beside its floor, and ECDH beside blind RSA."""
    say(f"ECDH, {count:,} ids a side")
    ecdh = [run("ecdh", count) for _ in range(ECDH_RUNS)]
    say("signing, on one core and on all")
    alone = signing_rates(FLOOR_ROUNDS)["powmod"]
    before = rates_on_all_cores()
    say(f"blind RSA, {count:,} ids a side")
    blind_rsa = run("blind-rsa", count)
    say("signing, on one core and on all")
    after = rates_on_all_cores()
    alone += signing_rates(FLOOR_ROUNDS)["powmod"]
    say(f"ECDH, {count:,} ids a side")
    ecdh += [run("ecdh", count) for _ in range(ECDH_RUNS)]
    rates = {name: statistics.median(before[name] + after[name]) for name in before}
    floors = {name: 2 * count / (cores() * rate) for name, rate in rates.items()}
    ecdh_seconds = statistics.median(one.seconds for one in ecdh)
    figures = {
        "ids_a_side": count,
        "signatures_per_second_powmod_quartiles": spread(before["powmod"] + after["powmod"]),
        "signatures_per_second_powmod_sec_quartiles": spread(before["powmod_sec"] + after["powmod_sec"]),
        "floor_seconds_powmod": round(floors["powmod"], 2),
        "floor_seconds_powmod_sec": round(floors["powmod_sec"], 2),
        "signatures_per_second_powmod_alone_quartiles": spread(alone),
        "blind_rsa": taken(blind_rsa),
        "blind_rsa_vs_floor_powmod_alone": round(
            2 * count / (cores() * statistics.median(alone)) / blind_rsa.seconds, 3
        ),
        "blind_rsa_vs_floor_powmod": round(floors["powmod"] / blind_rsa.seconds, 3),
        "blind_rsa_cpu_vs_floor": round(cores() * floors["powmod_sec"] / blind_rsa.cpu, 3),
        "ecdh": [taken(one) for one in ecdh],
        "ecdh_vs_blind_rsa_cpu": round(blind_rsa.cpu / statistics.median(one.cpu for one in ecdh), 2),
    }
    of_floor, times = floors["powmod_sec"] / blind_rsa.seconds, blind_rsa.seconds / ecdh_seconds
    return figures, [
        {"name": "blind_rsa_vs_floor", "value": round(of_floor, 3), "bar": FLOOR_BAR, "holds": of_floor >= FLOOR_BAR},
        {"name": "ecdh_vs_blind_rsa", "value": round(times, 2), "bar": ECDH_BAR, "holds": times >= ECDH_BAR},
    ]


def many(count: int, say: Callable[[str], None]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How much memory long lists take."""
    say(f"ECDH, {count:,} ids a side, watching memory")
    done = run("ecdh", count, watch_memory=True)
    peak = max(done.peak_gb.values())
    figures = {
        "many_ids_a_side": count,
        "many": taken(done),
        "many_peak_gb": {party: round(size, 3) for party, size in done.peak_gb.items()},
        "many_high_water_gb": {party: round(size, 3) for party, size in done.high_water_gb.items()},
    }
    return figures, [
        {"name": "million_memory_gb", "value": round(peak, 3), "bar": MEMORY_BAR, "holds": peak <= MEMORY_BAR}
    ]


def aided(counts: tuple[int, int, int], say: Callable[[str], None]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """How long `aided` takes beside ECDH, and how much memory for very long lists."""
    count, ecdh_count, most = counts
    runs = []
    for _ in range(AIDED_RUNS):
        say(f"aided, {count:,} ids a side")
        runs.append(run("aided", count))
    say(f"ECDH, {ecdh_count:,} ids a side")
    ecdh = run("ecdh", ecdh_count)
    say(f"aided, {most:,} ids a side, watching memory")
    large = run("aided", most, watch_memory=True)
    seconds = statistics.median(one.seconds for one in runs)
    peak = max(large.high_water_gb.values())
    times = count / ecdh_count
    figures = {
        "aided_ids_a_side": count,
        "aided": [taken(one) for one in runs],
        "ecdh_extrapolated": {
            "measured_ids_a_side": ecdh_count,
            "measured": taken(ecdh),
            "ids_a_side": count,
            "seconds": round(ecdh.seconds * times, 1),
            "cpu": round(ecdh.cpu * times, 1),
        },
        "aided_most_ids_a_side": most,
        "aided_most": taken(large),
        "aided_most_high_water_gb": {party: round(size, 3) for party, size in large.high_water_gb.items()},
    }
    return figures, [
        {"name": "aided_million_s", "value": round(seconds, 2), "bar": AIDED_BAR, "holds": seconds <= AIDED_BAR},
        {
            "name": "aided_ten_million_gb",
            "value": round(peak, 3),
            "bar": MOST_MEMORY_BAR,
            "holds": peak <= MOST_MEMORY_BAR,
        },
    ]


def taken(one: Run) -> dict[str, float]:
    """What a run took, in seconds."""
    return {
        "seconds": round(one.seconds, 2),
        "cpu": round(one.cpu, 2),
        "workers_cpu": round(one.workers_cpu, 2),
        "others_cpu": round(one.others_cpu, 2),
    }


def spread(rates: Iterable[float]) -> list[float]:
    """The slowest round, the quartiles and the fastest: how steady the machine was."""
    return [round(float(rate), 1) for rate in np.quantile(list(rates), (0, 0.25, 0.5, 0.75, 1))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few ids, to try it out: the bars do not hold then")
    parser.add_argument("--only", choices=("compare", "many", "aided"), help="one part of it alone")
    options = parser.parse_args()
    os.environ.pop("LOKY_MAX_CPU_COUNT", None)  # the floor is that of all cores, and so are the runs
    figures: dict[str, Any] = {
        "benchmark": "align",
        "quick": options.quick,
        "cores": cores(),
        "python": sys.version.split()[0],
        **{package: version(package) for package in ("gmpy2", "rbcl", "cryptography")},
        "gmp": gmpy2.mp_version(),
        "load_before": round(os.getloadavg()[0], 2),
    }
    bars: list[dict[str, Any]] = []
    few, lists = (QUICK_IDS, QUICK_MANY_IDS) if options.quick else (IDS, MANY_IDS)
    long = (QUICK_AIDED_IDS, QUICK_ECDH_IDS, QUICK_MOST_IDS) if options.quick else (AIDED_IDS, ECDH_IDS, MOST_IDS)
    parts: dict[str, Callable[[Callable[[str], None]], tuple[dict[str, Any], list[dict[str, Any]]]]] = {
        "compare": partial(compare, few),
        "many": partial(many, lists),
        "aided": partial(aided, long),
    }
    with Console(stderr=True).status("measuring") as status:
        for part, measure in parts.items():
            if options.only in (None, part):
                more_figures, more_bars = measure(status.update)
                figures |= more_figures
                bars += more_bars
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
