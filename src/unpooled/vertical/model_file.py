"""Models as JSON files that a person can read; each party keeps its own part."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from unpooled import atomic
from unpooled.errors import InputError
from unpooled.vertical.learner import Model, Part

M = TypeVar("M", bound=BaseModel)


class Saved(BaseModel):
    """A part of a model's file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def save(kept: Model | Part, path: Path) -> None:
    """Write a part, for its owner alone; numbers come back exactly."""
    atomic.write_text(path, kept.model_dump_json() + "\n")


def read(path: Path) -> bytes:
    """The content of a file; InputError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def load(path: Path, kind: type[M]) -> M:
    """Read what `save` wrote, and check it."""
    try:
        return kind.model_validate_json(read(path))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        fault = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
        raise InputError(f"{path}: is no part of a model: {fault}") from None
