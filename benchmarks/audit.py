"""What evidence for an audit costs: time and disk of the same training with and without it, and a full audit.

Two owners and a coordinator learn in threads of this process, so CPU seconds are those of all roles, without worker
processes. The two runs take turns, and the lowest of each counts. The models must be the same. If other programs run on
the machine, the difference of two runs says little, so the time of recording evidence is also measured directly.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table as Shown

from unpooled.data.table import Table, table_from_frame
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.run import audit
from unpooled.run.simulate import simulate_job
from unpooled.secure.evidence import Evidence
from unpooled.secure.paillier import engine as paillier
from unpooled.secure.shares import engine as shares
from unpooled.vertical.trees.grower import active, histogram, passive

EVIDENCE: list[tuple[Any, str]] = [
    (Evidence, "commit"),
    (Evidence, "keep_received"),
    (Evidence, "keep_opening"),
    (Evidence, "keep_asked"),
    (shares, "digest_of"),
    (paillier, "digest_of"),
    (active, "keep_leaves"),
    (histogram, "about_nodes"),
    (passive, "about_nodes"),
]
PARTIES = {"telco": "passive", "bank": "active", "coordinator": "coordinator"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=10, help="of each owner")
    parser.add_argument("--trees", type=int, default=20)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--engines", nargs="+", default=["shares"])
    options = parser.parse_args()
    found = [measured(options, engine) for engine in options.engines]
    for engine, figures in zip(options.engines, found, strict=True):
        shown = Shown("", engine)
        for name, figure in figures.items():
            shown.add_row(name, f"{figure:,.2f}")
        Console().print(shown)
    print(json.dumps(dict(zip(options.engines, found, strict=True))))


def measured(options: argparse.Namespace, engine: str) -> dict[str, float]:
    tables, figures = tables_of(options), dict[str, float]()
    with tempfile.TemporaryDirectory() as root:
        for number in range(options.runs):
            for kept in (False, True):
                folder = Path(root) / f"{engine} {kept} {number}"
                begin, cpu, name = time.perf_counter(), time.process_time(), "with evidence" if kept else "without"
                with timed() as spent:
                    outcome = simulate_job(plan_of(options, engine, kept), privates(), tables, folder)
                taken = {f"s, {name}": time.perf_counter() - begin, f"CPU s, {name}": time.process_time() - cpu}
                if kept:
                    taken["CPU s of evidence itself"] = sum(spent)
                figures |= {what: min(value, figures.get(what, value)) for what, value in taken.items()}
                assert outcome.results["bank"]["trees"] == options.trees
        scores = [pl.read_csv(Path(root) / f"{engine} {kept} 0" / "bank" / "predictions.csv") for kept in (False, True)]
        assert scores[0].equals(scores[1])
        folder = Path(root) / f"{engine} True 0"
        for party in ("bank", "telco"):
            secret = sum(path.stat().st_size for path in (folder / party / ".working" / "audit").iterdir())
            figures[f"kB kept in secret by {party}"] = secret / 1e3
            figures[f"kB of digests at {party}"] = (folder / party / "audit.jsonl").stat().st_size / 1e3
        for checker, opener in (("telco", "bank"), ("bank", "telco")):
            if audit.has_sent(folder / checker, folder / opener):
                begin = time.perf_counter()
                verdict = audit.trial(folder / checker, folder / opener, None)
                assert not verdict.wrong
                figures[f"s to audit all of {opener}"] = time.perf_counter() - begin
                figures[f"products of {opener}"] = verdict.of
    figures["evidence / CPU s without"] = figures["CPU s of evidence itself"] / figures["CPU s, without"]
    return figures


@contextmanager
def timed() -> Iterator[list[float]]:
    """The CPU seconds of all that is done for evidence, in whichever thread."""
    spent: list[float] = []

    def measured_call(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            begin = time.thread_time()
            try:
                return function(*values, **named)
            finally:
                spent.append(time.thread_time() - begin)

        return call

    with ExitStack() as stack:
        for owner, name in EVIDENCE:
            stack.enter_context(mock.patch.object(owner, name, measured_call(getattr(owner, name))))
        yield spent


def plan_of(options: argparse.Namespace, engine: str, kept: bool) -> Plan:
    settings: dict[str, Any] = {
        "kind": "train",
        "audit": kept,
        "engine": engine,
        "parties": {name: {"role": role} for name, role in PARTIES.items()},
        "parameters": {"model": {"learner": "xgb", "trees": options.trees}},
    }
    return Plan.model_validate(settings)


def privates() -> dict[str, Private]:
    return {"bank": Private(target="buys", seed=1), "telco": Private(seed=2)}


def tables_of(options: argparse.Namespace) -> dict[str, Table]:
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(options.rows, 2 * options.columns))
    buys = pl.Series(np.where(matrix[:, 0] + matrix[:, -1] + rng.normal(size=options.rows) > 0, "yes", "no"))
    names = [f"column {number}" for number in range(options.columns)]
    ids = pl.Series("id", range(options.rows))
    halves = matrix[:, : options.columns], matrix[:, options.columns :]
    bank, telco = (pl.DataFrame(half, schema=names).with_columns(id=ids) for half in halves)
    frames = {"bank": bank.with_columns(buys=buys), "telco": telco}
    return {party: table_from_frame(frame, "id", party) for party, frame in frames.items()}


if __name__ == "__main__":
    main()
