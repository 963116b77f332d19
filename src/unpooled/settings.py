"""The base class of settings: plans, private files, the parameters of a learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of a TOML file: unknown keys and wrong types are refused, values are never echoed in errors.

    TOML has no paths and no tuples: such fields need `strict=False`, to be made from a text or a list.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)


def tag_by(key: str, default: str) -> Callable[[Any], str]:
    """A function that names the type of a section by one of its keys; errors leave out tags in brackets."""

    def tag_of(section: Any) -> str:
        which = section.get(key, default) if isinstance(section, Mapping) else getattr(section, key, "")
        return f"[{which}]"

    return tag_of
