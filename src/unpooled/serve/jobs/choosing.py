"""What a party chooses when it takes part in a job: what is asked of it, and the choices made of the answers."""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from unpooled.errors import InputError, RefusedError
from unpooled.jobs.kinds import kind_named, parameters_of
from unpooled.jobs.learning.model_files import MODEL
from unpooled.jobs.row_weights import weigher
from unpooled.serve.context import Context
from unpooled.serve.jobs.records import Job
from unpooled.serve.reviewing.review import agreements
from unpooled.serve.tables import Choices, tables_in
from unpooled.settings import faults

_RUNS_SHOWN = 50
_PLAIN = ("table", "target", "weight", "model", "earlier")
_NAMED = ("describe",)
"""Consents that name columns."""
ANSWERS = (*_PLAIN, *_NAMED, "generate")
"""What may be chosen, by the keys of answers."""
_RUN_HINTS = {
    "model": "The run in which this party’s part of the model was trained.",
    "earlier": "The run whose results this job continues from.",
}


@dataclass(frozen=True)
class EarlierRun:
    """A run of this party whose results can be used."""

    name: str
    purpose: str
    ended: str


@dataclass(frozen=True)
class Question:
    """Something to choose; `options` are values with what they are, `needed` says that there is no way without."""

    key: str
    label: str
    hint: str
    needed: bool
    options: Sequence[tuple[str, str]] | None = None


@dataclass(frozen=True)
class Consenting:
    """Something that a party agrees to with a yes."""

    key: str
    text: str


def questions(context: Context, job: Job) -> list[Question]:
    """What this party chooses before it can see what would leave it; a coordinator chooses nothing."""
    plan, party = job.plan, context.party
    role, kind = plan.parties[party].role, kind_named(plan.kind)
    if role == "coordinator":
        return []
    needed = kind.private_needs.get(role, ())
    tables = [(one.name, str(one.entry.table.origin)) for one in tables_in(context.database)]
    asked = [Question("table", "Table", "The table that this party takes part with.", True, tables)]
    if role == "active":
        hint = "The column to learn." if "target" in needed else "The truth to judge results by, if a column has it."
        asked.append(Question("target", "Target", hint, "target" in needed))
    if party == (weigher(plan, parameters_of(plan)) or plan.active):
        asked.append(
            Question("weight", "Weight", "The column that says how much each row counts, if there is one.", False)
        )
    for key, label, file in (("model", "Model", MODEL), ("earlier", "Earlier run", "")):
        if key in needed:
            runs = [(run.name, f"{run.purpose} ({run.ended[:10]})") for run in earlier_runs(context, file)]
            asked.append(Question(key, label, _RUN_HINTS[key], True, runs))
    for one, text in agreements(plan, party):
        if one.key in _NAMED:
            asked.append(Question(one.key, "Columns to describe", f"{text}. Separate them by commas.", True))
    return asked


def limits_of(context: Context, table: str) -> list[tuple[str, str]]:
    """What the policy of a table limits: each value with its meaning."""
    entry = next((one.entry for one in tables_in(context.database) if one.name == table), None)
    if entry is None:
        return []
    policy, found = entry.policy, []
    for key, field in type(policy).model_fields.items():
        value = getattr(policy, key)
        if value is not None and value != ():
            found.append((", ".join(value) if isinstance(value, tuple) else f"{value:,g}", field.description or key))
    return found


def asks_how_to_fill(job: Job, party: str) -> bool:
    """Whether this party decides how a table is filled: the `generate` section."""
    return "generate" in kind_named(job.plan.kind).example.private.get(job.plan.parties[party].role, {})


def consents(job: Job, party: str) -> list[Consenting]:
    """What this party agrees to by taking part, besides naming columns."""
    return [Consenting(one.key, text) for one, text in agreements(job.plan, party) if one.key not in _NAMED]


def choices_of(answers: Mapping[str, str], agreed: Collection[str] = ()) -> Choices:
    """Choices from answers by key, and the keys of what was agreed to; InputError says what cannot be used."""
    taken: dict[str, Any] = {key: answers[key].strip() or None for key in _PLAIN if key in answers}
    consent: dict[str, Any] = dict.fromkeys(agreed, True)
    for key in _NAMED:
        consent[key] = [name for part in answers.get(key, "").split(",") if (name := part.strip())]
    try:
        if answers.get("generate", "").strip():
            taken["generate"] = tomllib.loads(answers["generate"])
        return Choices.model_validate(taken | {"consent": consent})
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"how to fill is not TOML: {error}") from None
    except ValidationError as error:
        raise InputError("\n".join(faults(error))) from None


def check_complete(context: Context, job: Job, choices: Choices) -> None:
    """Refuse choices of which one is missing, in the words of the questions."""
    for question in questions(context, job):
        chosen = getattr(choices.consent if question.key in _NAMED else choices, question.key)
        if question.needed and not chosen:
            raise InputError(f"choose first: {question.label}")


def check_agreed(job: Job, party: str, choices: Choices) -> None:
    """Refuse to approve what was not agreed to."""
    missing = [one.text for one in consents(job, party) if not getattr(choices.consent, one.key)]
    if missing:
        raise RefusedError(f"this job cannot start unless you agree that {'; and that '.join(missing)}")


def earlier_runs(context: Context, with_file: str = "") -> list[EarlierRun]:
    """The latest runs that this party has finished, of those that have left a file, if one is named."""
    rows = context.database.rows(
        "SELECT job, occurrence, purpose, runs.ended AS ended FROM runs JOIN jobs ON jobs.id = runs.job "
        "WHERE party = ? AND state = 'finished' ORDER BY runs.ended DESC",
        context.party,
    )
    found = [EarlierRun(f"{row['job']}-{row['occurrence']}", row["purpose"], row["ended"]) for row in rows]
    homes = {one.name: context.folder.runs / one.name / context.party for one in found}
    return [one for one in found if (homes[one.name] / with_file).exists()][:_RUNS_SHOWN]
