"""A job in this process with few rows and few rounds of learning, to see what it sends and what that takes.

Tables that are here are sampled, and the ids of their rows replaced; others have columns like those that are here, or
made-up ones. The parties are threads, so nothing leaves this process.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from math import ceil, inf
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from unpooled.align.handles import RowRules
from unpooled.align.normalise import IdRules
from unpooled.arrays import Ints
from unpooled.control import Goodbye
from unpooled.data.table import Table
from unpooled.jobs.checks import checked
from unpooled.jobs.kind import Rehearsed
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.learning.scores import free_name
from unpooled.jobs.plan import Plan, fields_of
from unpooled.jobs.private import Consent, Policy, Private
from unpooled.jobs.row_weights import weigher
from unpooled.jobs.work import CheckedJob
from unpooled.run import folder as run_folder
from unpooled.run.conversation import role_of
from unpooled.run.simulate import simulate_roles
from unpooled.secure.paillier.engine import EncryptedRows
from unpooled.secure.paillier.key_holder import Decrypted, MaskedSums, SharedKey
from unpooled.secure.shares import blocks, packing, state
from unpooled.session import Session
from unpooled.wire import kind_of

COLUMNS = 10
_ENOUGH_OWN, _ENOUGH_BY_COLUMN = 100, 10
_MOST_OWN = 0.75
"""Where the active party has more of the rows than in truth, so that something can be learned, it lacks the rest."""
_TARGET, _WEIGHT = "target", "weight"
_MOST_LABELS = 50
_ALIGNING = "unpooled.align."
ALIGN, ADD, REST, KEY = "alignment", "add", "rest", kind_of(SharedKey)
ENCRYPTED = {kind_of(kind) for kind in (EncryptedRows, MaskedSums, Decrypted)}
"""What CPU time goes into: an alignment, adding up encrypted rows, the rest, the key, and each type of message that
takes encrypting or decrypting."""
_STEPS = {"add": ADD, "pack": kind_of(MaskedSums), "product": kind_of(MaskedSums)}
"""By the scope in which a party says how far it is."""

Key = tuple[str, str, str, bool]
"""Sender, receiver, message type, and whether the message is part of an alignment."""


@dataclass(frozen=True, eq=False)
class Cast:
    """The parties of a job: tables, sampled or made up, private settings, and how many rows each has in the job.

    `common` is how many rows take part: those that all owners have, or where rows that the active party lacks take part
    too, all that the passive ones have. Of these it has `own`. `known` is how many of the common rows the seeker has.
    `together`, if it is not empty, says by owner where the rows of the same people are.
    """

    plan: Plan
    tables: dict[str, Table]
    privates: dict[str, Private]
    rows: dict[str, int]
    common: int
    known: int
    own: int
    together: dict[str, Ints] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """What was sent: frames and bytes, and the size of the largest frame; CPU seconds by party and what they went into.

    `rows` is how many rows a party's table had.
    """

    common: int
    rows: dict[str, int]
    frames: Counter[Key] = field(default_factory=Counter)
    bytes: Counter[Key] = field(default_factory=Counter)
    largest: Counter[Key] = field(default_factory=Counter)
    cpu: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))


def like(table: Table | None, party: str, plan: Plan) -> tuple[Table, Private]:
    """What stands for a party whose table is not here: columns as in another's, or made-up numbers.

    It has a target and weights as well where the job asks them of it.
    """
    rng = np.random.default_rng(1)
    if table is None:
        columns = {f"column {number}": rng.normal(size=1000) for number in range(COLUMNS)}
        frame = pl.DataFrame({"id": list(map(str, range(1000)))} | columns)
        table = Table(party, "made up", ("id",), dict.fromkeys(columns, "number"), frame)
    if party == plan.active:
        table = _as_planned(table, parameters_of(plan), rng)
    target = None
    if "target" in kind_named(plan.kind).private_needs.get(plan.parties[party].role, ()):
        target, model = free_name(_TARGET, [*table.id, *table.kinds]), getattr(parameters_of(plan), "model", None)
        classes = 2 if model is None else model.classes
        values = rng.integers(classes, size=table.frame.height) if classes else rng.normal(size=table.frame.height)
        cells = pl.Series(target, values).cast(pl.String) if classes else pl.Series(target, values)
        kinds = table.kinds | {target: "category" if classes else "number"}
        table = replace(table.with_column(cells), kinds=kinds)
    weight = None
    if weigher(plan, parameters_of(plan)) == party:
        weight = free_name(_WEIGHT, [*table.id, *table.kinds])
        cells = pl.Series(weight, rng.uniform(0.5, 1.0, table.frame.height))
        table = replace(table.with_column(cells), kinds=table.kinds | {weight: "number"})
    return replace(table, party=party), Private(target=target, weight=weight)


def _as_planned(table: Table, parameters: object, rng: np.random.Generator) -> Table:
    """The table with made-up numbers as the columns that the plan names, and no more columns than it allows."""
    names, most = getattr(parameters, "columns", None) or (), getattr(parameters, "most_columns", len(table.kinds))
    others = [name for name in table.kinds if name not in names][: max(most - len(names), 0)]
    kinds = {name: table.kinds[name] for name in others} | dict.fromkeys(names, "number")
    for name in names:
        table = table.with_column(pl.Series(name, rng.normal(size=table.frame.height)))
    return replace(table, kinds=kinds)


def common_rows_for(own: int) -> int:
    """With how many rows some are left that the active party lacks, if it has so many of them."""
    return ceil(own / _MOST_OWN)


def rehearse(
    cast: Cast, common: int, parameters: Mapping[str, Any], most_rows: int, changes: Rehearsed, **settings: Any
) -> Rehearsal:
    """Run the job with so many common rows and other parameters; `settings` change the plan.

    The largest table has at most so many rows, or those in common, and the others in proportion; a single passive
    party all of whose rows take part has no more than those. Of them the active party has its fraction, or as many as
    models need to become large and `changes` say, as far as that leaves some that it lacks.
    """
    comparing = {*IdRules.model_fields, *RowRules.model_fields}
    as_they_are = {name: value for name, value in parameters.items() if name not in comparing}
    plan = cast.plan.model_copy(update={"parameters": as_they_are, **settings})  # made-up ids are no phone numbers
    fraction = min(most_rows / max(cast.rows.values(), default=1), 1.0)
    known = min(max(round(cast.known * common / cast.common), 10), common)
    tables = {}
    columns = len(cast.tables[plan.active].kinds) if plan.active in cast.tables else 0
    enough = max(changes.least_own, _ENOUGH_OWN + _ENOUGH_BY_COLUMN * columns)
    own = max(round(cast.own * common / cast.common), min(enough, int(common * _MOST_OWN)), 1)
    own = min(own, common - 1 if cast.own < cast.common else common)
    for party, table in cast.tables.items():
        seeks = plan.parties[party].role == "seeker"
        shared = known if seeks else own if party == plan.active else common
        rows = max(round(cast.rows[party] * (known / max(cast.known, 1) if seeks else fraction)), shared)
        if kind_named(plan.kind).other_rows and plan.with_role("passive") == [party]:
            rows = common
        people = _people(cast, party, own)
        tables[party] = _sample(table, rows, shared, common, cast.privates[party].target, people)
    listed = parameters.get("measure") == "list"
    agreeing = {party: lenient(cast.privates[party], tables.get(party), listed=listed) for party in plan.parties}
    jobs = {party: checked(plan, party, agreeing[party], tables.get(party)) for party in plan.parties}
    jobs = {party: replace(job, parameters=changes.decided(job.parameters)) for party, job in jobs.items()}
    found = Rehearsal(common, {party: table.frame.height for party, table in tables.items()})
    with _as_if(common, cast.common), tempfile.TemporaryDirectory() as folder:
        clocks = {party: _Clock() for party in jobs}
        outcome = simulate_roles(
            {party: _timed(job, Path(folder) / party, clocks[party]) for party, job in jobs.items()},
            fields=fields_of(plan, parameters_of(plan)),
            guards={party: clock.before for party, clock in clocks.items()},
            watchers={party: clock.within for party, clock in clocks.items()},
            timeout=plan.timeout,
            folder=Path(folder),
        )
    for party, record in outcome.ledgers.items():
        found.cpu.update({(party, part): seconds for part, seconds in clocks[party].spent.items()})
        for entry in record.entries:
            if entry.way == "sent":
                key = party, entry.peer, entry.kind, entry.kind in clocks[party].aligning
                found.frames[key] += 1
                found.bytes[key] += entry.bytes
                found.largest[key] = max(found.largest[key], entry.bytes)
    return found


def _people(cast: Cast, party: str, count: int) -> Ints | None:
    """Where a party has so many people, the same at all owners; None if that is not known."""
    if party not in cast.together:
        return None
    places = cast.together[party]
    return places[np.random.default_rng(count).choice(len(places), count, replace=count > len(places))]


def _sample(table: Table, rows: int, shared: int, common: int, target: str | None, people: Ints | None = None) -> Table:
    """So many rows; the first `shared` of them have ids out of those in common, the others have ids of their own.

    With `people` these come first, and have the first ids.
    """
    rng, height = np.random.default_rng(rows), table.frame.height
    picked = rng.choice(height, rows, replace=rows > height)
    if target in table.kinds and table.kinds[target] != "number":  # each label is there at least twice
        labels = table.column(target).to_frame().with_row_index("place")
        firsts = labels.unique(target, keep="first")["place"].to_numpy().repeat(2)
        if len(firsts) <= min(2 * _MOST_LABELS, shared):
            picked[: len(firsts)] = firsts
    numbers = rng.choice(common, shared, replace=False)
    if people is not None:
        picked[: len(people)], numbers = people, np.arange(shared)
    ids = [f"{number:08}" for number in numbers]
    ids += [f"{table.party}{number:08}" for number in range(rows - shared)]
    other_ids = [pl.lit("").alias(name) for name in table.id[1:]]
    sample = table.take(picked).in_memory()
    frame = sample.frame.with_columns(pl.Series(table.id[0], ids), *other_ids)
    return replace(sample, frame=frame, hashed=False, handles=None)


def lenient(private: Private, table: Table | None, *, listed: bool) -> Private:
    """The same settings for a table in memory, without limits that few rows would run into, agreeing to everything.

    A party that names no columns to describe, as its private file is not here, describes all of them. A list of columns
    is left out if the rehearsal takes none (`listed`). Generators, which send nothing, are not trained.
    """
    least = {name: 1 for name in Policy.model_fields if name.startswith("minimum_")}
    limits = {"maximum_thresholds": private.policy.maximum_thresholds, "maximum_epsilon": inf}
    policy = Policy.model_validate(least | limits)
    columns = private.consent.describe or (tuple(table.kinds) if table else ())
    asked = {name: True for name, field in Consent.model_fields.items() if field.annotation is bool}
    agreed = Consent.model_validate(asked | {"describe": columns})
    generate = private.generate.untrained()
    generate = generate if listed else generate.model_copy(update={"screening": None})
    changed = {"table": None, "seed": 1, "policy": policy, "consent": agreed, "generate": generate}
    return private.model_copy(update=changed)


class _Clock:
    """Counts the CPU seconds of a party's thread by what they went into."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)
        self.aligning: set[str] = set()
        self._last = 0.0

    def before(self, kind: type, _size: int) -> None:
        """What was spent since the last message went into this one."""
        if kind.__module__.startswith(_ALIGNING):
            self.aligning.add(kind_of(kind))
            self._spend(ALIGN)
        else:
            self._spend(kind_of(kind) if kind_of(kind) in {KEY, *ENCRYPTED} else REST)

    def within(self, where: str, _done: int, _total: int) -> None:
        """Of what goes into one message, additions grow in another way than packing and hiding the sums."""
        if part := _STEPS.get(where.rpartition("/")[2].partition(" ")[0]):
            self._spend(part)

    def _spend(self, part: str) -> None:
        now = time.thread_time()
        self.spent[part] += now - self._last
        self._last = now


def _timed(job: CheckedJob[Any], folder: Path, clock: _Clock) -> Callable[[Session], None]:
    def role(session: Session) -> None:
        with run_folder.taken(folder):
            role_of(job, folder)(session)
        clock.before(Goodbye, 0)

    return role


@contextmanager
def _as_if(rows: int, in_truth: int) -> Iterator[None]:
    """Random numbers are dealt ahead, matrices divided, and words as long, as if there were all rows; and the parties'
    threads compute all, to be timed."""
    fraction = rows / in_truth
    cores, ahead, block = os.environ.get("LOKY_MAX_CPU_COUNT"), state.most_bytes_ahead, blocks.block_bytes
    os.environ["LOKY_MAX_CPU_COUNT"] = "1"
    state.most_bytes_ahead, blocks.block_bytes = int(ahead * fraction), int(block * fraction)
    packing.row_bits_more = in_truth.bit_length() - rows.bit_length()
    try:
        yield
    finally:
        state.most_bytes_ahead, blocks.block_bytes, packing.row_bits_more = ahead, block, 0
        del os.environ["LOKY_MAX_CPU_COUNT"]
        if cores is not None:
            os.environ["LOKY_MAX_CPU_COUNT"] = cores
