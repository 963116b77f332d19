"""How good the seeker's list was, by a file that says what became of people."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import ValidationError

from unpooled import atomic
from unpooled.align.normalise import IdRules, comparable
from unpooled.data.columns import fault, typed
from unpooled.data.example import OUTCOME
from unpooled.data.sources import TableSettings, column_names, load, look
from unpooled.data.table import Table
from unpooled.errors import InputError
from unpooled.evaluate.lookalike import Evaluation, Id, Outcomes, evaluate
from unpooled.jobs.examples.example_tables import CUSTOMERS
from unpooled.jobs.lookalike.list_files import RELIABLE, ListFile, read_list
from unpooled.jobs.work import Result
from unpooled.settings import faults

EVALUATION = "evaluation.json"


def evaluate_list(
    folder: Path,
    seeker: str,
    outcomes: Path,
    outcome: str | None = None,
    id_columns: Sequence[str] | None = None,
    rules: IdRules | None = None,
    *,
    hashed: bool = False,
) -> Evaluation:
    """Compare the list in the seeker's folder with a file of outcomes, and keep the figures beside it.

    Ids are compared by the plan's rules; `hashed` says that those of the file are hashes already.
    """
    rules = rules or IdRules()
    listed = read_list(folder / RELIABLE)
    known = _outcomes(_read(outcomes, listed, id_columns, outcome, seeker, hashed), outcome, rules)
    ids = Table(seeker, str(folder / RELIABLE), tuple(listed.ids.columns), {}, listed.ids, bool(rules.hash))
    tiers, iterations = listed.lines["tier"].to_list(), listed.lines["iteration"].to_list()
    found = evaluate(comparable(ids, rules).rows(), tiers, iterations, known)
    atomic.write_text(folder / EVALUATION, json.dumps(asdict(found), indent=2) + "\n")
    return found


def judge(run: Path, tables: Path) -> dict[str, Result]:
    """How good the shop's list of the example is: its people are made up, so the truth is known."""
    (seeker,) = (name for name, role in CUSTOMERS.roles.items() if role == "seeker")
    found = evaluate_list(run / seeker, seeker, tables / "truth.csv", OUTCOME)
    return {seeker: {"evaluation": {"listed": asdict(found.whole)}}}


def _read(
    path: Path, listed: ListFile, names: Sequence[str] | None, outcome: str | None, seeker: str, hashed: bool
) -> Table:
    """The file of outcomes: ids as texts, called as in the list or by other names, and the outcome if it has one."""
    ids = tuple(names or listed.ids.columns)
    if len(ids) != listed.ids.width:
        raise InputError(f"--id: the list's ids have {listed.ids.width} columns; name as many, in the same order")
    columns = (outcome,) if outcome is not None else ()
    try:
        settings = TableSettings(
            path=path, id=ids, hashed=hashed, columns=columns, types=dict.fromkeys(columns, "boolean")
        )
    except ValidationError as error:
        raise InputError(f"{path}: {'; '.join(faults(error))}") from None
    if outcome is None:
        _check_no_outcome(settings, seeker)
    table = load(settings, seeker)
    for name in ids:
        if (blank := table.frame[name].is_null()).any():
            raise fault(seeker, str(path), "an id is missing", name, (blank.arg_true() + 1).to_list())
    if not table.frame.height:
        raise fault(seeker, str(path), "there is nobody in it")
    return table


def _check_no_outcome(settings: TableSettings, seeker: str) -> None:
    """Refuse a file that seems to list everybody: a column says of some yes, of others no, and none was named."""
    names = column_names(settings, seeker)
    others = [name for name in names if name.strip() and name not in settings.id and names.count(name) == 1]
    found = look(settings.model_copy(update={"columns": tuple(others)}), seeker)
    cells = {name: found.frame[name].drop_nulls().unique() for name in others}
    truths = [name for name, values in cells.items() if set(typed(values, "boolean")) == {True, False}]
    if truths:
        raise InputError(
            f"{seeker}: {settings.origin}: is everybody in it positive? {', '.join(truths)} could be the outcome: "
            "name it with --outcome, or give a file without such columns"
        )


def _outcomes(table: Table, outcome: str | None, rules: IdRules) -> Outcomes:
    keys: list[Id] = comparable(table, rules).rows()
    if outcome is None:
        return Outcomes(set(keys))
    said: dict[Id, tuple[bool, int]] = {}
    for row, (key, cell) in enumerate(zip(keys, table.frame[outcome], strict=True), start=1):
        if cell is not None and said.setdefault(key, (cell, row))[0] != cell:
            reason = "the same id has both true and false"
            raise fault(table.party, table.origin, reason, outcome, [said[key][1], row])
    if not said:
        raise fault(table.party, table.origin, "no row has a value", outcome)
    return Outcomes({key for key, (positive, _) in said.items() if positive}, said.keys())
