"""A Ray cluster of two nodes on this machine: results equal to the bit, a node that is lost, and what is refused."""

from __future__ import annotations

import operator
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from pydantic import ValidationError

from scale_ray import STORE, two_nodes
from unpooled import control, workers
from unpooled.align.lists import checked_positions, cut
from unpooled.align.ristretto import hashed_and_raised, new_secret
from unpooled.cli.running import interruptible
from unpooled.errors import InputError, Interrupted, PlanError, ProtocolError, WorkerLost
from unpooled.frames.simulate import Member, simulate
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private, Workers
from unpooled.ledger import Record, read_ledger
from unpooled.run.simulate import simulate_job
from unpooled.run.spawn import spawn
from unpooled.secure import mod64
from unpooled.secure.paillier import keys, noise, sums
from unpooled.secure.paillier.noise import Span
from unpooled.secure.randomness import expand
from unpooled.secure.shares import blocks, dealer, engine
from unpooled.settings import faults
from unpooled.vertical.trees.binning import apply_bins, fit_bins
from unpooled.workers import cluster as ray_cluster

# Ray starts processes by forking; JAX, if another test has imported it, warns of that.
pytestmark = pytest.mark.filterwarnings(r"ignore:os\.fork\(\) was called:RuntimeWarning")

CALL, MY_PID = operator.call, os.getpid
MY_NODE = partial(subprocess.check_output, ["sh", "-c", "sleep 0.2; grep PPid /proc/$PPID/status"])
"""Importable where work is done. The parent of a worker is the process that runs its node."""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    """Two nodes with a core each, one of them the head."""
    with two_nodes() as made:
        yield made


@pytest.fixture
def connected(nodes: Any) -> Iterator[Any]:
    with workers.connected(nodes.address, "bank"):
        yield workers._cluster.get()


def wait_for(count: int) -> None:
    """Until so many nodes have done some work, which depends on how quickly their workers start."""
    seen: set[bytes] = set()
    for node in workers.in_order(CALL, [MY_NODE] * 1000):
        seen.add(node)
        if len(seen) == count:
            return
    raise AssertionError(f"work was done on {len(seen)} nodes")


def test_work_is_done_on_both_nodes_in_order_and_faults_come_out(nodes: Any) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with workers.connected(nodes.address, "bank"):
        assert workers.cores() == 2
        assert signal.getsignal(signal.SIGTERM) is before
        assert list(workers.in_order(operator.neg, range(50))) == [-number for number in range(50)]
        assert list(workers.submit_all(operator.neg, range(20))) == [-number for number in range(20)]
        wait_for(2)
        assert set(workers.in_order(CALL, [MY_PID])) == {MY_PID()}  # a single item is not worth sending
        assert set(workers.on_cluster(CALL, [MY_PID] * 3, workers.LEAST_CELLS - 1)) == {MY_PID()}
        assert MY_PID() not in set(workers.on_cluster(CALL, [MY_PID] * 3, workers.LEAST_CELLS))
        assert set(workers.in_order(CALL, [MY_PID] * 3, threads=True)) == {MY_PID()}
        with pytest.raises(ProtocolError, match=r"^invalid positions from shop: .* 3 "):
            list(workers.in_order(partial(checked_positions, total=3, sender="shop"), [np.array([5])] * 3))
        results = workers.in_order(operator.neg, iter(range(10**9)))
        assert next(results) == 0
        results.close()  # type: ignore[attr-defined]
        _a_lost_worker_is_an_error()
        _another_version_is_refused()
        with pytest.raises(InputError, match=r"^bank: workers: .* already"), workers.connected(nodes.address, "bank"):
            pass
        _a_signal_ends_waiting()
    assert workers._cluster.get() is None
    assert MY_PID() not in set(workers.submit_all(CALL, [MY_PID] * 2)) or workers.cores() == 1  # local again


def _a_lost_worker_is_an_error() -> None:
    made: Any = workers._cluster.get()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "_remote", made._remote.options(max_retries=0))
        with pytest.raises(WorkerLost, match="Ray"):
            list(workers.in_order(CALL, [MY_PID, partial(os._exit, 1), MY_PID]))


def _a_signal_ends_waiting() -> None:
    """Also of tasks that are under way; these end with the connection."""
    threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
    with pytest.raises(Interrupted), interruptible(signal.SIGTERM):
        list(workers.in_order(time.sleep, [600] * 3))


def _another_version_is_refused() -> None:
    import ray

    made: Any = workers._cluster.get()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_cluster, "__version__", "0.0.7")
        with pytest.raises(InputError, match=r"^bank: workers: Ray cluster at .*: node .* has unpooled .*not 0\.0\.7"):
            made._check_nodes(ray.nodes())


def test_alignment_encryption_and_binning_are_equal_to_the_bit(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    secret, ids = new_secret(), [f"customer {number}".encode() for number in range(300)]
    raising = partial(hashed_and_raised, secret, b"a name")
    pieces = list(cut(ids, 100))
    there = list(workers.in_order(raising, pieces))
    assert all(np.array_equal(one, other) for one, other in zip(there, map(raising, pieces), strict=True))

    public = keys.make_key(512, insecure=True).public
    spans = [Span(bytes([number] * 16), 0, 40) for number in range(4)]
    expected = list(map(partial(noise.made, public, False), spans))
    for making in (noise.made, noise.made_compiled):
        assert list(workers.submit_all(partial(making, public, False), spans)) == expected

    rng = np.random.default_rng(1)
    matrix = np.round(rng.normal(size=(2000, 5)), 2)
    matrix[rng.random(matrix.shape) < 0.1] = np.nan
    monkeypatch.setattr(workers, "LEAST_CELLS", 1)
    tried = {"bins": 32, "most_thresholds": 90, "min_rows": 5, "party": "bank"}
    there_bins = fit_bins(matrix, list("abcde"), **tried)  # type: ignore[arg-type]
    applied = apply_bins(there_bins, matrix, "bank")
    monkeypatch.setattr(workers, "LEAST_CELLS", 10**9)
    assert there_bins == fit_bins(matrix, list("abcde"), **tried)  # type: ignore[arg-type]
    assert np.array_equal(applied, apply_bins(there_bins, matrix, "bank"))


def test_products_by_shares_are_equal_to_the_bit(connected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bins times words at the holder of X, and masks times masks at the coordinator, in blocks of rows."""
    monkeypatch.setattr(blocks, "block_bytes", 2**15)
    monkeypatch.setattr(dealer, "_MOST_KEPT", 0)
    submitted: list[Any] = []
    submit = workers._submit

    def noting(function: Any, item: Any, **how: bool) -> Any:
        submitted.append(item)
        return submit(function, item, **how)

    monkeypatch.setattr(workers, "_submit", noting)
    rng = np.random.default_rng(3)
    bins, words = rng.integers(0, 9, (900, 5), np.uint16), rng.integers(0, 2**64, (900, 3), np.uint64)
    cuts, multiply = blocks.row_blocks(900, 48), partial(engine.multiply_block, (9,) * 5)
    there = blocks.summed(((bins[cut], [words[cut]]) for cut in cuts), multiply, spread=True)
    assert len(submitted) == len(cuts) > 2
    assert np.array_equal(there, mod64.product(mod64.one_hot(bins, [9] * 5), words))
    item = dealer.DealItem("telco", "bank", "triple", 900, 11, 4, 8, "", "", 1)
    seeds = bytes(32), bytes(range(32))
    (dealt,) = dealer._products(dealer.Dealer(), seeds[0], seeds[1:], [item], lambda: None)
    assert len(submitted) > len(cuts) + 2
    assert np.array_equal(
        dealt, mod64.product(expand(seeds[0], b"mask", (900, 11)), expand(seeds[1], b"mask", (900, 4)))
    )


def test_a_node_that_is_lost_in_mid_run_changes_nothing(
    nodes: Any, connected: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Paillier product: sums over encrypted rows, of which a node that is killed has some at that moment."""
    public = keys.make_key(512, insecure=True).public
    rng = np.random.default_rng(2)
    words = [int(number) for number in rng.integers(0, 2**40, 400)]
    _, made = noise.made(public, False, Span(b"s" * 16, 0, len(words)))
    rows = keys.to_bytes(public, keys.encrypt(public, words, made)).reshape(len(words), 1, public.width)
    bins, node_of = rng.integers(0, 8, (len(words), 4)), np.zeros(len(words), np.int32)
    monkeypatch.setattr(sums, "_ADDITIONS", 50)
    third = nodes.add_node(num_cpus=1, object_store_memory=STORE)
    monkeypatch.setattr(connected, "cores", 3)
    wait_for(3)
    told: list[int] = []

    def progress(done: int, _total: int) -> None:
        told.append(done)
        if len(told) == 4:
            nodes.remove_node(third, allow_graceful=False)

    found = sums.bin_sums(public, rows, bins, [8] * 4, node_of, 1, progress)
    assert len(told) > 12
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "cores", lambda: 1)
        assert found == sums.bin_sums(public, rows, bins, [8] * 4, node_of, 1, lambda *_: None)


def test_a_job_with_a_cluster_at_one_party_sends_and_finds_the_same(nodes: Any, tmp_path: Path) -> None:
    rows = {"bank": range(4200), "telco": range(200, 4400)}
    privates = {}
    for party, ids in rows.items():
        pl.DataFrame({"id": list(ids), "age": list(ids)}).write_csv(tmp_path / f"{party}.csv")
        privates[party] = Private.model_validate({"table": {"path": tmp_path / f"{party}.csv", "id": "id"}, "seed": 1})
    plan = Plan.model_validate({"kind": "align", "parties": {"telco": {"role": "passive"}, "bank": {"role": "active"}}})
    here = simulate_job(plan, privates)
    there = privates["telco"].model_copy(update={"workers": Workers(engine="ray", address=nodes.address)})
    spawn(plan, privates | {"telco": there}, tmp_path / "run")
    assert "connected with the Ray cluster" in (tmp_path / "run" / "telco" / "log.txt").read_text()
    for party in rows:
        found = pl.read_csv(tmp_path / "run" / party / "aligned.csv")
        assert sorted(found["id"]) == list(range(200, 4200))
        assert _frames(here.ledgers[party]) == _frames(read_ledger(tmp_path / "run" / party / "ledger.jsonl"))


def _frames(ledger: Record) -> list[tuple[Any, ...]]:
    """What was sent and received, without messages about the conversation itself."""
    entries = [entry for entry in ledger.entries if entry.kind not in control.KINDS]
    return sorted((entry.way, entry.peer, entry.kind, entry.scope, entry.bytes) for entry in entries)


@pytest.mark.parametrize(
    ("mode", "reason"), [("", "RAY_AUTH_MODE=token"), ("token", "workers.address: nothing answers")]
)
def test_an_open_cluster_or_one_that_is_not_there_is_refused(
    mode: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(InputError, match=f"^bank: .*{reason}"), workers.connected(address, "bank"):
        pass


def test_without_ray_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"^bank: .*pip install 'unpooled\[ray\]'"):
        ray_cluster.check_cluster("head:6379", "bank")


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ({"engine": "ray"}, "needs the address"),
        ({"address": "head:6379"}, "only engine = 'ray'"),
        ({"engine": "ray", "address": "head"}, "HOST:PORT"),
        ({"engine": "spark"}, "'local' or 'ray'"),
    ],
)
def test_settings_that_cannot_be_are_refused(section: dict[str, str], reason: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Private.model_validate({"workers": section})
    (said,) = faults(caught.value)
    assert said.startswith("workers")
    assert reason in said


def test_a_simulation_refuses_a_cluster() -> None:
    people = pl.DataFrame({"id": range(50), "age": range(50)})
    private = Private(workers=Workers(engine="ray", address="head:6379"))
    members = {"telco": Member("passive", people, private=private), "bank": Member("active", people)}
    with pytest.raises(PlanError, match=r"^telco: workers\.engine: "):
        simulate("check", members, round_trips=1)
