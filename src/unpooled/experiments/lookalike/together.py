"""A cell's search by parties that keep their columns, as the job does it, and the same search on pooled columns.

Parties are threads of this process, or processes that communicate over TLS. Their ranking must be the pooled one: to
the last bit with trees, whose columns are put in the order in which the parties had them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpooled.arrays import Floats
from unpooled.errors import InternalError
from unpooled.experiments.lookalike.dealing import OWNERS, ROLES, Dealt
from unpooled.experiments.lookalike.judging import default_length
from unpooled.jobs.learning.model_files import load
from unpooled.jobs.learning.scores import PREDICTIONS
from unpooled.jobs.lookalike.list_files import RANKING
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Consent, Private
from unpooled.ledger import read_ledger
from unpooled.pu.ranking import Order, Ranking
from unpooled.pu.settings import AnyMethod, VfpuSettings
from unpooled.run.folder import LEDGER, STATUS, read_json
from unpooled.run.simulate import simulate_job
from unpooled.run.spawn import spawn
from unpooled.session import draws_of
from unpooled.settings import Section
from unpooled.vertical.inputs import Columns
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.targets import SEEDS

ENGINES: Mapping[str, Mapping[str, Any]] = {
    "shares": {},
    "plain": {"engine": "plain"},
    "paillier 2048": {"engine": "paillier"},
    "paillier 512, insecure": {"engine": "paillier", "key_bits": 512, "insecure": True},
}


@dataclass(frozen=True, eq=False)
class Together:
    """What came of a federated search; `columns` are the pooled ones in the parties' order, `seed` is of the draws."""

    ranking: Ranking
    test_scores: Floats
    columns: Columns
    test: Floats
    seed: int
    cpu_seconds: float
    wall_seconds: float
    megabytes: float


def search_together(
    dealt: Dealt, method: AnyMethod, model: LearnerParameters, seed: int, engine: str, *, processes: bool
) -> Together:
    """Search, then score the test rows, both as jobs; times are of the search."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        length = default_length(int((~dealt.known).sum()))
        parameters = {"method": _said(method), "model": _said(model), "estimate": False, "top": length}
        begin, cpu = time.perf_counter(), time.process_time()
        _run(dealt, "lookalike", parameters, seed, engine, root / "search", processes=processes)
        wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
        found = root / "search"
        if processes:
            cpu = sum(read_json(found / party / STATUS)["cpu_seconds"] for party in ROLES)
        entries = [entry for party in ROLES for entry in read_ledger(found / party / LEDGER).entries]
        _run(dealt, "predict", {}, seed, engine, root / "test", processes=processes, models=found)
        order = _order(found, dealt)
        return Together(
            ranking=_ranking(found / "c" / RANKING, dealt, method),
            test_scores=_in_order(found.parent / "test" / "c" / PREDICTIONS, dealt.test_ids)["score"].to_numpy(),
            columns=replace(
                dealt.columns,
                matrix=dealt.columns.matrix[:, order],
                names=tuple(dealt.columns.names[place] for place in order),
            ),
            test=dealt.test[:, order],
            seed=int(draws_of("c", seed).integers(SEEDS)),
            cpu_seconds=cpu,
            wall_seconds=wall,
            megabytes=sum(entry.bytes for entry in entries if entry.way == "sent") / 1e6,
        )


def assert_same(one: Ranking, other: Ranking, scores: Floats, other_scores: Floats) -> None:
    """An error unless both rankings and both scores of test rows are the same to the last bit."""
    same = [
        np.array_equal(one.order, other.order),
        np.array_equal(one.scores, other.scores, equal_nan=True),
        np.array_equal(one.iterations, other.iterations),
        np.array_equal(scores, other_scores),
    ]
    if not all(same):
        raise InternalError("a federated search of trees differs from the pooled one, and should not in any bit")


def _said(settings: Section) -> dict[str, Any]:
    """Settings as a plan has them."""
    return settings.model_dump(exclude_none=True)


def _run(
    dealt: Dealt,
    kind: str,
    parameters: Mapping[str, Any],
    seed: int,
    engine: str,
    folder: Path,
    *,
    processes: bool,
    models: Path | None = None,
) -> None:
    """One job; prediction is by owners of columns alone, each with its part of the `models`."""
    test, parties = models is not None, [*ROLES] if models is None else [*OWNERS]
    plan = Plan.model_validate(
        {
            "kind": kind,
            "parties": {party: {"role": ROLES[party]} for party in parties},
            "parameters": dict(parameters),
            "audit": False,
            **(ENGINES[engine] if models is None else {}),
        }
    )
    privates = {}
    tables = {}
    for party in parties:
        consent = Consent(positives=party == "a", found=party in OWNERS)
        own: dict[str, Any] = {"seed": seed, "consent": consent} if party in dealt.tables else {}
        if models is not None:
            own["model"] = models / party
        if party in dealt.tables and processes:
            own["table"] = dealt.written(party, folder.parent, test=test)
        elif party in dealt.tables:
            tables[party] = dealt.table(party, test=test)
        privates[party] = Private(**own)
    if processes:
        spawn(plan, privates, folder)
    else:
        simulate_job(plan, privates, tables, folder)


def _order(found: Path, dealt: Dealt) -> list[int]:
    """Where each pooled column stood in the search: with trees a passive party shuffles its own."""
    order: list[int] = []
    for party, count in zip(OWNERS, dealt.columns.blocks, strict=True):
        active = ROLES[party] == "active"
        kept, _ = load(Private(model=found / party), party, active=active)
        binning = getattr(kept.part if active else kept, "binning", None)
        places = [feature.column for feature in binning.features] if binning else range(count)
        order += [len(order) + place for place in places]
    return order


def _ranking(path: Path, dealt: Dealt, method: AnyMethod) -> Ranking:
    lines = _in_order(path, dealt.ids)
    by: Order = method.order if isinstance(method, VfpuSettings) else "score"
    scores, iterations = lines["score"].fill_null(float("nan")), lines["iteration"].fill_null(0)
    return Ranking(dealt.known, scores.to_numpy(), iterations.to_numpy(), by)


def _in_order(path: Path, ids: pl.Series) -> pl.DataFrame:
    """The lines of a file for each of the ids; those that it does not have are null."""
    lines = pl.read_csv(path, schema_overrides={"id": pl.String}, infer_schema_length=None)
    return pl.DataFrame({"id": ids}).join(lines, on="id", how="left", maintain_order="left")
