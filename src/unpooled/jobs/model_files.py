"""What a train job leaves in a party's folder, and a predict job finds there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from pydantic import BaseModel

from unpooled.data import prepare
from unpooled.data.columns import Kind
from unpooled.data.prepare import Preparation
from unpooled.data.sources import TableSettings, read
from unpooled.errors import InputError
from unpooled.jobs.learned import AnyPart, AnyWhole
from unpooled.jobs.plan import Plan
from unpooled.jobs.private import Private
from unpooled.vertical.linear.model import LinearModel, LinearModels, LinearPart, LinearParts
from unpooled.vertical.trees import model as trees
from unpooled.vertical.trees.model import Model, Part

MODEL, PREPARATION = "model.json", "preparation.json"
_WHOLE: Mapping[str, type[BaseModel]] = {"ensembles": Model, "intercept": LinearModel, "models": LinearModels}
_PARTS: Mapping[str, type[BaseModel]] = {"splits": Part, "weights": LinearPart, "parts": LinearParts}
"""The kinds of model by a key that only their files have."""


def save(part: AnyPart | AnyWhole, preparation: Preparation, folder: Path) -> None:
    """Keep a party's part of a model, and how its table was made ready."""
    prepare.save(preparation, folder / PREPARATION)
    trees.save(part, folder / MODEL)


def load_whole(private: Private, party: str) -> tuple[AnyWhole, Preparation]:
    """The active party's model, with its preparation; they must belong together."""
    found, preparation = _load(private, party, _WHOLE)
    return cast(AnyWhole, found), preparation


def load_part(private: Private, party: str) -> tuple[AnyPart, Preparation]:
    """A passive party's part of a model, with its preparation; they must belong together."""
    found, preparation = _load(private, party, _PARTS)
    return cast(AnyPart, found), preparation


def _load(private: Private, party: str, kinds: Mapping[str, type[BaseModel]]) -> tuple[BaseModel, Preparation]:
    path = (private.model or Path()) / MODEL
    preparation = load_preparation(private, party)
    try:
        found = trees.load(path, kinds[_key_of(path, kinds)])
    except InputError as error:
        raise InputError(f"{party}: {error}") from None
    _check_part(found.part if isinstance(found, AnyWhole) else cast(AnyPart, found), preparation, party, path)
    return found, preparation


def _key_of(path: Path, kinds: Mapping[str, type[BaseModel]]) -> str:
    """The key that tells a file's kind; what else is wrong shows when it is read."""
    with suppress(OSError, ValueError):
        content = json.loads(path.read_bytes())
        return next((key for key in kinds if isinstance(content, dict) and key in content), next(iter(kinds)))
    return next(iter(kinds))


def _check_part(part: AnyPart, preparation: Preparation, party: str, path: Path) -> None:
    if part.party != party:
        raise InputError(f"{party}: {path}: this is {part.party}'s part of a model")
    if isinstance(part, LinearPart | LinearParts):
        names = list(part.columns)
    else:
        names = [feature.name for feature in sorted(part.binning.features, key=lambda feature: feature.column)]
    if names != list(preparation.names):
        raise InputError(f"{party}: {path.parent}: {MODEL} and {PREPARATION} do not belong together")


def load_preparation(private: Private, party: str) -> Preparation:
    try:
        return prepare.load_preparation((private.model or Path()) / PREPARATION)
    except InputError as error:
        raise InputError(f"{party}: {error}") from None


def check_owners(plan: Plan, model: AnyWhole) -> None:
    """Refuse a model that other parties have made than take part."""
    absent = [owner for owner in model.owners if owner not in plan.owners]
    strangers = [owner for owner in plan.owners if owner not in model.owners]
    if absent:
        raise InputError(f"{plan.active}: the model needs columns of {', '.join(absent)}, who takes no part with any")
    if strangers:
        raise InputError(f"{plan.active}: the model has no columns of {', '.join(strangers)}, who takes part with some")


def check_saved(plan: Plan, party: str, private: Private) -> None:
    """See before the start that a party has its part of a model, and that it is one of this plan's parties."""
    if party == plan.active:
        check_owners(plan, load_whole(private, party)[0])
    else:
        load_part(private, party)


def reading(party: str, private: Private) -> TableSettings | None:
    """How a table of new rows is read: the columns of the training rows, of the kinds that they had there.

    The target and the weights are read as well if they are there, to judge predictions by.
    """
    settings = private.table
    if settings is None:
        return None
    kinds: Mapping[str, Kind] = load_preparation(private, party).kinds
    named = [name for name in (private.target, private.weight) if name is not None]
    everything = settings.model_copy(update={"columns": None, "types": {}})
    there = read(everything, party, first=0).columns if named else []
    more = [name for name in named if name in there and name not in settings.id]
    types = {name: kind for name, kind in settings.types.items() if name in more} | dict(kinds)
    return settings.model_copy(update={"columns": (*kinds, *more), "types": types})
