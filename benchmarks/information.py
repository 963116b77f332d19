"""What information values cost: CPU seconds of all roles, bytes by party, memory; and that they are those of counts.

The credit set, whose columns the telco has, 30,000 rows in 32 bins, with each engine; and made-up numbers of as many
columns on more rows (`--rows`, a million by default) with `shares`. The bank has the labels. Each case has a process of
its own, all roles are threads of it, and rows are aligned already. CPU seconds are those of the whole process from bins
to the end, without cutting columns into bins; peak memory is the process's, so that of all parties together. Values
must be equal to the integer to those computed from counts, and to 10^-4 to those that numpy computes in floats.

`paillier` is left out unless asked for by `--paillier`: encrypting the labels takes most of the time.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

from unpooled.arrays import Floats, Ints
from unpooled.data import datasets
from unpooled.data.table import table_from_frame
from unpooled.information.bins import ColumnBins, columns_in_bins
from unpooled.information.protocol import InformationSettings, find_information, lend_information
from unpooled.information.values import as_fraction, counts_of, information_value
from unpooled.run.simulate import simulate_roles
from unpooled.secure.engine import Name, Rules, Serving, open_engine
from unpooled.secure.lookup_dealer import serve_lookups
from unpooled.secure.product import finish, serve
from unpooled.session import Session
from unpooled.vertical.team import Team

OWNERS, COORDINATOR = ("telco", "bank"), "coordinator"
COLUMNS, BINS, MIN_ROWS = 24, 32, 30
CPU_BAR, MEMORY_BAR = 5.0, 1500.0  # seconds on Credit, MB with a million rows


class Case(NamedTuple):
    """An engine, and how many made-up rows; 0 for the credit set."""

    engine: Name
    rows: int = 0

    def __str__(self) -> str:
        return f"{self.engine}, {f'{self.rows:,} made-up rows' if self.rows else 'credit'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--paillier", action="store_true")
    options = parser.parse_args()
    cases = [Case("plain"), Case("shares"), *([Case("paillier")] if options.paillier else [])]
    cases += [Case("shares", options.rows)] if options.rows else []
    found = {}
    for case in cases:
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found[str(case)] = pool.submit(measured, case).result()
        print(case, found[str(case)])
    credit, large = found[str(Case("shares"))], found.get(str(Case("shares", options.rows)))
    passed = credit["CPU s"] <= CPU_BAR and (large is None or large["peak MB"] <= MEMORY_BAR)
    print(json.dumps({"figures": found, "passed": passed}))


def measured(case: Case) -> dict[str, float]:
    """Run it and compare; figures."""
    columns, labels = _made_up(case.rows) if case.rows else _credit()
    settings, values = InformationSettings(BINS, "iv", 2), dict[str, Ints]()
    rules = Rules(case.engine)
    before, begin = time.process_time(), time.perf_counter()

    def bank(session: Session) -> None:
        engine = open_engine(session, rules, OWNERS, "bank", COORDINATOR)
        dealer = "bank" if case.engine == "plain" else COORDINATOR
        values.update(find_information(Team("bank", OWNERS, engine, "rows"), dealer, labels, settings))
        finish(engine)

    def telco(session: Session) -> None:
        engine = open_engine(session, rules, OWNERS, "bank", COORDINATOR)
        dealer = "bank" if case.engine == "plain" else COORDINATOR
        lend_information(Team("bank", OWNERS, engine, "rows"), dealer, columns, settings)
        finish(engine)

    def coordinator(session: Session) -> None:
        if case.engine != "plain":
            serve_lookups(session, "bank", ["telco"], Serving())
            serve(open_engine(session, rules, OWNERS, "bank", COORDINATOR))

    ledgers = simulate_roles({"telco": telco, "bank": bank, COORDINATOR: coordinator}, timeout=3600).ledgers
    figures = {"CPU s": time.process_time() - before, "s": time.perf_counter() - begin}
    figures["peak MB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for party, ledger in ledgers.items():
        figures[f"MB sent by {party}"] = sum(e.bytes for e in ledger.entries if e.way == "sent") / 1e6
    _compare(columns, labels, values["telco"])
    return {name: round(value, 2) for name, value in figures.items()}


def _compare(columns: list[ColumnBins], labels: Ints, found: Ints) -> None:
    for column, value in zip(columns, found.tolist(), strict=True):
        positive, negative = counts_of(column.bins, labels, BINS + 1)
        assert value == information_value(positive, negative), column.name
        assert abs(as_fraction(value) - float(_in_floats(positive, negative))) < 1e-4, column.name


def _in_floats(positive: Ints, negative: Ints) -> Floats:
    p, q = positive / positive.sum(), negative / negative.sum()
    evidence = np.log((positive + 0.5) / positive.sum()) - np.log((negative + 0.5) / negative.sum())
    total: Floats = ((p - q) * evidence).sum()
    return total


def _credit() -> tuple[list[ColumnBins], Ints]:
    data = datasets.load("credit")
    table = table_from_frame(data.frame, "id", "telco")
    return list(columns_in_bins(table, most=BINS, min_rows=MIN_ROWS)), data.label.astype(np.int64)


def _made_up(rows: int) -> tuple[list[ColumnBins], Ints]:
    """Bins of numbers, some of which go with the labels."""
    rng = np.random.default_rng(1)
    labels = (rng.random(rows) < 0.2).astype(np.int64)
    columns = []
    for number in range(COLUMNS):
        values = rng.normal(size=rows) + 0.1 * number * labels
        edges = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1])
        columns.append(ColumnBins(f"column {number}", np.searchsorted(edges, values).astype(np.uint8), ()))
    return columns, labels


if __name__ == "__main__":
    main()
