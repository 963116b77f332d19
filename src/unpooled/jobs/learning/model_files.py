"""What a train job leaves in a party's folder, and a predict job finds there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from unpooled.data import prepare
from unpooled.data.columns import Kind
from unpooled.data.prepare import Preparation
from unpooled.data.sources import TableSettings, column_names
from unpooled.errors import InputError
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.vertical import model_file
from unpooled.vertical.learner import Model, Part
from unpooled.vertical.learners import learner_named

MODEL, PREPARATION = "model.json", "preparation.json"


def save(kept: Model | Part, preparation: Preparation, folder: Path) -> None:
    """Keep a party's part of a model, and how its table was made ready."""
    prepare.save(preparation, folder / PREPARATION)
    model_file.save(kept, folder / MODEL)


def load(private: Private, party: str, *, active: bool) -> tuple[Any, Preparation]:
    """The active party's model, or a passive one's part of it, with its preparation; they must belong together."""
    path = (private.model or Path()) / MODEL
    preparation = load_preparation(private, party)
    try:
        found = _read(path, active=active)
    except InputError as error:
        raise InputError(f"{party}: {error}") from None
    part: Part = found.part if active else found
    if part.party != party:
        raise InputError(f"{party}: {path}: this is {part.party}'s part of a model")
    if list(part.columns) != list(preparation.names):
        raise InputError(f"{party}: {path.parent}: {MODEL} and {PREPARATION} do not belong together")
    return found, preparation


def load_any(folder: Path) -> tuple[Any, Preparation]:
    """The same from a folder alone, whoever's part it is."""
    return _read(folder / MODEL), prepare.load_preparation(folder / PREPARATION)


def _read(path: Path, *, active: bool | None = None) -> Any:
    """A model or a part, checked by the learner that it names; without `active` the file says which of them it is."""
    content = model_file.read(path)
    try:
        marked = json.loads(content)
        learner = learner_named(marked.get("learner") if isinstance(marked, dict) else None)
    except (ValueError, InputError) as error:
        raise InputError(f"{path}: is no part of a model: {error}") from None
    if active is None:
        active = not marked.keys() <= learner.part.model_fields.keys()
    return model_file.load(path, learner.model if active else learner.part)


def load_preparation(private: Private, party: str) -> Preparation:
    try:
        return prepare.load_preparation((private.model or Path()) / PREPARATION)
    except InputError as error:
        raise InputError(f"{party}: {error}") from None


def check_owners(plan: Plan, model: Model) -> None:
    """Refuse a model that other parties have made than take part."""
    if set(model.owners) != set(plan.owners):
        raise InputError(
            f"{plan.active}: the model needs the columns of {', '.join(model.owners)}, and the owners of columns in "
            f"this job are {', '.join(plan.owners)}"
        )


def check_saved(plan: Plan, party: str, private: Private) -> None:
    """See before the start that a party has its part of a model, and that it is one of this plan's parties."""
    found, _ = load(private, party, active=party == plan.active)
    if party == plan.active:
        check_owners(plan, found)


def reading(party: str, private: Private) -> TableSettings | None:
    """How a table of new rows is read: the columns of the training rows, of the kinds that they had there.

    The target and the weights are read as well if they are there, to judge predictions by.
    """
    settings = private.table
    if settings is None:
        return None
    kinds: Mapping[str, Kind] = load_preparation(private, party).kinds
    named = [name for name in (private.target, private.weight) if name is not None]
    there = column_names(settings, party) if named else []
    more = [name for name in named if name in there and name not in settings.id]
    types = {name: kind for name, kind in settings.types.items() if name in more} | dict(kinds)
    return settings.model_copy(update={"columns": (*kinds, *more), "types": types})
