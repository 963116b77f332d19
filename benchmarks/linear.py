"""What an epoch of a linear model costs: CPU seconds of all roles, seconds, and bytes between each two parties.

25,000 rows; the bank has the labels of two classes and 30 columns, the telco 30 more. Settings are the defaults, so
there are 25 batches; an epoch is a pass over all of them and the loss at its end. All roles are threads of this
process, and CPU seconds include worker processes. An epoch is measured from the end of the previous one; the first one,
which includes keys, tables, worker processes and opening the columns, is reported separately. Ways take turns, and
figures are medians. `shares` and `paillier` must leave the same weights as `plain`.

`final`, the default, is `shares` with weights that are revealed only at the end. There is no loss that marks the end of
an epoch, so an epoch is the difference between a run of several epochs and a run of one. What whole fits cost on public
data, as against those with gradients that a loss ends, is measured by `linear_reveal`.

The floor of `paillier` is the least that its two steps take: each row's residual is encrypted once at each of the two
parties, and multiplied with each of the other party's columns and summed. An encryption counts as what one takes here
on one core, with noise from the table; a multiplication as what the library's cheapest way takes, a sum over a whole
batch by buckets: one modular multiplication for each digit of a 16-bit number, and those of the buckets. The loss,
whose residuals are encrypted once more, packing, masks, decryption and messages are not included.
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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from rich.console import Console

from linear_reveal import measured
from unpooled import control
from unpooled.arrays import Floats
from unpooled.ledger import Record
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Engine, Rules, open_engine
from unpooled.secure.paillier.keys import PublicKey, encrypt, make_key, noise_table, noises
from unpooled.secure.paillier.sums import _best_digit, _weighted_sum
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.inputs import Columns
from unpooled.vertical.linear import messages
from unpooled.vertical.linear.descent import batches
from unpooled.vertical.linear.fitting import LinearParameters, Target, fit, help_fit
from unpooled.vertical.linear.messages import NextEpoch
from unpooled.vertical.linear.residuals import COLUMNS
from unpooled.vertical.team import Team

KEY_BITS = 2048
ROWS, WIDTH = 25_000, 30
OWNERS = ("telco", "bank")
EPOCHS = {"plain": 6, "shares": 6, "final": 6, "paillier": 2}
TURNS = {"plain": 3, "shares": 3, "final": 3, "paillier": 1}
ENCRYPTIONS, SUMS, RATE_TURNS = 200, 4, 9
SHARES_BAR, PAILLIER_BAR = 20.0, 2.0  # times plain, times the floor
_NOT_PRODUCTS = control.KINDS | set(vars(messages))

Way = Literal["plain", "shares", "final", "paillier"]


class Taken(NamedTuple):
    """What one epoch took."""

    cpu: float
    seconds: float


class Run(NamedTuple):
    """What each epoch took, how many bytes all sent, by sender and receiver, and everybody's weights."""

    epochs: list[Taken]
    sent: Counter[str]
    weights: list[Any]


class Floor(NamedTuple):
    """CPU seconds of one encryption, and of one multiplication that is added up."""

    encryption: float
    multiplication: float


def cpu_seconds() -> float:
    """Of this process, of its worker processes and of those that have ended; Linux has a clock for each process."""
    workers = [worker.pid for worker in multiprocessing.active_children() if worker.pid]  # which reaps the others
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    at_work = sum(time.clock_gettime(~process << 3 | 2) for process in workers)
    return time.process_time() + ended.ru_utime + ended.ru_stime + at_work


def now() -> Taken:
    return Taken(cpu_seconds(), time.perf_counter())


# the roles


def made_up() -> tuple[dict[str, Columns], Floats]:
    rng = np.random.default_rng(ROWS)
    matrix = rng.normal(size=(ROWS, 2 * WIDTH))
    names = tuple(f"column {number}" for number in range(WIDTH))
    labels = matrix @ rng.normal(size=2 * WIDTH) + 4 * rng.normal(size=ROWS) > 0
    return {"telco": Columns(matrix[:, :WIDTH], names), "bank": Columns(matrix[:, WIDTH:], names)}, labels.astype(float)


def parameters_for(way: Way, epochs: int) -> LinearParameters:
    return LinearParameters(
        epochs=epochs, tolerance=0, patience=epochs, reveal="final" if way == "final" else "gradients"
    )


def opened(session: Session, way: Way) -> Engine:
    rules = Rules("shares" if way == "final" else way, key_bits=KEY_BITS)
    return open_engine(session, rules, OWNERS, driver="bank", coordinator="coordinator")


def telco(columns: Columns, way: Way, epochs: int, session: Session) -> Any:
    team = Team("bank", OWNERS, opened(session, way), "rows")
    return help_fit(team, parameters_for(way, epochs), columns).weights


def bank(columns: Columns, labels: Floats, way: Way, epochs: int, session: Session) -> tuple[list[Taken], Any]:
    marks, send = [now()], session.send

    def noting(peer: str, message: object, **how: Any) -> None:
        if isinstance(message, NextEpoch):
            marks.append(now())
        send(peer, message, **how)

    session.send = noting  # type: ignore[method-assign]
    team = Team("bank", OWNERS, opened(session, way), "rows")
    model = fit(team, parameters_for(way, epochs), columns, Target(labels)).model
    finish(team.products)
    if way == "final":
        marks.append(now())
    taken = [Taken(end.cpu - begin.cpu, end.seconds - begin.seconds) for begin, end in pairwise(marks)]
    return taken, (model.part.weights, model.intercept)


def coordinator(way: Way, session: Session) -> None:
    serve(opened(session, way))


# the measurement


def run(held: Mapping[str, Columns], labels: Floats, way: Way, epochs: int) -> Run:
    roles: dict[str, Callable[[Session], Any]] = {
        "telco": partial(telco, held["telco"], way, epochs),
        "bank": partial(bank, held["bank"], labels, way, epochs),
        "coordinator": partial(coordinator, way),
    }
    outcome = simulate_roles(roles, timeout=3600)
    taken, weights = outcome.results["bank"]
    return Run(taken, sent_by(outcome.ledgers), [weights, outcome.results["telco"]])


def sent_by(ledgers: Mapping[str, Record]) -> Counter[str]:
    sizes: Counter[str] = Counter()
    for party, record in ledgers.items():
        for entry in record.entries:
            if entry.way == "sent" and entry.kind not in _NOT_PRODUCTS and entry.scope != "seeds":
                sizes[f"{party} to {entry.peer}"] += entry.bytes
    return sizes


def several(held: Mapping[str, Columns], labels: Floats, way: Way, expected: Sequence[Any] | None) -> dict[str, Any]:
    """One run of several epochs, and one of the first alone, for what differs."""
    first, whole = (run(held, labels, way, epochs) for epochs in (1, EPOCHS[way]))
    if expected is not None and whole.weights != expected:
        raise RuntimeError(f"'{way}' leaves other weights than 'plain'")
    more = EPOCHS[way] - 1
    others = whole.epochs[1:]
    if way == "final":
        difference = Taken(*((many - one) / more for many, one in zip(whole.epochs[0], first.epochs[0], strict=True)))
        others = [difference]
    return {
        "first": first.epochs[0],
        "others": others,
        "bytes": {pair: round((size - first.sent[pair]) / more) for pair, size in whole.sent.items()},
        "first_bytes": dict(first.sent),
        "weights": whole.weights,
    }


def floor_of() -> Floor:
    """Both measured on one core, here and now."""
    public = make_key(KEY_BITS).public
    table, rows = noise_table(public), batch_rows()
    ciphertexts = encrypt(public, [secrets.randbits(30) for _ in range(rows)], noises(table, rows))
    return Floor(
        statistics.median(one_encryption(public, table) for _ in range(RATE_TURNS)),
        statistics.median(one_multiplication(public, ciphertexts) for _ in range(RATE_TURNS)),
    )


def one_encryption(public: PublicKey, table: Any) -> float:
    plaintexts = [secrets.randbits(30) for _ in range(ENCRYPTIONS)]
    begin = time.process_time()
    encrypt(public, plaintexts, noises(table, ENCRYPTIONS))
    return (time.process_time() - begin) / ENCRYPTIONS


def one_multiplication(public: PublicKey, ciphertexts: Sequence[Any]) -> float:
    lift, rows = round(LinearParameters().limit * 2**COLUMNS.fraction_bits), len(ciphertexts)
    bits = (2 * lift).bit_length()
    normal = np.clip(np.random.default_rng(0).normal(size=(SUMS, rows)), -4, 4)
    weights = (COLUMNS.encode(normal, "columns") + lift).view(np.uint64)
    begin = time.process_time()
    for column in weights:
        _weighted_sum(public, ciphertexts, column, bits, _best_digit(rows, bits))
    return (time.process_time() - begin) / (SUMS * rows)


def batch_rows() -> int:
    (first, *_) = batches(LinearParameters(), ROWS, {"telco": WIDTH, "bank": WIDTH + 1})
    return first.stop - first.start


def floor_seconds(floor: Floor) -> float:
    """Of an epoch: both parties' residuals encrypted, each multiplied with each of the other's columns."""
    return 2 * ROWS * floor.encryption + ROWS * (2 * WIDTH + 1) * floor.multiplication


def main() -> None:
    if sys.platform != "linux":
        os.environ["LOKY_MAX_CPU_COUNT"] = "1"  # no worker processes where their clocks cannot be read
    held, labels = made_up()
    made: dict[Way, list[dict[str, Any]]] = {}
    with Console(stderr=True).status("measuring encryption") as status:
        floor = floor_of()
        expected: dict[int, Any] = {}
        for turn in range(max(TURNS.values())):
            for way in ("plain", "shares", "final", "paillier"):
                if turn < TURNS[way]:
                    status.update(f"measuring {way}, turn {turn + 1}")
                    epochs = EPOCHS[way]
                    if way == "paillier" and epochs not in expected:
                        expected[epochs] = run(held, labels, "plain", epochs).weights
                    made.setdefault(way, []).append(
                        several(held, labels, way, expected.get(epochs) if way != "final" else None)
                    )
                    if way == "plain":
                        expected[epochs] = made[way][-1]["weights"]
        whole = measured(status.update)
    report(floor, made, whole)


def cpu_of(made: Sequence[Mapping[str, Any]]) -> float:
    return statistics.median(epoch.cpu for each in made for epoch in each["others"])


def report(floor: Floor, made: Mapping[Way, Sequence[Mapping[str, Any]]], whole: Mapping[str, Any]) -> None:
    least = floor_seconds(floor)
    figures: dict[str, Any] = {
        "benchmark": "linear",
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "rows": ROWS,
        "columns": [WIDTH, WIDTH],
        "batch_rows": batch_rows(),
        "encryptions_per_second": round(1 / floor.encryption),
        "multiplications_per_second": round(1 / floor.multiplication),
        "paillier_floor_cpu_s": round(least, 2),
        "paillier_epoch_vs_floor": round(cpu_of(made["paillier"]) / least, 2),
        "final_epoch_vs_shares": round(cpu_of(made["final"]) / cpu_of(made["shares"]), 1),
        "ways": {
            way: {
                "epoch_cpu_seconds": round(cpu_of(runs), 4),
                "epoch_seconds": round(statistics.median(e.seconds for each in runs for e in each["others"]), 4),
                "epoch_bytes": runs[0]["bytes"],
                "first_epoch_cpu_seconds": round(statistics.median(each["first"].cpu for each in runs), 4),
                "first_epoch_bytes": runs[0]["first_bytes"],
            }
            for way, runs in made.items()
        },
    }
    at_most = {
        "shares_epoch_vs_plain": (cpu_of(made["shares"]) / cpu_of(made["plain"]), SHARES_BAR),
        "paillier_epoch_cpu_s": (cpu_of(made["paillier"]), round(PAILLIER_BAR * least, 2)),
    }
    bars = [
        {"name": name, "value": round(value, 2), "bar": bar, "holds": value <= bar}
        for name, (value, bar) in at_most.items()
    ]
    print(json.dumps(figures | {"reveal": whole["reveal"], "bars": [*bars, *whole["bars"]]}))


if __name__ == "__main__":
    main()
