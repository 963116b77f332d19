"""The settings of learners and methods as keywords of an estimator, where scikit-learn finds and changes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
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


def takes(names: Iterable[str]) -> Callable[[type[T]], type[T]]:
    """Let the signature of a class name these keywords too, which its `__init__` takes as `**settings`."""

    def told(made: type[T]) -> type[T]:
        init: Any = made.__init__
        written = inspect.signature(init)
        own = [each for each in written.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        more = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in names]
        init.__signature__ = written.replace(parameters=[*own, *more])
        return made

    return told


def chosen(what: str, kinds: Mapping[str, type[M]], name: str, given: Mapping[str, Any]) -> M:
    """The settings of the learner or method of this name, with its defaults; InputError if they cannot be."""
    if name not in kinds:
        raise InputError(f"{what}: {name!r} is none; there are: {', '.join(kinds)}")
    kind = kinds[name]
    if foreign := [key for key in given if key not in kind.model_fields]:
        raise InputError(f"{foreign[0]}: the {what} '{name}' has no such setting")
    try:
        return kind.model_validate({key: plain(value) for key, value in given.items()})
    except ValidationError as error:
        raise InputError("; ".join(faults(error))) from None


def plain(value: Any) -> Any:
    """A number as Python has it: grids of numpy have others."""
    return value.item() if isinstance(value, np.generic) else value
