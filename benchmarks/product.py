"""What secure products cost: CPU seconds of all roles together, seconds, and bytes between each two parties.

The products are those of a tree of 6 levels: g and h of 16 bits and a sign at the bank, 12 columns of 32 bins at the
telco. A level asks about one of each two siblings, since the other follows by subtraction: 1, 1, 2, 4, 8 and 16 nodes,
and from the second level on about half of the rows are outside all of them. g and h have a name, so that they are
prepared once per tree. Every way gets the same trees, and must give the sums of a bare loop.

A run is a few trees in a row, with all roles as threads. The first tree includes keys, tables and worker processes and
is reported separately; each other one is measured from the end of the previous one. Runs of different ways take turns,
and figures are medians. CPU seconds include worker processes. Bytes are those of all messages about products; those of
the first tree come from a run of that tree alone, those of each other one are an equal part of the difference.

`shares` is measured in four ways: the rows moved into the telco's order (`moved`, for which the bars are); the same,
with a whole tree's random numbers dealt at its beginning (`ahead`); with a name for the bins as well, so that they can
be opened once for all trees and the engine chooses for each level (`named`); and with nodes hidden from the telco
(`hidden`). The last two hold the bins as a matrix of zeros and ones and are left out if memory is short. Trees of a
forest grow in lockstep, with a batch of calls for each level of all: `together` is such a batch of trees, per tree.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import secrets
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import gmpy2
import numpy as np
from gmpy2 import mpz
from numpy.typing import NDArray
from rich.console import Console

from unpooled import control
from unpooled.arrays import Ints, Ints32
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.secure.calls import Call, Inputs, OneHot
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.paillier.keys import encrypt, make_key, noise_table, noises
from unpooled.secure.product import finish, product, serve
from unpooled.secure.shares.engine import announce
from unpooled.session import Session

KEY_BITS = 2048
LEVELS, COLUMNS, BINS = 6, 12, 32
BOUND = 2**16 - 1
QUESTIONS = 10_000
ENCRYPTIONS, TEXTBOOK_ENCRYPTIONS, ENCRYPTION_TURNS = 200, 20, 15
SMALL, MIDDLE = 1_000, 25_000
TREES_AND_TURNS = {SMALL: (11, 5), MIDDLE: (4, 3), 200_000: (3, 1)}
PAILLIER_TREES = 4
TOGETHER_ROWS, TOGETHER, TOGETHER_STEPS, TOGETHER_TURNS = 4_000, 10, 4, 3
MATRICES_IN_MEMORY = 6  # of rows × all bins, at the most, when the bins are opened
ENCRYPT_BAR, TREE_BAR, SHARES_BAR, PLAIN_BAR = 8.0, 7.0, 100.0, 100.0

Bins = NDArray[np.uint16]
Way = Literal["plain", "paillier", "moved", "ahead", "named", "hidden"]


class Tree(NamedTuple):
    """g and h, and for each level how many nodes are asked about and every row's node."""

    y: Ints
    levels: list[tuple[int, Ints32]]


class Work(NamedTuple):
    """Some trees on the same rows."""

    bins: Bins
    trees: list[Tree]


class Taken(NamedTuple):
    """What one tree took."""

    cpu: float
    seconds: float


class Run(NamedTuple):
    """What the first tree took, what each other one took, and how many bytes all sent, by sender and receiver."""

    first: Taken
    others: list[Taken]
    sent: Counter[str]


def cpu_seconds() -> float:
    """Of this process, of its worker processes and of those that have ended; Linux has a clock for each process."""
    workers = [worker.pid for worker in multiprocessing.active_children() if worker.pid]  # which reaps the others
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    at_work = sum(time.clock_gettime(~process << 3 | 2) for process in workers)
    return time.process_time() + ended.ru_utime + ended.ru_stime + at_work


# the products


def make_work(rows: int, trees: int) -> Work:
    rng = np.random.default_rng(rows)
    return Work(rng.integers(0, BINS, (rows, COLUMNS), np.uint16), [make_tree(rows, rng) for _ in range(trees)])


def make_tree(rows: int, rng: np.random.Generator) -> Tree:
    g, h = rng.integers(-BOUND, BOUND + 1, rows), rng.integers(0, BOUND + 1, rows)
    parent = np.zeros(rows, np.int32)
    levels = [(1, parent)]
    for level in range(LEVELS - 1):
        goes_right = rng.integers(0, 2, rows, np.int32)
        levels.append((2**level, np.where(goes_right, np.int32(-1), parent)))
        parent = 2 * parent + goes_right
    return Tree(np.stack([g, h], axis=1), levels)


def calls_of(work: Work, number: int, way: Way) -> list[Call]:
    """A tree's calls, level by level."""
    lefts = [OneHot((BINS,) * COLUMNS, nodes, hidden=way == "hidden") for nodes, _ in work.trees[number].levels]
    x, y = "bins" if way in ("named", "hidden") else "", f"tree {number}"
    return [Call((("telco", "bank"),), "bank", len(work.bins), left, 2, BOUND, x=x, y=y) for left in lefts]


def bare_loop(work: Work, tree: Tree) -> list[Ints]:
    """The same sums with nothing around them, as with all data in one place."""
    results = []
    for count, nodes in tree.levels:
        inside = np.flatnonzero(nodes >= 0)
        node, y = nodes[inside].astype(np.int64), tree.y[inside].astype(float)
        sums = np.empty((count, COLUMNS, BINS, 2))
        for column in range(COLUMNS):
            place = node * BINS + work.bins[inside, column]
            for k in range(2):
                sums[:, column, :, k] = np.bincount(place, y[:, k], count * BINS).reshape(count, BINS)
        results.append(sums.reshape(count, COLUMNS * BINS, 2).astype(np.int64))
    return results


# the roles


def opened(session: Session, way: Way) -> Engine:
    rules = Rules(way if way in ("plain", "paillier") else "shares", key_bits=KEY_BITS, questions=QUESTIONS)
    return open_engine(session, rules, ("telco", "bank"), driver="bank", coordinator="coordinator")


def steps_of(work: Work, way: Way, together: int) -> Iterator[list[list[tuple[Call, Tree, Ints32]]]]:
    """So many trees at a time: the calls of each level, with their trees and nodes."""
    for first in range(0, len(work.trees), together):
        trees = [(calls_of(work, number, way), work.trees[number]) for number in range(first, first + together)]
        yield [[(calls[level], tree, tree.levels[level][1]) for calls, tree in trees] for level in range(LEVELS)]


def telco(work: Work, way: Way, together: int, session: Session) -> None:
    engine = opened(session, way)
    for levels in steps_of(work, way, together):
        for batch in levels:
            known = [(call, None if way == "hidden" else nodes) for call, _, nodes in batch]
            product(engine, [(call, Inputs(x=work.bins, nodes=nodes)) for call, nodes in known])


def bank(work: Work, way: Way, together: int, session: Session) -> tuple[list[Taken], list[list[Ints | None]]]:
    """What each step took, and for each tree its sums."""
    marks = [Taken(cpu_seconds(), time.perf_counter())]
    engine = opened(session, way)
    results: list[list[Ints | None]] = []
    for levels in steps_of(work, way, together):
        if way == "ahead":
            announce(engine, [[call for call, _, _ in batch] for batch in levels])
        shown = [product(engine, [(c, Inputs(y=tree.y, nodes=nodes)) for c, tree, nodes in batch]) for batch in levels]
        results += map(list, zip(*shown, strict=True))
        marks.append(Taken(cpu_seconds(), time.perf_counter()))
    finish(engine)
    return [Taken(end.cpu - begin.cpu, end.seconds - begin.seconds) for begin, end in pairwise(marks)], results


def coordinator(way: Way, session: Session) -> None:
    serve(opened(session, way))


# the measurement


def run(work: Work, way: Way, expected: Sequence[Sequence[Ints]], together: int = 1) -> Run:
    """All trees, one after the other or so many together; sums that are not as expected end everything."""
    roles: dict[str, Callable[[Session], Any]] = {
        "telco": partial(telco, work, way, together),
        "bank": partial(bank, work, way, together),
        "coordinator": partial(coordinator, way),
    }
    outcome = simulate_roles(roles, timeout=600)
    taken, results = outcome.results["bank"]
    pairs = [pair for tree in zip(results, expected, strict=True) for pair in zip(*tree, strict=True)]
    if not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
        raise RuntimeError(f"'{way}' gives other sums than a bare loop over the same {len(work.bins)} rows")
    return Run(taken[0], taken[1:], sent_by(outcome.ledgers))


def sent_by(ledgers: Mapping[str, Record]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for party, record in ledgers.items():
        for entry in record.entries:
            if entry.way == "sent" and entry.kind not in control.KINDS and entry.scope != "seeds":
                sizes[f"{party} to {entry.peer}"] += entry.bytes
    return sizes


def in_turns(work: Work, ways: Iterable[Way], turns: int) -> dict[Way, list[Run]]:
    """Runs of each way; the first is of one tree alone."""
    expected = [bare_loop(work, tree) for tree in work.trees]
    alone = work._replace(trees=work.trees[:1])
    runs = {way: [run(alone, way, expected[:1])] for way in ways}
    for _ in range(turns):
        for way, made in runs.items():
            made.append(run(work, way, expected))
    return runs


def together_cpu() -> float:
    """CPU seconds a tree takes where several grow in step."""
    work = make_work(TOGETHER_ROWS, TOGETHER * TOGETHER_STEPS)
    expected = [bare_loop(work, tree) for tree in work.trees]
    return cpu_of(run(work, "moved", expected, TOGETHER) for _ in range(TOGETHER_TURNS)) / TOGETHER


def fits_in_memory(rows: int) -> bool:
    """Whether half of the memory is enough to open the bins."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MATRICES_IN_MEMORY * 8 * rows * COLUMNS * BINS < memory / 2


def bare_loop_cpu(work: Work) -> float:
    marks = [time.process_time()]
    for tree in work.trees:
        bare_loop(work, tree)
        marks.append(time.process_time())
    return statistics.median(end - begin for begin, end in pairwise(marks))


class Encryption(NamedTuple):
    """Encryptions a second on one core."""

    ours: float
    textbook: float


def encryption_turns() -> list[Encryption]:
    """With noise from a table, which is there already, and as (1 + m n) · rⁿ mod n² with a random r."""
    public = make_key(KEY_BITS).public
    n, n_squared, table = public.n, public.n_squared, noise_table(public)
    plaintexts = [secrets.randbits(54) for _ in range(ENCRYPTIONS)]
    turns = []
    for _ in range(ENCRYPTION_TURNS):
        begin = time.process_time()
        encrypt(public, plaintexts, noises(table, ENCRYPTIONS))
        between = time.process_time()
        for m in plaintexts[:TEXTBOOK_ENCRYPTIONS]:
            _ = (1 + m * n) * gmpy2.powmod(mpz(secrets.randbelow(int(n))), n, n_squared) % n_squared
        end = time.process_time()
        turns.append(Encryption(ENCRYPTIONS / (between - begin), TEXTBOOK_ENCRYPTIONS / (end - between)))
    return turns


def main() -> None:
    if sys.platform != "linux":
        os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # no worker processes where their clocks cannot be read
    runs: dict[int, dict[Way, list[Run]]] = {}
    loops: dict[int, float] = {}
    with Console(stderr=True).status("measuring encryption") as status:
        encryptions = encryption_turns()
        for rows, (trees, turns) in TREES_AND_TURNS.items():
            status.update(f"measuring products over {rows} rows")
            work = make_work(rows, trees)
            ways: list[Way] = ["plain", "moved", "ahead"]
            ways += ["named", "hidden"] if fits_in_memory(rows) else []
            runs[rows] = in_turns(work, ways, turns)
            loops[rows] = bare_loop_cpu(work)
            if rows == SMALL:
                runs[rows] |= in_turns(work._replace(trees=work.trees[:PAILLIER_TREES]), ["paillier"], turns=1)
        status.update(f"measuring {TOGETHER} trees together")
        together = together_cpu()
    report(encryptions, runs, loops, together)


def cpu_of(runs: Iterable[Run]) -> float:
    return statistics.median(tree.cpu for run in runs for tree in run.others)


def figures_of(runs: Sequence[Run], plain: Sequence[Run]) -> dict[str, Any]:
    alone, several = runs[0].sent, runs[1]
    return {
        "cpu_seconds": round(cpu_of(runs), 4),
        "cpu_vs_plain": round(cpu_of(runs) / cpu_of(plain), 1),
        "seconds": round(statistics.median(tree.seconds for run in runs for tree in run.others), 4),
        "bytes": {pair: round((size - alone[pair]) / len(several.others)) for pair, size in several.sent.items()},
        "first_tree_cpu_seconds": round(statistics.median(run.first.cpu for run in runs), 4),
        "first_tree_bytes": dict(alone),
    }


def report(
    encryptions: Sequence[Encryption],
    runs: Mapping[int, Mapping[Way, Sequence[Run]]],
    loops: Mapping[int, float],
    together: float,
) -> None:
    figures: dict[str, Any] = {
        "benchmark": "product",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "encryptions_per_second": round(statistics.median(turn.ours for turn in encryptions)),
        "textbook_encryptions_per_second": round(statistics.median(turn.textbook for turn in encryptions)),
        "shares_vs_bare_loop": round(cpu_of(runs[MIDDLE]["moved"]) / loops[MIDDLE], 1),
        "together": {"rows": TOGETHER_ROWS, "trees": TOGETHER, "cpu_seconds": round(together, 4)},
        "trees": [
            {"rows": rows, "bare_loop_cpu_seconds": round(loops[rows], 4)}
            | {way: figures_of(made, of_rows["plain"]) for way, made in of_rows.items()}
            for rows, of_rows in runs.items()
        ],
    }
    small, middle = runs[SMALL], runs[MIDDLE]
    at_least = {
        "encrypt_vs_textbook": (statistics.median(turn.ours / turn.textbook for turn in encryptions), ENCRYPT_BAR),
        "shares_vs_paillier": (cpu_of(small["paillier"]) / cpu_of(small["moved"]), SHARES_BAR),
    }
    at_most = {
        "paillier_tree_cpu_s": (cpu_of(small["paillier"]), TREE_BAR),
        "shares_vs_plain": (cpu_of(middle["moved"]) / cpu_of(middle["plain"]), PLAIN_BAR),
    }
    bars = [
        {"name": name, "value": round(value, 2), "bar": bar, "holds": value >= bar}
        for name, (value, bar) in at_least.items()
    ] + [
        {"name": name, "value": round(value, 2), "bar": bar, "holds": value <= bar}
        for name, (value, bar) in at_most.items()
    ]
    print(json.dumps(figures | {"bars": bars}))


if __name__ == "__main__":
    main()
