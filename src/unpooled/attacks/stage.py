"""A job to attack: one party's own table, or a sample of it, and made-up tables of the others.

People are numbers; a person's id is its number in all tables. What is made up and what is left out of the plan is said
in `Stage.notes`.

- Where the party that asks has the labels, passive parties have columns of noise. So whatever they find out comes from
  what they are shown.
- Where it lends columns, labels are made up that follow from its columns and the active party's about as much.
- Where a table is completed, models learn from passive columns alone: these follow from the predicted column then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from unpooled.align.handles import RowRules
from unpooled.align.normalise import IdRules
from unpooled.arrays import Bools, Floats, Ints
from unpooled.data.prepare import fit as fit_preparation
from unpooled.data.prepare import transform
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.jobs.learning.labels import features_of
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private, Workers
from unpooled.jobs.work import CheckedJob
from unpooled.run.rehearsal import lenient

NOISE = 6
"""How many columns a made-up party has."""
POSITIVE, KNOWN, HIGHEST = 0.2, 0.1, 0.1
"""The fraction of people who are positive, of these the fraction that the seeker knows, and who counts as high."""
FEWEST_KNOWN = 40
OWN_PART = 0.5
"""Of the people of passive parties, where a table is completed, the fraction that the active party has."""
_STRENGTH = 2.0
_ID, _TARGET = "id", "target"


@dataclass(frozen=True, eq=False)
class Stage:
    """A plan without protection, tables and settings by party, and what is sought: some people, by number.

    `holder` is the party whose secret they are, `sought` says who they are. `people` is how many there are. `output` is
    the class that is sought, by number, where models have an output for each.
    """

    plan: Plan
    tables: dict[str, Table]
    privates: dict[str, Private]
    people: int
    secret: Bools
    holder: str
    sought: str
    notes: tuple[str, ...] = ()
    output: int = 0


def unprotected(plan: Plan, **parameters: Any) -> Plan:
    """The plan with other parameters, for a simulation: engines change nothing of what attacks look at."""
    comparing = {*IdRules.model_fields, *RowRules.model_fields}
    given = {name: value for name, value in plan.parameters.items() if name not in comparing} | parameters
    kept = {name: value for name, value in given.items() if value is not None}
    return plan.model_copy(update={"engine": "plain", "audit": False, "parameters": kept})


def stage_of(job: CheckedJob[Any], rows: int, seed: int) -> Stage:
    """The job as one party would have it attacked: its table has been cleaned, and at most so many rows are used."""
    plan, party, table = job.plan, job.party, job.table
    if table is None:
        raise InputError(f"{party} has no table, so there is nothing of it to find out; ask as another party")
    rng = np.random.default_rng(seed)
    if plan.kind not in _STAGES:
        raise InputError(_NOTHING.get(plan.kind, f"there is no attack on a job of the kind {plan.kind}"))
    sample = np.sort(rng.permutation(table.frame.height)[:rows])
    notes = []
    if len(sample) < table.frame.height:
        notes.append(f"{len(sample):,} of the {table.frame.height:,} rows of {party} were drawn")
    staged = _STAGES[plan.kind](job, numbered(table.take(sample), np.arange(len(sample))), rows, rng)
    return replace(staged, notes=(*notes, *staged.notes))


def numbered(table: Table, people: Ints) -> Table:
    """The table with people's numbers as ids."""
    ids = pl.Series(table.id[0], [id_of(person) for person in people.tolist()])
    others = [pl.lit("").alias(name) for name in table.id[1:]]
    return replace(table, frame=table.frame.with_columns(ids, *others), hashed=False, handles=None)


def id_of(person: int) -> str:
    return f"{person:08}"


def made_up(party: str, columns: Mapping[str, Floats | list[str]], people: Ints) -> Table:
    """A table of numbers, and of texts as categories."""
    ids = pl.Series(_ID, [id_of(person) for person in people.tolist()])
    cells = [pl.Series(name, values) for name, values in columns.items()]
    kinds = {series.name: "number" if series.dtype.is_numeric() else "category" for series in cells}
    return Table(party, "made up", (_ID,), kinds, pl.DataFrame([ids, *cells]))  # type: ignore[arg-type]


def noise(party: str, people: Ints, rng: np.random.Generator, signal: Floats | None = None) -> Table:
    """Columns of random numbers; with a signal, half of them follow it."""
    columns = {f"column {number}": rng.normal(size=len(people)) for number in range(NOISE)}
    if signal is not None:
        for number in range(NOISE // 2):
            columns[f"column {number}"] += _STRENGTH * signal
    return made_up(party, columns, people)


def staged(plan: Plan, tables: dict[str, Table], privates: Mapping[str, Private], **about: Any) -> Stage:
    """All parties with their tables; they agree to everything, and have no limits but those on thresholds."""
    settings = {}
    for name in plan.parties:
        private = privates.get(name, Private()).model_copy(update={"exclude": None, "workers": Workers()})
        settings[name] = lenient(private, tables.get(name), listed=False)
    return Stage(plan, tables, settings, **about)


def _training(job: CheckedJob[Any], own: Table, _rows: int, rng: np.random.Generator) -> Stage:
    plan, party = job.plan, job.party
    people, active = np.arange(own.frame.height), plan.active
    classes, notes = job.parameters.model.classes, [_WEIGHTS] if job.parameters.weights else []
    private = job.private.model_copy(update={"weight": None})
    if party == active:
        labels, target, table = own.frame[private.target or ""], private.target or "", own
    else:
        told, signal = rng.normal(size=(len(people), NOISE)), signal_of(own, private, rng)
        labels, target = _labels(_follows(told.sum(axis=1), signal, rng), classes), _TARGET
        columns: dict[str, Any] = {f"column {number}": told[:, number] for number in range(NOISE)}
        table = made_up(active, columns | {target: labels.to_list()}, people)
        notes.append(f"{active} and its labels are made up; the labels follow from both parties' columns")
    tables = {active: table, party: own}
    tables |= {name: noise(name, people, rng) for name in plan.with_role("passive") if name not in tables}
    if party == active:
        notes.append(_NOISE.format(parties=", ".join(plan.with_role("passive"))))
    secret, words = _sought(labels, classes)
    names = sorted(map(str, labels.drop_nulls().unique())) if classes > 2 else []
    return staged(
        unprotected(plan, weights=None),
        tables,
        {party: private, active: private if party == active else Private(target=target)},
        people=len(people),
        secret=secret,
        holder=active,
        sought=f"{words} in the labels of {active}",
        notes=tuple(notes),
        output=names.index(str(labels.filter(pl.Series(secret))[0])) if names else 0,
    )


def _searching(job: CheckedJob[Any], own: Table, rows: int, rng: np.random.Generator) -> Stage:
    plan, party, active = job.plan, job.party, job.plan.active
    (seeker,) = plan.with_role("seeker")
    notes = [_WEIGHTS] if job.parameters.weights else []
    private = job.private.model_copy(update={"weight": None, "target": None})
    if party == seeker:
        count = min(own.frame.height, max(round(rows * POSITIVE * KNOWN), FEWEST_KNOWN))
        people, own = np.arange(max(rows, 10 * count)), own.take(np.arange(count))
        known = people < count
        positive = known | (people < count / KNOWN)
        signal = np.where(positive, 1.0, 0.0) + rng.normal(size=len(people)) / _STRENGTH
        tables = {seeker: own, active: noise(active, people, rng, signal)}
        notes.append(f"{active} is made up, with columns that tell the people of {seeker} apart")
    else:
        people = np.arange(own.frame.height)
        signal, tables = signal_of(own, private, rng), {party: own}
        if party != active:
            told = rng.normal(size=len(people))
            tables[active] = noise(active, people, rng, told)
            signal = _follows(told, signal, rng)
            notes.append(f"{active} is made up, with columns that tell positives apart as well as those of {party} do")
        likely = _follows(signal, None, rng)
        positive = likely >= np.quantile(likely, 1 - POSITIVE)
        fraction = max(KNOWN, FEWEST_KNOWN / max(int(positive.sum()), 1))
        known = positive & (rng.random(len(people)) < fraction)
        tables[seeker] = made_up(seeker, {}, people[known])
        notes.append(
            f"the {int(known.sum())} people of {seeker} are made up: a part of the {POSITIVE:.0%} whom columns point to"
        )
    tables |= {name: noise(name, people, rng) for name in plan.with_role("passive") if name not in tables}
    if made := [name for name in plan.with_role("passive") if name != party]:
        notes.append(_NOISE.format(parties=", ".join(made)))
    return staged(
        unprotected(plan, weights=None, describe=False, advice=False),
        tables,
        {party: private},
        people=len(people),
        secret=known,
        holder=seeker,
        sought=f"the people of {seeker}",
        notes=tuple(notes),
    )


def _completing(job: CheckedJob[Any], own: Table, _rows: int, rng: np.random.Generator) -> Stage:
    plan, party, active = job.plan, job.party, job.plan.active
    (named, *_) = job.parameters.columns or [None]
    count = own.frame.height
    if party == active:
        column = named or _likeliest_column(own)
        cells = own.frame[column].drop_nulls() if column in own.kinds else pl.Series([], dtype=pl.Float64)
        people, kind = np.arange(round(count / OWN_PART)), own.kinds.get(column, "number")
        signal, values = rng.normal(size=len(people)), own.frame[column]
        ranks = _ranks(values)
        signal[:count] = np.where(np.isnan(ranks), signal[:count], ranks)
        tables = {active: own}
        tables |= {name: noise(name, people, rng, signal) for name in plan.with_role("passive")}
        notes = [f"the passive parties are made up; half of their columns follow {column}"]
        secret, words = _sought(values, 0 if kind == "number" else cells.n_unique())
    else:
        people, own_rows = np.arange(count), np.arange(round(count * OWN_PART))
        column, signal = named or "value", _follows(signal_of(own, job.private, rng), None, rng)
        values = pl.Series(column, signal[own_rows])
        tables = {party: own, active: made_up(active, {column: signal[own_rows]}, own_rows)}
        tables |= {name: noise(name, people, rng) for name in plan.with_role("passive") if name not in tables}
        notes = [f"{active} is made up, with one column that follows from those of {party}"]
        secret, words = _sought(values, 0)
    notes.append(f"one column is predicted, {column}, without a screening")
    return staged(
        unprotected(plan, columns=[column], measure="gain", associations=False),
        tables,
        {party: job.private},
        people=len(people),
        secret=np.pad(secret, (0, len(people) - len(secret))),
        holder=active,
        sought=f"{words} in {column} of {active}",
        notes=tuple(notes),
    )


def signal_of(table: Table, private: Private, rng: np.random.Generator) -> Floats:
    """A number for each row that follows from the party's own columns: a random sum of them, standardised."""
    features = features_of(table, private)
    if not features.kinds:
        return rng.normal(size=table.frame.height)
    matrix = np.nan_to_num(transform(fit_preparation(features, private.prepare), features).matrix)
    spread = matrix.std(axis=0)
    matrix = (matrix - matrix.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return _standard(matrix @ rng.normal(size=matrix.shape[1]))


def _standard(values: Floats) -> Floats:
    found: Floats = (values - values.mean()) / (values.std() or 1.0)
    return found


def _follows(first: Floats, second: Floats | None, rng: np.random.Generator) -> Floats:
    """What follows from one signal, or from two alike, and to a smaller part from chance."""
    told = _standard(first) if second is None else _standard(_standard(first) + _standard(second))
    return _standard(_STRENGTH * told + rng.normal(size=len(told)))


def _labels(signal: Floats, classes: int) -> pl.Series:
    """Numbers, or classes that are all as frequent but for the last, which is the rarest."""
    if not classes:
        return pl.Series(_TARGET, signal)
    edges = np.quantile(signal, np.linspace(0, 0.75, classes)[1:])
    return pl.Series(_TARGET, [f"class {number}" for number in np.searchsorted(edges, signal).tolist()])


def _sought(labels: pl.Series, classes: int) -> tuple[Bools, str]:
    """Who has the rarest class, or is in the highest tenth; and that in words."""
    if classes:
        rarest = labels.drop_nulls().value_counts(sort=True)[labels.name][-1]
        return (labels == rarest).fill_null(False).to_numpy(), f"those with the rarest value, {rarest},"
    values = labels.cast(pl.Float64).fill_null(strategy="min").to_numpy()
    return values > np.quantile(values, 1 - HIGHEST), "the highest tenth"


def _likeliest_column(table: Table) -> str:
    """The column to predict where the plan names none: the first number, or the first of all."""
    for name, kind in table.kinds.items():
        if kind == "number":
            return name
    if not table.kinds:
        raise InputError(f"{table.party}: the table has no columns to predict")
    return next(iter(table.kinds))


def _ranks(values: pl.Series) -> Floats:
    """Values in order, as standardised ranks; not-a-number where they are missing."""
    ranks = values.rank("average").cast(pl.Float64).to_numpy()
    found: Floats = (ranks - np.nanmean(ranks)) / (np.nanstd(ranks) or 1.0)
    return found


_STAGES: dict[str, Callable[[CheckedJob[Any], Table, int, np.random.Generator], Stage]] = {
    "train": _training,
    "lookalike": _searching,
    "complete": _completing,
}
ATTACKED = tuple(_STAGES)
"""The kinds of job that there are attacks on."""
_NOTHING = {
    "check": "a job of the kind check compares plans and counts rows, so there is nothing to attack",
    "deliver": "a job of the kind deliver sends a list that the seeker may have, so there is nothing to attack",
    "align": "a job of the kind align learns nothing from columns; audit the job that follows it",
    "information": "a job of the kind information shows one number for each column, and no attack on it is known here",
    "predict": "a job of the kind predict uses a model; audit the job that trains it",
}
_NOISE = "{parties}: columns of noise, so that whatever they find out comes from what they are shown"
_WEIGHTS = "weights of rows are left out"
