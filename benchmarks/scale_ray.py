"""What a party's own Ray cluster costs and gives: the same numbers to the bit, and how long work takes with many cores.

Two nodes with a core each are started on this machine. Pieces of work as a party does them (ids raised for ECDH and
signed with RSA, noise of Paillier ciphertexts and sums of these, columns as bins, blocks of products by shares) are
computed in this process and on the cluster. Then the same with a third node that is killed in mid-run, and a whole job
with the cluster at every party. `ray_equal` is how many of these give other results; it must be 0.

Each piece has these figures for a row: `compute`, the CPU time of its tasks; `hand_here`, that of the party's own
process when tasks are done by other processes of its machine, or where that is not so, what it does besides; `hand`,
the same when tasks are on the cluster; and the bytes that travel to tasks and back. A cluster cannot be faster than the
party's process hands out tasks, or than its line carries them, so the model is

    here:     rows * max(hand_here, compute / cores), or rows * (hand_here + compute) for arithmetic in memory
    cluster:  start + rows * max(hand, bytes / line, compute / cores of the cluster)

`start` is the time to connect, in seconds on the clock. `most_cores` is how many cores the party's process can keep
busy, `pays_from` the number of rows from which on the cluster is faster than one machine, and the forecasts are
minutes for 100 million rows. Nodes here share a machine, so times on the clock say nothing about a real cluster; all
other figures are CPU time. `hand` is measured with results that the workers know from an earlier turn.
"""

from __future__ import annotations

import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import scale_ray  # this file, as workers load it
from unpooled import workers
from unpooled.align import blind_rsa, ecdh, rsa
from unpooled.align.lists import cut
from unpooled.align.ristretto import hashed_and_raised, new_secret
from unpooled.data import example
from unpooled.jobs.examples.example_job import example_job
from unpooled.jobs.learning.scores import PREDICTIONS
from unpooled.jobs.private import Workers
from unpooled.run.spawn import spawn
from unpooled.secure import mod64
from unpooled.secure.paillier import keys, noise, sums
from unpooled.secure.paillier.noise import Span
from unpooled.secure.shares.blocks import row_blocks, summed
from unpooled.secure.shares.dealer import product_of_masks
from unpooled.secure.shares.engine import multiply_block
from unpooled.vertical.trees.binning import apply_bins, fit_bins
from unpooled.workers import local

KEY_BITS = 2048
IDS, SIGNED, NOISES, ADDED = 4 * ecdh.CHUNK, 6 * blind_rsa.CHUNK, 2_048, 8_192
BINNED, BINNED_COLUMNS = 500_000, 4
MULTIPLIED, COLUMNS, BINS, WORDS = 20_000, 50, 9, 16
JOB_ROWS = 5_000
TURNS = 6
MACHINE, CLUSTER, ROWS, LINE = 8, 64, 100_000_000, 1.25e9
"""What the model is asked about: cores of one machine and of a cluster, rows, and bytes in a second on the line."""
EQUAL_BAR = 0

ENVIRONMENT = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": os.urandom(32).hex(),
    "RAY_USAGE_STATS_ENABLED": "0",
    "PYTHONPATH": str(Path(__file__).parent),
    "RAY_health_check_initial_delay_ms": "0",  # nodes that are lost are noticed within a second or two
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
}
STORE = 2**29


@contextmanager
def two_nodes() -> Iterator[Any]:
    """A Ray cluster of two nodes on this machine, with a core each; `address` is where it is."""
    with patch.dict(os.environ, ENVIRONMENT):
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        made = Cluster(initialize_head=True, head_node_args=head)
        try:
            made.add_node(num_cpus=1, object_store_memory=STORE)
            yield made
        finally:
            made.shutdown()


# the pieces of work


class Piece(NamedTuple):
    """Work on so many rows; without a cluster, other processes of the machine do it, or it is done in memory here."""

    compute: Callable[[], Any]
    rows: int
    in_memory: bool = False


def pieces() -> dict[str, Piece]:
    rng = np.random.default_rng(1)
    ids = [f"customer {number}".encode() for number in range(IDS)]
    raising = partial(hashed_and_raised, new_secret(), b"an exchange")
    signer = rsa.make_key(KEY_BITS)
    blinded, _ = rsa.blinded(signer.n, b"an exchange", ids[:SIGNED])
    signing = partial(rsa.signed, signer, "telco")
    private = keys.make_key(KEY_BITS)
    public = private.public
    making = partial(noise.made_compiled, public, False)
    making(Span(bytes(32), 0, 1))  # which compiles it
    spans = [Span(bytes([number]) * 32, 0, 256) for number in range(NOISES // 256)]
    one = keys.to_bytes(public, keys.encrypt(public, range(64), making(Span(bytes(32), 0, 64))[1]))
    rows = one[rng.integers(0, 64, ADDED)].reshape(ADDED, 1, public.width)
    bins = rng.integers(0, 32, (ADDED, 4))
    matrix = rng.normal(size=(BINNED, BINNED_COLUMNS))
    names = [str(column) for column in range(BINNED_COLUMNS)]
    opened = rng.integers(0, 2**64, (MULTIPLIED, COLUMNS * BINS), np.uint64)
    small = rng.integers(0, BINS, (MULTIPLIED, COLUMNS), np.uint16)
    words = rng.integers(0, 2**64, (MULTIPLIED, WORDS), np.uint64)
    cuts = row_blocks(MULTIPLIED, COLUMNS * BINS + WORDS)

    def binned() -> Any:
        found = fit_bins(matrix, names, bins=64, party="bank")
        return found, apply_bins(found, matrix, "bank")

    def multiplied(x: Any, multiply: Callable[[Any, Any], Any]) -> Any:
        return summed(((x[block], [words[block]]) for block in cuts), multiply, spread=True)

    def dealt() -> Any:
        masks = partial(product_of_masks, (bytes(32), COLUMNS * BINS), [(bytes(range(32)), WORDS)])
        return reduce(np.add, workers.on_cluster(masks, cuts))

    none = np.zeros(ADDED, np.int32)
    return {
        "ecdh_id": Piece(lambda: list(workers.in_order(raising, cut(ids, ecdh.CHUNK))), IDS),
        "rsa_id": Piece(lambda: list(workers.in_order(signing, np.split(blinded, SIGNED // blind_rsa.CHUNK))), SIGNED),
        "paillier_noise": Piece(lambda: list(workers.submit_all(making, spans)), NOISES),
        "paillier_decrypt": Piece(
            lambda: list(workers.in_order(partial(keys.decrypt, private), cut(keys.from_bytes(public, one), 8))), 64
        ),
        "paillier_sums_4_columns": Piece(
            lambda: sums.bin_sums(public, rows, bins, [32] * 4, none, 1, lambda *_: None), ADDED
        ),
        "bins_4_columns": Piece(binned, BINNED, in_memory=True),
        "shares_50_columns_of_bins": Piece(
            lambda: multiplied(small, partial(multiply_block, (BINS,) * COLUMNS)), MULTIPLIED, in_memory=True
        ),
        "shares_450_opened_columns": Piece(lambda: multiplied(opened, mod64.product), MULTIPLIED, in_memory=True),
        "shares_450_dealt_columns": Piece(dealt, MULTIPLIED, in_memory=True),
    }


# the measurement


@dataclass
class Counting:
    """In place of a cluster: tasks are computed here, and their CPU time and bytes are added up."""

    cores: int = 2
    tasks: int = 0
    compute: float = 0.0
    carrying: float = 0.0
    bytes: int = 0

    def submit(self, function: Callable[[Any], Any], item: Any) -> Any:
        begin = time.process_time()
        self.bytes += len(pickle.dumps((function, item), 5))
        self.carrying += time.process_time() - begin
        begin = time.process_time()
        result = function(item)
        self.compute += time.process_time() - begin
        self.tasks += 1
        begin = time.process_time()
        self.bytes += len(pickle.dumps(result, 5))
        self.carrying += time.process_time() - begin
        return Done(result)


class Done(NamedTuple):
    found: Any

    def result(self) -> Any:
        return self.found

    def cancel(self) -> None:
        pass


def measured(name: str, piece: Piece, start: float) -> tuple[dict[str, Any], bool]:
    """A piece here and on the cluster that is connected: its figures, and whether the results are the same."""
    counting, cluster = Counting(), workers._cluster.get()
    workers._cluster.set(counting)
    begin = time.process_time()
    here = piece.compute()
    hand_here = time.process_time() - begin - counting.compute - counting.carrying
    if not piece.in_memory:
        hand_here = handed(piece, partial(local.submit, workers=2))
    workers._cluster.set(cluster)
    there, hand = piece.compute(), handed(piece, cluster.submit)
    compute, carried = counting.compute / piece.rows, counting.bytes / piece.rows / LINE
    hand, hand_here = hand / piece.rows, max(hand_here, 0.0) / piece.rows
    alone = hand_here + compute if piece.in_memory else max(hand_here, compute / MACHINE)
    together = max(hand, carried, compute / CLUSTER)
    figures = {
        "piece": name,
        "rows_per_task": round(piece.rows / counting.tasks),
        "compute_us": round(1e6 * compute, 3),
        "hand_here_us": round(1e6 * hand_here, 3),
        "hand_us": round(1e6 * hand, 3),
        "bytes": round(counting.bytes / piece.rows),
        "most_cores": round(compute / max(hand, carried)),
        "pays_from": round(start / (alone - together)) if alone > together else None,
        "forecast_here_minutes": round(ROWS * alone / 60, 1),
        "forecast_cluster_minutes": round((start + ROWS * together) / 60, 1),
    }
    return figures, same(here, there)


_known: dict[int, Any] = {}


def remembered(function: Callable[[Any], Any], item: Any) -> Any:
    """In a worker: the result of an earlier turn, at once."""
    key = hash(pickle.dumps((function, item), 5))
    if key not in _known:
        _known[key] = function(item)
    return _known[key]


class Remembering:
    """Hands tasks to where they are done, but for results that are known there."""

    def __init__(self, submit: Callable[[Any, Any], Any]) -> None:
        self.cores, self._submit = 2, submit

    def submit(self, function: Callable[[Any], Any], item: Any) -> Any:
        return self._submit(partial(scale_ray.remembered, function), item)


def handed(piece: Piece, submit: Callable[[Any, Any], Any]) -> float:
    """CPU seconds of this process while others have nothing to compute; the least of several turns."""
    before, taken = workers._cluster.set(Remembering(submit)), []
    for _ in range(TURNS):
        begin = time.process_time()
        piece.compute()
        taken.append(time.process_time() - begin)
    workers._cluster.reset(before)
    return min(taken)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def task_overhead() -> float:
    """CPU seconds of this process for a task that does nothing."""
    count = 500
    list(workers.in_order(abs, range(count)))
    begin = time.process_time()
    list(workers.in_order(abs, range(count)))
    return (time.process_time() - begin) / count


def with_a_node_killed(nodes: Any) -> bool:
    """Whether ids are raised as here although a node is killed that works on some."""
    ids = [f"patient {number}".encode() for number in range(24 * 512)]
    raising, chunks = partial(hashed_and_raised, new_secret(), b"another"), list(cut(ids, 512))
    third, found = nodes.add_node(num_cpus=1, object_store_memory=STORE), []
    for place, result in enumerate(workers.in_order(raising, chunks)):
        found.append(result)
        if place == 4:
            nodes.remove_node(third, allow_graceful=False)
    return same(found, list(map(raising, chunks)))


def jobs_differ(address: str) -> int:
    """How many results of a whole job with Paillier, an alignment included, are other ones with the cluster."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        example.write(folder / "tables", rows=JOB_ROWS)
        job = example_job("train", engine="paillier")
        parameters = {"model": {"learner": "gbdt", "classes": 0, "trees": 1, "depth": 2}}
        plan = job.plan.model_copy(update={"parameters": parameters})
        privates = {name: private.at(folder / "tables") for name, private in job.privates.items()}
        spawn(plan, privates, folder / "here")
        ray = Workers(engine="ray", address=address)
        spawn(plan, {n: p.model_copy(update={"workers": ray}) for n, p in privates.items()}, folder / "there")
        different = 0
        for file in [*sorted((folder / "here").glob("*/model/*")), folder / "here" / "bank" / PREDICTIONS]:
            other = folder / "there" / file.relative_to(folder / "here")
            one, two = (sorted(path.read_text().splitlines()) for path in (file, other))
            different += one != two
        return different


def main() -> None:
    print(json.dumps(report()))


def report() -> dict[str, Any]:
    """All figures, and the bar."""
    work, figures = pieces(), []
    with two_nodes() as nodes:
        begin = time.perf_counter()
        with workers.connected(nodes.address, "bank"):
            start = time.perf_counter() - begin
            task = task_overhead()
            different = 0
            for name, piece in work.items():
                found, equal = measured(name, piece, start)
                figures.append(found)
                different += not equal
                print(json.dumps(found), flush=True)
            different += not with_a_node_killed(nodes)
        different += jobs_differ(nodes.address)
    return {
        "benchmark": "scale_ray",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "start_seconds": round(start, 2),
        "task_ms": round(1000 * task, 3),
        "model": {"machine_cores": MACHINE, "cluster_cores": CLUSTER, "rows": ROWS, "line_bytes_per_second": LINE},
        "pieces": figures,
        "bars": [{"name": "ray_equal", "value": different, "bar": EQUAL_BAR, "holds": different <= EQUAL_BAR}],
    }


if __name__ == "__main__":
    main()
