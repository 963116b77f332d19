"""The settings of learners and methods as keywords of an estimator, where scikit-learn finds and changes them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

import numpy as np
from pydantic import BaseModel, ValidationError

from unpooled.errors import InputError
from unpooled.pu.settings import AnyMethod
from unpooled.settings import faults
from unpooled.vertical.learner import LearnerParameters
from unpooled.vertical.learners import parameter_kinds

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

LEARNERS: Mapping[str, type[LearnerParameters]] = parameter_kinds()
METHODS: Mapping[str, type[AnyMethod]] = {kind.model_fields["name"].default: kind for kind in get_args(AnyMethod)}


def names_of(kinds: Iterable[type[BaseModel]], but: Iterable[str]) -> tuple[str, ...]:
    """All settings that any of these has, but for some."""
    return tuple(dict.fromkeys(name for kind in kinds for name in kind.model_fields if name not in but))


LEARNER_SETTINGS = names_of(LEARNERS.values(), ("learner", "classes"))
METHOD_SETTINGS = names_of(METHODS.values(), ("name",))


def with_settings(made: type[T]) -> type[T]:
    """Name in a class's signature all keywords that its `__init__` hands on or keeps as `**settings`.

    scikit-learn takes an estimator's parameters from there.
    """
    keyword, rest = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD
    named: dict[str, inspect.Parameter] = {}
    for init in (vars(each)["__init__"] for each in made.__mro__[:-1] if "__init__" in vars(each)):
        for name, parameter in inspect.signature(init).parameters.items():
            if parameter.kind is not rest:
                named.setdefault(name, parameter)
    for name in made.setting_names:  # type: ignore[attr-defined]
        named.setdefault(name, inspect.Parameter(name, keyword, default=None))
    own: Any = vars(made)["__init__"]
    own.__signature__ = inspect.Signature([*named.values()])
    return made


def chosen(what: str, kinds: Mapping[str, type[M]], name: str, given: Mapping[str, Any]) -> M:
    """The settings of the learner or method of this name, with its defaults; InputError if they cannot be."""
    if name not in kinds:
        raise InputError(f"{what}: {name!r} is none; there are: {', '.join(kinds)}")
    kind = kinds[name]
    if foreign := [key for key in given if key not in kind.model_fields]:
        raise InputError(f"{foreign[0]}: the {what} '{name}' has no such setting")
    ordinary = {key: value.item() if isinstance(value, np.generic) else value for key, value in given.items()}
    try:
        return kind.model_validate(ordinary)
    except ValidationError as error:
        raise InputError("; ".join(faults(error))) from None
