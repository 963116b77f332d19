"""How good a completed table was, by a file with the true values, of people by their ids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import polars as pl
from pydantic import ValidationError

from unpooled import atomic
from unpooled.align.normalise import IdRules, comparable
from unpooled.complete.table import REAL
from unpooled.data.columns import Kind, fault
from unpooled.data.handles import HANDLE
from unpooled.data.sources import TableSettings, load
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.evaluate.table import TableEvaluation, evaluate_table, matching_rows
from unpooled.jobs.complete.results import CompletedResult
from unpooled.jobs.complete.table_files import HANDLES, PROVENANCE
from unpooled.jobs.examples.example_tables import PATIENTS
from unpooled.jobs.run_files import RESULT, read_checked
from unpooled.jobs.work import Result
from unpooled.settings import faults

EVALUATION = "evaluation.json"


def evaluate_completed(
    folder: Path,
    party: str,
    truth: Path,
    id_columns: Sequence[str],
    handles: Path | None,
    rules: IdRules | None = None,
) -> TableEvaluation:
    """Compare filled cells of the table in a party's folder with a file of true values, and keep the figures beside it.

    `handles` is a passive party's file of handles, which knows the ids of all rows; ids are compared by the plan's
    rules. Without it the truth has handles itself. Rows that the truth does not have are not compared.
    """
    result = read_checked(folder / RESULT, CompletedResult)
    types = _types(result)
    completed = load(_settings(folder / result.file, (HANDLE,), types), party)
    true = load(_settings(truth, id_columns, types), party)
    if handles:
        true = _by_handle(true, _handles(handles, party), rules or IdRules())
    elif tuple(id_columns) != (HANDLE,):
        raise InputError(f"{party}: {truth}: to compare it by ids takes a file of handles, which a passive party has")
    there = completed.frame[HANDLE].is_in(true.frame[HANDLE].to_list())
    if not there.any():
        raise fault(party, str(truth), f"none of its ids has a row in {result.file}", ", ".join(id_columns))
    compared = completed.take(there.arg_true().to_numpy())
    path = folder / Path(result.file).with_stem(PROVENANCE)
    words = load(_settings(path, (HANDLE,), dict.fromkeys(types, "category")), party)
    origins = words.frame[matching_rows(compared, words)]
    mask = origins.select((pl.col(name) != REAL).fill_null(False) for name in compared.kinds).to_numpy()
    found = evaluate_table(compared, true, mask)
    atomic.write_text(folder / EVALUATION, json.dumps(asdict(found), indent=2) + "\n")
    return found


def judge(run: Path, tables: Path) -> dict[str, Result]:
    """How good the clinic's table of the example is: its patients are made up, so the truth is known."""
    (lender,) = (name for name, role in PATIENTS.roles.items() if role == "passive")
    found = evaluate_completed(
        run / PATIENTS.active, PATIENTS.active, tables / "truth.csv", ["id"], run / lender / HANDLES
    )
    return {PATIENTS.active: {"evaluation": asdict(found)}}


def _types(result: CompletedResult) -> dict[str, Kind]:
    """The types of the columns; the order of an ordered category makes no difference to what is compared."""
    kinds: dict[str, Kind] = {"number": "number", "date": "date", "boolean": "boolean"}
    return {one.name: kinds.get(one.type, "category") for one in result.completed}


def _settings(path: Path, ids: Sequence[str], types: Mapping[str, Kind]) -> TableSettings:
    try:
        return TableSettings(path=path, id=tuple(ids), types=dict(types), columns=tuple(types))
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(faults(error))}") from None


def _handles(path: Path, party: str) -> Table:
    """A file of handles: some columns of ids, and last the handle."""
    try:
        names = pl.read_csv(path, infer_schema=False, glob=False, n_rows=0).columns
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{party}: {path}: cannot be read: {error}") from None
    if not names or not names[-1].startswith(HANDLE) or len(names) < 2:
        raise fault(party, str(path), f"not a file of handles: its last column must be '{HANDLE}'")
    table = load(_settings(path, names[:-1], {names[-1]: "category"}), party)
    return replace(table, frame=table.frame.rename({names[-1]: HANDLE}), kinds={HANDLE: "category"})


def _by_handle(truth: Table, handles: Table, rules: IdRules) -> Table:
    """The true rows that have a handle, with it in place of their ids."""
    if len(truth.id) != len(handles.id):
        raise InputError(
            f"{truth.party}: {truth.origin}: ids of {handles.origin} have {len(handles.id)} columns; name as many, in "
            "the same order"
        )
    keys = dict(zip(comparable(handles, rules).rows(), handles.frame[HANDLE], strict=True))
    found = [keys.get(key) for key in comparable(truth, rules).rows()]
    frame = truth.frame.select(*truth.kinds).insert_column(0, pl.Series(HANDLE, found, dtype=pl.String))
    return Table(truth.party, truth.origin, (HANDLE,), truth.kinds, frame.drop_nulls(HANDLE))
